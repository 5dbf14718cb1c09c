#include "modes/open/model_names.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "advice/spelling.h"
#include "base/array.h"
#include "modes/open/default_model.h"
#include "modes/open/ollama_tags.h"
#include "core/modelfile.h"

/* A directory that somebody filled with millions of files is not searched to its end. */
enum { MOST_MODELS = 4096, MOST_DEPTH = 3 };

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcasecmp(text + n - m, end) == 0;
}

static bool joined(char *path, const char *directory, const char *name) {
    int n = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    return n > 0 && n < PATH_MAX;
}

/* Adds a model; takes no ownership. */
static void names_add(ModelNames *names, const char *name, const char *path, const char *place,
                      uint64_t bytes) {
    struct stat info = {0};
    if (names->n >= MOST_MODELS || names->failed || stat(path, &info) != 0) return;
    for (size_t i = 0; i < names->n; i++) /* a link to a directory above finds it again */
        if (names->models[i].inode == info.st_ino && names->models[i].device == info.st_dev &&
            strcmp(names->models[i].name, name) == 0)
            return;
    FoundModel model = {.name = strdup(name),
                        .path = strdup(path),
                        .place = place,
                        .bytes = bytes,
                        .device = info.st_dev,
                        .inode = info.st_ino};
    if (!model.name || !model.path ||
        !array_reserve(&names->models, &names->capacity, names->n + 1, sizeof *names->models)) {
        free(model.name);
        free(model.path);
        names->failed = true;
        return;
    }
    names->models[names->n++] = model;
}

void model_names_free_beside(FoundBeside *beside) {
    free(beside->parameters);
    free(beside->system);
    *beside = (FoundBeside){0};
}

void model_names_free(ModelNames *names) {
    for (size_t i = 0; i < names->n; i++) {
        free(names->models[i].name);
        free(names->models[i].path);
        model_names_free_beside(&names->models[i].beside);
    }
    free(names->models);
    *names = (ModelNames){0};
}

/* The names in a directory, sorted, without those that begin with a dot; free with free_entries. */
static int entries_of(const char *directory, struct dirent ***entries) {
    return scandir(directory, entries, NULL, alphasort);
}

static void free_entries(struct dirent **entries, int n) {
    for (int i = 0; i < n; i++) free(entries[i]);
    if (n >= 0) free(entries);
}

/* ---- Directories of files ---------------------------------------------------------------------
 */

/* The size of all *.safetensors files in a directory; 0: it has none. */
static uint64_t safetensors_bytes(const char *directory) {
    struct dirent **entries;
    struct stat info;
    char path[PATH_MAX];
    uint64_t bytes = 0;
    int n = entries_of(directory, &entries);
    for (int i = 0; i < n; i++)
        if (ends_in(entries[i]->d_name, ".safetensors") &&
            joined(path, directory, entries[i]->d_name) && stat(path, &info) == 0)
            bytes += (uint64_t)info.st_size;
    free_entries(entries, n);
    return bytes;
}

static bool is_model_directory(const char *path) {
    char config[PATH_MAX];
    return joined(config, path, "config.json") && access(config, R_OK) == 0 &&
           safetensors_bytes(path) > 0;
}

/* Whether a .bin is a model.bin or a llama2.c checkpoint with a magic; older ones have none. */
static bool is_model_bin(const char *path) {
    char magic[8] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool read_all = fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic;
    if (fd >= 0) close(fd);
    return read_all &&
           (memcmp(magic, MODELFILE_MAGIC, sizeof magic) == 0 || memcmp(magic, "24ka", 4) == 0);
}

/* Whether the name is that of a later part of a split model, NAME-00002-of-00005.gguf. */
static bool is_later_part(const char *name) {
    const char *of = strstr(name, "-of-");
    return of && of - name > 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
}

/* What a search of a directory adds: names after `prefix` and a slash ("": alone). */
typedef struct Search {
    ModelNames *names;
    const char *place, *prefix;
} Search;

static void search_directory(const Search *s, const char *directory, int depth);

/* Adds the entry of a directory if it is a model. Returns whether to search in it: it is another
 * directory. */
