#include "modes/open/advice.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modes/open/model_names.h"

static bool ends_in(const char *path, const char *suffix) {
    size_t length = strlen(path), n = strlen(suffix);
    return length > n && strcasecmp(path + length - n, suffix) == 0;
}

/* What follows the host in an address of huggingface.co, "ORG/NAME...", or NULL. */
static const char *in_hub(const char *path) {
    static const char *const hosts[] = {"https://huggingface.co/",
                                        "http://huggingface.co/",
                                        "huggingface.co/",
                                        "https://hf.co/",
                                        "hf.co/",
                                        "hf://"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strncasecmp(path, hosts[i], strlen(hosts[i])) == 0) return path + strlen(hosts[i]);
    return NULL;
}

/* The script that fetches models, as it is called where this program is. */
static const char *getter(void) {
    return strcmp(program_invocation_short_name, "verbatim") == 0 ? "verbatim-get" : "./get";
}

/* The name of a model of --list that is near; freed by the caller, NULL: none. Names of --list have
 * no ending. */
static char *near_name(const char *path) {
    static const char *const endings[] = {".gguf", ".bin"};
    char *near = model_names_near(path);
    for (size_t i = 0; !near && i < sizeof endings / sizeof *endings; i++) {
        if (!ends_in(path, endings[i]) || strchr(path, '/')) continue;
        char *stem = strndup(path, strlen(path) - strlen(endings[i]));
        near = stem ? model_names_near(stem) : NULL;
        free(stem);
    }
    return near;
}

/* Advice for an address: the commands that fetch the repository, or one file of it. */
static Status address(const char *path, const char *rest, Error *error) {
    const char *name = strchr(rest, '/');
    size_t n = name ? strcspn(name + 1, "/:?#") : 0;
    if (n == 0) return error_set(error, "%s: an address without a model in it", path);
    int length = (int)(name + 1 - rest) + (int)n;
    const char *file = strstr(rest, ".gguf") ? strrchr(rest, '/') + 1 : NULL;
    const char *part = !file && rest[length] == ':' ? rest + length + 1 : NULL;
    const char *choice = file ? file : part ? part : "";
    return error_set(
        error, "nothing is downloaded here: %s %.*s%s%.*s fetches it, and prints how to run it",
        getter(), length, rest, choice[0] ? ":" : "", (int)strcspn(choice, "?#"), choice);
}

/* Whether the text is a name as ollama gives them, "llama3.2:1b", and not that of a file. */
static bool is_model_name(const char *path) {
    static const char *const endings[] = {".gguf",  ".bin",  ".safetensors", ".json",
                                          ".jsonl", ".txt",  ".pt",          ".pth",
                                          ".ckpt",  ".onnx", ".csv",         ".tsv"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_in(path, endings[i])) return false;
    for (const char *c = path; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".:-_", *c)) return false;
    return isalnum((unsigned char)path[0]);
}

/* Advice for a name that no file has: it is a prompt, or a model that was not downloaded. */
static Status not_there(const char *path, bool has_prompt, Error *error) {
    if (in_hub(path)) return address(path, in_hub(path), error);
    char *near = near_name(path);
    if (near) {
        error_set(error, "no file is called '%s'; did you mean the model %s?", path, near);
        free(near);
        return STATUS_FAILED;
    }
    if (is_model_name(path)) {
        bool may_be_prompt = !has_prompt && !strpbrk(path, ".:_0123456789");
        return error_set(
            error,
            "no file is called %s, and no model that --list finds. Nothing is downloaded "
            "here: ollama pull %s, or %s ORG/NAME%s%s",
            path, path, getter(), may_be_prompt ? "; a prompt goes after -i: -i " : "",
            may_be_prompt ? path : "");
    }
    const char *slash = strchr(path, '/');
    if (has_prompt && !slash && !strchr(path, '.'))
        return error_set(error, "no file is called '%s', and no model that --list finds", path);
    const char *quote = strchr(path, '\'') ? "\"" : "'";
    if (strchr(path, ' ') || (!slash && !strchr(path, '.') && !strchr(path, '\\')))
        return error_set(error, "no file is called %s%s%s; a prompt goes after -i: %s -i %s%.80s%s",
                         quote, path, quote, program_invocation_short_name, quote, path, quote);
    if (slash && slash != path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' &&
        !ends_in(path, ".gguf") && !ends_in(path, ".bin"))
        return error_set(
            error,
            "%s: no such directory, and no model that --list finds. Nothing is downloaded "
            "here: %s %s fetches it; then: %s %s",
            path, getter(), path, program_invocation_short_name, path);
    return STATUS_FAILED;
}

