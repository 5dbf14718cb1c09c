#include "modes/batch/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/call_mode.h"
#include "base/clock.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvcache_snapshots.h"
#include "core/prefill.h"
#include "layers/model_watch.h"

/* RETAINED sequences outlive their tasks, for the prefixes they hold. At least EXTRA_ROWS of a step
 * may have their logits computed beside each task's last row: rows that are seen, and drafts.
 * Unless the options say otherwise, tasks draft while all their rows together are at most
 * CHEAP_ROWS, which take little longer than one. A task waits for another one to compute their
 * common prefix if that has SHORTEST_PREFIX tokens or, where it costs a snapshot, a page: fewer
 * are computed sooner than waited for. */
enum { DEFAULT_TASKS = 64, RETAINED = 8, EXTRA_ROWS = 32, CHEAP_ROWS = 16, SHORTEST_PREFIX = 16 };

/* Tokens of a finished task whose pages may still serve. */
typedef struct Retained {
    int32_t *tokens;
    size_t n;
    int32_t sequence;
    uint64_t adapters;
    size_t last_use;
    size_t keep; /* of the task; 0: it may be dropped for another */
} Retained;

/* A row whose logits are computed. */
typedef struct LogitsRow {
    EngineTask *task;
    size_t position;
} LogitsRow;

struct Engine {
    Model *model;
    KvCache *cache;
    Lora *lora;
    size_t max_tasks;
    size_t extra_rows, draft_rows;
    bool forgets;         /* kvcache_forgets */
    size_t next_bytes;    /* what a sequence needs to grow into new pages */
    EngineTask **running; /* in the order of their age */
    size_t n_running;
    EngineTask **waiting; /* likewise; a growing array, front at `first_waiting` */
    size_t first_waiting, n_waiting, waiting_capacity;
    int32_t *free_sequences;
    size_t n_free;
    Retained retained[RETAINED + ENGINE_KEPT];
    size_t n_retained, n_kept; /* all; those with `keep` */
    Row *rows;
    LogitsRow *logits_rows; /* whose logits come k-th, a task's one after another */
    float *logits;          /* [max_tasks + extra_rows][vocab_size] */
    size_t clock;
    bool for_states; /* this pass is for the tasks that want final states, not for the others */
    EngineStats stats;
};

/* Allocates an engine. Its KV cache has a sequence for each task that runs at once, for each
 * retained prefix and for each kept one. */
Status engine_new(Engine **out, Model *model, const EngineOptions *options, Error *error) {
    Engine *e = calloc(1, sizeof *e);
    if (!e) return error_set(error, "no memory for a batch");
    size_t max_rows = model_max_rows(model);
    e->model = model;
    e->max_tasks = options->max_tasks ? options->max_tasks : DEFAULT_TASKS;
    if (e->max_tasks > max_rows) e->max_tasks = max_rows;
    e->draft_rows = options->draft_rows ? options->draft_rows : CHEAP_ROWS;
    e->extra_rows = e->draft_rows > EXTRA_ROWS ? e->draft_rows : EXTRA_ROWS;
    size_t n_sequences = e->max_tasks + RETAINED + ENGINE_KEPT;
    KvShape shape = model_kv_shape(model, options->kv_type);
    size_t vocab = model_config(model)->vocab_size;
    e->running = calloc(e->max_tasks, sizeof *e->running);
    e->free_sequences = calloc(n_sequences, sizeof *e->free_sequences);
    e->rows = calloc(max_rows, sizeof *e->rows);
    e->logits_rows = calloc(e->max_tasks + e->extra_rows, sizeof *e->logits_rows);
    e->logits = malloc((e->max_tasks + e->extra_rows) * vocab * sizeof *e->logits);
    if (!e->running || !e->free_sequences || !e->rows || !e->logits_rows || !e->logits) {
        error_set(error, "no memory for a batch of %zu texts", e->max_tasks);
        engine_free(e);
        return STATUS_FAILED;
    }
    e->lora = options->lora;
    for (size_t i = 0; i < n_sequences; i++) {
        e->free_sequences[e->n_free++] = (int32_t)(n_sequences - 1 - i);
        if (e->lora && !lora_select(e->lora, (int32_t)i, lora_all(e->lora))) {
            error_set(error, "no memory for a batch of %zu texts", e->max_tasks);
            engine_free(e);
            return STATUS_FAILED;
        }
    }
    if (kvcache_new(&e->cache, &shape, n_sequences, options->max_bytes, error) != STATUS_OK) {
        engine_free(e);
        return STATUS_FAILED;
    }
    kvcache_limit_snapshots(e->cache, options->snapshot_bytes);
    e->forgets = kvcache_forgets(&shape);
    e->next_bytes =
        kvcache_sequence_bytes(&shape, KV_PAGE + 1) - kvcache_sequence_bytes(&shape, KV_PAGE);
    *out = e;
    return STATUS_OK;
}

