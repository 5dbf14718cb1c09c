#include "formats/family/given_family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/family/families.h"
#include "formats/family/family_page.h"
#include "formats/family/multimodal.h"
#include "formats/family/own_model.h"
#include "base/sha256.h"

Status given_family_open(Source *source, const char *path, Error *error) {
    if (!path) return STATUS_OK;
    if (source->kind != SOURCE_HUGGINGFACE && source->kind != SOURCE_GGUF)
        return error_set(error, "%s: --family is for directories of Hugging Face and GGUF files",
                         source->path);
    return input_open(&source->family_file, path, error);
}

/* Refuses a page that names what the program knows. */
static Status check_names(const Family *family, const char *path, Error *error) {
    const char *name;
    for (size_t i = 0; (name = family_name(i)); i++)
        if (strcmp(name, family->model_type) == 0)
            return error_set(error, "%s: the program has a family '%s': give yours another name",
                             path, name);
    for (size_t i = 0; (name = multimodal_type(i)); i++)
        if (strcmp(name, family->model_type) == 0)
            return error_set(error, "%s: the program knows '%s': give yours another name", path,
                             name);
    for (const GgufFamily *g = family->gguf; g && g->architecture; g++)
        if (family_gguf_of(g->architecture, family->model_type))
            return error_set(error, "%s: the program knows GGUF files of '%s'", path,
                             g->architecture);
    return STATUS_OK;
}

/* Keeps with the source that its family is a page of the user's. */
static void add_origin(Source *source, const InputFile *file) {
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];
    Sha256 hash;
    const char *slash = strrchr(file->path, '/');
    const char *name = family_page_family(source->family)->model_type;
    sha256_init(&hash);
    sha256_add(&hash, file->map, file->bytes);
    sha256_end(&hash, digest);
    sha256_hex(digest, hex);
    snprintf(source->family_note, sizeof source->family_note,
             "family %s (%.64s): not compared with a reference", name,
             slash ? slash + 1 : file->path);
    metadata_add_text(&source->metadata, "source.family", source->family_note,
                      strlen(source->family_note));
    metadata_add_text(&source->metadata, "source.family_sha256", hex, strlen(hex));
    source_add_note(source, source->family_note);
}

static Status read_file(Source *source, const InputFile *file, const Family **family,
                        Error *error) {
    if (!source->family) {
        const char *page = (const char *)file->map;
        size_t mark = utf8_mark_length(page, file->bytes);
        if (family_page_read(&source->family, file->path, page + mark, file->bytes - mark, error) !=
            STATUS_OK)
            return STATUS_FAILED;
        if (check_names(family_page_family(source->family), file->path, error) != STATUS_OK)
            return STATUS_FAILED;
        add_origin(source, file);
    }
    *family = family_page_family(source->family);
    return STATUS_OK;
}

Status given_family_read(Source *source, const Family **family, Error *error) {
    *family = NULL;
    return source->family_file.path ? read_file(source, &source->family_file, family, error)
                                    : STATUS_OK;
}

Status given_family_of_directory(Source *source, const Family **family, Error *error) {
    const InputFile *file = source_file(source, GIVEN_FAMILY_FILE);
    *family = NULL;
    return file ? read_file(source, file, family, error) : STATUS_OK;
}
