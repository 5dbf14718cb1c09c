/* The numbers of the sampler that people set: by options, in requests, with /set in a chat. One
 * table, from which options.c, generation_options.c, modes/batch/request.c, modes/proof/settings.c
 * and modes/chat/chat_settings.c take names, fields and ranges. A new one is a row here
 * and a field of Options and of SamplerOptions. What other programs call them stays with what reads
 * those: modes/open/ollama_defaults.c, formats/family/recommended.c, advice/foreign.c. */
#ifndef SAMPLING_NUMBERS_H
#define SAMPLING_NUMBERS_H

#include <stddef.h>

#include "sampler.h"

/* In the order of --help: how often, letter, option, field of both structs (a float, or a whole
 * number), range, what --help says. A request calls it by its field. */
#define SAMPLING_NUMBERS(REAL, WHOLE)                                                              \
    REAL(USUAL, 't', "temperature", temperature, 0, 1e3,                                           \
         "0: greedy decoding, the most likely token [1]"),                                         \
        WHOLE(USUAL, 0, "top-k", top_k, 0, 1e9,                                                    \
              "sample among the N most likely tokens; 0: all [0]"),                                \
        REAL(USUAL, 'p', "top-p", top_p, 0, 1,                                                     \
             "nucleus sampling: probability mass X; 1: off [0.9]"),                                \
        REAL(USUAL, 0, "min-p", min_p, 0, 1, "drop tokens below X times the top probability [0]"), \
        REAL(USUAL, 0, "repetition-penalty", repetition_penalty, 1e-3, 1e3,                        \
             "penalize tokens of prompt and output; 1: off [1]"),                                  \
        REAL(RARE, 0, "presence-penalty", presence_penalty, -1e3, 1e3,                             \
             "subtract X from logits of tokens in the output [0]"),                                \
        REAL(RARE, 0, "frequency-penalty", frequency_penalty, -1e3, 1e3,                           \
             "subtract X for each occurrence of the token [0]")

typedef struct SamplingNumber {
    const char *name; /* of the option, without dashes */
    bool whole;
    size_t field; /* offset in SamplerOptions: of a float, or a uint32_t */
    double low, high;
} SamplingNumber;

enum { N_SAMPLING_NUMBERS = 7 };
extern const SamplingNumber sampling_numbers[N_SAMPLING_NUMBERS];

/* The row of the option; NULL: it is none of these. */
const SamplingNumber *sampling_numbers_find(const char *name);

double sampling_numbers_get(const SamplingNumber *number, const SamplerOptions *sampling);
/* `value` is in the range. */
void sampling_numbers_set(const SamplingNumber *number, SamplerOptions *sampling, double value);

#endif