void engine_free(Engine *e) {
    if (!e) return;
    for (size_t i = 0; i < e->n_retained; i++) free(e->retained[i].tokens);
    kvcache_free(e->cache);
    free(e->running);
    free(e->waiting);
    free(e->free_sequences);
    free(e->rows);
    free(e->logits_rows);
    free(e->logits);
    free(e);
}

size_t engine_pending(const Engine *e) {
    return e->n_running + e->n_waiting;
}
size_t engine_waiting(const Engine *e) {
    return e->n_waiting;
}
EngineStats engine_stats(const Engine *e) {
    return e->stats;
}
const KvCache *engine_cache(const Engine *e) {
    return e->cache;
}

bool engine_task_append(EngineTask *task, int32_t token) {
    if (!array_reserve(&task->tokens, &task->capacity, task->n_tokens + 1, sizeof *task->tokens))
        return false;
    task->tokens[task->n_tokens++] = token;
    return true;
}

/* ---- The queue of those that wait ------------------------------------------------------- */

static bool make_room(Engine *e) {
    if (e->first_waiting > 0 && e->n_waiting == 0) e->first_waiting = e->waiting_capacity / 2;
    if (e->first_waiting + e->n_waiting < e->waiting_capacity && e->first_waiting > 0) return true;
    /* Room at both ends: tasks that were set aside come back to the front. */
    size_t capacity = e->n_waiting * 2 + e->max_tasks * 2 + 16, first = capacity / 4 + 1;
    EngineTask **waiting = calloc(capacity, sizeof(EngineTask *));
    if (!waiting) return false;
    if (e->n_waiting)
        memcpy(waiting + first, e->waiting + e->first_waiting, e->n_waiting * sizeof *waiting);
    free(e->waiting);
    e->waiting = waiting;
    e->first_waiting = first;
    e->waiting_capacity = capacity;
    return true;
}

Status engine_submit(Engine *e, EngineTask *task, Error *error) {
    if (task->n_tokens == 0) return error_set(error, "an empty prompt");
    if (task->n_tokens > model_context(e->model))
        return error_set(error, "the prompt's %zu tokens do not fit the context of %u",
                         task->n_tokens, model_context(e->model));
    if (!make_room(e)) return error_set(error, "no memory for a waiting text");
    task->following = NULL;
    task->speculation = (Speculation){.drafter = task->drafter};
    task->n_computed = task->n_again = task->mark_at = 0;
    /* The last token's state goes to `state` too, but its logits to `next`, not to `seen`. */
    task->n_to_see = task->state ? task->n_tokens : task->seen ? task->n_tokens - 1 : 0;
    task->n_seen = task->see_from;
    if (task->state)
        task->n_seen = task->first_state < task->n_tokens ? task->first_state : task->n_tokens - 1;
    task->age = e->clock++;
    task->sequence = -1;
    e->waiting[e->first_waiting + e->n_waiting++] = task;
    return STATUS_OK;
}

