#include "modes/chat/kvfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "kvcache/kvcache_saved.h"
#include "kvcache/kvcache_sizes.h"
#include "core/numeric.h"

static const char magic[8] = "vbtm-kv3";

typedef struct FileStart {
    char magic[8];
    uint64_t fingerprint; /* of the model, plus NUMERIC_REVISION */
    uint64_t shape;       /* checksum of the cache's shape by layer */
    uint32_t n_layers, type;
    uint64_t checksum; /* of the fields above */
} FileStart;

/* The head of a record, which its part's bytes follow: a page of one group of layers, or all states
 * after the last of the n positions. */
typedef struct Record {
    uint64_t checksum; /* of the fields below and the part's bytes */
    uint64_t before;   /* of all tokens of the pages before this one */
    uint32_t page;     /* the page's number */
    uint32_t n;        /* its filled positions */
    uint32_t part;     /* the number of the group; KvLayout.n_groups: the states */
    uint32_t zero;
    int32_t tokens[KV_PAGE];
} Record;

/* A record of the file that is known: its offset and its head. */
typedef struct Known {
    off_t offset;
    bool damaged; /* its checksum is wrong */
    Record record;
} Known;

struct KvFile {
    char *path;
    int fd;
    FileStart start;
    KvLayout layout;
    off_t end; /* after the last whole record */
    int other_revision;
    Known *known;
    size_t n_known, capacity;
};

static Status kvfile_failed(const KvFile *file, const char *what, Error *error) {
    return error_set(error, "%s: cannot %s: %s", file->path, what, strerror(errno));
}

