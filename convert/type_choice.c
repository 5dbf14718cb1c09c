#include "convert/type_choice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "kvcache/kvcache_sizes.h"
#include "convert/convert.h"
#include "families/reading/source_open.h"
#include "model.h"
#include "system/descriptor.h"
#include "system/helper_process.h"
#include "base/machine.h"
#include "system/sandbox.h"
#include "system/terminal.h"

/* From the best down. */
static const char *const types[] = {"", "f16", "q8", "q6", "q5", "q4m", "q4"};
enum { N_TYPES = sizeof types / sizeof *types };

static const char *said(const char *type) {
    return type[0] ? type : "its own type";
}

bool type_choice_asked(const char *type) {
    return type && strncmp(type, "auto", 4) == 0 && (type[4] == '\0' || type[4] == ':');
}

Status type_wish_open(TypeWish *wish, const char *type, Error *error) {
    size_t size;
    wish->scratch = -1;
    if (type[4] == ':') {
        Status status = size_parse(type + 5, "--type auto:SIZE", &size, error);
        if (status != STATUS_OK) return status;
        wish->free = (double)size;
    } else {
        wish->free = machine_free_memory();
    }
    wish->scratch = memfd_create("descriptions", MFD_CLOEXEC);
    return wish->scratch < 0 ? error_set(error, "no file in memory: %s", strerror(errno))
                             : STATUS_OK;
}

void type_wish_close(TypeWish *wish) {
    if (wish->scratch >= 0) close(wish->scratch);
    wish->scratch = -1;
}

/* ---- What a type takes ---- */

/* Opens what a conversion to `type` would be, without its weights. */
static Status open_description(const Source *source, const char *type, int scratch,
                               ModelFile **file, Error *error) {
    int fd = ftruncate(scratch, 0) == 0 ? fcntl(scratch, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0) return error_set(error, "no file in memory: %s", strerror(errno));
    if (convert_description(source, type[0] ? type : NULL, fd, error) == STATUS_OK)
        return modelfile_open(file, source->path, fd, error);
    close(fd);
    return STATUS_FAILED;
}

/* Also gives the longest context that fits, for the refusal. */
static Status measure_memory(const Source *source, const char *type, const TypeWish *wish,
                             TypeNeed *need, size_t *longest, Error *error) {
    const ModelOptions options = {.n_threads = 1, .context = wish->context};
    ModelFile *file = NULL;
    Model *model = NULL;
    Status status = open_description(source, type, wish->scratch, &file, error);
    if (status == STATUS_OK) status = model_open(&model, file, &options, error);
    if (status == STATUS_OK) {
        static const KvType asked[] = {[KV_CHOICE_F32] = KV_F32,
                                       [KV_CHOICE_F16] = KV_F16,
                                       [KV_CHOICE_BF16] = KV_BF16,
                                       [KV_CHOICE_Q8] = KV_Q8};
        const KvShape shape = model_kv_shape(
            model, wish->kv_type == KV_CHOICE_AUTO ? model_kv_type(model) : asked[wish->kv_type]);
        uint32_t context = model_context(model);
        if (!wish->context && context > TYPE_CHOICE_CONTEXT) context = TYPE_CHOICE_CONTEXT;
        *need = (TypeNeed){.weights = (double)modelfile_bytes(file),
                           .cache = (double)kvcache_sequence_bytes(&shape, context),
                           .context = context};
        *longest = need->weights < wish->free
                       ? kvcache_longest(&shape, context, wish->free - need->weights)
                       : 0;
    }
    model_close(model);
    modelfile_close(file);
    return status;
}

/* Says that no type fits the free memory, and what would. */
static Status refuse(const Source *source, const TypeWish *wish, const TypeChoice *least,
                     size_t longest, Error *error) {
    char room[32], weights[32], cache[32], would[64];
    size_text(wish->free, room, sizeof room);
    size_text(least->need.weights, weights, sizeof weights);
    size_text(least->need.cache, cache, sizeof cache);
    if (longest == 0)
        snprintf(would, sizeof would, "no context is short enough");
    else if (least->type[0])
        snprintf(would, sizeof would, "--type %s -c %zu would fit", least->type, longest);
    else
        snprintf(would, sizeof would, "-c %zu would fit", longest);
    return error_set(
        error,
        "%s: no type fits %s of free memory: %s, the smallest, takes %s, and the cache "
        "of %u positions %s; %s",
        source->path, room, said(least->type), weights, least->need.context, cache, would);
}

