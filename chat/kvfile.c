#include "chat/kvfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "numeric.h"

static const char magic[8] = "vbtm-kv2";

typedef struct FileStart {
    char magic[8];
    uint64_t fingerprint; /* of the model, plus NUMERIC_REVISION */
    uint64_t shape;       /* checksum of the cache's shape by layer */
    uint32_t n_layers, type;
    uint64_t checksum; /* of the fields above */
} FileStart;

/* The head of a record, which the page's bytes follow. */
typedef struct Record {
    uint64_t checksum; /* of the fields below and the page's bytes */
    uint64_t before;   /* of all tokens of the pages before this one */
    uint32_t page, n;  /* the page's number; its filled positions */
    int32_t tokens[KV_PAGE];
} Record;

/* A record of the file that is known: its offset and its head. */
typedef struct Known {
    off_t offset;
    Record record;
} Known;

struct KvFile {
    char *path;
    int fd;
    FileStart start;
    KvShape shape;
    size_t data_bytes;
    off_t end; /* behind the last whole record */
    Known *known;
    size_t n_known, capacity;
};

static Status failed(const KvFile *file, const char *what, Error *error) {
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

static bool remember(KvFile *file, off_t offset, const Record *record) {
    if (!array_reserve(&file->known, &file->capacity, file->n_known + 1, sizeof *file->known))
        return false;
    file->known[file->n_known++] = (Known){offset, *record};
    return true;
}

/* Empties the file and writes its start. */
static Status begin_anew(KvFile *file, Error *error) {
    file->n_known = 0;
    file->end = sizeof file->start;
    if (ftruncate(file->fd, 0) != 0) return failed(file, "empty it", error);
    if (!write_at(file->fd, &file->start, sizeof file->start, 0))
        return failed(file, "write", error);
    return STATUS_OK;
}

/* Reads the heads of all records; the checksums are compared when a page is loaded. */
static Status find_records(KvFile *file, Error *error) {
    struct stat status;
    if (fstat(file->fd, &status) != 0) return failed(file, "read", error);
    off_t step = (off_t)(sizeof(Record) + file->data_bytes);
    file->end = sizeof file->start;
    while (status.st_size - file->end >= step) {
        Record record;
        if (!read_at(file->fd, &record, sizeof record, file->end))
            return failed(file, "read", error);
        if (record.n >= 1 && record.n <= KV_PAGE && !remember(file, file->end, &record))
            return error_set(error, "%s: no memory for its directory", file->path);
        file->end += step;
    }
    return STATUS_OK;
}

Status kvfile_open(KvFile **out, const char *path, int fd, uint64_t fingerprint,
                   const KvShape *shape, bool *begun, Error *error) {
    KvFile *file = calloc(1, sizeof *file);
    FileStart found;
    if (!file || !(file->path = strdup(path))) {
        free(file);
        close(fd);
        return error_set(error, "%s: no memory", path);
    }
    file->fd = fd;
    file->shape = *shape;
    file->data_bytes = kvcache_data_bytes(shape);
    memcpy(file->start.magic, magic, sizeof magic);
    file->start.fingerprint = fingerprint + NUMERIC_REVISION;
    file->start.shape = XXH3_64bits(shape->layers, shape->n_layers * sizeof *shape->layers);
    file->start.n_layers = shape->n_layers;
    file->start.type = shape->type;
    file->start.checksum = XXH3_64bits(&file->start, offsetof(FileStart, checksum));
    *begun =
        !read_at(fd, &found, sizeof found, 0) || memcmp(&found, &file->start, sizeof found) != 0;
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

/* The record of this page that shares the longest prefix with tokens[n], after the same tokens in
 * all earlier pages; NULL: none. *used receives the number of its positions that can be used. */
static const Known *find_page(const KvFile *file, size_t page, const int32_t *tokens, size_t n,
                              size_t *used) {
    uint64_t before = tokens_checksum(tokens, page * KV_PAGE);
    const Known *best = NULL;
    *used = 0;
    for (size_t i = file->n_known; i-- > 0;) {
        const Record *record = &file->known[i].record;
        if (record->page != page || record->before != before) continue;
        size_t left = n - page * KV_PAGE, common = 0, most = record->n < left ? record->n : left;
        while (common < most && record->tokens[common] == tokens[page * KV_PAGE + common]) common++;
        if (common > *used) {
            best = &file->known[i];
            *used = common;
        }
    }
    return best;
}

Status kvfile_load(KvFile *file, KvCache *cache, int32_t sequence, const int32_t *tokens, size_t n,
                   size_t *loaded, Error *error) {
    *loaded = 0;
    kvcache_reset(cache, sequence, 0);
    for (size_t page = 0; page * KV_PAGE < n; page++) {
        size_t used;
        const Known *known = find_page(file, page, tokens, n, &used);
        if (!known) break;
        if (kvcache_reserve(cache, sequence, used, error) != STATUS_OK) return STATUS_FAILED;
        void *data = kvcache_page_data(cache, sequence, page);
        if (!read_at(file->fd, data, file->data_bytes, known->offset + (off_t)sizeof(Record)) ||
            record_checksum(&known->record, data, file->data_bytes) != known->record.checksum) {
            kvcache_truncate(cache, sequence, (int32_t)*loaded); /* gives the page back */
            break;
        }
        kvcache_commit(cache, sequence, used);
        *loaded += used;
        if (used < KV_PAGE) break;
    }
    return STATUS_OK;
}

static Status append(KvFile *file, const KvCache *cache, int32_t sequence, size_t page,
                     const int32_t *tokens, size_t n, Error *error) {
    Record record;
    memset(&record, 0, sizeof record);
    record.page = (uint32_t)page;
    record.n = (uint32_t)(n - page * KV_PAGE < KV_PAGE ? n - page * KV_PAGE : KV_PAGE);
    record.before = tokens_checksum(tokens, page * KV_PAGE);
    memcpy(record.tokens, tokens + page * KV_PAGE, record.n * sizeof *tokens);
    const void *data = kvcache_page_data(cache, sequence, page);
    record.checksum = record_checksum(&record, data, file->data_bytes);
    if (!write_at(file->fd, &record, sizeof record, file->end) ||
        !write_at(file->fd, data, file->data_bytes, file->end + (off_t)sizeof record))
        return failed(file, "write", error);
    if (!remember(file, file->end, &record))
        return error_set(error, "%s: no memory for its directory", file->path);
    file->end += (off_t)(sizeof record + file->data_bytes);
    return STATUS_OK;
}

Status kvfile_save(KvFile *file, const KvCache *cache, int32_t sequence, const int32_t *tokens,
                   Error *error) {
    size_t n = (size_t)kvcache_next(cache, sequence), n_pages = (n + KV_PAGE - 1) / KV_PAGE;
    if (file->n_known > 4 * n_pages + 16 && begin_anew(file, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t page = 0; page < n_pages; page++) {
        size_t filled = n - page * KV_PAGE < KV_PAGE ? n - page * KV_PAGE : KV_PAGE;
        size_t used;
        if (find_page(file, page, tokens, n, &used) && used == filled) continue;
        if (append(file, cache, sequence, page, tokens, n, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (fdatasync(file->fd) != 0 && errno != EINVAL) return failed(file, "sync", error);
    return STATUS_OK;
}