/* ---- Prefixes that are computed already, or soon will be -------------------------------- */

static size_t common_prefix(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b) {
    size_t n = n_a < n_b ? n_a : n_b, i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static void drop_retained(Engine *e, size_t i) {
    kvcache_reset(e->cache, e->retained[i].sequence, 0);
    e->free_sequences[e->n_free++] = e->retained[i].sequence;
    free(e->retained[i].tokens);
    e->n_kept -= e->retained[i].keep != 0;
    e->retained[i] = e->retained[--e->n_retained];
}

/* Whether a retained sequence is to be dropped before another: those that are kept come last. */
static bool drops_before(const Retained *a, const Retained *b) {
    return !a->keep == !b->keep ? a->last_use < b->last_use : !a->keep;
}

/* Gives back the retained sequence that was used longest ago; false when there is none. */
static bool drop_oldest(Engine *e) {
    if (e->n_retained == 0) return false;
    size_t oldest = 0;
    for (size_t i = 1; i < e->n_retained; i++)
        if (drops_before(&e->retained[i], &e->retained[oldest])) oldest = i;
    drop_retained(e, oldest);
    return true;
}

bool engine_forget(Engine *e, size_t keep) {
    size_t before = e->n_retained;
    for (size_t i = before; keep != 0 && i-- > 0;)
        if (e->retained[i].keep == keep) drop_retained(e, i);
    return e->n_retained < before;
}

/* Keeps a finished task's pages for those that begin like it. */
static void retain(Engine *e, EngineTask *task) {
    size_t next = (size_t)kvcache_next(e->cache, task->sequence);
    if (task->n_computed > next) task->n_computed = next;
    int32_t *tokens = malloc(task->n_computed * sizeof *tokens);
    size_t keep = e->n_kept < ENGINE_KEPT ? task->keep : 0;
    if (!keep && e->n_retained - e->n_kept == RETAINED) drop_oldest(e);
    if (!tokens || task->n_computed == 0) {
        free(tokens);
        kvcache_reset(e->cache, task->sequence, 0);
        e->free_sequences[e->n_free++] = task->sequence;
        return;
    }
    memcpy(tokens, task->tokens, task->n_computed * sizeof *tokens);
    e->retained[e->n_retained++] =
        (Retained){tokens, task->n_computed, task->sequence, task->adapters, e->clock++, keep};
    e->n_kept += keep != 0;
}

/* The longest prefix that the task can take over from another one. At least its last token must be
 * computed, for the logits, and so must the prompt tokens whose logits are wanted (n_seen ...
 * n_to_see). */
static size_t prefix_limit(const EngineTask *task) {
    return task->n_seen < task->n_to_see ? task->n_seen : task->n_tokens - 1;
}

/* Returns `end`, or the task's mark where that lies before: which end of a shared prefix the task
 * reaches first. */
static size_t sooner_mark(const EngineTask *task, size_t end) {
    return task->mark_at > task->n_computed && task->mark_at < end ? task->mark_at : end;
}

/* Forks the first n tokens of another sequence for the task, which has nothing cached. Where no
 * snapshot lets that sequence go back to n, the task gets fewer tokens and marks n, so that later
 * tasks get all. */
static void fork_prefix(Engine *e, EngineTask *task, int32_t from, size_t n) {
    Error ignored;
    if (kvcache_fork(e->cache, from, (int32_t)n, task->sequence, &ignored) != STATUS_OK) return;
    task->n_computed = (size_t)kvcache_next(e->cache, task->sequence);
    if (task->n_computed < n) task->mark_at = n;
    e->stats.shared_rows += task->n_computed;
}

/* Finds the longest prefix of the task that is cached or that another running task will compute,
 * and shares its pages or waits for that task (`following`). */
static void find_prefix(Engine *e, EngineTask *task) {
    size_t best = 0, limit = prefix_limit(task), least = e->forgets ? KV_PAGE : SHORTEST_PREFIX;
    Retained *kept = NULL;
    EngineTask *leader = NULL;
    for (size_t i = 0; i < e->n_retained; i++) {
        Retained *r = &e->retained[i];
        if (r->adapters != task->adapters) continue;
        size_t n = common_prefix(task->tokens, limit, r->tokens, r->n);
        if (n > best) best = n, kept = r;
    }
    for (size_t i = 0; i < e->n_running; i++) {
        EngineTask *other = e->running[i];
        if (other->age >= task->age) continue; /* only the older lead: no circles */
        if (other->adapters != task->adapters) continue;
        size_t n = common_prefix(task->tokens, limit, other->tokens, other->n_tokens);
        if (n > best && (n <= other->n_computed || n >= least))
            best = n, kept = NULL, leader = other;
    }
    task->following = NULL;
    if (kept) {
        kept->last_use = e->clock++;
        fork_prefix(e, task, kept->sequence, best);
    } else if (leader && best <= leader->n_computed) {
        fork_prefix(e, task, leader->sequence, best);
    } else if (leader) {
        task->following = leader;
        leader->mark_at = sooner_mark(leader, best);
    }
}

/* Shares the pages of the prefix as soon as the task that is being followed has computed it. */
static void catch_up(Engine *e, EngineTask *task) {
    EngineTask *leader = task->following;
    if (!leader) return;
    size_t n = common_prefix(task->tokens, prefix_limit(task), leader->tokens, leader->n_tokens);
    leader->mark_at = sooner_mark(leader, n);
    if (n > leader->n_computed) return;
    task->following = NULL;
    fork_prefix(e, task, leader->sequence, n);
}

/* Stops other tasks from following a task that leaves. */
static void leave(Engine *e, const EngineTask *task) {
    for (size_t i = 0; i < e->n_running; i++)
        if (e->running[i]->following == task) e->running[i]->following = NULL;
}

/* ---- Who is in the cache ----------------------------------------------------------------- */

/* Bytes that the cache can still give, also in place of snapshots. */
static size_t free_bytes(const Engine *e) {
    return kvcache_bytes_free(e->cache) + kvcache_snapshot_bytes(e->cache);
}

/* Starts waiting tasks while there is room: for their prompt and a further page of each task that
 * runs. Kept prefixes make room first. */
static void admit(Engine *e) {
    while (e->n_waiting > 0 && e->n_running < e->max_tasks) {
        EngineTask *task = e->waiting[e->first_waiting];
        /* Its prompt must fit now, beside a page for each of those that run. */
        const KvShape *shape = kvcache_shape(e->cache);
        size_t needed = kvcache_sequence_bytes(shape, task->n_tokens + 1);
        while (e->n_running > 0 && free_bytes(e) < needed + e->n_running * e->next_bytes)
            if (!drop_oldest(e)) return;
        if (e->n_free == 0) drop_oldest(e);
        e->first_waiting++;
        e->n_waiting--;
        task->sequence = e->free_sequences[--e->n_free];
        kvcache_reset(e->cache, task->sequence, 0);
        if (e->lora)
            lora_select(e->lora, task->sequence, task->adapters); /* engine_new made room */
        task->n_computed = task->n_again = 0;
        find_prefix(e, task);
        size_t at = e->n_running++;
        while (at > 0 && e->running[at - 1]->age > task->age) {
            e->running[at] = e->running[at - 1];
            at--;
        }
        e->running[at] = task;
        if (e->n_running > e->stats.most_tasks) e->stats.most_tasks = e->n_running;
    }
}

static void remove_running(Engine *e, size_t i) {
    leave(e, e->running[i]);
    e->n_running--;
    memmove(e->running + i, e->running + i + 1, (e->n_running - i) * sizeof *e->running);
}

/* Frees the pages of the youngest running task and puts it at the front of the waiting tasks. */
static bool set_aside_youngest(Engine *e) {
    if (!make_room(e)) return false;
    size_t youngest = e->n_running - 1;
    EngineTask *task = e->running[youngest];
    remove_running(e, youngest);
    kvcache_reset(e->cache, task->sequence, 0);
    e->free_sequences[e->n_free++] = task->sequence;
    task->sequence = -1;
    task->n_computed = 0;
    task->following = NULL;
    e->waiting[--e->first_waiting] = task;
    e->n_waiting++;
    e->stats.set_aside++;
    return true;
}

static void engine_finish(Engine *e, size_t i, const Error *error) {
    EngineTask *task = e->running[i];
    remove_running(e, i);
    retain(e, task);
    task->sequence = -1;
    task->done(task, error);
}

void engine_cancel(Engine *e, EngineTask *task, const Error *error) {
    for (size_t i = 0; i < e->n_running; i++) {
        if (e->running[i] != task) continue;
        engine_finish(e, i, error);
        return;
    }
    EngineTask **waiting = e->waiting + e->first_waiting;
    size_t i = 0;
    while (i < e->n_waiting && waiting[i] != task) i++;
    if (i == e->n_waiting) return;
    e->n_waiting--;
    memmove(waiting + i, waiting + i + 1, (e->n_waiting - i) * sizeof(EngineTask *));
    task->done(task, error);
}

/* Reserves pages for the task's next n tokens. When there are too few, first the retained texts and
 * then the youngest tasks give theirs up. Returns false when this task itself had to leave. */
static bool engine_reserve(Engine *e, EngineTask *task, size_t n, Error *error) {
    while (kvcache_reserve(e->cache, task->sequence, n, error) != STATUS_OK) {
        if (drop_oldest(e)) continue;
        EngineTask *youngest = e->running[e->n_running - 1];
        if (e->n_running == 1) {
            error_prefix(error, "one text alone needs more memory than --kv-memory gives");
            engine_finish(e, 0, error);
            return false;
        }
        if (!set_aside_youngest(e) || youngest == task) return false;
    }
    return true;
}

/* ---- A step -------------------------------------------------------------------------------- */

/* Whether the logits of this prompt token are still to be shown to task->seen. */
static bool wants_seen(const EngineTask *task, size_t position) {
    return position >= task->n_seen && position < task->n_to_see;
}

/* Adds rows for the task's tokens, at most `room`, and returns how many. At most `most_seen` + 1 of
 * them may have logits. */
static size_t add_rows(Engine *e, EngineTask *task, size_t at, size_t room, size_t most_seen,
                       size_t *n_logits) {
    size_t left = task->n_tokens - task->n_computed, n = 0, before = *n_logits;
    if (e->forgets && task->mark_at > task->n_computed && task->mark_at < task->n_tokens)
        left = task->mark_at - task->n_computed;
    size_t most = kvcache_call_rows(e->cache, task->sequence, left, room);
    task->speculation.n_drafts = 0;
    for (; n < most && (e->for_states || *n_logits <= before + most_seen); n++) {
        size_t position = task->n_computed + n;
        bool wants = position + 1 == task->n_tokens || wants_seen(task, position);
        if (wants && !e->for_states) e->logits_rows[(*n_logits)++] = (LogitsRow){task, position};
        e->rows[at + n] = (Row){.sequence = task->sequence,
                                .position = (int32_t)position,
                                .token = task->tokens[position],
                                .wants_logits = wants};
    }
    return n;
}

/* Adds the row of the task's last token, before it what rejected drafts took out of the cache, and
 * rows for drafts; returns how many. Drafts stay within the page of the last token: no other task
 * loses a page to them. */
static size_t add_decode_rows(Engine *e, EngineTask *task, size_t at, size_t room,
                              size_t *n_logits) {
    size_t n = task->n_tokens, most = e->draft_rows / e->n_running, own = n - task->n_computed;
    size_t end = round_up(n, KV_PAGE), context = model_context(e->model);
    if (own > room) return 0;
    if (end > context) end = context;
    if (most > room) most = room;
    if (most > end - n + own) most = end - n + own;
    size_t n_rows = speculation_rows(&task->speculation, task->sequence, task->tokens, n,
                                     task->n_computed, most > own ? most - own : 0, e->rows + at);
    if (n_rows > own && !kvcache_hold(e->cache, task->sequence, own)) {
        n_rows = own;
        task->speculation.n_drafts = 0;
    }
    for (size_t i = own - 1; i < n_rows; i++)
        e->logits_rows[(*n_logits)++] = (LogitsRow){task, task->n_computed + i};
    return n_rows;
}

/* Adds the rows of the next pass that decode, or those that read prompts; returns how many there
 * are then. */
static size_t plan_part(Engine *e, bool decode, size_t n_rows, size_t *n_logits) {
    /* Each running task may have one row of logits; what is left is for those that are seen. */
    size_t room = model_max_rows(e->model), spare = e->max_tasks + e->extra_rows - e->n_running;
    for (size_t i = 0; i < e->n_running && n_rows < room; i++) {
        EngineTask *task = e->running[i];
        size_t left = task->n_tokens - task->n_computed, n;
        bool decodes = left <= 1 + task->n_again && !task->state;
        if (decodes != decode || task->following || !task->state == e->for_states) continue;
        size_t before = *n_logits;
        n = decode ? add_decode_rows(e, task, n_rows, room - n_rows, n_logits)
                   : add_rows(e, task, n_rows, room - n_rows, spare, n_logits);
        if (*n_logits > before) spare -= *n_logits - before - 1;
        *(decode ? &e->stats.decode_rows : &e->stats.prompt_rows) += n;
        n_rows += n;
    }
    return n_rows;
}

/* Secures the pages of all rows to come, the oldest task's first; the youngest may be set aside
 * meanwhile, never one whose pages are secured already. */
static void secure_pages(Engine *e, Error *error) {
    size_t room = model_max_rows(e->model);
    for (size_t i = 0; i < e->n_running; i++) {
        EngineTask *task = e->running[i];
        size_t left = task->n_tokens - task->n_computed;
        if (task->following) continue;
        if (!engine_reserve(e, task, left < room ? left : room, error)) break;
    }
}

/* Hands one task its logits, from the k-th row on: those of prompt tokens to `seen`, those of the
 * last token to `next`, and those of a draft to `next` as long as the token just chosen was it. */
static void hand_out_logits(Engine *e, size_t k, size_t n_logits) {
    size_t vocab = model_config(e->model)->vocab_size;
    EngineTask *task = e->logits_rows[k].task;
    for (; k < n_logits && e->logits_rows[k].task == task; k++) {
        size_t position = e->logits_rows[k].position;
        float *logits = e->logits + k * vocab;
        if (wants_seen(task, position)) {
            task->seen(task, position, logits);
            task->n_seen = position + 1;
        } else {
            size_t n = task->n_tokens;
            task->goes_on = task->next(task, logits);
            if (!task->goes_on || task->n_tokens == n ||
                !speculation_accepts(&task->speculation, task->tokens[n]))
                return;
        }
    }
}

/* Takes rejected drafts out of the cache. The last token of a text is never in it. */
static void drop_rejected(Engine *e, EngineTask *task) {
    const Speculation *s = &task->speculation;
    if (s->n_accepted == s->n_drafts || task->n_computed < task->n_tokens) return;
    kvcache_truncate(e->cache, task->sequence, (int32_t)task->n_tokens - 1);
    task->n_computed = (size_t)kvcache_next(e->cache, task->sequence);
    task->n_again = task->n_tokens - 1 - task->n_computed;
    if (task->n_again > SPECULATION_AGAIN || task->n_again >= model_max_rows(e->model))
        task->n_again = 0; /* so many rows are run as a prompt's */
}

static size_t index_of_sequence(const Engine *e, int32_t sequence) {
    size_t i = 0;
    while (e->running[i]->sequence != sequence) i++;
    return i;
}

/* Hands the tasks the final states that the last call has computed for rows[n]. */
static void hand_out_states(Engine *e, const Row *rows, size_t n) {
    const float *state = model_final_states(e->model);
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].wants_logits) continue;
        EngineTask *task = e->running[index_of_sequence(e, rows[i].sequence)];
        size_t position = (size_t)rows[i].position;
        if (wants_seen(task, position)) {
            task->state(task, position, state);
            task->n_seen = position + 1;
        }
        state += model_config(e->model)->dim;
    }
}

