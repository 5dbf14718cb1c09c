/* What `run` can do: a mode brings its options and what it opens, does and closes. modes/modes.c
 * lists the modes and run.c runs one of them. */
#ifndef MODE_H
#define MODE_H

#include "session/session.h"

/* The parts of a model that a mode does not need. */
typedef enum ModeTraits {
    MODE_WITHOUT_TOKENIZER = 1, /* a model that has none will do */
    MODE_WITHOUT_WEIGHTS = 2,   /* session->model stays NULL */
    MODE_WITHOUT_MODEL = 4,     /* no MODEL is opened at all, and no right given up */
    MODE_OWN_OUTPUT = 8,        /* the mode opens -o itself */
    MODE_CHECKS_FILE = 16,      /* its failure is the model file's: a conversion is to be deleted */
    MODE_WITHOUT_HEAD = 32,     /* a model that gives embeddings alone will do */
    MODE_CONTINUES_TEXT = 64    /* one text, from the prompt on */
} ModeTraits;

typedef struct Mode Mode;
struct Mode {
    const char *name; /* the option that asks for it, "--info"; NULL: it may stand beside others */
    unsigned traits;
    bool (*asked)(const Options *options);
    /* Called whatever mode is asked for: refuses options that make no sense together, STATUS_USAGE,
     * and may adapt others. NULL: none. */
    Status (*check)(Options *options, Error *error);
    /* Opens what the mode needs while the program may still open files, and adds the directories in
     * which it creates files later to `rules`; *state is passed to run and close. NULL: nothing. */
    Status (*open)(void **state, const Session *session, SandboxRules *rules, Error *error);
    /* Called when the rights are given up, with prompt and shape read and before the model is
     * parsed: may change the options and the session's inputs. NULL: nothing. */
    Status (*prepare)(void *state, Options *options, Session *session, Error *error);
    Status (*run)(void *state, Session *session, Error *error);
    void (*close)(void *state); /* called even when open failed; state may be NULL. NULL: nothing */
};

/* Lets every mode check the options (`modes` ends with NULL) and chooses the mode that they ask
 * for. STATUS_USAGE when they ask for two modes that have names. A mode without a name may be
 * asked for as well; then the last of the modes is chosen. */
Status mode_choose(const Mode *const *modes, Options *options, const Mode **chosen, Error *error);

#endif
