#include "modes/batch/shard.h"
#include "json/json_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { AT_A_TIME = 1 << 18 };

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* ---- Which part ------------------------------------------------------------------------------
 */

/* Reads digits up to the character `end`; false: others, none, or more than a number of 2^53. */
static bool read_number(const char *text, char end, uint64_t *number) {
    char *stop;
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    *number = strtoull(text, &stop, 10);
    return errno == 0 && *stop == end && *number <= (uint64_t)1 << 53;
}

static Status check_number(const char *text, uint64_t part, uint64_t of, Error *error) {
    if (part >= 1 && part <= of) return STATUS_OK;
    return usage(error,
                 "--shard %s: there is no part %" PRIu64 " of %" PRIu64 "; they count from 1", text,
                 part, of);
}

/* The number in an environment variable; `absent` when it is not set. */
static Status from_environment(const char *name, uint64_t absent, uint64_t *number, Error *error) {
    const char *value = getenv(name);
    *number = absent;
    if (!value || read_number(value, '\0', number)) return STATUS_OK;
    return usage(error, "--shard: $%s is not a whole number: '%s'", name, value);
}

/* Reads which part of how many this is from Slurm's environment. A task of an array counts from
 * the array's first index by its step, whatever these are. An array with gaps, as when a few tasks
 * are submitted again, has another COUNT than the parts. */
static Status from_slurm(uint64_t *part, uint64_t *of, Error *error) {
    uint64_t id, count, first, last, step;
    if (!getenv("SLURM_ARRAY_TASK_ID") || !getenv("SLURM_ARRAY_TASK_COUNT"))
        return usage(error, "--shard slurm: $SLURM_ARRAY_TASK_ID and $SLURM_ARRAY_TASK_COUNT are "
                            "not set: this is no task of a job array (sbatch --array=1-8)");
    if (from_environment("SLURM_ARRAY_TASK_ID", 0, &id, error) != STATUS_OK ||
        from_environment("SLURM_ARRAY_TASK_COUNT", 0, &count, error) != STATUS_OK ||
        from_environment("SLURM_ARRAY_TASK_MIN", 1, &first, error) != STATUS_OK ||
        from_environment("SLURM_ARRAY_TASK_STEP", 1, &step, error) != STATUS_OK)
        return STATUS_USAGE;
    if (step == 0) step = 1;
    if (from_environment("SLURM_ARRAY_TASK_MAX", first + (count - 1) * step, &last, error) !=
        STATUS_OK)
        return STATUS_USAGE;
    if (last < first || (last - first) / step + 1 != count || id < first ||
        (id - first) % step != 0)
        return usage(error,
                     "--shard slurm: the array has gaps (task %" PRIu64 ", %" PRIu64 " tasks from "
                     "%" PRIu64 " to %" PRIu64 "), so they are not the parts: say --shard I/N",
                     id, count, first, last);
    *part = (id - first) / step + 1;
    *of = count;
    return STATUS_OK;
}

static Status from_mpi(uint64_t *part, uint64_t *of, Error *error) {
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < 2; i++) {
        if (!getenv(names[i][0]) || !getenv(names[i][1])) continue;
        if (from_environment(names[i][0], 0, part, error) != STATUS_OK ||
            from_environment(names[i][1], 0, of, error) != STATUS_OK)
            return STATUS_USAGE;
        ++*part;
        return STATUS_OK;
    }
    return usage(error, "--shard mpi: neither $OMPI_COMM_WORLD_RANK nor $PMI_RANK is set with its "
                        "size: mpirun has not started this process");
}

Status shard_number(const char *text, uint64_t *part, uint64_t *of, Error *error) {
    Status status = STATUS_OK;
    const char *slash = strchr(text, '/');
    if (strcmp(text, "slurm") == 0) {
        status = from_slurm(part, of, error);
    } else if (strcmp(text, "mpi") == 0) {
        status = from_mpi(part, of, error);
    } else if (!slash || !read_number(text, '/', part) || !read_number(slash + 1, '\0', of)) {
        return usage(error, "--shard: '%s' is not I/N (the Ith of N parts), slurm or mpi", text);
    }
    return status == STATUS_OK ? check_number(text, *part, *of, error) : status;
}

