#include "convert/target_size.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "convert/calibrate.h"
#include "convert/divergence.h"
#include "convert/gguf_write.h"
#include "convert/knapsack.h"
#include "convert/mix.h"
#include "convert/output_errors.h"
#include "convert/plan.h"
#include "convert/type_table.h"

/* From the smallest up. A type of the others' size that fits no matrix better is not among them. */
static const TensorType types[TARGET_SIZE_TYPES] = {
    TENSOR_Q2_K, TENSOR_IQ2,    TENSOR_Q3_K, TENSOR_IQ4_XS, TENSOR_Q4, TENSOR_Q4_NL,
    TENSOR_Q4_K, TENSOR_Q4_MIN, TENSOR_Q5_K, TENSOR_Q6_K,   TENSOR_Q8, TENSOR_F16};

enum { OWN = TARGET_SIZE_TYPES, OPTIONS, ROUNDS = 1 };

/* Tokens: low bits cost most far behind a text's beginning, so that short windows mislead. */
enum { WINDOW = 1024 };

/* Matrices that have one type. */
typedef struct Unit {
    char key[MODELFILE_NAME_BYTES]; /* the name without the number of an expert */
    KnapsackOption options[OPTIONS];
    TensorType option_types[OPTIONS];
    size_t numbers[OPTIONS]; /* option k is types[numbers[k]], or OWN */
    size_t n;                /* options; the last is that of the lossless conversion */
    double errors[OPTIONS];  /* of option k's outputs, relative to their squares */
    double weight;           /* divergence for an error of 1 */
    double parameters;
} Unit;

typedef struct Choice {
    size_t *of_unit; /* [n_units], an option each */
    double divergence;
} Choice;

typedef struct Search {
    Source *source;
    const ConvertOptions *options;
    bool gguf; /* only types that GGUF has blocks for */
    Unit *units;
    KnapsackUnit *items; /* [n_units], of the units' options */
    size_t n_units, n_tensors;
    size_t *unit_of; /* [n_tensors]; n_units: a vector, or a matrix that stays as it is */
    uint64_t limit;  /* of all units' bytes */
    double parameters;
    ModelFile *files[OPTIONS]; /* the source in each type; [OWN]: without loss */
    ModelFile *trial;          /* the lossless model, whose tensors are replaced */
    TextWindows windows;
    DivergenceReference reference;
    Choice now, best;
    size_t passes, all_passes;
} Search;

/* ---- The size and the files ---- */

Status target_size_parse(const char *text, TargetSize *target, Error *error) {
    char *end;
    size_t bytes;
    *target = (TargetSize){0};
    double bits = strtod(text, &end);
    if (end != text && strcmp(end, "b") == 0 && bits >= 0.0 && bits <= 64.0) {
        target->bits = bits;
        return STATUS_OK;
    }
    Status status = size_parse(text, "--target-size", &bytes, error);
    if (status != STATUS_OK) {
        error_set(error, "--target-size: '%.40s' is not a size like 40M or 4.5b (bits a weight)",
                  text);
        return status;
    }
    target->bytes = bytes ? bytes : 1;
    return STATUS_OK;
}

void target_size_close(TargetSizeFiles *files) {
    for (size_t k = 0; k < OPTIONS; k++)
        if (files->fds[k] >= 0) close(files->fds[k]);
}

/* ---- Units ---- */

/* Copies a name, "layers.3.experts.17.w_up" as "layers.3.experts.w_up". */
static void unit_key(char *key, const char *name) {
    const char *found = strstr(name, "experts.");
    snprintf(key, MODELFILE_NAME_BYTES, "%s", name);
    if (!found || (found != name && found[-1] != '.')) return;
    const char *number = found + strlen("experts.");
    size_t digits = strspn(number, "0123456789");
    if (digits > 0 && number[digits] == '.')
        snprintf(key, MODELFILE_NAME_BYTES, "%.*s%s", (int)(number - name), name,
                 number + digits + 1);
}

