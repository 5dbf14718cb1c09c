/* A is the model asked about (`own`), B the one of --against (`other`). An item is one question to
 * both: the next token at a place, or a choice. Its answer is *changed* where B's differs from A's.
 * Half of the changed items are *searched*: the tensors are sought whose exchange *wins* them back,
 * which is to say that B with A's tensors gives A's answer again. The *gap* of an item is how far
 * A's answer is ahead of B's, in nats.
 *
 * From top to bottom: which tensors differ, running B with some of A's (a trial), the lists that
 * are printed, and explain, which takes these steps in turn. */
#include "modes/inspect/why.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "modes/inspect/ddmin.h"
#include "modes/inspect/inspect.h"
#include "modes/inspect/residuals.h"

enum {
    SHOWN = 20,           /* changed answers and single tensors that are printed */
    MOST_KEPT = 256 << 20 /* bytes of a run's residual streams */
};
static const double NEAR_TIE = 0.1; /* nats */

/* A tensor of B that differs from A's in data or type. It stands also for other tensors that share
 * its data in both models (tied embeddings). */
typedef struct Difference {
    size_t own, other; /* its numbers in A's and in B's directory */
    size_t layer;      /* the first that reads it */
    double more;       /* bytes that A's tensor takes beyond B's */
    size_t won;        /* searched answers that A's tensor alone wins back */
    double gap;        /* as mean_gap has it, with A's tensor alone */
} Difference;

/* A run of B, with some tensors of A, whose residual stream is kept for trials. */
typedef struct KeptRun {
    Residuals *residuals;
    bool *with; /* [n_differences] whether it had A's tensor */
} KeptRun;

typedef struct Why {
    const Session *session;
    const ModelFile *own;
    ModelFile *other;
    const WhyItems *items;
    Difference *differences; /* [n_differences] */
    size_t n_differences, n_changed, n_searched, n_trials;
    size_t *own_answers, *other_answers, *answers; /* [items] of A, of B, of the latest run */
    bool *changed;                                 /* [items] */
    bool *searched;                                /* [items] changed, and not held out */
    double (*logprobs)[2];                         /* [items] of the latest run */
    double own_gap, other_gap;                     /* mean_gap of A and of B */
    bool *in_trial;                /* [n_differences] whether B has A's tensor now */
    KeptRun of_other, of_set;      /* of B, and of the smallest set that has won all back so far */
    size_t layers_run, layers_all; /* of all runs of B: computed, and all that they have */
} Why;

/* ---- Tensors ---- */

static bool is_same(const ModelFile *a, const FileTensor *x, const ModelFile *b,
                    const FileTensor *y) {
    return x->type == y->type && x->bytes == y->bytes &&
           memcmp(modelfile_data(a, x), modelfile_data(b, y), (size_t)x->bytes) == 0;
}

static const void *data_of(const ModelFile *file, const FileTensor *tensor) {
    return tensor ? modelfile_data(file, tensor) : NULL;
}

/* Whether tensors i and k of B share their data, and A's of these names do so, too. Where only one
 * of the models is tied, its tensors are exchanged one by one. */
static bool is_tied(const Why *w, size_t i, size_t k) {
    const FileTensor *all = modelfile_tensor(w->other, 0);
    return modelfile_data(w->other, all + i) == modelfile_data(w->other, all + k) &&
           data_of(w->own, modelfile_find(w->own, all[i].name)) ==
               data_of(w->own, modelfile_find(w->own, all[k].name));
}

/* The first layer that reads a tensor of this name. */
static size_t layer_of(const Why *w, const char *name) {
    static const char *const last[] = {"final_norm", "final_norm.bias", "output", "output.bias"};
    size_t layer;
    if (sscanf(name, "layers.%zu.", &layer) == 1) return layer;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        if (strcmp(name, last[i]) == 0) return modelfile_config(w->other)->n_layers;
    return 0;
}