static bool look_at(const Search *s, const char *path, const char *entry) {
    char name[PATH_MAX];
    struct stat info;
    if (entry[0] == '.' || stat(path, &info) != 0) return false;
    bool is_directory = S_ISDIR(info.st_mode);
    bool is_model = is_directory ? is_model_directory(path)
                                 : S_ISREG(info.st_mode) && !is_later_part(entry) &&
                                       (ends_in(entry, ".gguf") ||
                                        (ends_in(entry, ".bin") && is_model_bin(path)));
    if (!is_model) return is_directory;
    size_t n = is_directory ? strlen(entry) : (size_t)(strrchr(entry, '.') - entry);
    snprintf(name, sizeof name, "%s%s%.*s", s->prefix, s->prefix[0] ? "/" : "", (int)n, entry);
    names_add(s->names, name, path, s->place,
              is_directory ? safetensors_bytes(path) : (uint64_t)info.st_size);
    return false;
}

/* The models of the directory itself come before those in directories below it. */
static void search_directory(const Search *s, const char *directory, int depth) {
    struct dirent **entries;
    char path[PATH_MAX];
    int n = entries_of(directory, &entries), below = 0;
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        if (!joined(path, directory, entry) || !look_at(s, path, entry)) continue;
        struct dirent *found = entries[i];
        entries[i] = entries[below];
        entries[below++] = found;
    }
    for (int i = 0; i < below && depth > 1; i++)
        if (joined(path, directory, entries[i]->d_name)) search_directory(s, path, depth - 1);
    free_entries(entries, n);
}

/* Searches each directory of a list with colons. */
static void search_list(ModelNames *names, const char *list, const char *place) {
    char directory[PATH_MAX];
    for (; list && *list; list += strcspn(list, ":"), list += *list == ':') {
        int n = (int)strcspn(list, ":");
        if (n == 0 || n >= (int)sizeof directory) continue;
        snprintf(directory, sizeof directory, "%.*s", n, list);
        search_directory(&(Search){names, place, ""}, directory, MOST_DEPTH);
    }
}

/* ---- Hugging Face's cache ---------------------------------------------------------------------
 */

/* models--ORG--NAME/snapshots/REVISION, the revision that refs/main names or else the last. */
static bool snapshot_of(const char *repository, char *path) {
    char file[PATH_MAX], revision[128] = "";
    struct dirent **entries;
    FILE *in = joined(file, repository, "refs/main") ? fopen(file, "re") : NULL;
    if (in && !fgets(revision, sizeof revision, in)) revision[0] = '\0';
    if (in) fclose(in);
    revision[strcspn(revision, "\n")] = '\0';
    if (!joined(file, repository, "snapshots")) return false;
    bool plain = revision[0] && revision[strspn(revision, "0123456789abcdef")] == '\0';
    if (plain && joined(path, file, revision) && access(path, R_OK) == 0) return true;
    int n = entries_of(file, &entries);
    bool found =
        n > 0 && entries[n - 1]->d_name[0] != '.' && joined(path, file, entries[n - 1]->d_name);
    free_entries(entries, n);
    return found;
}

/* Adds the models of a Hugging Face cache, under the names OWNER/NAME: a snapshot that is a model
 * directory, or else the models found below it. */
static void search_hub(ModelNames *names, const char *hub) {
    static const char prefix[] = "models--", place[] = "Hugging Face";
    struct dirent **entries;
    int n = entries_of(hub, &entries);
    for (int i = 0; i < n; i++) {
        char repository[PATH_MAX], path[PATH_MAX], name[NAME_MAX + 1];
        const char *entry = entries[i]->d_name;
        if (strncmp(entry, prefix, strlen(prefix)) != 0 || !joined(repository, hub, entry) ||
            !snapshot_of(repository, path))
            continue;
        const char *dashes = strstr(entry + strlen(prefix), "--");
        if (dashes)
            snprintf(name, sizeof name, "%.*s/%s", (int)(dashes - entry) - (int)strlen(prefix),
                     entry + strlen(prefix), dashes + 2);
        else
            snprintf(name, sizeof name, "%s", entry + strlen(prefix));
        if (is_model_directory(path))
            names_add(names, name, path, place, safetensors_bytes(path));
        else
            search_directory(&(Search){names, place, name}, path, MOST_DEPTH);
    }
    free_entries(entries, n);
}