/* Shows the rows of the pass to the drafters of their texts; rows of one text are neighbours. Not
 * where so many texts run that none of them drafts. */
static void show_rows(Engine *e, size_t n_rows) {
    if (2 * e->n_running > e->draft_rows) return;
    for (size_t at = 0, n; at < n_rows; at += n) {
        for (n = 1; at + n < n_rows && e->rows[at + n].sequence == e->rows[at].sequence;) n++;
        Drafter *drafter = e->running[index_of_sequence(e, e->rows[at].sequence)]->drafter;
        if (drafter && drafter->ran) drafter->ran(drafter, e->rows, at, n);
    }
}

/* Ends a step: notes how far each task has come, hands out the logits (each task by one thread),
 * and finishes tasks that are done. */
static void engine_advance(Engine *e, size_t n_logits) {
    for (size_t i = 0; i < e->n_running; i++) {
        EngineTask *task = e->running[i];
        task->goes_on = !task->state || task->n_seen < task->n_tokens;
        task->n_computed = (size_t)kvcache_next(e->cache, task->sequence);
        task->n_again = 0;
        if (task->mark_at > 0 && task->n_computed == task->mark_at)
            kvcache_mark(e->cache, task->sequence, (int32_t)task->mark_at);
    }
    CallSetting setting = call_mode_setting();
#pragma omp parallel if (n_logits > 1) num_threads(model_threads(e->model))
    {
        CallMode before;
        call_mode_enter(&before, setting);
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t k = 0; k < n_logits; k++)
            if (k == 0 || e->logits_rows[k - 1].task != e->logits_rows[k].task)
                hand_out_logits(e, k, n_logits);
        call_mode_leave(&before);
    }
    for (size_t i = 0; i < e->n_running;) { /* the oldest first, so that results keep their order */
        EngineTask *task = e->running[i];
        bool full = task->n_tokens > model_context(e->model);
        drop_rejected(e, task);
        if (!task->goes_on || full)
            engine_finish(e, i, NULL);
        else
            i++;
    }
}

