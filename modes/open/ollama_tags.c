#include "modes/open/ollama_tags.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "json/json_reader.h"
#include "system/descriptor.h"
#include "system/helper_process.h"
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

/* What the child process sends of each tag: the digits of each digest, or zero bytes, and '0' +
 * others. */
enum { RECORD = OLLAMA_LAYERS * OLLAMA_DIGEST + 1 };

/* The layers by what follows "application/vnd.ollama.image." in their type. */
static const char *const layers[] = {
    [OLLAMA_MODEL] = "model", [OLLAMA_PARAMETERS] = "params", [OLLAMA_SYSTEM] = "system"};
static const struct {
    const char *name;
    unsigned other;
} other_layers[] = {{"messages", OLLAMA_MESSAGES}, {"adapter", OLLAMA_ADAPTER}};

/* Writes the hexadecimal digits of the digests that a manifest names one after another, and returns
 * which other layers it has. */
static unsigned ollama_parse(const OllamaTag *tag, char record[RECORD]) {
    static const char begin[] = "application/vnd.ollama.image.";
    json_t *json = json_reader_load(tag->manifest, tag->manifest_bytes, 0, NULL), *layer;
    unsigned others = 0;
    size_t i;
    json_array_foreach(json_object_get(json, "layers"), i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *text = json_string_value(json_object_get(layer, "digest"));
        if (!type || strncmp(type, begin, sizeof begin - 1) != 0) continue;
        type += sizeof begin - 1;
        bool is_digest =
            text && strncmp(text, "sha256:", 7) == 0 && strlen(text) == 7 + OLLAMA_DIGEST;
        for (size_t k = 0; k < OLLAMA_LAYERS && is_digest; k++)
            if (strcmp(type, layers[k]) == 0)
                memcpy(record + k * OLLAMA_DIGEST, text + 7, OLLAMA_DIGEST);
        for (size_t k = 0; k < sizeof other_layers / sizeof *other_layers; k++)
            if (strcmp(type, other_layers[k].name) == 0) others |= other_layers[k].other;
    }
    json_decref(json);
    return others;
}

/* The child process: gives up its rights, then writes the record of each tag. */
static void parse_all(const OllamaTags *tags, int to) {
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    Error error;
    if (sandbox_enter(&rules, &report, &error) != STATUS_OK) return;
    for (size_t i = 0; i < tags->n; i++) {
        char record[RECORD] = "";
        record[RECORD - 1] = (char)('0' + ollama_parse(&tags->tags[i], record));
        descriptor_write(to, record, RECORD);
    }
}

/* Copies a record, the digests of a tag's layers and a digit of flags, into the tag. A digest with
 * other than hexadecimal digits becomes "". */
static void take_record(OllamaTag *tag, const char record[RECORD]) {
    for (size_t k = 0; k < OLLAMA_LAYERS; k++) {
        memcpy(tag->digests[k], record + k * OLLAMA_DIGEST, OLLAMA_DIGEST);
        tag->digests[k][OLLAMA_DIGEST] = '\0';
        if (strspn(tag->digests[k], "0123456789abcdef") != OLLAMA_DIGEST) tag->digests[k][0] = '\0';
    }
    tag->others = (unsigned)(record[RECORD - 1] - '0') & 3u;
}

/* Parses the manifests, a stranger's JSON, in a sandboxed child process, since this one still needs
 * its rights; a tag whose manifest names no model gets an empty digest. */
static void parse_elsewhere(OllamaTags *tags) {
    enum { MILLISECONDS = 10000 };
    HelperProcess helper;
    bool open = true;
    if (tags->n == 0 || helper_process_start(&helper, "reads manifests", NULL) != STATUS_OK) return;
    if (helper.process == 0) {
        parse_all(tags, helper.to);
        _exit(0);
    }
    for (size_t i = 0; i < tags->n && open; i++) {
        char record[RECORD];
        open = helper_process_read(&helper, record, RECORD, MILLISECONDS);
        if (open) take_record(&tags->tags[i], record);
    }
    helper_process_end(&helper, !open);
}

void ollama_tags_find(OllamaTags *tags, const char *root) {
    char manifests[PATH_MAX];
    *tags = (OllamaTags){0};
    int size = snprintf(manifests, sizeof manifests, "%s/manifests", root);
    if (size > 0 && size < PATH_MAX) search_manifests(tags, manifests, "", 0);
    parse_elsewhere(tags);
}