/* ---- ollama's ---------------------------------------------------------------------------------
 */

/* The path of the file with the digest; false: the digest is "", or the path too long. */
static bool blob_path(const char *root, const char *digest, char path[PATH_MAX]) {
    char blob[sizeof "blobs/sha256-" + OLLAMA_DIGEST];
    snprintf(blob, sizeof blob, "blobs/sha256-%s", digest);
    return digest[0] && joined(path, root, blob);
}

/* Adds the models that ollama has pulled, each with its parameters and its system prompt. */
static void search_ollama(ModelNames *names, const char *root) {
    OllamaTags tags;
    ollama_tags_find(&tags, root);
    names->failed |= tags.failed;
    for (size_t i = 0; i < tags.n; i++) {
        const OllamaTag *tag = &tags.tags[i];
        char path[PATH_MAX];
        struct stat info;
        size_t before = names->n;
        if (!blob_path(root, tag->digests[OLLAMA_MODEL], path) || stat(path, &info) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        names_add(names, tag->name, path, "ollama", (uint64_t)info.st_size);
        if (names->n == before) continue;
        FoundBeside *beside = &names->models[before].beside;
        beside->others = tag->others;
        if (blob_path(root, tag->digests[OLLAMA_PARAMETERS], path))
            names->failed |= !(beside->parameters = strdup(path));
        if (blob_path(root, tag->digests[OLLAMA_SYSTEM], path))
            names->failed |= !(beside->system = strdup(path));
    }
    ollama_tags_free(&tags);
}

/* ---- All of them ------------------------------------------------------------------------------
 */

/* The directory that a variable names, else `rest` after another variable's, else none. */
static const char *place_of(const char *variable, const char *base, const char *rest, char *path) {
    const char *value = variable ? getenv(variable) : NULL;
    if (value && value[0]) return value;
    value = getenv(base);
    return value && value[0] == '/' && joined(path, value, rest) ? path : NULL;
}

/* The model that comes with the program. */
static void add_default(ModelNames *names) {
    Error ignored;
    struct stat info;
    char *path = default_model_path(&ignored), name[NAME_MAX + 1];
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash && stat(path, &info) == 0) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(slash + 1, "."), slash + 1);
        names_add(names, name, path, MODEL_NAMES_OWN, (uint64_t)info.st_size);
    }
    free(path);
}

void model_names_find(ModelNames *names) {
    char path[PATH_MAX];
    const char *found, *home = getenv("HOME");
    *names = (ModelNames){0};
    search_list(names, getenv("VERBATIM_MODELS"), "VERBATIM_MODELS");
    if (!(found = place_of("HF_HUB_CACHE", "HF_HOME", "hub", path)) &&
        !(found = place_of(NULL, "XDG_CACHE_HOME", "huggingface/hub", path)))
        found = place_of(NULL, "HOME", ".cache/huggingface/hub", path);
    if (found) search_hub(names, found);
    if ((found = place_of("OLLAMA_MODELS", "HOME", ".ollama/models", path)))
        search_ollama(names, found);
    if (!getenv("OLLAMA_MODELS") && home) search_ollama(names, "/usr/share/ollama/.ollama/models");
    if ((found = place_of("LLAMA_CACHE", "HOME", ".cache/llama.cpp", path)))
        search_directory(&(Search){names, "llama.cpp", ""}, found, 1);
    if ((found = place_of(NULL, "HOME", ".lmstudio/models", path)))
        search_directory(&(Search){names, "LM Studio", ""}, found, MOST_DEPTH);
    add_default(names);
}

/* ---- Finding one ------------------------------------------------------------------------------
 */

typedef enum Match { NO_MATCH, BEGINS, EXACT } Match;