static bool matrix_bytes(TensorType type, const SourceTensor *t, uint64_t *bytes) {
    size_t n;
    if (!tensor_matrix_bytes(type, t->rows, t->cols, &n)) return false;
    *bytes += round_up(n, MODELFILE_ALIGNMENT);
    return true;
}

/* Adds a matrix to its unit, the last one or one that experts have begun. */
static void add_to_unit(Search *s, size_t tensor, TensorType lossless) {
    char key[MODELFILE_NAME_BYTES];
    const SourceTensor *t = &s->source->tensors[tensor];
    size_t u = s->n_units;
    unit_key(key, t->name);
    if (strcmp(key, t->name) != 0)
        for (u = 0; u < s->n_units && strcmp(s->units[u].key, key) != 0;) u++;
    Unit *unit = &s->units[u];
    if (u == s->n_units) {
        s->n_units++;
        memcpy(unit->key, key, sizeof key);
        unit->n = OPTIONS;
        for (size_t k = 0; k < OPTIONS; k++) unit->option_types[k] = k == OWN ? lossless : types[k];
    }
    s->unit_of[tensor] = u;
    unit->parameters += (double)t->rows * (double)t->cols;
    for (size_t k = 0; k < unit->n; k++)
        if (!matrix_bytes(unit->option_types[k], t, &unit->options[k].bytes) ||
            (k != OWN && s->gguf && !gguf_write_holds(unit->option_types[k], t->cols)))
            unit->options[k].bytes = UINT64_MAX / 2;
}

/* Keeps the options that take fewer bytes than the lossless one, and that one, which is the last.
 */
static void drop_useless(Unit *unit) {
    size_t n = 0;
    for (size_t k = 0; k < OPTIONS; k++) {
        if (k != OWN && unit->options[k].bytes >= unit->options[OWN].bytes) continue;
        unit->numbers[n] = k;
        unit->option_types[n] = unit->option_types[k];
        unit->options[n++] = unit->options[k];
    }
    unit->n = n;
}

/* Tensors whose data others share are one with them. */
static void add_sharers(Search *s) {
    for (size_t i = 0; i < s->n_tensors; i++) {
        const char *shares = s->source->tensors[i].shares;
        for (size_t k = 0; shares && k < i; k++)
            if (strcmp(s->source->tensors[k].name, shares) == 0) s->unit_of[i] = s->unit_of[k];
    }
}

/* Lists what gets a type of its own (units: matrices that must have the same type) with the types
 * that each can have. */
static Status list_units(Search *s, Error *error) {
    ConvertPlan lossless;
    size_t n = s->n_tensors = s->source->n_tensors;
    s->units = calloc(n + 1, sizeof *s->units);
    s->items = calloc(n + 1, sizeof *s->items);
    s->unit_of = malloc((n + 1) * sizeof *s->unit_of);
    s->now.of_unit = calloc(n + 1, sizeof(size_t));
    s->best.of_unit = calloc(n + 1, sizeof(size_t));
    if (!s->units || !s->items || !s->unit_of || !s->now.of_unit || !s->best.of_unit)
        return error_set(error, "no memory to choose types in");
    Status status = convert_plan_make(&lossless, s->source, NULL, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        const SourceTensor *t = &s->source->tensors[i];
        s->unit_of[i] = n;
        if (!t->is_vector && !t->shares && !mix_stays_float(t->name))
            add_to_unit(s, i, lossless.tensors[i].type);
    }
    convert_plan_free(&lossless);
    add_sharers(s);
    for (size_t u = 0; u < s->n_units; u++) {
        drop_useless(&s->units[u]);
        s->items[u] = (KnapsackUnit){s->units[u].options, s->units[u].n};
        s->parameters += s->units[u].parameters;
    }
    if (status == STATUS_OK && s->n_units == 0)
        status = error_set(error, "%s: has no matrices to choose types for", s->source->path);
    return status;
}

/* ---- Types as a mix, and as a table ---- */

/* The mix in which matrix i has the type of option number choice[unit] of its unit, or types[all]
 * where `choice` is NULL. malloc'ed; NULL when memory is short. */