/* ---- Its bytes ---------------------------------------------------------------------------------
 */

/* Reads up to AT_A_TIME bytes at `at`; *n 0: the file ends there. */
static Status read_at(int fd, const char *name, uint64_t at, uint64_t end,
                      const volatile sig_atomic_t *interrupted, char *bytes, size_t *n,
                      Error *error) {
    size_t most = end - at < AT_A_TIME ? (size_t)(end - at) : AT_A_TIME;
    for (;;) {
        if (interrupted && *interrupted) return STATUS_INTERRUPTED;
        ssize_t got = pread(fd, bytes, most, (off_t)at);
        *n = got > 0 ? (size_t)got : 0;
        if (got >= 0) return STATUS_OK;
        if (errno != EINTR)
            return error_set(error, "%s: cannot be read: %s", name, strerror(errno));
    }
}

/* *begin is where the first line begins at or after byte `at`. */
static Status find_line(int fd, const char *name, uint64_t at, uint64_t size, char *bytes,
                        const volatile sig_atomic_t *interrupted, uint64_t *begin, Error *error) {
    *begin = at == 0 ? 0 : size;
    if (at == 0) return STATUS_OK;
    size_t n;
    for (at--; at < size; at += n) {
        Status status = read_at(fd, name, at, size, interrupted, bytes, &n, error);
        if (status != STATUS_OK) return status;
        const char *newline = n > 0 ? memchr(bytes, '\n', n) : NULL;
        if (newline) *begin = at + (uint64_t)(newline - bytes) + 1;
        if (newline || n == 0) return STATUS_OK;
    }
    return STATUS_OK;
}

/* Without overflow. */
uint64_t shard_share(uint64_t size, uint64_t i, uint64_t n) {
    return (uint64_t)((unsigned __int128)size * i / n);
}

Status shard_locate(Shard *s, int fd, const char *name, const volatile sig_atomic_t *interrupted,
                    Error *error) {
    struct stat info;
    if (fstat(fd, &info) != 0) return error_set(error, "%s: %s", name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return error_set(error, "%s: not a file, in which --shard could go to its part", name);
    char *bytes = malloc(AT_A_TIME);
    if (!bytes) return error_set(error, "%s: no memory for it", name);
    uint64_t size = (uint64_t)info.st_size;
    Status status = find_line(fd, name, shard_share(size, s->part - 1, s->of), size, bytes,
                              interrupted, &s->begin, error);
    if (status == STATUS_OK)
        status = find_line(fd, name, shard_share(size, s->part, s->of), size, bytes, interrupted,
                           &s->end, error);
    free(bytes);
    return status == STATUS_OK
               ? shard_hash(fd, name, s->begin, s->end, interrupted, &s->hash, error)
               : status;
}

Status shard_hash(int fd, const char *name, uint64_t begin, uint64_t end,
                  const volatile sig_atomic_t *interrupted, uint64_t *hash, Error *error) {
    Status status = STATUS_OK;
    char *bytes = malloc(AT_A_TIME);
    XXH3_state_t *state = XXH3_createState();
    if (!bytes || !state) status = error_set(error, "%s: no memory for its hash", name);
    if (state) XXH3_64bits_reset(state);
    size_t n = 0;
    for (uint64_t at = begin; at < end && status == STATUS_OK; at += n) {
        status = read_at(fd, name, at, end, interrupted, bytes, &n, error);
        if (status == STATUS_OK && n == 0)
            status = error_set(error, "%s: became shorter while it was read", name);
        if (status == STATUS_OK) XXH3_64bits_update(state, bytes, n);
    }
    if (status == STATUS_OK) *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(bytes);
    return status;
}

/* ---- The header --------------------------------------------------------------------------------
 */

char *shard_header(const Shard *s) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, s->hash);
    json_t *json =
        json_pack("{s:{s:I, s:I, s:I, s:I, s:s, s:b}, s:s}", "shard", "part", (json_int_t)s->part,
                  "of", (json_int_t)s->of, "begin", (json_int_t)s->begin, "end", (json_int_t)s->end,
                  "xxh3", hash, "text", s->text, "system_fingerprint", s->fingerprint);
    bool fits =
        json && (!s->table || json_object_set_new(json_object_get(json, "shard"), "table",
                                                  json_reader_load(s->table, strlen(s->table),
                                                                   JSON_ALLOW_NUL, NULL)) == 0);
    char *line = fits ? json_dumps(json, 0) : NULL;
    json_decref(json);
    return line;
}