/* Runs rows[n], whose logits go after the first n_logits. Tasks that want states get them at once:
 * the next call overwrites them. */
static Status forward(Engine *e, const Row *rows, size_t n, size_t n_logits, Error *error) {
    float *logits = e->logits + n_logits * model_config(e->model)->vocab_size;
    Status status =
        model_forward(e->model, e->cache, rows, n, e->for_states ? NULL : logits, error);
    if (status == STATUS_OK && e->for_states) hand_out_states(e, rows, n);
    return status;
}

/* Runs the tokens before `position` that a failed pass took out of the cache. */
static Status run_again(Engine *e, const EngineTask *task, int32_t position, Error *error) {
    int32_t next = kvcache_next(e->cache, task->sequence);
    size_t n = (size_t)(position - next);
    const Prefill again = {
        .sequence = task->sequence, .ids = task->tokens + next, .n = n, .first_wanted = n};
    return n > 0 ? prefill(e->model, e->cache, &again, error) : STATUS_OK;
}

/* Runs the rows of a pass again, one text at a time. The rows together gave a value that is not a
 * finite number. One text at a time, without its drafts, shows whose fault it is: that text ends,
 * the others get what they would have got. Gives the number of rows with logits. */
static Status one_by_one(Engine *e, size_t n_rows, size_t *n_logits) {
    *n_logits = 0;
    for (size_t at = 0, n; at < n_rows; at += n) {
        const Row *rows = e->rows + at;
        Error error;
        for (n = 1; at + n < n_rows && rows[n].sequence == rows[0].sequence; n++) continue;
        size_t i = index_of_sequence(e, rows[0].sequence);
        EngineTask *task = e->running[i];
        size_t n_own = n - task->speculation.n_drafts;
        task->speculation.n_drafts = 0;
        Status status = run_again(e, task, rows[0].position, &error);
        if (status == STATUS_OK) status = forward(e, rows, n_own, *n_logits, &error);
        if (status == STATUS_INTERRUPTED) return status;
        if (status != STATUS_OK) {
            engine_finish(e, i, &error);
            continue;
        }
        for (size_t k = 0; k < n_own && !e->for_states; k++)
            if (rows[k].wants_logits)
                e->logits_rows[(*n_logits)++] = (LogitsRow){task, (size_t)rows[k].position};
    }
    return STATUS_OK;
}

