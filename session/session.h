/* What `run` has opened (modes/open/opened.h) for the mode that the command line asks for. A mode
 * borrows it all. */
#ifndef SESSION_H
#define SESSION_H

#include <jansson.h>
#include <signal.h>

#include "constraint/shape_store.h"
#include "draft/drafter.h"
#include "model.h"
#include "session/adapters.h"
#include "session/options.h"
#include "session/thread_choice.h"
#include "system/output.h"
#include "system/sandbox.h"
#include "tokenizer.h"

typedef struct Session Session;

struct Session {
    const Options *options;
    ModelFile *file;
    Tokenizer *tokenizer;     /* NULL: the model has none and none was given */
    Model *model;             /* NULL in the modes that compute nothing */
    Model *other;             /* --against's; NULL: none */
    const Adapters *adapters; /* of --lora; NULL: none */
    KvType kv_type;
    char *prompt; /* of -i, -f or stdin; UTF-8, NUL-terminated; "" when none was given */
    size_t prompt_length;
    const char *chat_template; /* of --chat-template; NULL: the model's */
    char *overridden;          /* what --override changed, for people, owned; NULL: nothing */
    bool sees_future;          /* --override mask lets queries look at later tokens */
    Output *output;
    struct Drafting *drafting; /* who proposes tokens (drafting.h); NULL: nobody */
    ShapeStore *shapes;        /* of this model; NULL: it has no tokenizer */
    const ShapeSource *shape;  /* what the command line asks for; NULL: nothing */
    struct Receipt *receipt;   /* --receipt, --replay (modes/proof/receipt.h); NULL: none is kept */
    const struct Mode *const *replay_kinds; /* of --replay (modes/proof/proof_modes.h) */
    const void *tokenizer_section; /* [tokenizer_bytes] of -z beside a model.bin; NULL: none */
    size_t tokenizer_bytes;
    json_t *sources;     /* the files that were converted, for a receipt; borrowed; NULL: none */
    bool shows_progress; /* stderr is a terminal */
    double load_seconds;
    double free_memory;      /* bytes, before the model was opened; the sandbox hides it */
    SandboxReport sandbox;   /* what is in force */
    int peak_memory_fd;      /* peak_memory.h; 0: not open */
    const char *ranks;       /* how they divide the model, for --info; NULL: one process */
    struct Cluster *cluster; /* the processes that compute together (ports/cluster/); NULL: one */
    size_t cut_after;        /* tokens of a text that -n cut before it had its shape; 0: none was */
    volatile sig_atomic_t *interrupted; /* 0, or the signal that asked to stop */
    const Isa *isa;
    int n_threads;            /* the most */
    AdaptiveThreads *threads; /* how many of them the model's passes take; NULL: all */
};

/* The model options that --threads, --isa, -c and --chunk ask for. */
ModelOptions session_model_options(const Session *session);

/* The type of the cache that --kv-type asks for. */
KvType session_kv_type(const Model *model, KvChoice choice);

/* "done of total" on one line of the terminal, drawn over itself; total 0 wipes it. Nothing
 * when stderr is not a terminal. */
void session_progress(const Session *session, const char *what, uint64_t done, uint64_t total);

#endif
