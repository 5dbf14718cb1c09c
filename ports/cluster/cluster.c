#include "ports/cluster/cluster.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "modes/proof/proof_options.h"
#include "modes/inspect/inspect_options.h"
#include "modes/open/conversion_options.h"
#include "base/clock.h"
#include "ports/cluster/rank.h"
#include "adapters/lora.h"
#include "session/adapters.h"
#include "system/standard_streams.h"
#include "system/terminal.h"

struct Cluster {
    Wire *wire;
    Rank *rank;
    bool over;  /* the other ranks have left, or leave by themselves */
    bool stats; /* --stats: cluster_leave says what was exchanged since `began` */
    WireTraffic before;
    double began;
    char about[300]; /* how the model is divided, for people */
};

/* ---- Joining ---- */

Status cluster_join(Cluster **out, int *argc, char ***argv, bool *follows, Error *error) {
    Wire *wire = NULL;
    *out = NULL;
    *follows = true;
    if (!getenv("PMI_FD"))
        standard_streams_only(*argv); /* with which some MPIs are told of ranks */
    Status status = wire_open(&wire, argc, argv, error);
    if (status != STATUS_OK) return status;
    if (wire_ranks(wire) == 1) {
        wire_close(wire);
        return STATUS_OK;
    }
    Cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster) wire_fail(wire, "no memory for a cluster");
    /* cppcheck-suppress nullPointerRedundantCheck; wire_fail does not return */
    cluster->wire = wire;
    if (rank_new(&cluster->rank, wire, error) != STATUS_OK) wire_fail(wire, "%s", error->text);
    if (wire_rank(wire) > 0 && steps_follower_wait(wire, follows, error) != STATUS_OK)
        wire_fail(wire, "%s", error->text);
    cluster->over = !*follows;
    *out = cluster;
    return STATUS_OK;
}

bool cluster_leads(const Cluster *cluster) {
    return !cluster || wire_rank(cluster->wire) == 0;
}

static void print_stats(const Cluster *cluster) {
    const WireTraffic all = wire_traffic(cluster->wire), *before = &cluster->before;
    double passes = (double)leader_passes(rank_leader(cluster->rank));
    double seconds = all.seconds - before->seconds, whole = clock_seconds() - cluster->began;
    if (passes == 0.0 || whole <= 0.0) return;
    terminal_print(stderr,
                   "ranks:   %zu; %.0f passes; each waited for %.1f exchanges of %.3f MB together, "
                   "%.2f ms (%.0f%% of the time)\n",
                   wire_ranks(cluster->wire), passes, (all.exchanges - before->exchanges) / passes,
                   (all.bytes - before->bytes) / passes * 1e-6, seconds / passes * 1e3,
                   100.0 * seconds / whole);
}

void cluster_leave(Cluster *cluster, const Error *error) {
    if (!cluster) return;
    if (cluster->stats) print_stats(cluster);
    if (!cluster_leads(cluster) && !cluster->over) wire_fail(cluster->wire, "%s", error->text);
    if (cluster_leads(cluster) && !cluster->over) leader_say(rank_leader(cluster->rank), false);
    rank_free(cluster->rank);
    wire_close(cluster->wire);
    free(cluster);
}

/* ---- A rank that follows ---- */

static Status run_follower(void *state, Session *session, Error *error) {
    Cluster *cluster = session->cluster;
    (void)state;
    const Following following = {.model = session->model,
                                 .lora = session->adapters ? session->adapters->lora : NULL,
                                 .observed = rank_observed(cluster->rank),
                                 .begun = rank_begun(cluster->rank)};
    Status status = steps_follower_run(cluster->wire, &following, error);
    cluster->over = status == STATUS_OK; /* else cluster_leave ends all */
    return status;
}

static const Mode follower_mode = {
    .name = "a rank of a cluster",
    .traits = MODE_WITHOUT_TOKENIZER | MODE_WITHOUT_HEAD | MODE_OWN_OUTPUT,
    .run = run_follower,
};

Status cluster_adapt(Cluster *cluster, Options *o, const Mode **mode, Error *error) {
    ProofOptions *proof = proof_options_to_set(o);
    InspectOptions *inspect = inspect_options_to_set(o);
    const ConversionOptions *conversion = conversion_options(o);
    if (!cluster) return STATUS_OK;
    if (wire_is_tied(cluster->wire) && !o->no_sandbox)
        return error_set(error, "this MPI keeps a connection to mpirun open, by which a hostile "
                                "model file could start programs: Open MPI 4.1 does not, and "
                                "--no-sandbox runs files that you trust");
    if (conversion->type && strncmp(conversion->type, "auto", 4) == 0)
        return error_set(error, "--type auto looks at one machine's memory, but all ranks need the "
                                "same type: name one, as --type q8");
    if (o->lora.n > 0) rank_send_floats(cluster->rank);
    if (cluster_leads(cluster)) return STATUS_OK;
    *mode = &follower_mode;
    o->mode = TEXT_GENERATE;
    o->prompt = "";
    o->prompt_file = inspect->eval = o->chat_template = o->output = NULL;
    inspect->tokenize = inspect->detokenize = inspect->render = false;
    o->json_schema = o->regex = o->grammar = NULL;
    o->json_object = false;
    o->choice.n = 0;
    o->draft = "none";
    o->draft_model = NULL;
    proof->receipt = proof->replay = NULL;
    return STATUS_OK;
}

