#include "session/drafting.h"

#include <string.h>

#include "kvcache/kvcache_sizes.h"
#include "core/config_fields.h"
#include "draft/forced.h"
#include "draft/lookup.h"
#include "system/terminal.h"

static const char *const drafting_names[DRAFT_KINDS] = {[DRAFT_SHAPE] = "shape",
                                                        [DRAFT_LOOKUP] = "lookup",
                                                        [DRAFT_BY_MODEL] = "model",
                                                        [DRAFT_MTP] = "mtp"};

/* First guesses of the shares of right drafts; each text and all texts replace them. */
static const double RIGHT_SHARES[DRAFT_KINDS] = {
    [DRAFT_SHAPE] = 0.95, [DRAFT_LOOKUP] = 0.6, [DRAFT_BY_MODEL] = 0.7, [DRAFT_MTP] = 0.7};
static const double RECORDED_RIGHT_SHARE = 0.97;
enum { MOST_TEXTS = 16 }; /* of a batch for which prediction layers draft at once */

/* Reads a list of names: the kinds' bits, or 0 and where the first unknown name begins. */
static unsigned drafting_parse(const char *list, const char **wrong) {
    unsigned kinds = 0;
    while (true) {
        size_t length = strcspn(list, ","), k = 0;
        while (k < DRAFT_KINDS && (strlen(drafting_names[k]) != length ||
                                   memcmp(drafting_names[k], list, length) != 0))
            k++;
        *wrong = list;
        if (k == DRAFT_KINDS) return 0;
        kinds |= 1u << k;
        if (list[length] == '\0') return kinds;
        list += length + 1;
    }
}

static bool is_word(const char *text, const char *word) {
    return !text || strcmp(text, word) == 0;
}

Status drafting_check(const Options *o, Error *error) {
    char names[128] = "";
    const char *wrong;
    if (is_word(o->draft, "auto") || is_word(o->draft, "none")) return STATUS_OK;
    unsigned kinds = drafting_parse(o->draft, &wrong);
    if (kinds & 1u << DRAFT_BY_MODEL && !o->draft_model) {
        error_set(error, "--draft model needs --draft-model MODEL");
        return STATUS_USAGE;
    }
    if (kinds != 0) return STATUS_OK;
    for (size_t k = 0; k < DRAFT_KINDS; k++) {
        strcat(names, k == 0 ? "" : ", ");
        strcat(names, drafting_names[k]);
    }
    error_set(error, "--draft: '%.*s' proposes nothing: auto, none, or a list of %s",
              (int)strcspn(wrong, ","), wrong, names);
    return STATUS_USAGE;
}

/* A first guess of the time in which prediction layers propose a token, as a share of the time that
 * a token of the model takes. */
static double layers_step(const Config *c) {
    return (config_work(c, 1, 0) / c->n_layers + config_work(c, 0, 1)) / config_work(c, 1, 1);
}

Status drafting_open(Drafting *d, const Session *session, DraftModel *model, const ModelFile *file,
                     Error *error) {
    const Options *o = session->options;
    const char *ignored;
    size_t usual = lookup_default(session->file);
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    bool automatic = is_word(o->draft, "auto"), given = options_given(o, &o->lookup);
    *d = (Drafting){.model = model,
                    .model_file = file,
                    .costs.row_share = lookup_rows_are_cheap(session->file) ? DRAFT_ROW_GUESS
                                                                            : DRAFT_ROW_GUESS_ALONE,
                    .costs.runs_again = kvcache_has_states(&shape)};
    for (size_t k = 0; k < DRAFT_KINDS; k++)
        d->records[k] = draft_record(drafting_names[k], RIGHT_SHARES[k]);
    d->recorded = draft_record("recorded", RECORDED_RIGHT_SHARE);
    d->recorded.most_balance = DRAFT_RECORDED_BALANCE;
    d->recorded.balance = DRAFT_GRANT;
    d->records[DRAFT_SHAPE].balance = DRAFT_GRANT;
    if (model)
        d->records[DRAFT_BY_MODEL].step_guess =
            (double)modelfile_bytes(file) / (double)modelfile_bytes(session->file);
    if (!automatic && strcmp(o->draft, "none") != 0) d->kinds = drafting_parse(o->draft, &ignored);
    d->lookup = given ? (size_t)o->lookup : usual > 0 ? usual : LOOKUP_DRAFTS;
    if (automatic && (given || usual > 0)) d->kinds |= 1u << DRAFT_LOOKUP;
    if (automatic) d->kinds |= 1u << DRAFT_SHAPE;
    if (automatic && model) d->kinds |= 1u << DRAFT_BY_MODEL;
    if (!model) d->kinds &= ~(1u << DRAFT_BY_MODEL);
    if (d->lookup == 0) d->kinds &= ~(1u << DRAFT_LOOKUP);
    bool has_layers = modelfile_config(session->file)->mtp.n_layers > 0;
    bool wants_layers = automatic ? has_layers : d->kinds & 1u << DRAFT_MTP;
    d->kinds &= ~(1u << DRAFT_MTP);
    if (wants_layers && has_layers) d->kinds |= 1u << DRAFT_MTP;
    if (has_layers) d->records[DRAFT_MTP].step_guess = layers_step(modelfile_config(session->file));
    if (wants_layers && !has_layers)
        return error_set(error, "--draft mtp: %s has no prediction layers",
                         modelfile_path(session->file));
    if (!wants_layers) return STATUS_OK;
    return mtp_drafts_open(&d->mtp, session->file, session->model, session->kv_type,
                           o->batch ? MOST_TEXTS : 1, error);
}