static char *mix_of(const Search *s, const size_t *choice, size_t all) {
    char *mix = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&mix, &length);
    if (!out) return NULL;
    fputs("f32", out);
    for (size_t i = 0; i < s->n_tensors; i++) {
        const SourceTensor *t = &s->source->tensors[i];
        if (s->unit_of[i] >= s->n_units || t->shares) continue;
        const Unit *unit = &s->units[s->unit_of[i]];
        TensorType type = choice ? unit->option_types[choice[s->unit_of[i]]] : types[all];
        fprintf(out, ",%s=%s", t->name, tensor_type_info(type)->name);
    }
    bool failed = ferror(out);
    if (fclose(out) == 0 && !failed) return mix;
    free(mix);
    return NULL;
}

static double expected_divergence(const Search *s, const size_t *choice) {
    double sum = 0.0;
    for (size_t u = 0; u < s->n_units; u++) sum += s->units[u].options[choice[u]].cost;
    return sum;
}

/* Adds the choice's table to the source's metadata. Its length depends on the source alone. */
static Status add_table(Search *s, const Choice *choice, Error *error) {
    TypeTableRow *rows = calloc(s->n_tensors + 1, sizeof *rows);
    double sum = expected_divergence(s, choice->of_unit);
    uint64_t all = 0;
    for (size_t u = 0; u < s->n_units; u++) all += s->units[u].options[choice->of_unit[u]].bytes;
    for (size_t i = 0; rows && i < s->n_tensors; i++) {
        const SourceTensor *t = &s->source->tensors[i];
        rows[i].name = t->name;
        if (s->unit_of[i] >= s->n_units || t->shares) continue;
        const Unit *unit = &s->units[s->unit_of[i]];
        size_t option = choice->of_unit[s->unit_of[i]];
        rows[i].type = unit->option_types[option];
        matrix_bytes(rows[i].type, t, &rows[i].bytes);
        rows[i].share = sum > 0.0 ? unit->options[option].cost / sum * (double)t->rows *
                                        (double)t->cols / unit->parameters
                                  : 0.0;
    }
    char *text = rows ? type_table_text(rows, s->n_tensors, (double)all * 8.0 / s->parameters,
                                        choice->divergence)
                      : NULL;
    if (text) metadata_add_text(&s->source->metadata, METADATA_TYPE_TABLE, text, strlen(text));
    bool added = text && !s->source->metadata.failed;
    free(rows);
    free(text);
    return added ? STATUS_OK : error_set(error, "no memory for the table of types");
}

/* ---- The limit ---- */

/* Sets the most bytes that all units may take: the target less the file's other bytes, which are
 * the same for every choice and are found by laying out the file with the smallest options. */
static Status set_limit(Search *s, const TargetSize *target, Error *error) {
    ConvertPlan plan;
    size_t without_table = s->source->metadata.length;
    uint64_t least = knapsack_least(s->items, s->n_units);
    knapsack_solve(s->items, s->n_units, 0, s->now.of_unit);
    char *mix = mix_of(s, s->now.of_unit, 0);
    Status status = mix ? add_table(s, &s->now, error) : error_set(error, "no memory");
    if (status == STATUS_OK) {
        status = convert_plan_make(&plan, s->source, mix, error);
        uint64_t rest = status == STATUS_OK ? plan.layout.file_bytes - least : 0;
        convert_plan_free(&plan);
        double most = target->bits * s->parameters / 8.0;
        s->limit = target->bytes ? target->bytes < rest ? 0 : target->bytes - rest : (uint64_t)most;
        if (status == STATUS_OK && s->limit < least)
            status = error_set(
                error,
                "%s: no types make it so small: the smallest are %llu bytes, %.4g bits a weight",
                s->source->path, (unsigned long long)(least + rest),
                (double)least * 8.0 / s->parameters + 0.00005);
    }
    s->source->metadata.length = without_table;
    free(mix);
    return status;
}

/* ---- Measuring ---- */

