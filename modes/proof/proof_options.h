/* What options say of records: --check, --receipt, --replay. */
#ifndef PROOF_OPTIONS_H
#define PROOF_OPTIONS_H

#include "session/options.h"

typedef struct ProofOptions {
    const char *check; /* recorded answers, which are compared with the model's */
    const char *receipt, *replay, *receipt_key;
    const char *check_session; /* --check of a conversation's file; proof_modes.c sets it */
    bool quiet;                /* --check and --replay print only what is not the same */
} ProofOptions;

extern const ModeOptions proof_check_option, proof_option_table;

/* The ProofOptions among the command line's options. */
const ProofOptions *proof_options(const Options *options);
ProofOptions *proof_options_to_set(Options *options);

#endif