/* Tries the types from the best down, and takes the first that fits with its cache. */
Status type_choose(const Source *source, const TypeWish *wish, TypeChoice *choice, Error *error) {
    TypeChoice least = {.is_best = true};
    size_t longest = 0;
    if (source->n_tensors == 0)
        return error_set(error,
                         "%s: holds a vocabulary but no weights: --type auto has none to "
                         "choose for",
                         source->path);
    for (size_t i = 0; i < N_TYPES; i++) {
        TypeNeed need;
        size_t most;
        if (measure_memory(source, types[i], wish, &need, &most, error) != STATUS_OK)
            return STATUS_FAILED;
        /* A type that takes as much is not worth trying. */
        if (i > 0 && need.weights >= least.need.weights) continue;
        TypeChoice next = {.need = need, .better = least.need, .is_best = i == 0};
        snprintf(next.type, sizeof next.type, "%s", types[i]);
        snprintf(next.better_type, sizeof next.better_type, "%s", least.type);
        least = next;
        longest = most;
        if (need.weights + need.cache > wish->free) continue;
        *choice = least;
        return STATUS_OK;
    }
    return refuse(source, wish, &least, longest, error);
}

/* ---- In a process of its own ---- */

typedef struct Answer {
    int32_t status;
    TypeChoice choice;
    Error error;
} Answer;

static void choose_here(Source *source, const TypeWish *wish, bool trusts, Answer *answer) {
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    Status status = trusts ? STATUS_OK : sandbox_enter(&rules, &report, &answer->error);
    if (status == STATUS_OK) status = source_parse(source, &answer->error);
    if (status == STATUS_OK) status = type_choose(source, wish, &answer->choice, &answer->error);
    answer->status = status;
}

/* Nothing that the other process says is trusted: it has parsed a stranger's file. */
static bool is_sane(Answer *answer) {
    TypeChoice *c = &answer->choice;
    bool known = false;
    answer->error.text[sizeof answer->error.text - 1] = '\0';
    c->type[sizeof c->type - 1] = c->better_type[sizeof c->better_type - 1] = '\0';
    for (size_t i = 0; i < N_TYPES; i++) known |= strcmp(c->type, types[i]) == 0;
    return known && (answer->status == STATUS_OK || answer->status == STATUS_FAILED);
}

/* Lets another process choose, which parses the source. */
Status type_choose_apart(Source *source, const TypeWish *wish, bool trusts, TypeChoice *choice,
                         Error *error) {
    static const Answer nothing;
    Answer answer = nothing;
    HelperProcess helper;
    if (helper_process_start(&helper, "chooses a type", error) != STATUS_OK)
        return error_prefix(error, "--type auto");
    if (helper.process == 0) {
        choose_here(source, wish, trusts, &answer);
        descriptor_write(helper.to, (const char *)&answer, sizeof answer);
        _exit(0);
    }
    bool answered = helper_process_read(&helper, &answer, sizeof answer, -1) && is_sane(&answer);
    helper_process_end(&helper, !answered);
    if (!answered) return error_set(error, "%s: its files could not be looked at", source->path);
    *choice = answer.choice;
    return answer.status == STATUS_OK ? STATUS_OK : error_set(error, "%s", answer.error.text);
}

void type_choice_say(const char *path, const TypeWish *wish, const TypeChoice *choice) {
    char room[32], weights[32], cache[32], better[32];
    size_text(wish->free, room, sizeof room);
    size_text(choice->need.weights, weights, sizeof weights);
    size_text(choice->need.cache, cache, sizeof cache);
    size_text(choice->better.weights, better, sizeof better);
    if (choice->is_best)
        terminal_say("%s: --type auto takes it as it is: %s, and %s for the cache of %u positions, "
                     "fit %s of free memory",
                     path, weights, cache, choice->need.context, room);
    else
        terminal_say("%s: --type auto takes %s: %s, and %s for the cache of %u positions, fit %s "
                     "of free memory; %s would take %s",
                     path, choice->type, weights, cache, choice->need.context, room,
                     said(choice->better_type), better);
}