void drafting_close(Drafting *d) {
    mtp_drafts_close(d->mtp);
    d->mtp = NULL;
}

/* Before the first text: warms up what may draft, but no model that could not pay
 * (drafter_set.h). */
static void warm_up(Drafting *d) {
    double cost = d->costs.row_share + d->records[DRAFT_BY_MODEL].step_guess;
    if (d->warm) return;
    d->warm = true;
    if (d->kinds & 1u << DRAFT_BY_MODEL && cost < DRAFT_BEST_SHARE) draft_model_warm_up(d->model);
    if (d->mtp) mtp_drafts_warm_up(d->mtp);
}

/* Adds the drafter of one kind, which is NULL where memory is short. */
static Status drafting_add(Drafting *d, Drafter *set, DraftKind kind, Drafter *member,
                           Error *error) {
    if (!member) return error_set(error, "no memory for drafts");
    drafter_set_add(set, member, &d->records[kind]);
    return STATUS_OK;
}

Status drafting_new(const Session *session, const GenerationOptions *options, Drafter **drafter,
                    Error *error) {
    Drafting *d = session->drafting;
    *drafter = NULL;
    if (!d) return STATUS_OK;
    TokenRule *rule = options->rule;
    unsigned kinds = d->kinds;
    if (!rule || !rule->forced) kinds &= ~(1u << DRAFT_SHAPE);
    if (kinds == 0) return STATUS_OK;
    Drafter *set = drafter_set_new(&d->costs);
    if (!set) return error_set(error, "no memory for drafts");
    Status status = STATUS_OK;
    warm_up(d);
    drafter_set_hold(set, rule);
    if (kinds & 1u << DRAFT_SHAPE)
        status = drafting_add(d, set, DRAFT_SHAPE, forced_new(rule), error);
    if (status == STATUS_OK && kinds & 1u << DRAFT_LOOKUP)
        status = drafting_add(d, set, DRAFT_LOOKUP, lookup_new(d->lookup), error);
    if (status == STATUS_OK && kinds & 1u << DRAFT_BY_MODEL)
        status = drafting_add(d, set, DRAFT_BY_MODEL,
                              draft_model_drafter(d->model, &options->sampling), error);
    if (status == STATUS_OK && kinds & 1u << DRAFT_MTP)
        status = drafting_add(d, set, DRAFT_MTP, mtp_drafter(d->mtp, &options->sampling), error);
    if (status == STATUS_OK) {
        *drafter = set;
    } else {
        drafter_free(set);
    }
    return status;
}

Status drafting_recorded(const Session *session, Drafter *recorded, Drafter **drafter,
                         Error *error) {
    Drafting *d = session->drafting;
    *drafter = recorded && d ? drafter_set_new(&d->costs) : recorded;
    if (!*drafter) {
        drafter_free(recorded);
        return error_set(error, "no memory for a record");
    }
    if (!d) return STATUS_OK;
    drafter_set_add(*drafter, recorded, &d->recorded);
    d->recorded.balance += DRAFT_GRANT;
    return STATUS_OK;
}

void drafting_print(FILE *out, const Drafting *d) {
    for (size_t k = 0; d && k <= DRAFT_KINDS; k++) {
        const DraftRecord *r = k < DRAFT_KINDS ? &d->records[k] : &d->recorded;
        if (r->seconds == 0.0) continue; /* it was never asked */
        terminal_print(out, "drafts:  %s: %zu tokens proposed, %zu right, %.3f s gained\n", r->name,
                       r->drafted, r->right,
                       r->gained > -0.0005 && r->gained <= 0.0 ? 0.0 : r->gained);
    }
}