/* How `wanted` matches a model's name, or what follows its last slash. */
static Match match_name(const char *wanted, const char *name) {
    size_t n = strlen(wanted);
    const char *slash = strrchr(name, '/');
    if (strcasecmp(wanted, name) == 0) return EXACT;
    if (ends_in(name, ":latest") && strlen(name) == n + 7 && strncasecmp(wanted, name, n) == 0)
        return EXACT;
    if (slash && !strchr(wanted, '/') && match_name(wanted, slash + 1) != NO_MATCH)
        return match_name(wanted, slash + 1);
    bool begins = strncasecmp(wanted, name, n) == 0;
    return begins && !isalnum((unsigned char)name[n]) ? BEGINS : NO_MATCH;
}

static Status several(const ModelNames *names, const char *name, Error *error) {
    char list[800] = "";
    size_t at = 0;
    for (size_t i = 0; i < names->n && at < sizeof list - 200; i++)
        if (match_name(name, names->models[i].name) == BEGINS)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%.150s", at ? ", " : "",
                                   names->models[i].name);
    return error_set(error, "%s: several models have this name: %s", name, list);
}

static void in_lower_case(char *out, size_t size, const char *text) {
    size_t i = 0;
    for (; i < size - 1 && text[i]; i++) out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = '\0';
}

char *model_names_near(const char *name) {
    ModelNames names;
    char wanted[64], model[64];
    size_t n = strlen(name), least = spelling_tolerance(name) + 1;
    char *near = NULL;
    if (n < 3 || strpbrk(name, " \t\n\\")) return NULL;
    in_lower_case(wanted, sizeof wanted, name);
    model_names_find(&names);
    for (size_t i = 0; i < names.n && least > 0; i++) {
        const char *whole = names.models[i].name, *slash = strrchr(whole, '/');
        const char *last = slash && !strchr(name, '/') ? slash + 1 : whole;
        bool begins = strncasecmp(name, whole, n) == 0 || strncasecmp(name, last, n) == 0;
        in_lower_case(model, sizeof model, last);
        size_t distance = begins ? 0 : spelling_distance(wanted, model);
        if (distance >= least) continue;
        least = distance;
        free(near);
        near = strdup(whole);
    }
    model_names_free(&names);
    return near;
}

void model_names_say_others(unsigned others, char *line, size_t size) {
    static const struct {
        unsigned other;
        const char *words;
    } kinds[] = {{OLLAMA_MESSAGES, "first messages"}, {OLLAMA_ADAPTER, "adapter"}};
    size_t used = 0;
    line[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && used < size; i++)
        if (others & kinds[i].other)
            used += (size_t)snprintf(line + used, size - used, "%s%s%s",
                                     used ? "" : "not taken from ollama's ", used ? ", " : "",
                                     kinds[i].words);
    if (used > 0 && used < size) snprintf(line + used, size - used, " (docs/coming-from.md)");
}

Status model_names_resolve(const char *name, char **path, Error *error) {
    FoundBeside beside;
    Status status = model_names_resolve_all(name, path, &beside, error);
    model_names_free_beside(&beside);
    return status;
}

Status model_names_resolve_all(const char *name, char **path, FoundBeside *beside, Error *error) {
    ModelNames names;
    FoundModel *begins = NULL, *exact = NULL;
    size_t n = 0;
    *path = NULL;
    *beside = (FoundBeside){0};
    if (!name[0] || strchr("/.~", name[0]) || strpbrk(name, "\t\n\\") ||
        strncmp(name, "random:", 7) == 0)
        return STATUS_OK;
    model_names_find(&names);
    for (size_t i = 0; i < names.n && !exact; i++) {
        Match how = match_name(name, names.models[i].name);
        if (how == EXACT) exact = &names.models[i];
        if (how != BEGINS) continue;
        bool same = begins && begins->inode == names.models[i].inode &&
                    begins->device == names.models[i].device;
        if (!begins) begins = &names.models[i];
        n += !same;
    }
    Status status = STATUS_OK;
    if (!exact && n > 1) status = several(&names, name, error);
    FoundModel *found = exact ? exact : begins;
    if (status == STATUS_OK && found) {
        *path = found->path;
        *beside = found->beside;
        found->path = NULL;
        found->beside = (FoundBeside){0};
    }
    model_names_free(&names);
    return status;
}
