#include "modes/open/modelopen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/proof/proof_options.h"
#include "modes/open/conversion_options.h"
#include "modes/open/advice.h"
#include "convert/convert.h"
#include "convert/plan.h"
#include "convert/mix.h"
#include "modes/open/model_names.h"
#include "convert/source_digest.h"
#include "convert/type_choice.h"
#include "formats/family/given_family.h"
#include "families/reading/source_open.h"
#include "formats/tokenizers/tokenizer_file.h"
#include "system/terminal.h"

/* ---- Opening ----------------------------------------------------------------------------------
 */

static Status open_modelfile(ModelOpening *opening, const char *tokenizer, Error *error) {
    opening->fd = open(opening->path, O_RDONLY | O_CLOEXEC);
    if (opening->fd < 0) return error_set(error, "%s: %s", opening->path, strerror(errno));
    return tokenizer ? input_open(&opening->tokenizer, tokenizer, error) : STATUS_OK;
}

/* --type auto: chooses for the open source. */
static Status choose_type(ModelOpening *opening, const Options *options, Error *error) {
    const ConversionOptions *conversion = conversion_options(options);
    TypeWish wish = {.context = (uint32_t)options->context, .kv_type = options->kv_type};
    TypeChoice choice;
    Status status = type_wish_open(&wish, conversion->type, error);
    if (status == STATUS_OK)
        status = type_choose_apart(opening->source, &wish, options->no_sandbox, &choice, error);
    type_wish_close(&wish);
    if (status != STATUS_OK) return status;
    type_choice_say(opening->path, &wish, &choice);
    memcpy(opening->chosen, choice.type, sizeof opening->chosen);
    opening->type = choice.type[0] ? opening->chosen : NULL;
    return STATUS_OK;
}

Status modelopen_begin(ModelOpening *opening, const char *path, const char *tokenizer,
                       const Options *options, const volatile sig_atomic_t *interrupted,
                       Error *error) {
    const ProofOptions *proof = proof_options(options);
    const ConversionOptions *conversion = conversion_options(options);
    /* Modes that do not read the weights, and those that do not read the configuration either. */
    static const char *const describing[] = {"info",       "layers", "tokenize",
                                             "detokenize", "render", NULL},
                             *const tokenizing[] = {"tokenize", "detokenize", NULL};
    SourceKind kind;
    *opening = MODELOPEN_NONE;
    const bool is_own = path == options->model; /* not --against's */
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        char line[300];
        FoundBeside beside;
        if (model_names_resolve_all(path, &opening->found, &beside, error) != STATUS_OK)
            return STATUS_FAILED;
        if (is_own) ollama_defaults_open(&opening->defaults, &beside, options);
        model_names_say_others(beside.others, line, sizeof line);
        model_names_free_beside(&beside);
        if (line[0]) terminal_say("%s", line);
        if (opening->found && isatty(STDERR_FILENO)) terminal_say("%s: %s", path, opening->found);
        if (opening->found) path = opening->found;
    }
    opening->path = path;
    const bool chooses = type_choice_asked(conversion->type);
    if (is_own && conversion->type && !chooses && mix_check(conversion->type, error) != STATUS_OK) {
        error_prefix(error, "--type");
        return STATUS_USAGE;
    }
    opening->type = chooses ? NULL : conversion->type; /* of others: as they are */
    opening->digests = is_own && (proof->receipt || proof->replay);
    opening->split_pattern = is_own ? conversion->split_pattern : NULL;
    if (source_detect(path, &kind, error) != STATUS_OK)
        return is_own ? advice_add(path, options->prompt || options->prompt_file, error)
                      : STATUS_FAILED;
    opening->describes = options_ask_any(options, describing);
    opening->needs_tokenizer =
        is_own && !options_ask(options, "info") && !options_ask(options, "verify");
    if (kind != SOURCE_MODELFILE || (conversion->type && is_own)) {
        if (source_open(&opening->source, path, tokenizer, error) != STATUS_OK)
            return STATUS_FAILED;
        opening->source->split_pattern = opening->split_pattern;
        if (is_own && given_family_open(opening->source, conversion->family, error) != STATUS_OK)
            return STATUS_FAILED;
        if (is_own && chooses) {
            Status status = choose_type(opening, options, error);
            if (status != STATUS_OK) return status;
        }
        opening->source->only_vocabulary = options_ask_any(options, tokenizing);
        if (kind == SOURCE_MODELFILE && !opening->type) {
            source_close(opening->source);
            opening->source = NULL;
            return open_modelfile(opening, tokenizer, error);
        }
        if (opening->describes)
            return conversion_cache_find(&opening->conversion, opening->source, opening->type,
                                         conversion->cache_dir, error);
        const ConversionPlace place = {conversion->cache_dir, conversion->cache_limit,
                                       .for_receipt = opening->digests};
        return conversion_cache_open(&opening->conversion, opening->source, opening->type, &place,
                                     interrupted, error);
    }
    if (is_own && conversion->family)
        return error_set(error, "%s: --family is for directories of Hugging Face and GGUF files",
                         path);
    return open_modelfile(opening, tokenizer, error);
}

Status modelopen_blame(const ModelOpening *opening, Error *error) {
    if (!opening->kept) return STATUS_FAILED;
    size_t n = strlen(opening->path);
    bool named = strncmp(error->text, opening->path, n) == 0 && error->text[n] == ':';
    Error what = *error;
    return error_set(error,
                     "%s: its conversion %s cannot be used:%s%s (delete it, or all by "
                     "--cache-clear, and it is made again)",
                     opening->path, opening->kept, named ? "" : " ",
                     what.text + (named ? n + 1 : 0));
}