Exchange *cluster_exchange(Cluster *cluster) {
    return cluster ? rank_exchange(cluster->rank) : NULL;
}

/* ---- Beginning together ---- */

/* What each rank says of itself when its model is open. */
typedef struct Facts {
    int32_t status;
    uint32_t context, max_rows;
    char version[20];
    uint64_t model;  /* checksum of the file */
    uint64_t config; /* of what the options made of its Config */
    uint64_t adapters;
    char error[sizeof((Error *)0)->text];
    char name[256]; /* of the rank */
} Facts;

static Facts own_facts(const Cluster *cluster, const Session *session, Status status,
                       const Error *error) {
    Facts facts = {.status = status};
    const char *changed = session->overridden ? session->overridden : "";
    snprintf(facts.version, sizeof facts.version, "%s", VERBATIM_VERSION);
    snprintf(facts.name, sizeof facts.name, "%s", wire_name(cluster->wire));
    if (status != STATUS_OK) {
        memcpy(facts.error, error->text, sizeof facts.error);
        return facts;
    }
    facts.model = modelfile_checksum(session->file);
    facts.config = XXH3_64bits(changed, strlen(changed));
    facts.adapters = adapters_mix(session->adapters, 0);
    facts.context = model_context(session->model);
    facts.max_rows = model_max_rows(session->model);
    return facts;
}

/* What rank 0 and another rank differ in; NULL: nothing. */
static const char *difference(const Facts *a, const Facts *b) {
    if (memcmp(a->version, b->version, sizeof a->version) != 0) return "another version";
    if (a->model != b->model) return "another model";
    if (a->config != b->config) return "other values of --override";
    if (a->adapters != b->adapters) return "other adapters (--lora)";
    if (a->context != b->context) return "another context (-c)";
    if (a->max_rows != b->max_rows) return "another --chunk";
    return NULL;
}

static Status cluster_compare(const Facts *all, size_t ranks, Error *error) {
    for (size_t r = 0; r < ranks; r++) {
        const char *other = NULL;
        if (all[r].status == STATUS_OK) other = difference(&all[0], &all[r]);
        if (all[r].status != STATUS_OK)
            return error_set(error, "%.250s: %.700s", all[r].name, all[r].error);
        if (other) return error_set(error, "%.250s has %s than rank 0", all[r].name, other);
    }
    return STATUS_OK;
}

/* A rank that follows ends when rank 0 says so, which a signal to all of them reaches as well. */
static void leave_signals_to_rank_0(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_IGN);
}

static void describe(Cluster *cluster) {
    const Divided *d = rank_divided(cluster->rank);
    int n = snprintf(cluster->about, sizeof cluster->about, "%zu; ", wire_ranks(cluster->wire));
    if (d->attention == d->n_layers && d->ffn == d->n_layers)
        snprintf(cluster->about + n, sizeof cluster->about - (size_t)n, "all layers are divided%s",
                 d->latents == 0 ? ", with their cache"
                                 : "; each rank has the cache of all latents");
    else
        snprintf(cluster->about + n, sizeof cluster->about - (size_t)n,
                 "of %zu layers, %zu have divided heads and cache, %zu divided feed-forwards; each "
                 "rank has the rest whole",
                 d->n_layers, d->attention, d->ffn);
}

Status cluster_begin(Cluster *cluster, Session *session, Status status, Error *error) {
    if (!cluster) return status;
    if (cluster_leads(cluster)) {
        if (status != STATUS_OK || !session->model) return status;
        leader_say(rank_leader(cluster->rank), true);
        if (session->adapters) leader_set_lora(rank_leader(cluster->rank), session->adapters->lora);
    } else {
        leave_signals_to_rank_0();
    }
    size_t ranks = wire_ranks(cluster->wire);
    const Facts own = own_facts(cluster, session, status, error);
    Facts *all = calloc(ranks, sizeof *all);
    if (!all) wire_fail(cluster->wire, "no memory to compare ranks");
    wire_gather_bytes(cluster->wire, &own, sizeof own, all);
    status = cluster_compare(all, ranks, error);
    if (status != STATUS_OK) cluster->over = true; /* all leave */
    free(all);
    cluster->stats = cluster_leads(cluster) && status == STATUS_OK && session->options->stats;
    cluster->before = wire_traffic(cluster->wire);
    cluster->began = clock_seconds();
    describe(cluster);
    session->ranks = cluster->about;
    return status;
}
