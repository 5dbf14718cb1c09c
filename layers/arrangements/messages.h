/* Messages of a run of middle layers to the next one, and the gates that mix them in (Inkling 2
 * with loops). The middle layers of a STACK_BLOCK_SUMS run Config.loops times, each time from the
 * stream and the sums before the first run. From the second run on, what a layer reads for queries,
 * keys, values and the feed-forward, h, is mixed with a message m, an attention over the sums that
 * the run before has left (layers/arrangements/unit_sums.h; its last x is one of them):
 *
 *     low = down [h / sqrt(mean of h^2 + norm_eps), the same of m]       message_rank numbers
 *     h   = (1 - tanh(forget low)) * h + tanh(gain low) * m
 *
 * A run's layers are layers of their own here, with keys, values and states of their own; the
 * weights of all runs are the same tensors of the file. */
#ifndef LAYERS_ARRANGEMENTS_MESSAGES_H
#define LAYERS_ARRANGEMENTS_MESSAGES_H

#include "core/forward_steps.h"

/* What a message is mixed with. The first three are inputs of attention. */
typedef enum MessageReader {
    MESSAGE_QUERY,
    MESSAGE_KEY,
    MESSAGE_VALUE,
    MESSAGE_FFN,
    MESSAGE_READERS
} MessageReader;

/* Most readers whose messages are mixed in at once: attention's. */
enum { MESSAGES_AT_ONCE = MESSAGE_FFN };

typedef struct MessageGate {
    const float *query; /* [dim], of the attention over the sums of the run before */
    Matrix down;        /* message_rank x 2 * dim */
    Matrix forget;      /* dim x message_rank */
    Matrix gain;        /* dim x message_rank */
} MessageGate;

typedef struct Messages {
    MessageGate of[MESSAGE_READERS];
} Messages;

/* Rows that live for a pass; those of several readers stand one after another, [max_rows] each. */
typedef struct MessageRows {
    float *previous;      /* [n][sums of a run][dim], what the run before has left */
    float *hidden;        /* [readers][n][dim], h */
    float *message;       /* [readers][n][dim] */
    float *joined;        /* [readers][n][2 * dim] */
    float *low;           /* [readers][n][message_rank] */
    float *forget, *gain; /* [readers][n][dim] */
} MessageRows;

/* The layer of the file that layer l is a run of. */
uint32_t messages_stored_layer(const Config *config, uint32_t l);
/* Whether layer l belongs to the runs; whether it begins one of them. */
bool messages_loops(const Config *config, size_t l);
bool messages_begins_run(const Config *config, size_t l);
/* Whether layer l reads messages: it belongs to a run after the first. */
bool messages_reach(const Config *config, size_t l);

/* Finds the gates of a layer of the runs. */
void messages_find(Finder *finder, Messages *messages);
void messages_keep(Model *model, MessageRows *rows);

/* Keeps the row's sums of the run before, units[sums of a run][dim]. */
void messages_remember(const Model *model, const MessageRows *rows, size_t row, const float *units);

/* Where the row's h of reader `at` goes: 0 for the first of those that are mixed at once. */
float *messages_hidden(const Model *model, const MessageRows *rows, size_t at, size_t row);
/* Makes the message for h, and what its gates read. Works in scores[sums of a run]. */
void messages_make(const Model *model, const MessageRows *rows, const MessageGate *gate, size_t at,
                   size_t row, float *scores);
/* All threads: the products of the gates of n readers. */
void messages_multiply(ForwardPass *pass, const MessageRows *rows, const MessageGate *gates,
                       size_t n);
/* out[dim] = h mixed with its message. */
void messages_mix(const Model *model, const MessageRows *rows, size_t at, size_t row, float *out);

#endif