void modelopen_close(ModelOpening *opening) {
    free(opening->kept);
    free(opening->found);
    ollama_defaults_close(&opening->defaults);
    json_decref(opening->sources);
    tokenizer_blob_free(&opening->section);
    conversion_cache_close(&opening->conversion);
    source_close(opening->source);
    if (opening->tokenizer.fd >= 0) input_close(&opening->tokenizer);
    if (opening->fd >= 0) close(opening->fd);
    *opening = MODELOPEN_NONE;
}

/* ---- Converting and mapping ---------------------------------------------------------------------
 */

static void convert_progress(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    (void)step;
    session_progress(context, "converting", done, total);
}

/* Prints a line about a type that was converted with loss. */
static void convert_note(const char *line, void *context) {
    session_progress(context, "converting", 0, 0);
    terminal_say("%s", line);
}

/* Finds room for the conversion, and says where it goes and how large it will be. */
static Status reserve(ModelOpening *opening, Error *error) {
    ConvertPlan plan;
    Error ignored; /* the conversion finds it again */
    Status status = STATUS_OK;
    if (convert_plan_make(&plan, opening->source, opening->type, &ignored) == STATUS_OK) {
        status = conversion_cache_reserve(&opening->conversion, plan.layout.file_bytes, error);
        if (status == STATUS_OK && opening->source->n_files > 0)
            terminal_say("converting %s: %.1f MiB, %s", opening->path,
                         (double)plan.layout.file_bytes / 1048576.0,
                         opening->conversion.path ? opening->conversion.path : "not kept");
    }
    convert_plan_free(&plan);
    return status;
}

/* Converts the source into its file, which the cache of conversions then completes. Refuses a
 * source without weights, or without a tokenizer where one is needed. */
static Status convert_weights(ModelOpening *opening, const Session *session, int n_threads,
                              Error *error) {
    ConvertOptions options = {.type = opening->type,
                              .n_threads = n_threads,
                              .progress = convert_progress,
                              .progress_context = (void *)(uintptr_t)session,
                              .note = convert_note,
                              .cancel = session->interrupted};
    if (opening->source->n_tensors == 0)
        return error_set(error,
                         "%s: holds a vocabulary but no weights: it can tokenize, not generate",
                         opening->path);
    if (opening->source->tokenizer.size == 0 && opening->needs_tokenizer)
        return error_set(error, "%s: has no tokenizer: give one with -z FILE", opening->path);
    Status status = reserve(opening, error);
    if (status != STATUS_OK) return status;
    options.target = opening->conversion.path;
    options.synced = opening->conversion.partial != NULL;
    status = convert_parsed(opening->source, &options, opening->conversion.fd, error);
    session_progress(session, "converting", 0, 0);
    return status == STATUS_OK ? conversion_cache_finish(&opening->conversion, error) : status;
}

/* Fills the conversion that was begun, or takes the one that was found. *fd is then the model.bin.
 */
static Status convert(ModelOpening *opening, const Session *session, int n_threads, int *fd,
                      Error *error) {
    ConversionSlot *slot = &opening->conversion;
    Status status = STATUS_OK;
    if (!slot->found) {
        status = source_parse(opening->source, error);
        if (status != STATUS_OK) return status;
        status = opening->describes
                     ? convert_description(opening->source, opening->type, slot->fd, error)
                     : convert_weights(opening, session, n_threads, error);
        for (size_t i = 0; opening->describes && i < opening->source->n_notes; i++)
            terminal_say("%s", opening->source->notes[i]);
    }
    if (status == STATUS_OK) {
        *fd = slot->fd;
        slot->fd = -1;
    }
    return status;
}

Status modelopen_finish(ModelOpening *opening, const Session *session, int n_threads,
                        ModelFile **file, Error *error) {
    int fd = opening->fd;
    opening->fd = -1; /* modelfile_open takes it over */
    if (opening->source) {
        Status status = STATUS_OK;
        if (opening->digests)
            status = source_digest(opening->source, opening->type, n_threads, session->interrupted,
                                   &opening->sources, error);
        if (status == STATUS_OK) status = convert(opening, session, n_threads, &fd, error);
        /* The digests are of these bytes, and so must the weights be. */
        if (status == STATUS_OK && opening->digests)
            status = source_check_unchanged(opening->source, error);
        if (opening->conversion.found) {
            opening->kept = opening->conversion.path;
            opening->conversion.path = NULL;
        }
        conversion_cache_close(&opening->conversion); /* others may go on */
        source_close(opening->source);
        opening->source = NULL;
        if (status != STATUS_OK && fd >= 0) close(fd);
        if (status != STATUS_OK) return status;
    }
    Status status = modelfile_open(file, opening->path, fd, error);
    return status == STATUS_FAILED ? modelopen_blame(opening, error) : status;
}

Status modelopen_tokenizer(ModelOpening *opening, const ModelFile *file, Tokenizer **tokenizer,
                           Error *error) {
    size_t bytes, vocab_size = modelfile_config(file)->vocab_size;
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &bytes);
    const char *path = opening->path;
    if (opening->tokenizer.fd >= 0) {
        path = opening->tokenizer.path;
        if (tokenizer_from_file(&opening->tokenizer, opening->split_pattern, vocab_size,
                                &opening->section, error) != STATUS_OK)
            return STATUS_FAILED;
        section = opening->section.bytes;
        bytes = opening->section.size;
    }
    *tokenizer = NULL;
    if (!section) return STATUS_OK;
    return tokenizer_open_for(tokenizer, path, section, bytes, vocab_size, error);
}