static void advance(Search *s) {
    const ConvertOptions *o = s->options;
    s->passes++;
    if (o->progress) o->progress(CONVERT_CHOOSING, s->passes, s->all_passes, o->progress_context);
}

/* Puts the unit's matrices into the trial in the type of one of its options. */
static Status put_in_trial(const Search *s, size_t unit, size_t option, Error *error) {
    const ModelFile *from = s->files[s->units[unit].numbers[option]];
    Status status = STATUS_OK;
    for (size_t i = 0; i < s->n_tensors && status == STATUS_OK; i++)
        if (s->unit_of[i] == unit) status = modelfile_replace(s->trial, i, from, i, error);
    return status;
}

static Status put_all(const Search *s, const Choice *choice, Error *error) {
    Status status = STATUS_OK;
    for (size_t u = 0; u < s->n_units && status == STATUS_OK; u++)
        status = put_in_trial(s, u, choice->of_unit[u], error);
    return status;
}

static Status measure_divergence(Search *s, double *divergence, Error *error) {
    Status status = divergence_measure(&s->reference, s->trial, s->options, divergence, error);
    if (status == STATUS_OK) advance(s);
    return status;
}

/* Sums a type's errors over the matrices of each unit. */
static Status set_errors(Search *s, size_t number, const OutputError *of_tensor, Error *error) {
    for (size_t u = 0; u < s->n_units; u++) {
        Unit *unit = &s->units[u];
        OutputError sum = {0.0, 0.0}, one;
        size_t k = 0;
        while (k < unit->n && unit->numbers[k] != number) k++;
        if (k == unit->n) continue;
        for (int weights = 0; weights < 2 && !(sum.square > 0.0); weights++)
            for (size_t i = 0; i < s->n_tensors; i++) {
                if (s->unit_of[i] != u || s->source->tensors[i].shares) continue;
                one = of_tensor[i];
                if (weights && output_errors_of_weights(&one, s->files[OWN], s->files[number], i,
                                                        error) != STATUS_OK)
                    return STATUS_FAILED;
                sum.error += one.error;
                sum.square += one.square;
            }
        unit->errors[k] = sum.square > 0.0 ? sum.error / sum.square : 0.0;
    }
    return STATUS_OK;
}

/* Converts the source to one type and measures the errors of its outputs. */
static Status measure_type(Search *s, size_t number, int *fd, OutputError *errors, Error *error) {
    ConvertOptions options = *s->options;
    char *mix = mix_of(s, NULL, number);
    options.type = mix;
    options.note = NULL;
    options.progress = NULL;
    Status status =
        mix ? convert_parsed(s->source, &options, *fd, error) : error_set(error, "no memory");
    free(mix);
    if (status != STATUS_OK) return status;
    int taken = *fd;
    *fd = -1;
    status = modelfile_open(&s->files[number], s->source->path, taken, error);
    if (status == STATUS_OK)
        status = output_errors_measure(errors, s->files[OWN], s->files[number], &s->windows,
                                       s->reference.n_rows, s->options, error);
    if (status == STATUS_OK) status = set_errors(s, number, errors, error);
    if (status == STATUS_OK) advance(s);
    return status;
}

static bool is_used(const Search *s, size_t number) {
    for (size_t u = 0; u < s->n_units; u++)
        for (size_t k = 0; k < s->units[u].n; k++)
            if (s->units[u].numbers[k] == number) return true;
    return false;
}

static Status measure_types(Search *s, TargetSizeFiles *files, Error *error) {
    OutputError *errors = malloc((s->n_tensors + 1) * sizeof *errors);
    Status status = errors ? STATUS_OK : error_set(error, "no memory to choose types in");
    for (size_t k = 0; status == STATUS_OK && k < TARGET_SIZE_TYPES; k++)
        if (is_used(s, k)) status = measure_type(s, k, &files->fds[k], errors, error);
    free(errors);
    return status;
}

/* Sets the options' costs, weight times error. A unit that no token reached has no weight of its
 * own and gets the mean weight. */