/* The first layer that reads B's tensor i or one of those that it stands for. */
static size_t first_layer(const Why *w, size_t i) {
    size_t first = SIZE_MAX;
    for (size_t k = i; k < modelfile_n_tensors(w->other); k++) {
        size_t layer = layer_of(w, modelfile_tensor(w->other, k)->name);
        if (layer < first && is_tied(w, k, i)) first = layer;
    }
    return first;
}

/* Whether an earlier tensor of B stands for this one. */
static bool is_shared(const Why *w, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (is_tied(w, i, k)) return true;
    return false;
}

/* Fills in w->differences: the tensors of B that differ from A's tensors of the same names, tied
 * tensors once. Fails where A lacks one. */
static Status list_differences(Why *w, Error *error) {
    size_t n = modelfile_n_tensors(w->other);
    w->differences = calloc(n + 1, sizeof *w->differences);
    if (!w->differences) return error_set(error, "no memory for a list of tensors");
    for (size_t i = 0; i < n; i++) {
        const FileTensor *t = modelfile_tensor(w->other, i), *own = modelfile_find(w->own, t->name);
        if (!own)
            return error_set(error,
                             "%s: has no tensor '%s', which %s has: --why compares models of "
                             "one shape",
                             modelfile_path(w->own), t->name, modelfile_path(w->other));
        if (is_shared(w, i) || is_same(w->own, own, w->other, t)) continue;
        w->differences[w->n_differences++] =
            (Difference){.own = (size_t)(own - modelfile_tensor(w->own, 0)),
                         .other = i,
                         .layer = first_layer(w, i),
                         .more = (double)own->bytes - (double)t->bytes};
    }
    return STATUS_OK;
}

/* ---- Trials ---- */

/* Puts A's tensor in place of B's, and of all that it stands for: last of its own, whose data the
 * others are compared with. */
