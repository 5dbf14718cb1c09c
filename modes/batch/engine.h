/* Continuous batching: many texts generated at once over the one forward pass.
 *
 * A task is a run of tokens that grows at its end. The engine decides which tasks are in the
 * cache, computes what each still lacks (prompts in chunks mixed with the single rows of those
 * that already generate) and asks each task for its next token. Tasks that begin with the same
 * tokens share what the cache has of that prefix, computed once, also when one comes after the
 * other has ended. When memory runs out the youngest task is set aside and computed again later.
 *
 * What a task gets is bit-identical to what it would get alone: scheduling decides when a row
 * is computed, never what comes out (docs/numerics.md). */
#ifndef ENGINE_H
#define ENGINE_H

#include "draft/speculation.h"
#include "adapters/lora.h"
#include "model.h"

typedef struct EngineTask EngineTask;

struct EngineTask {
    int32_t *tokens; /* the prompt, then what was generated; malloc'ed, the task's owner's */
    size_t n_tokens, capacity;
    /* Called with the logits [vocab_size] of the last token: appends at most one token with
     * engine_task_append and returns true to go on, false when the task is done. Called from
     * several threads at once, but never for the same task; several times in a step when the
     * task's drafts are right. */
    bool (*next)(EngineTask *task, float *logits);
    /* NULL, or called before that with the logits [vocab_size] of each token of the prompt from
     * see_from on but the last, in order and once; `position` is the token's. Such a task shares
     * the prefix before see_from alone with others. */
    void (*seen)(EngineTask *task, size_t position, const float *logits);
    /* NULL, or the task wants final states in place of logits, and generates nothing: called with
     * the state [dim] of each token from `first_state` on (of the last one at least), in order and
     * once. It is done after the last one. `next` and `seen` are not called. */
    void (*state)(EngineTask *task, size_t position, const float *state);
    size_t first_state;
    /* The task is done: by its own will (error NULL) or because it cannot go on. Called from
     * the thread that called engine_step; the task is the owner's again. */
    void (*done)(EngineTask *task, const Error *error);
    size_t see_from;
    Drafter *drafter;  /* NULL: none; borrowed until the task is done */
    uint64_t adapters; /* bits of lora_select; only with EngineOptions.lora */
    size_t keep;       /* not 0: what is cached of the task stays until engine_forget(keep) */
    void *context;     /* the owner's */

    /* The engine's own. */
    EngineTask *following; /* waits for this task to compute the prefix that both share */
    size_t n_computed;     /* tokens that the cache holds */
    size_t n_again;        /* tokens that rejected drafts took out of it, at most */
    size_t mark_at;        /* the end of a prefix that other texts have too; 0: none is known */
    size_t n_to_see; /* tokens whose logits `seen` gets, or states `state`, up to this one ... */
    size_t n_seen;   /* ... and which it has got or does not get */
    size_t age;      /* order of arrival */
    Speculation speculation;
    int32_t sequence;
    bool goes_on;
};

typedef struct Engine Engine;

typedef struct EngineOptions {
    size_t max_tasks;      /* in the cache at once; 0: 64 */
    size_t max_bytes;      /* of the KV cache; 0: no limit */
    size_t snapshot_bytes; /* kvcache_limit_snapshots */
    size_t draft_rows;     /* tasks draft while all their rows are at most so many; 0: 16 */
    KvType kv_type;
    Lora *lora; /* the model's adapters; NULL: none. Tasks of other adapters share no prefix */
} EngineOptions;

typedef struct EngineStats {
    size_t prompt_rows, decode_rows;             /* computed */
    size_t shared_rows;                          /* taken from another task's pages instead */
    size_t set_aside;                            /* times that a task lost its pages */
    size_t passes;                               /* calls of model_forward */
    size_t most_tasks;                           /* texts that are generated at once */
    size_t most_bytes;                           /* limit of the KV cache */
    size_t most_text_bytes, most_snapshot_bytes; /* of the cache, each by itself */
} EngineStats;

Status engine_new(Engine **out, Model *model, const EngineOptions *options, Error *error);
void engine_free(Engine *engine); /* tasks that are not done stay their owners' */

/* Hands a task over; its prompt must hold at least one token. */
Status engine_submit(Engine *engine, EngineTask *task, Error *error);

/* Ends a task that is not done, with this error. Not during engine_step. */
void engine_cancel(Engine *engine, EngineTask *task, const Error *error);

/* Lets go of what was kept of the task with this number; false: nothing is. Kept are at most
 * ENGINE_KEPT tasks, the first ones, and for as long as the memory is not needed for a text: it is
 * a matter of speed. */
bool engine_forget(Engine *engine, size_t keep);
enum { ENGINE_KEPT = 64 };

/* Tasks handed over and not yet done; of these, those not yet begun. */
size_t engine_pending(const Engine *engine);
size_t engine_waiting(const Engine *engine);

/* One call of model_forward with as many rows as there are to compute. Returns STATUS_INTERRUPTED
 * when an observer of the model ended it: no text has changed. */
Status engine_step(Engine *engine, Error *error);

EngineStats engine_stats(const Engine *engine);
const KvCache *engine_cache(const Engine *engine);

bool engine_task_append(EngineTask *task, int32_t token); /* false: no memory */

#endif