static void set_costs(Search *s) {
    double sum = 0.0, n = 0.0;
    for (size_t u = 0; u < s->n_units; u++)
        if (s->units[u].weight > 0.0) sum += s->units[u].weight, n += 1.0;
    for (size_t u = 0; u < s->n_units; u++) {
        Unit *unit = &s->units[u];
        double weight = unit->weight > 0.0 ? unit->weight : n > 0.0 ? sum / n : 1.0;
        for (size_t k = 0; k < unit->n; k++) unit->options[k].cost = weight * unit->errors[k];
    }
}

/* The option, other than the lossless one, whose bits per weight are nearest to the limit's. */
static size_t typical_option(const Search *s, const Unit *unit) {
    double wanted = (double)s->limit * 8.0 / s->parameters, nearest = INFINITY;
    size_t best = 0;
    for (size_t k = 0; k < unit->n; k++) {
        double bits = (double)unit->options[k].bytes * 8.0 / unit->parameters;
        double distance = bits > wanted ? bits - wanted : wanted - bits;
        if (unit->numbers[k] == OWN || !(distance < nearest)) continue;
        nearest = distance;
        best = k;
    }
    return best;
}

/* Measures each unit's weight by a pass in which it alone has another type than the source. */
static Status weigh_alone(Search *s, Error *error) {
    for (size_t u = 0; u < s->n_units; u++) {
        Unit *unit = &s->units[u];
        size_t k = typical_option(s, unit);
        double divergence;
        if (unit->n == 1) continue;
        Status status = put_in_trial(s, u, k, error);
        if (status == STATUS_OK) status = measure_divergence(s, &divergence, error);
        if (status == STATUS_OK) status = put_in_trial(s, u, unit->n - 1, error);
        if (status != STATUS_OK) return status;
        if (unit->errors[k] > 0.0) unit->weight = divergence / unit->errors[k];
    }
    set_costs(s);
    return STATUS_OK;
}

/* Measures each unit's weight by a pass in which it alone has the source's type, and all others
 * that of the best choice, which the trial has. */
static Status weigh_in_place(Search *s, Error *error) {
    for (size_t u = 0; u < s->n_units; u++) {
        Unit *unit = &s->units[u];
        size_t k = s->best.of_unit[u];
        double without;
        if (unit->numbers[k] == OWN) continue;
        Status status = put_in_trial(s, u, unit->n - 1, error);
        if (status == STATUS_OK) status = measure_divergence(s, &without, error);
        if (status == STATUS_OK) status = put_in_trial(s, u, k, error);
        if (status != STATUS_OK) return status;
        if (unit->errors[k] > 0.0 && s->best.divergence > without)
            unit->weight = (s->best.divergence - without) / unit->errors[k];
    }
    set_costs(s);
    return STATUS_OK;
}

/* ---- The choice ---- */

static Status try_choice(Search *s, Error *error) {
    knapsack_solve(s->items, s->n_units, s->limit, s->now.of_unit);
    Status status = put_all(s, &s->now, error);
    return status == STATUS_OK ? measure_divergence(s, &s->now.divergence, error) : status;
}

static void keep_choice(Search *s) {
    s->best.divergence = s->now.divergence;
    memcpy(s->best.of_unit, s->now.of_unit, s->n_units * sizeof *s->best.of_unit);
}

/* Measures the largest type that all units can have within the limit, where there is one, and keeps
 * it if its divergence is smaller: a mix is then never worse than one type for all. */
static Status try_uniform(Search *s, Error *error) {
    bool found = false;
    for (size_t number = 0; number < TARGET_SIZE_TYPES; number++) {
        uint64_t bytes = 0;
        size_t option, u;
        for (u = 0; u < s->n_units; u++) {
            option = 0;
            while (option < s->units[u].n && s->units[u].numbers[option] != number) option++;
            if (option == s->units[u].n) break;
            bytes += s->units[u].options[option].bytes;
        }
        if (u < s->n_units || bytes > s->limit) continue;
        found = true;
        for (u = 0; u < s->n_units; u++)
            for (size_t k = 0; k < s->units[u].n; k++)
                if (s->units[u].numbers[k] == number) s->now.of_unit[u] = k;
    }
    if (!found) return STATUS_OK;
    Status status = put_all(s, &s->now, error);
    if (status == STATUS_OK) status = measure_divergence(s, &s->now.divergence, error);
    if (status == STATUS_OK && s->now.divergence < s->best.divergence) keep_choice(s);
    return status;
}

