#include "modes/open/conversion_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "system/terminal.h"

/* Raised when the same source becomes other tensors, so that kept conversions are made anew. */
enum { WEIGHTS_REVISION = 5 /* GGUF: Q5_0 and Q5_1 at their own size */ };

/* Adds what identifies a file and its version to the hash. */
static void hash_file(XXH3_state_t *state, const InputFile *file) {
    const InputStamp *stamp = &file->stamp;
    char *absolute = realpath(file->path, NULL);
    const char *path = absolute ? absolute : file->path;
    XXH3_128bits_update(state, path, strlen(path) + 1);
    free(absolute);
    const int64_t facts[] = {(int64_t)file->bytes, (int64_t)stamp->device, (int64_t)stamp->inode,
                             stamp->modified[0], stamp->modified[1]};
    XXH3_128bits_update(state, facts, sizeof facts);
}

bool conversion_name(const Source *source, const char *type, char *name, size_t size) {
    XXH3_state_t *state = XXH3_createState();
    if (!state) return false;
    const uint32_t version[] = {MODELFILE_VERSION, TOKENIZER_IMPORT_REVISION, WEIGHTS_REVISION};
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, version, sizeof version);
    XXH3_128bits_update(state, type ? type : "", type ? strlen(type) + 1 : 1);
    for (size_t i = 0; i < source->n_files; i++) hash_file(state, &source->files[i]);
    if (source->tokenizer_file.path) {
        XXH3_128bits_update(state, "tokenizer", sizeof "tokenizer");
        hash_file(state, &source->tokenizer_file);
        const char *pattern = source->split_pattern ? source->split_pattern : "";
        XXH3_128bits_update(state, pattern, strlen(pattern) + 1);
    }
    if (source->family_file.path) {
        XXH3_128bits_update(state, "family", sizeof "family");
        hash_file(state, &source->family_file);
        XXH3_128bits_update(state, source->family_file.map, source->family_file.bytes);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    char base[64] = "model";
    char *path = realpath(source->path, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash && slash[1]) snprintf(base, sizeof base, "%s", slash + 1);
    free(path);
    char *dot = strrchr(base, '.');
    if (dot && (strcmp(dot, ".gguf") == 0 || strcmp(dot, ".bin") == 0)) *dot = '\0';
    for (char *c = base; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '_';
    snprintf(name, size, "%s-%016llx%016llx", base, (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return true;
}

void conversion_changes(const Source *source, char text[CONVERSION_CHANGES]) {
    const InputFile *const given[] = {&source->tokenizer_file, &source->family_file};
    const InputFile *file;
    uint64_t hash = 0;
    for (size_t i = 0; i < source->n_files + 2; i++) {
        file = i < source->n_files ? &source->files[i] : given[i - source->n_files];
        if (file->path) hash = XXH3_64bits_withSeed(&file->stamp, sizeof file->stamp, hash + 1);
    }
    snprintf(text, CONVERSION_CHANGES, "%016llx", (unsigned long long)hash);
}

/* Whether `name` is a conversion's name with this ending. */
static bool is_ours(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    if (n < m + 33 || strcmp(name + n - m, ending) != 0 || name[n - m - 33] != '-') return false;
    return strspn(name + n - m - 32, "0123456789abcdef") == 32;
}

bool conversion_is_named(int fd, int dir_fd, const char *name) {
    struct stat held, named;
    return fstat(fd, &held) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

bool conversion_files_each(const char *directory, const char *ending,
                           void (*each)(int dir_fd, const char *name, const struct stat *info,
                                        void *context),
                           void *context) {
    DIR *dir = opendir(directory);
    if (!dir) return errno == ENOENT;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat info;
        if (is_ours(entry->d_name, ending) &&
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            each(dirfd(dir), entry->d_name, &info, context);
    }
    closedir(dir);
    return true;
}

/* Deletes what a killed process left behind, NAME.tmp and NAME.lock. If the lock is free, no
 * process is converting it. Adds the bytes to *context, a double. */
static void delete_leftover(int dir_fd, const char *name, const struct stat *info, void *context) {
    char other[NAME_MAX + 1];
    snprintf(other, sizeof other, "%.*s.lock", (int)(strrchr(name, '.') - name), name);
    int fd = openat(dir_fd, other, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && conversion_is_named(fd, dir_fd, other)) {
        if (strcmp(name, other) != 0 && unlinkat(dir_fd, name, 0) == 0)
            *(double *)context += (double)info->st_size;
        unlinkat(dir_fd, other, 0);
    }
    close(fd);
}

/* ---- A limit ---- */

typedef struct Kept {
    char *name;
    struct timespec used;
    uint64_t bytes;
} Kept;

typedef struct KeptList {
    Kept *files;
    size_t n, capacity;
    uint64_t bytes;
} KeptList;

static void add_kept(int dir_fd, const char *name, const struct stat *info, void *context) {
    KeptList *list = context;
    Kept kept = {strdup(name), info->st_mtim, (uint64_t)info->st_size};
    (void)dir_fd;
    if (!kept.name ||
        !array_reserve(&list->files, &list->capacity, list->n + 1, sizeof *list->files)) {
        free(kept.name);
        return;
    }
    list->files[list->n++] = kept;
    list->bytes += kept.bytes;
}

static int longest_unused_first(const void *a, const void *b) {
    const Kept *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Deletes a conversion that nobody reads. */
static bool drop_unread(int dir_fd, const char *name) {
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool dropped = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                   conversion_is_named(fd, dir_fd, name) && unlinkat(dir_fd, name, 0) == 0;
    if (fd >= 0) close(fd);
    return dropped;
}

void conversion_files_shrink(const char *directory, size_t limit) {
    KeptList list = {0};
    int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0 && conversion_files_each(directory, ".bin", add_kept, &list) && list.n > 0)
        qsort(list.files, list.n, sizeof *list.files, longest_unused_first);
    for (size_t i = 0; i < list.n && list.bytes > limit; i++) {
        if (!drop_unread(dir_fd, list.files[i].name)) continue;
        list.bytes -= list.files[i].bytes;
        terminal_say("dropped %s, longest unused: %.1f MiB", list.files[i].name,
                     (double)list.files[i].bytes / 1048576.0);
    }
    for (size_t i = 0; i < list.n; i++) free(list.files[i].name);
    free(list.files);
    if (dir_fd >= 0) close(dir_fd);
}

double conversion_files_clean(const char *directory) {
    double bytes = 0.0;
    conversion_files_each(directory, ".tmp", delete_leftover, &bytes);
    conversion_files_each(directory, ".lock", delete_leftover, &bytes);
    return bytes;
}