void shard_free(Shard *s) {
    free(s->table);
    s->table = NULL;
}

/* A field that is a whole number, not negative. */
static bool get_number(const json_t *json, const char *name, uint64_t *number) {
    const json_t *value = json_object_get(json, name);
    *number = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

bool shard_read(const char *line, size_t length, Shard *s) {
    json_t *json = json_reader_load(line, length, JSON_ALLOW_NUL, NULL);
    const json_t *shard = json_object_get(json, "shard"), *table = json_object_get(shard, "table");
    const char *hash = json_string_value(json_object_get(shard, "xxh3"));
    const char *fingerprint = json_string_value(json_object_get(json, "system_fingerprint"));
    *s = (Shard){.text = json_is_true(json_object_get(shard, "text"))};
    bool is = get_number(shard, "part", &s->part) && get_number(shard, "of", &s->of) &&
              get_number(shard, "begin", &s->begin) && get_number(shard, "end", &s->end) && hash &&
              strspn(hash, "0123456789abcdef") == 16 && hash[16] == '\0' && fingerprint &&
              s->part >= 1 && s->part <= s->of && s->begin <= s->end;
    if (is && table) is = (s->table = json_dumps(table, JSON_COMPACT)) != NULL;
    if (is) {
        s->hash = strtoull(hash, NULL, 16);
        snprintf(s->fingerprint, sizeof s->fingerprint, "%s", fingerprint);
    }
    json_decref(json);
    return is;
}

/* Whether two parts do the same with a row, or both have none. */
static bool same_table(const Shard *a, const Shard *b) {
    return a->table && b->table ? strcmp(a->table, b->table) == 0 : !a->table && !b->table;
}

/* shard_match of two parts. */
static Status match_parts(const Shard *got, const Shard *wanted, bool *stale, Error *error) {
    if (got->part != wanted->part || got->of != wanted->of)
        return error_set(error, "part %" PRIu64 "/%" PRIu64 " of a batch, not %" PRIu64 "/%" PRIu64,
                         got->part, got->of, wanted->part, wanted->of);
    if (!same_table(got, wanted))
        return error_set(error,
                         "made with another prompt of the table's rows, or another --csv-id");
    bool other = strcmp(got->fingerprint, wanted->fingerprint) != 0;
    if (other && !stale)
        return error_set(error,
                         "made by another model or with other options (%s, but now it is %s)",
                         got->fingerprint, wanted->fingerprint);
    if (other) *stale = true;
    if (got->begin != wanted->begin || got->end != wanted->end || got->hash != wanted->hash)
        return error_set(error,
                         "made for other requests (bytes %" PRIu64 " to %" PRIu64 " with XXH3 "
                         "%016" PRIx64 ", but now %" PRIu64 " to %" PRIu64 ", %016" PRIx64 ")",
                         got->begin, got->end, got->hash, wanted->begin, wanted->end, wanted->hash);
    return STATUS_OK;
}

Status shard_match(const char *line, size_t length, const char *header, bool *stale, Error *error) {
    Shard got, wanted;
    Status status = STATUS_OK;
    bool is = shard_read(line, length, &got);
    if (!header && is) {
        status = error_set(error,
                           "part %" PRIu64 "/%" PRIu64 " of a batch: --shard %" PRIu64 "/%" PRIu64
                           " goes on with it",
                           got.part, got.of, got.part, got.of);
    } else if (header && !is) {
        status = error_set(error, "its first line does not say which part of a batch it is");
    } else if (header) {
        shard_read(header, strlen(header), &wanted);
        status = match_parts(&got, &wanted, stale, error);
        shard_free(&wanted);
    }
    shard_free(&got);
    return status;
}