static Status choose(Search *s, Error *error) {
    Status status = weigh_alone(s, error);
    if (status == STATUS_OK) status = try_choice(s, error);
    if (status == STATUS_OK) keep_choice(s);
    if (status == STATUS_OK) status = try_uniform(s, error);
    for (size_t round = 0; status == STATUS_OK && round < ROUNDS; round++) {
        status = put_all(s, &s->best, error);
        if (status == STATUS_OK) status = weigh_in_place(s, error);
        if (status == STATUS_OK) status = try_choice(s, error);
        if (status != STATUS_OK || !(s->now.divergence < s->best.divergence)) break;
        keep_choice(s);
    }
    return status;
}

/* Converts the source without loss, and opens the result twice: once for the trials. */
static Status open_lossless(Search *s, const InputFile *text, int *fd,
                            const ConvertOptions *options, Error *error) {
    int again = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    if (again < 0) return error_set(error, "%s: %s", s->source->path, strerror(errno));
    Status status = calibrate_lossless(s->source, text, fd, options, &s->files[OWN], error);
    if (status == STATUS_OK) return modelfile_open(&s->trial, s->source->path, again, error);
    close(again);
    return status;
}

static void search_free(Search *s) {
    for (size_t k = 0; k < OPTIONS; k++) modelfile_close(s->files[k]);
    modelfile_close(s->trial);
    divergence_free(&s->reference);
    text_windows_close(&s->windows);
    free(s->units);
    free(s->items);
    free(s->unit_of);
    free(s->now.of_unit);
    free(s->best.of_unit);
}

/* Says how much there is to do. */
static void tell(const Search *s) {
    char line[200];
    snprintf(line, sizeof line,
             "choosing types: at most %zu passes over %zu of the text's %zu tokens", s->all_passes,
             s->reference.n_rows, text_windows_rows(&s->windows));
    if (s->options->note) s->options->note(line, s->options->progress_context);
}

/* Measures and searches as target_size.h says, then adds the table of the choice to the source. */
Status target_size_choose(Source *source, const TargetSize *target, bool gguf,
                          const InputFile *text, TargetSizeFiles *files,
                          const ConvertOptions *options, char **mix, Calibration **calibration,
                          Error *error) {
    ConvertOptions own = *options;
    Search s = {.source = source, .options = &own, .gguf = gguf};
    *mix = NULL;
    *calibration = NULL;
    Status status = list_units(&s, error);
    if (status == STATUS_OK) status = set_limit(&s, target, error);
    if (status == STATUS_OK) status = open_lossless(&s, text, &files->fds[OWN], options, error);
    if (status == STATUS_OK)
        status = text_windows_open(&s.windows, s.files[OWN], text, WINDOW, error);
    if (status == STATUS_OK)
        status = calibrate_windows(calibration, s.files[OWN], &s.windows, options, error);
    own.importance = calibration_importance_of;
    own.importance_context = *calibration;
    s.all_passes = TARGET_SIZE_TYPES + 2 + s.n_units + ROUNDS * (s.n_units + 1);
    if (status == STATUS_OK)
        status = divergence_reference(&s.reference, s.files[OWN], &s.windows, &own, error);
    if (status == STATUS_OK) tell(&s);
    if (status == STATUS_OK) status = measure_types(&s, files, error);
    if (status == STATUS_OK) status = choose(&s, error);
    if (status == STATUS_OK) status = add_table(&s, &s.best, error);
    if (status == STATUS_OK) {
        *mix = mix_of(&s, s.best.of_unit, 0);
        if (!*mix) status = error_set(error, "no memory");
    }
    search_free(&s);
    return status;
}
