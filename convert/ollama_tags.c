#include "convert/ollama_tags.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "system/descriptor.h"
#include "system/sandbox.h"
#include "system/text_file.h"

/* A manifest has about 1,000 bytes. */
enum { MOST_TAGS = 4096, MOST_MANIFEST = 1 << 20, MOST_BYTES = 64 << 20 };

void ollama_tags_free(OllamaTags *tags) {
    for (size_t i = 0; i < tags->n; i++) {
        free(tags->tags[i].name);
        free(tags->tags[i].manifest);
    }
    free(tags->tags);
    *tags = (OllamaTags){0};
}

/* ---- Reading: bytes alone, with all rights ---------------------------------------------------
 */

/* The bytes of a regular file; NULL: it is none, or too large. */
static char *read_manifest(const char *path, size_t *length) {
    struct stat info;
    Error error;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        text_file_read_json(fd, path, MOST_MANIFEST, NULL, &text, length, &error);
    close(fd);
    return text;
}

static void add_tag(OllamaTags *tags, const char *path, const char *name) {
    OllamaTag tag = {.name = NULL};
    if (tags->failed || tags->n >= MOST_TAGS || tags->bytes >= MOST_BYTES) return;
    tag.manifest = read_manifest(path, &tag.manifest_bytes);
    if (!tag.manifest) return;
    tag.name = strdup(name);
    if (!tag.name ||
        !array_reserve(&tags->tags, &tags->capacity, tags->n + 1, sizeof *tags->tags)) {
        free(tag.name);
        free(tag.manifest);
        tags->failed = true;
        return;
    }
    tags->bytes += tag.manifest_bytes;
    tags->tags[tags->n++] = tag;
}

/* manifests/HOST/NAMESPACE/NAME/TAG: `name` is NAMESPACE/NAME so far, or NAME of the library. */
static void search_manifests(OllamaTags *tags, const char *directory, const char *name, int depth) {
    struct dirent **entries;
    int n = scandir(directory, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX], longer[PATH_MAX];
        const char *entry = entries[i]->d_name;
        int size = snprintf(path, sizeof path, "%s/%s", directory, entry);
        if (entry[0] == '.' || size < 0 || size >= PATH_MAX) continue;
        const char *between = !name[0] ? "" : depth == 3 ? ":" : "/";
        bool skips = depth == 0 || (depth == 1 && strcmp(entry, "library") == 0);
        size = skips ? 0 : snprintf(longer, sizeof longer, "%s%s%s", name, between, entry);
        if (size < 0 || size >= PATH_MAX) continue;
        longer[size] = '\0';
        if (depth == 3)
            add_tag(tags, path, longer);
        else
            search_manifests(tags, path, longer, depth + 1);
    }
    for (int i = 0; i < n; i++) free(entries[i]);
    if (n >= 0) free(entries);
}

/* ---- Parsing: in a process that has given up its rights --------------------------------------
 */

/* Writes the hexadecimal digits of the digest of the weights that a manifest names, or "". */
static void ollama_parse(const OllamaTag *tag, char digest[OLLAMA_DIGEST + 1]) {
    json_t *json = json_loadb(tag->manifest, tag->manifest_bytes, 0, NULL), *layer;
    size_t i;
    json_array_foreach(json_object_get(json, "layers"), i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *text = json_string_value(json_object_get(layer, "digest"));
        if (type && text && strcmp(type, "application/vnd.ollama.image.model") == 0 &&
            strncmp(text, "sha256:", 7) == 0 && strlen(text) == 7 + OLLAMA_DIGEST)
            snprintf(digest, OLLAMA_DIGEST + 1, "%s", text + 7);
    }
    json_decref(json);
}

/* The child process: gives up its rights, then writes the digest of each tag, or zeros. */
static void parse_all(const OllamaTags *tags, int to) {
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    Error error;
    if (sandbox_enter(&rules, &report, &error) != STATUS_OK) return;
    for (size_t i = 0; i < tags->n; i++) {
        char digest[OLLAMA_DIGEST + 1] = "";
        ollama_parse(&tags->tags[i], digest);
        descriptor_write(to, digest, OLLAMA_DIGEST);
    }
}

/* Reads a digest from the other process, which may be in a stranger's hands; false: it ended, or
 * took more than ten seconds. */
static bool receive_digest(int fd, char digest[OLLAMA_DIGEST + 1]) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (size_t done = 0; done < OLLAMA_DIGEST;) {
        int n_ready = poll(&ready, 1, 10000);
        if (n_ready < 0 && errno == EINTR) continue;
        if (n_ready <= 0) return false;
        ssize_t n = read(fd, digest + done, OLLAMA_DIGEST - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    digest[OLLAMA_DIGEST] = '\0';
    return true;
}

/* Parses the manifests, a stranger's JSON, in a sandboxed child process, since this one still needs
 * its rights; a tag whose manifest names no model gets an empty digest. */
static void parse_elsewhere(OllamaTags *tags) {
    int pipes[2];
    if (tags->n == 0 || pipe2(pipes, O_CLOEXEC) != 0) return;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        parse_all(tags, pipes[1]);
        _exit(0);
    }
    close(pipes[1]);
    bool open = child > 0;
    for (size_t i = 0; i < tags->n && open; i++) {
        char *digest = tags->tags[i].digest;
        open = receive_digest(pipes[0], digest);
        if (!open || strspn(digest, "0123456789abcdef") != OLLAMA_DIGEST) digest[0] = '\0';
    }
    close(pipes[0]);
    if (child <= 0) return;
    if (!open) kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

void ollama_tags_find(OllamaTags *tags, const char *root) {
    char manifests[PATH_MAX];
    *tags = (OllamaTags){0};
    int size = snprintf(manifests, sizeof manifests, "%s/manifests", root);
    if (size > 0 && size < PATH_MAX) search_manifests(tags, manifests, "", 0);
    parse_elsewhere(tags);
}