static Status put_tensor(Why *w, const Difference *d, Error *error) {
    for (size_t i = modelfile_n_tensors(w->other); i-- > d->other;) {
        if (!is_tied(w, i, d->other)) continue;
        Status status = modelfile_replace(w->other, i, w->own, d->own, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* The first layer that differs between B as it is now and a kept run. */
static size_t first_change(const Why *w, const KeptRun *kept) {
    size_t first = modelfile_config(w->other)->n_layers;
    for (size_t i = 0; i < w->n_differences; i++)
        if (w->in_trial[i] != kept->with[i] && w->differences[i].layer < first)
            first = w->differences[i].layer;
    return first;
}

/* Asks B as it is now. Where the searched items are asked for, it begins at the first layer that
 * differs from a kept run; `keeps`, unless it is NULL, keeps this run instead of its own. */
static Status ask_other(Why *w, WhyAsked asked, KeptRun *keeps, Error *error) {
    size_t n_layers = modelfile_config(w->other)->n_layers;
    KeptRun *from = keeps ? keeps : &w->of_other;
    if (!keeps && first_change(w, &w->of_set) > first_change(w, from)) from = &w->of_set;
    if (asked.wanted == w->searched)
        asked.observer = residuals_begin(from->residuals, first_change(w, from), keeps != NULL);
    Status status = w->items->answer(w->items->context, w->other, &asked, w->answers, error);
    w->layers_all += n_layers;
    w->layers_run += n_layers - (asked.observer ? residuals_first(from->residuals) : 0);
    if (keeps) memcpy(keeps->with, w->in_trial, w->n_differences * sizeof *keeps->with);
    if (status != STATUS_OK || !asked.observer || residuals_matched(from->residuals)) return status;
    asked.observer = NULL;
    return w->items->answer(w->items->context, w->other, &asked, w->answers, error);
}

/* Asks B with A's tensors of these differences; `keeps` as in ask_other. */
static Status ask_with(Why *w, const size_t *things, size_t n, WhyAsked asked, KeptRun *keeps,
                       Error *error) {
    Status status = STATUS_OK;
    modelfile_restore(w->other);
    memset(w->in_trial, 0, w->n_differences * sizeof *w->in_trial);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        w->in_trial[things[i]] = true;
        status = put_tensor(w, &w->differences[things[i]], error);
    }
    if (status == STATUS_OK) status = ask_other(w, asked, keeps, error);
    return *w->session->interrupted ? STATUS_INTERRUPTED : status;
}

/* A trial: asks B with A's tensors of these differences, and shows the progress. */
static Status why_try(Why *w, const size_t *things, size_t n, WhyAsked asked, Error *error) {
    Status status = ask_with(w, things, n, asked, NULL, error);
    w->n_trials++;
    session_progress(w->session, "trials", w->n_trials, w->n_trials + 1);
    return status;
}

/* How many searched items the latest run answered as A does. */
static size_t count_won(const Why *w) {
    size_t n = 0;
    for (size_t i = 0; i < w->items->n; i++)
        n += w->searched[i] && w->answers[i] == w->own_answers[i];
    return n;
}

/* ddmin's question: whether A's tensors of these differences win all searched answers back. The
 * trial may end at the first that it does not win. A set that wins all is run once more to its end,
 * and its residual stream is kept for the trials of smaller sets. */
static Status wins_all(void *context, const size_t *things, size_t n, bool *passes, Error *error) {
    Why *w = context;
    const WhyAsked searched = {.wanted = w->searched};
    *passes = false;
    if (n == 1 && w->differences[things[0]].won < w->n_searched) return STATUS_OK; /* was tried */
    Status status =
        why_try(w, things, n, (WhyAsked){.wanted = w->searched, .expected = w->own_answers}, error);
    *passes = status == STATUS_OK && count_won(w) == w->n_searched;
    return *passes ? ask_with(w, things, n, searched, &w->of_set, error) : status;
}

/* The question that asks the searched items for the log-probabilities of A's and of B's answer. */
static WhyAsked weighing(const Why *w) {
    return (WhyAsked){.wanted = w->searched,
                      .own = w->own_answers,
                      .other = w->other_answers,
                      .logprobs = w->logprobs};
}

/* The mean, over the searched items, of how far A's answer is ahead of B's, in nats: of the latest
 * run, which has weighed them. */
static double mean_gap(const Why *w) {
    double sum = 0.0;
    for (size_t i = 0; i < w->items->n; i++)
        if (w->searched[i]) sum += w->logprobs[i][0] - w->logprobs[i][1];
    return sum / (double)w->n_searched;
}

/* Tries each difference alone: how many answers A's tensor wins back, and the mean gap with it. The
 * gaps of A and of B, between which these lie, are measured first. */
static Status try_singles(Why *w, Error *error) {
    const WhyAsked asked = weighing(w);
    Status status = w->items->answer(w->items->context, w->own, &asked, w->answers, error);
    w->own_gap = mean_gap(w);
    if (status == STATUS_OK) status = ask_with(w, NULL, 0, asked, &w->of_other, error);
    w->other_gap = mean_gap(w);
    for (size_t i = 0; i < w->n_differences && status == STATUS_OK; i++) {
        status = why_try(w, &i, 1, asked, error);
        w->differences[i].won = count_won(w);
        w->differences[i].gap = mean_gap(w);
    }
    return status;
}

/* ---- The report ---- */

static const char *name_of(const Why *w, size_t i) {
    return modelfile_tensor(w->other, w->differences[i].other)->name;
}

static bool is_near_tie(double logprobs[2][2]) {
    return fabs(logprobs[0][0] - logprobs[0][1]) < NEAR_TIE &&
           fabs(logprobs[1][0] - logprobs[1][1]) < NEAR_TIE;
}

/* Prints the first SHOWN items whose answers differ, with the log-probabilities of both answers in
 * both models, and how many of all are near ties. */
static Status print_changed(Why *w, Error *error) {
    const WhyItems *items = w->items;
    double(*logprobs)[2][2] = calloc(items->n + 1, sizeof *logprobs);
    WhyAsked asked = weighing(w);
    Status status = logprobs ? STATUS_OK : error_set(error, "no memory for probabilities");
    asked.wanted = w->changed;
    for (size_t m = 0; m < 2 && status == STATUS_OK; m++) {
        status = items->answer(items->context, m ? w->other : w->own, &asked, w->answers, error);
        for (size_t i = 0; i < items->n && status == STATUS_OK; i++)
            if (w->changed[i]) memcpy(logprobs[i][m], w->logprobs[i], sizeof w->logprobs[i]);
    }
    size_t shown = 0;
    for (size_t i = 0; i < items->n && status == STATUS_OK && shown < SHOWN; i++) {
        char place[120], own[120], other[120];
        if (w->own_answers[i] == w->other_answers[i]) continue;
        const double(*l)[2] = (const double(*)[2])logprobs[i];
        items->name(items->context, i, w->own_answers[i], place, own, sizeof own);
        items->name(items->context, i, w->other_answers[i], place, other, sizeof other);
        status = inspect_print(w->session, error,
                               "  %s: %s (log p %.4f, there %.4f), there %s (%.4f, here %.4f); gap "
                               "here %.4f, there %.4f\n",
                               place, own, l[0][0], l[1][0], other, l[1][1], l[0][1],
                               l[0][0] - l[0][1], l[1][1] - l[1][0]);
        shown++;
    }
    if (status == STATUS_OK && w->n_changed > shown)
        status = inspect_print(w->session, error, "  and %zu more\n", w->n_changed - shown);
    size_t ties = 0;
    for (size_t i = 0; status == STATUS_OK && i < items->n; i++)
        ties += w->own_answers[i] != w->other_answers[i] && is_near_tie(logprobs[i]);
    if (status == STATUS_OK && ties > 0)
        status =
            inspect_print(w->session, error,
                          "near ties           %zu of them: both candidates within %.1f of each "
                          "other here and there; any small change turns such an answer\n",
                          ties, NEAR_TIE);
    free(logprobs);
    return status;
}

/* Answers won per byte; INFINITY for a tensor that takes no more bytes. */
static double won_per_byte(const Difference *d) {
    if (d->won == 0) return 0.0;
    return d->more > 0.0 ? (double)d->won / d->more : INFINITY;
}

/* Whether `a` comes before `b` in the list: more answers per byte, then more answers, which decides
 * among tensors that take no more bytes (all of them, where both models have the same types). */
static bool comes_before(const Difference *a, const Difference *b) {
    double x = won_per_byte(a), y = won_per_byte(b);
    return x > y || (!(x < y) && a->won > b->won);
}

/* Says so when MODEL is the smaller one: who asks what quantization changed wants the two the other
 * way round, and a report takes minutes. */
static Status print_order(Why *w, Error *error) {
    double more = 0.0;
    for (size_t i = 0; i < w->n_differences; i++) more += w->differences[i].more;
    if (more >= 0.0) return STATUS_OK;
    return inspect_print(w->session, error,
                         "order               tensors of the smaller model are put into the "
                         "larger one; with --against the smaller one, the larger one's win its "
                         "answers back\n");
}

/* Prints the tensors that alone win answers back, best first. */
static Status print_singles(Why *w, Error *error) {
    bool *done = calloc(w->n_differences + 1, sizeof *done);
    Status status = done ? inspect_print(w->session, error,
                                         "alone               answers of %zu that one tensor wins "
                                         "back, by answers a MiB\n",
                                         w->n_searched)
                         : error_set(error, "no memory for a list of tensors");
    for (size_t k = 0; k < SHOWN && status == STATUS_OK; k++) {
        size_t best = w->n_differences;
        for (size_t i = 0; i < w->n_differences; i++)
            if (!done[i] && w->differences[i].won > 0 &&
                (best == w->n_differences ||
                 comes_before(&w->differences[i], &w->differences[best])))
                best = i;
        if (best == w->n_differences) break;
        const Difference *d = &w->differences[best];
        done[best] = true;
        double more = d->more / 0x1p20;
        if (more > 0.0)
            status = inspect_print(w->session, error, "  %-24s %6zu, %8.3f MiB more, %.4g a MiB\n",
                                   name_of(w, best), d->won, more, (double)d->won / more);
        else
            status = inspect_print(w->session, error, "  %-24s %6zu, %8.3f MiB less\n",
                                   name_of(w, best), d->won, -more);
    }
    free(done);
    return status;
}

/* What A's tensors of the set give back of the answers that were not searched with. */
static Status print_held_out(Why *w, Error *error) {
    size_t held = 0, won = 0, others = 0, lost = 0;
    for (size_t i = 0; i < w->items->n; i++) {
        bool changed = w->own_answers[i] != w->other_answers[i];
        bool right = w->answers[i] == w->own_answers[i];
        held += changed && !w->searched[i];
        won += changed && !w->searched[i] && right;
        others += !changed;
        lost += !changed && !right;
    }
    return inspect_print(w->session, error,
                         "held out            %zu of %zu changed answers won back; of %zu that had "
                         "not changed %zu now do\n",
                         won, held, others, lost);
}

/* Prints the set that wins all back, as the options --keep that would convert B so. */
static Status print_set(Why *w, const size_t *set, size_t n, Error *error) {
    double more = 0.0;
    char size[32];
    for (size_t i = 0; i < n; i++) more += w->differences[set[i]].more;
    Status status = inspect_print(
        w->session, error,
        "together            %zu tensors, %s more, win back all %zu; none can be left out, but "
        "other sets may do as well\n",
        n, size_text(more > 0.0 ? more : 0.0, size, sizeof size), w->n_searched);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const FileTensor *own = modelfile_tensor(w->own, w->differences[set[i]].own);
        if (own->type != TENSOR_VECTOR)
            status = inspect_print(w->session, error, "  --keep %s=%s\n", name_of(w, set[i]),
                                   tensor_type_info(own->type)->name);
        else
            status = inspect_print(w->session, error, "  (the vector %s)\n", name_of(w, set[i]));
    }
    return status;
}

/* Prints the tensors that alone move the answers furthest towards A's, won back or not: a damaged
 * tensor shows here even where another small difference decides a near tie. */
static Status print_moves(Why *w, Error *error) {
    enum { MOVES = 3 };
    double all = w->own_gap - w->other_gap, last = INFINITY;
    Status status = STATUS_OK;
    for (size_t k = 0; k < MOVES && all > 0.0 && status == STATUS_OK; k++) {
        size_t best = w->n_differences;
        for (size_t i = 0; i < w->n_differences; i++) {
            double gap = w->differences[i].gap;
            if (gap > w->other_gap && gap < last &&
                (best == w->n_differences || gap > w->differences[best].gap))
                best = i;
        }
        if (best == w->n_differences) break;
        last = w->differences[best].gap;
        if (k == 0)
            status = inspect_print(w->session, error,
                                   "moves most          how much of the gap between both answers "
                                   "one tensor closes, on the average\n");
        if (status == STATUS_OK)
            status = inspect_print(w->session, error, "  %-24s %6.1f%%\n", name_of(w, best),
                                   100.0 * (last - w->other_gap) / all);
    }
    return status;
}

/* Searches with ddmin for a smallest set of A's tensors that wins back all searched answers, prints
 * it and asks for the held-out items. If all tensors together do not suffice, it prints only
 * that. */
static Status search_set(Why *w, Error *error) {
    size_t n = w->n_differences, *set = malloc((n + 1) * sizeof *set);
    if (!set) return error_set(error, "no memory to search in");
    for (size_t i = 0; i < n; i++) set[i] = i;
    w->n_trials++;
    Status status = ask_with(w, set, n, (WhyAsked){.wanted = w->searched}, &w->of_set, error);
    if (status == STATUS_OK && count_won(w) < w->n_searched) {
        status = inspect_print(w->session, error,
                               "together            all tensors win back %zu of %zu: the models "
                               "differ in more than tensors\n",
                               count_won(w), w->n_searched);
    } else if (status == STATUS_OK) {
        status = ddmin(set, &n, wins_all, w, error);
        if (status == STATUS_OK) status = print_set(w, set, n, error);
        if (status == STATUS_OK && w->items->n > 1)
            status = why_try(w, set, n, (WhyAsked){0}, error);
        if (status == STATUS_OK && w->items->n > 1) status = print_held_out(w, error);
    }
    free(set);
    return status;
}

/* Counts what changed, and holds every second change out where there are more than three. */
static void choose_searched(Why *w) {
    size_t seen = 0;
    for (size_t i = 0; i < w->items->n; i++) {
        w->changed[i] = w->own_answers[i] != w->other_answers[i];
        w->n_changed += w->changed[i];
    }
    for (size_t i = 0; i < w->items->n; i++) {
        if (!w->changed[i]) continue;
        w->searched[i] = w->n_changed < 4 || seen % 2 == 0;
        w->n_searched += w->searched[i];
        seen++;
    }
}

static bool kept_run_new(KeptRun *kept, const Why *w) {
    kept->residuals = residuals_new(modelfile_config(w->other), MOST_KEPT);
    kept->with = calloc(w->n_differences + 1, sizeof *kept->with);
    return kept->residuals && kept->with;
}

static void kept_run_free(KeptRun *kept) {
    residuals_free(kept->residuals);
    free(kept->with);
}

/* Allocates what trials need once the differences are counted. */
static Status prepare_trials(Why *w, Error *error) {
    w->in_trial = calloc(w->n_differences + 1, sizeof *w->in_trial);
    bool has_memory = w->in_trial && kept_run_new(&w->of_other, w) && kept_run_new(&w->of_set, w);
    return has_memory ? STATUS_OK : error_set(error, "no memory for trials");
}

/* Runs the steps of --why: lists the tensors that differ, asks both models, tries each tensor
 * alone, then searches for a set. Ends after the answers if none has changed. */
static Status explain(Why *w, Error *error) {
    const WhyItems *items = w->items;
    const WhyAsked all = {0};
    Status status = list_differences(w, error);
    if (status == STATUS_OK) status = prepare_trials(w, error);
    if (status == STATUS_OK)
        status = items->answer(items->context, w->own, &all, w->own_answers, error);
    if (status == STATUS_OK)
        status = items->answer(items->context, w->other, &all, w->other_answers, error);
    if (status != STATUS_OK) return status;
    choose_searched(w);
    status = inspect_print(w->session, error,
                           "changed             %zu of %zu answers; %zu tensors differ\n",
                           w->n_changed, items->n, w->n_differences);
    if (status == STATUS_OK && w->n_changed > 0) status = print_order(w, error);
    if (status == STATUS_OK && w->n_changed > 0) status = print_changed(w, error);
    if (status != STATUS_OK || w->n_changed == 0) return status;
    status = try_singles(w, error);
    if (status == STATUS_OK) status = print_singles(w, error);
    if (status == STATUS_OK) status = print_moves(w, error);
    if (status == STATUS_OK) status = search_set(w, error);
    if (status == STATUS_OK)
        status = inspect_print(w->session, error,
                               "trials              %zu passes over the %zu items searched with, "
                               "which compute %.0f%% of their layers\n",
                               w->n_trials, w->n_searched,
                               100.0 * (double)w->layers_run / (double)w->layers_all);
    return status;
}

Status why_run(const Session *session, ModelFile *other, const WhyItems *items, Error *error) {
    Why w = {.session = session, .own = session->file, .other = other, .items = items};
    size_t n = items->n + 1;
    w.own_answers = malloc(n * sizeof(size_t));
    w.other_answers = malloc(n * sizeof(size_t));
    w.answers = malloc(n * sizeof(size_t));
    w.logprobs = malloc(n * sizeof *w.logprobs);
    w.changed = calloc(n, sizeof *w.changed);
    w.searched = calloc(n, sizeof *w.searched);
    Status status =
        w.own_answers && w.other_answers && w.answers && w.changed && w.searched && w.logprobs
            ? explain(&w, error)
            : error_set(error, "no memory for the answers");
    modelfile_restore(other);
    session_progress(session, "trials", 0, 0);
    free(w.differences);
    free(w.own_answers);
    free(w.other_answers);
    free(w.answers);
    free(w.changed);
    free(w.searched);
    free(w.in_trial);
    kept_run_free(&w.of_other);
    kept_run_free(&w.of_set);
    free(w.logprobs);
    return status;
}