/* The times of passes that the drafters ask for; NULL: none does. */
static PassCosts *pass_costs(const Engine *e) {
    const Drafter *drafter = e->n_running > 0 ? e->running[0]->drafter : NULL;
    return drafter ? drafter->costs : NULL;
}

/* Chooses whether the next pass is for tasks that want states or for the others: in turns where
 * there are both. */
static void choose_kind(Engine *e) {
    bool states = false, others = false;
    for (size_t i = 0; i < e->n_running; i++) {
        const EngineTask *task = e->running[i];
        if (task->following) continue;
        states = states || task->state;
        others = others || !task->state;
    }
    e->for_states = states && (!others || !e->for_states);
}

static void keep_largest(size_t *largest, size_t n) {
    if (n > *largest) *largest = n;
}

static void note_memory(Engine *e) {
    size_t used = kvcache_bytes_used(e->cache), snapshots = kvcache_snapshot_bytes(e->cache);
    keep_largest(&e->stats.most_bytes, used);
    keep_largest(&e->stats.most_text_bytes, used - snapshots);
    keep_largest(&e->stats.most_snapshot_bytes, snapshots);
}

Status engine_step(Engine *e, Error *error) {
    Error page_error;
    admit(e);
    for (size_t i = 0; i < e->n_running; i++) {
        catch_up(e, e->running[i]);
        if (e->running[i]->n_computed == 0 && !e->running[i]->following)
            find_prefix(e, e->running[i]);
    }
    secure_pages(e, &page_error);
    choose_kind(e);
    if (pass_costs(e)) pass_costs(e)->n_texts = e->n_running;
    size_t n_prompt_rows = e->stats.prompt_rows;
    size_t n_logits = 0, n_rows = plan_part(e, true, 0, &n_logits);
    n_rows = plan_part(e, false, n_rows, &n_logits);
    note_memory(e);
    if (n_rows == 0) return STATUS_OK;
    e->stats.passes++;
    PassCosts *costs = n_prompt_rows == e->stats.prompt_rows ? pass_costs(e) : NULL;
    double start = clock_seconds();
    Status status = forward(e, e->rows, n_rows, 0, error);
    if (status == STATUS_OK && costs) pass_costs_add(costs, n_rows, clock_seconds() - start);
    if (status == STATUS_OK) show_rows(e, n_rows);
    if (status == STATUS_FAILED) status = one_by_one(e, n_rows, &n_logits);
    if (status == STATUS_OK) engine_advance(e, n_logits);
    return status;
}