/* Advice for a directory without config.json: it holds files that are models themselves. */
static Status directory(const char *path, Error *error) {
    char adapter[4096];
    int written = snprintf(adapter, sizeof adapter, "%s/adapter_config.json", path);
    if (written > 0 && (size_t)written < sizeof adapter && access(adapter, F_OK) == 0)
        return error_set(
            error, "%s: a LoRA adapter, which stands beside its model: %s MODEL --lora NAME=%s",
            path, program_invocation_short_name, path);
    DIR *dir = opendir(path);
    struct dirent *entry;
    char largest[256] = "";
    off_t bytes = -1;
    while (dir && (entry = readdir(dir))) {
        struct stat info;
        if ((!ends_in(entry->d_name, ".gguf") && !ends_in(entry->d_name, ".bin")) ||
            fstatat(dirfd(dir), entry->d_name, &info, 0) != 0 || info.st_size < bytes)
            continue;
        /* Among files of equal size take the first by name, whatever the directory's order. */
        if (info.st_size == bytes && strcmp(entry->d_name, largest) > 0) continue;
        bytes = info.st_size;
        snprintf(largest, sizeof largest, "%s", entry->d_name);
    }
    if (dir) closedir(dir);
    if (bytes < 0) return STATUS_FAILED;
    size_t length = strlen(path);
    return error_set(error, "%s: a directory without config.json; name a file in it, like %s%s%s",
                     path, path, path[length - 1] == '/' ? "" : "/", largest);
}

Status advice_add(const char *path, bool has_prompt, Error *error) {
    struct stat info;
    if (path[0] == '\0') return error_set(error, "the model's name is empty");
    if (stat(path, &info) != 0) {
        if (errno != ENOENT) return STATUS_FAILED;
        return not_there(path, has_prompt, error);
    }
    if (S_ISDIR(info.st_mode)) return directory(path, error);
    if (ends_in(path, ".onnx"))
        return error_set(error,
                         "%s: an ONNX graph, which is not read; give the Hugging Face directory "
                         "(config.json, *.safetensors) that it was made from, or a .gguf of it",
                         path);
    if (ends_in(path, ".pth") || ends_in(path, ".pt") || ends_in(path, ".ckpt") ||
        ends_in(path, "pytorch_model.bin"))
        return error_set(error,
                         "%s: a PyTorch pickle, which can run code and is not read; in Python, "
                         "model.save_pretrained(\"DIR\") writes safetensors: then give DIR",
                         path);
    if (ends_in(path, ".json") || ends_in(path, ".safetensors"))
        return error_set(error,
                         "%s: one file of a model; give the directory that holds config.json and "
                         "the *.safetensors",
                         path);
    if (ends_in(path, ".csv") || ends_in(path, ".tsv"))
        return error_set(error,
                         "%s: a table, not a model; its rows are prompts with --batch %s -i "
                         "'Summarize: {text}', the name of a column in braces",
                         path, path);
    const char *slash = strrchr(path, '/');
    if (strncasecmp(slash ? slash + 1 : path, "modelfile", 9) == 0)
        return error_set(error,
                         "%s: a recipe of ollama, which is not read: run the model of its FROM, "
                         "with SYSTEM after -y, temperature after -t, num_ctx after -c",
                         path);
    bool is_text = ends_in(path, ".txt") || ends_in(path, ".md");
    if (ends_in(path, ".jsonl") || is_text)
        return error_set(error, "%s: a text, not a model; %s goes after %s", path,
                         is_text ? "a prompt" : "a file of requests", is_text ? "-f" : "--batch");
    return STATUS_FAILED;
}