/* Reads exactly n bytes; false: fewer are there, or an error. */
static bool read_at(int fd, void *to, size_t n, off_t offset) {
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)to + done, n - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_at(int fd, const void *from, size_t n, off_t offset) {
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, (const char *)from + done, n - done, offset + (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

static uint64_t record_checksum(const Record *record, const void *data, size_t bytes) {
    uint64_t head = XXH3_64bits((const char *)record + sizeof record->checksum,
                                sizeof *record - sizeof record->checksum);
    return XXH3_64bits_withSeed(data, bytes, head);
}

static bool add_known(KvFile *file, off_t offset, const Record *record) {
    if (!array_reserve(&file->known, &file->capacity, file->n_known + 1, sizeof *file->known))
        return false;
    file->known[file->n_known++] = (Known){offset, false, *record};
    return true;
}

/* Empties the file and writes its start. */
static Status begin_anew(KvFile *file, Error *error) {
    file->n_known = 0;
    file->end = sizeof file->start;
    if (ftruncate(file->fd, 0) != 0) return kvfile_failed(file, "empty it", error);
    if (!write_at(file->fd, &file->start, sizeof file->start, 0))
        return kvfile_failed(file, "write", error);
    return STATUS_OK;
}

/* Bytes of a record's part; SIZE_MAX: there is no such part. */
static size_t part_bytes(const KvFile *file, uint32_t part) {
    if (part > file->layout.n_groups) return SIZE_MAX;
    return part == file->layout.n_groups ? file->layout.state_bytes : file->layout.data_bytes[part];
}

/* Reads the heads of all records; the checksums are compared when a part is loaded. */
static Status find_records(KvFile *file, Error *error) {
    struct stat status;
    if (fstat(file->fd, &status) != 0) return kvfile_failed(file, "read", error);
    file->end = sizeof file->start;
    while (status.st_size - file->end >= (off_t)sizeof(Record)) {
        Record record;
        if (!read_at(file->fd, &record, sizeof record, file->end))
            return kvfile_failed(file, "read", error);
        size_t bytes = part_bytes(file, record.part);
        off_t left = status.st_size - file->end - (off_t)sizeof record;
        if (bytes == SIZE_MAX || left < (off_t)bytes) break;
        if (record.n >= 1 && record.n <= KV_PAGE && !add_known(file, file->end, &record))
            return error_set(error, "%s: no memory for its directory", file->path);
        file->end += (off_t)(sizeof record + bytes);
    }
    return STATUS_OK;
}

static uint64_t shape_checksum(const KvShape *shape) {
    uint64_t checksum = 0;
    for (uint32_t l = 0; l < shape->n_layers; l++) {
        const KvLayer *layer = &shape->layers[l];
        /* One number for both, so that older files of models without an indexer are still read. */
        uint64_t in_keys = layer->values_in_keys + 2 * (uint64_t)layer->index_dim;
        const uint64_t fields[] = {layer->n_kv_heads, layer->key_dim,      layer->value_dim,
                                   layer->window,     layer->state_floats, in_keys};
        const uint64_t pools[] = {layer->pool, layer->pool_dim, layer->pool_index_dim};
        checksum = XXH3_64bits_withSeed(fields, sizeof fields, checksum);
        if (layer->pool > 0) checksum = XXH3_64bits_withSeed(pools, sizeof pools, checksum);
    }
    return checksum;
}

/* The numeric revision of a file that differs in this alone; 0: it differs otherwise. */
static int other_revision(const FileStart *found, const FileStart *own, uint64_t fingerprint) {
    enum { MOST = 1000 };
    FileStart same = *found;
    uint64_t revision = found->fingerprint - fingerprint;
    same.fingerprint = own->fingerprint;
    same.checksum = own->checksum;
    bool alone = memcmp(&same, own, sizeof same) == 0;
    return alone && revision > 0 && revision < MOST ? (int)revision : 0;
}

int kvfile_other_revision(const KvFile *file) {
    return file->other_revision;
}

/* Whether the file is empty or begins like one of these, as far as it goes. Zeros are what a power
 * cut leaves. */
static bool may_be_emptied(int fd) {
    static const char zeros[sizeof magic];
    char head[sizeof magic];
    ssize_t n = pread(fd, head, sizeof head, 0);
    return n >= 0 && (memcmp(head, magic, (size_t)n) == 0 || memcmp(head, zeros, (size_t)n) == 0);
}

Status kvfile_open(KvFile **out, const char *path, int fd, uint64_t fingerprint,
                   const KvShape *shape, bool *begun, Error *error) {
    if (shape->mirror) {
        close(fd);
        return error_set(error, "%s: not used: keys and values are divided among ranks", path);
    }
    if (!may_be_emptied(fd)) {
        close(fd);
        return error_set(error, "%s: not used: it holds something else than keys and values", path);
    }
    KvFile *file = calloc(1, sizeof *file);
    FileStart found;
    if (!file || !(file->path = strdup(path))) {
        free(file);
        close(fd);
        return error_set(error, "%s: no memory", path);
    }
    file->fd = fd;
    file->layout = kvcache_layout(shape);
    memcpy(file->start.magic, magic, sizeof magic);
    file->start.fingerprint = fingerprint + NUMERIC_REVISION;
    file->start.shape = shape_checksum(shape);
    file->start.n_layers = shape->n_layers;
    file->start.type = shape->type;
    file->start.checksum = XXH3_64bits(&file->start, offsetof(FileStart, checksum));
    bool read = read_at(fd, &found, sizeof found, 0);
    *begun = !read || memcmp(&found, &file->start, sizeof found) != 0;
    if (read && *begun) file->other_revision = other_revision(&found, &file->start, fingerprint);
    Status status = *begun ? begin_anew(file, error) : find_records(file, error);
    if (status != STATUS_OK) {
        kvfile_close(file);
        return status;
    }
    *out = file;
    return STATUS_OK;
}

void kvfile_close(KvFile *file) {
    if (!file) return;
    close(file->fd);
    free(file->known);
    free(file->path);
    free(file);
}

static uint64_t tokens_checksum(const int32_t *tokens, size_t n) {
    return XXH3_64bits(tokens, n * sizeof *tokens);
}

/* The record of this part of page number `page` that shares the longest prefix with tokens[n],
 * after the same tokens in all earlier pages; NULL: none. *used receives the number of its
 * positions that can be used. States belong to their last position alone. */
static Known *find_part(const KvFile *file, size_t part, size_t page, const int32_t *tokens,
                        size_t n, size_t *used) {
    uint64_t before = tokens_checksum(tokens, page * KV_PAGE);
    Known *best = NULL;
    *used = 0;
    for (size_t i = file->n_known; i-- > 0;) {
        const Record *record = &file->known[i].record;
        if (record->part != part || record->page != page || record->before != before) continue;
        if (file->known[i].damaged) continue;
        size_t left = n - page * KV_PAGE, common = 0, most = record->n < left ? record->n : left;
        while (common < most && record->tokens[common] == tokens[page * KV_PAGE + common]) common++;
        if (part == file->layout.n_groups && common < record->n) continue;
        if (common > *used) {
            best = &file->known[i];
            *used = common;
        }
    }
    return best;
}

static size_t pages_for(size_t positions) {
    return (positions + KV_PAGE - 1) / KV_PAGE;
}

/* Which positions the file can restore. */
typedef struct Reach {
    const KvFile *file;
    size_t n_pages;
    uint8_t *used; /* [n_groups + 1][n_pages], positions of each page; 0: it is not there */
} Reach;

static size_t used_of(const Reach *reach, size_t part, size_t page) {
    return reach->used[part * reach->n_pages + page];
}

/* Whether every page that a token at `position` needs is there. */
static bool is_whole(const Reach *reach, size_t position) {
    const KvLayout *layout = &reach->file->layout;
    size_t last = pages_for(position) - 1;
    for (size_t g = 0; g < layout->n_groups; g++) {
        if (layout->data_bytes[g] == 0) continue;
        for (size_t i = kvcache_first_page(layout->window[g], position); i <= last; i++)
            if (used_of(reach, g, i) < (i < last ? KV_PAGE : position - last * KV_PAGE))
                return false;
    }
    return true;
}

/* The last position of this page that can be restored; 0: none. */
static size_t reach_in_page(const Reach *reach, size_t page) {
    const KvLayout *layout = &reach->file->layout;
    size_t n = layout->state_bytes ? used_of(reach, layout->n_groups, page) : KV_PAGE;
    for (size_t g = 0; g < layout->n_groups; g++)
        if (layout->data_bytes[g] > 0 && used_of(reach, g, page) < n) {
            if (layout->state_bytes) return 0; /* the states are those of position n alone */
            n = used_of(reach, g, page);
        }
    return n > 0 && is_whole(reach, page * KV_PAGE + n) ? page * KV_PAGE + n : 0;
}

/* The longest prefix of tokens[n] that the file can restore. */
static Status find_reach(const KvFile *file, const int32_t *tokens, size_t n, size_t *position,
                         Error *error) {
    Reach reach = {.file = file, .n_pages = pages_for(n)};
    *position = 0;
    if (n == 0) return STATUS_OK;
    reach.used = calloc(file->layout.n_groups + 1, reach.n_pages);
    if (!reach.used) return error_set(error, "%s: no memory to read it", file->path);
    for (size_t part = 0; part <= file->layout.n_groups; part++)
        for (size_t page = 0; page < reach.n_pages; page++) {
            size_t used;
            find_part(file, part, page, tokens, n, &used);
            reach.used[part * reach.n_pages + page] = (uint8_t)used;
        }
    for (size_t page = reach.n_pages; *position == 0 && page-- > 0;)
        *position = reach_in_page(&reach, page);
    free(reach.used);
    return STATUS_OK;
}

/* Reads one part of the sequence that ends at `position`; false: its record is damaged. */
static bool load_part(KvFile *file, void *data, size_t part, size_t page, const int32_t *tokens,
                      size_t position) {
    size_t used, bytes = part_bytes(file, (uint32_t)part);
    Known *known = find_part(file, part, page, tokens, position, &used);
    if (bytes == 0) return true;
    if (!known || !read_at(file->fd, data, bytes, known->offset + (off_t)sizeof(Record)) ||
        record_checksum(&known->record, data, bytes) != known->record.checksum) {
        if (known) known->damaged = true;
        return false;
    }
    return true;
}

/* Reads all that the sequence, which ends at `position`, needs; false: a record is damaged. */
static bool load_parts(KvFile *file, KvCache *cache, int32_t sequence, const int32_t *tokens,
                       size_t position) {
    const KvLayout *layout = &file->layout;
    for (size_t g = 0; g < layout->n_groups; g++)
        for (size_t i = kvcache_first_page(layout->window[g], position); i < pages_for(position);
             i++)
            if (!load_part(file, kvcache_saved_page(cache, sequence, -1, g, i), g, i, tokens,
                           position))
                return false;
    return load_part(file, kvcache_saved_states(cache, sequence, -1), layout->n_groups,
                     pages_for(position) - 1, tokens, position);
}

Status kvfile_load(KvFile *file, KvCache *cache, int32_t sequence, const int32_t *tokens, size_t n,
                   size_t *loaded, Error *error) {
    size_t least = *loaded;
    while (true) { /* each time around one more record is known to be damaged */
        size_t position;
        if (find_reach(file, tokens, n, &position, error) != STATUS_OK) return STATUS_FAILED;
        if (position <= least) break;
        *loaded = 0;
        kvcache_reset(cache, sequence, 0);
        if (kvcache_begin_at(cache, sequence, (int32_t)position, error) != STATUS_OK) {
            kvcache_reset(cache, sequence, 0);
            return STATUS_FAILED;
        }
        if (load_parts(file, cache, sequence, tokens, position)) {
            *loaded = position;
            break;
        }
        kvcache_reset(cache, sequence, 0);
        least = 0;
    }
    return STATUS_OK;
}

/* ---- Saving ---- */

static Status kvfile_append(KvFile *file, size_t part, size_t page, const void *data,
                            const int32_t *tokens, size_t n, Error *error) {
    Record record;
    size_t bytes = part_bytes(file, (uint32_t)part);
    memset(&record, 0, sizeof record);
    record.part = (uint32_t)part;
    record.page = (uint32_t)page;
    record.n = (uint32_t)(n - page * KV_PAGE < KV_PAGE ? n - page * KV_PAGE : KV_PAGE);
    record.before = tokens_checksum(tokens, page * KV_PAGE);
    memcpy(record.tokens, tokens + page * KV_PAGE, record.n * sizeof *tokens);
    record.checksum = record_checksum(&record, data, bytes);
    if (!write_at(file->fd, &record, sizeof record, file->end) ||
        !write_at(file->fd, data, bytes, file->end + (off_t)sizeof record))
        return kvfile_failed(file, "write", error);
    if (!add_known(file, file->end, &record))
        return error_set(error, "%s: no memory for its directory", file->path);
    file->end += (off_t)(sizeof record + bytes);
    return STATUS_OK;
}

/* Appends a part unless the file has it. */
static Status save_part(KvFile *file, size_t part, size_t page, const void *data,
                        const int32_t *tokens, size_t n, Error *error) {
    size_t filled = n - page * KV_PAGE < KV_PAGE ? n - page * KV_PAGE : KV_PAGE, used;
    if (!data || (find_part(file, part, page, tokens, n, &used) && used == filled))
        return STATUS_OK;
    return kvfile_append(file, part, page, data, tokens, n, error);
}

/* Appends what a token after the sequence (snapshot -1), or after its snapshot, needs. Layers
 * that see everything are saved with the sequence. */
static Status save_position(KvFile *file, const KvCache *cache, int32_t sequence, int snapshot,
                            const int32_t *tokens, Error *error) {
    const KvLayout *layout = &file->layout;
    size_t n = (size_t)kvcache_saved_position(cache, sequence, snapshot);
    Status status = STATUS_OK;
    for (size_t g = 0; g < layout->n_groups; g++) {
        if (snapshot >= 0 && layout->window[g] == 0) continue;
        for (size_t i = kvcache_first_page(layout->window[g], n);
             i < pages_for(n) && status == STATUS_OK; i++)
            status = save_part(file, g, i, kvcache_saved_page(cache, sequence, snapshot, g, i),
                               tokens, n, error);
    }
    if (status != STATUS_OK || n == 0 || layout->state_bytes == 0) return status;
    return save_part(file, layout->n_groups, pages_for(n) - 1,
                     kvcache_saved_states(cache, sequence, snapshot), tokens, n, error);
}

/* Bytes of a new file for the sequence, roughly. */
static size_t new_file_bytes(const KvFile *file, const KvCache *cache, int32_t sequence) {
    const KvLayout *layout = &file->layout;
    size_t bytes = 4096, n = (size_t)kvcache_next(cache, sequence);
    for (size_t g = 0; g < layout->n_groups; g++)
        bytes += pages_for(n) * (sizeof(Record) + layout->data_bytes[g]);
    return bytes +
           (1 + kvcache_n_snapshots(cache, sequence)) * (sizeof(Record) + layout->state_bytes);
}

static Status sync_file(const KvFile *file, Error *error) {
    if (fdatasync(file->fd) != 0 && errno != EINVAL) return kvfile_failed(file, "sync", error);
    return STATUS_OK;
}

Status kvfile_clear(KvFile *file, Error *error) {
    if (begin_anew(file, error) != STATUS_OK) return STATUS_FAILED;
    return sync_file(file, error);
}

Status kvfile_save(KvFile *file, const KvCache *cache, int32_t sequence, const int32_t *tokens,
                   Error *error) {
    Status status = STATUS_OK;
    if (file->end > (off_t)(4 * new_file_bytes(file, cache, sequence)))
        status = begin_anew(file, error);
    if (status == STATUS_OK) status = save_position(file, cache, sequence, -1, tokens, error);
    for (int i = 0; status == STATUS_OK && i < (int)kvcache_n_snapshots(cache, sequence); i++)
        if (kvcache_saved_mark(cache, sequence, i))
            status = save_position(file, cache, sequence, i, tokens, error);
    return status == STATUS_OK ? sync_file(file, error) : status;
}
