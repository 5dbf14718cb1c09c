#include "convert/source_digest.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

enum { CHUNK_BYTES = 1 << 20 };

static const char *name_of(const InputFile *file) {
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

static int by_name(const void *a, const void *b) {
    return strcmp(name_of(*(const InputFile *const *)a), name_of(*(const InputFile *const *)b));
}

static Status digest_file(const InputFile *file, const volatile sig_atomic_t *interrupted,
                          char text[SHA256_HEX], Error *error) {
    uint8_t *chunk = malloc(CHUNK_BYTES), digest[SHA256_BYTES];
    Sha256 hash;
    Status status = chunk ? STATUS_OK : error_set(error, "no memory for a digest");
    sha256_init(&hash);
    for (uint64_t at = 0; status == STATUS_OK && at < file->bytes; at += CHUNK_BYTES) {
        size_t n = file->bytes - at < CHUNK_BYTES ? (size_t)(file->bytes - at) : CHUNK_BYTES;
        status = input_read(file, at, chunk, n, error);
        if (status == STATUS_OK) sha256_add(&hash, chunk, n);
        if (*interrupted) status = STATUS_INTERRUPTED;
    }
    free(chunk);
    sha256_end(&hash, digest);
    sha256_hex(digest, text);
    return status;
}

/* Fills digests[n]; threads share the files. */
static Status digest_files(const InputFile *const *files, size_t n, int n_threads,
                           const volatile sig_atomic_t *interrupted, char (*digests)[SHA256_HEX],
                           Error *error) {
    Status result = STATUS_OK;
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
    for (size_t i = 0; i < n; i++) {
        Error own = {.text = ""};
        Status status = digest_file(files[i], interrupted, digests[i], &own);
        if (status == STATUS_OK) continue;
#pragma omp critical(source_digest_failure)
        {
            result = status;
            *error = own;
        }
    }
    return result;
}

/* Hashes all files of the source in the order of their names, and lists them. */
Status source_digest(const Source *source, const char *type, int n_threads,
                     const volatile sig_atomic_t *interrupted, json_t **digest, Error *error) {
    const InputFile *const given[] = {&source->tokenizer_file, &source->family_file};
    size_t n = source->n_files;
    const InputFile **files = calloc(n + 2, sizeof *files);
    char(*digests)[SHA256_HEX] = calloc(n + 2, sizeof *digests);
    json_t *list = json_array();
    Status status =
        files && digests && list ? STATUS_OK : error_set(error, "no memory for a digest");
    for (size_t i = 0; status == STATUS_OK && i < n; i++) files[i] = &source->files[i];
    for (size_t i = 0; status == STATUS_OK && i < 2; i++)
        if (given[i]->path) files[n++] = given[i];
    if (status == STATUS_OK && n > 0) {
        qsort(files, n, sizeof *files, by_name);
        status = digest_files(files, n, n_threads, interrupted, digests, error);
    }
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", name_of(files[i]), "bytes",
                                              (json_int_t)files[i]->bytes, "sha256", digests[i]));
    free(files);
    free(digests);
    if (status == STATUS_OK) *digest = json_pack("{s:s?, s:O}", "type", type, "files", list);
    json_decref(list);
    if (status == STATUS_OK && !*digest) status = error_set(error, "no memory for a digest");
    return status;
}
