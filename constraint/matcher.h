/* One answer that is held to a shape: which tokens may come next.
 *
 * A Shape is compiled once and serves any number of answers at a time, in any threads; a Matcher is
 * one answer. What it allows depends on the shape and the bytes of the answer alone, never on what
 * other answers did. Its state is a number, so it is copied and taken back for nothing.
 *
 * The shape is reached only through a lock, which is held while a mask is made. */
#ifndef CONSTRAINT_MATCHER_H
#define CONSTRAINT_MATCHER_H

#include <pthread.h>

#include "base/status.h"
#include "constraint/acceptor.h"
#include "constraint/vocabulary.h"
#include "generation.h"

typedef struct MaskCache MaskCache;

typedef struct Shape {
    Acceptor *acceptor; /* finished; owned */
    const Vocabulary *vocabulary;
    MaskCache *masks;
    pthread_mutex_t lock;
} Shape;

/* Makes a shape of an acceptor, which it then owns (also when it fails). The vocabulary is
 * borrowed.
 */
Status shape_new(Shape **out, Acceptor *acceptor, const Vocabulary *vocabulary, Error *error);
void shape_free(Shape *shape);
/* The approximate bytes of a shape: its acceptor and its cached masks. No matcher may use the shape
 * meanwhile. */
size_t shape_memory(const Shape *shape);

typedef struct Matcher {
    TokenRule rule; /* what a Generation asks; first, so that &matcher->rule is the matcher */
    Shape *shape;
    AcceptorState state;
    uint64_t epoch;
    char *text; /* [length] the answer's bytes */
    size_t length, capacity;
    const char *failed; /* why the last call could not be answered; NULL: it could */
    bool at_start;      /* the next token is the first of a text that continues nothing */
    bool looks_ahead;   /* matcher_forced has passed no limit yet */
    int32_t eos[GENERATION_MAX_EOS];
    size_t n_eos;
    uint64_t *mask;       /* [vocabulary words] */
    TextBuffer closing;   /* what ends an answer at its limit of tokens */
    Tokenizer *tokenizer; /* of forced_tokens.h; borrowed; NULL: none */
    /* Gives the shape back; NULL: it stays the maker's. */
    void (*release)(void *owner, Shape *shape);
    void *owner;
} Matcher;

/* Makes a matcher at the beginning of an answer. `options` are its Generation's. */
Status matcher_new(Matcher **out, Shape *shape, const GenerationOptions *options, Error *error);
void matcher_free(Matcher *matcher);

/* Makes an answer that reaches its limit of tokens end validly, by a short way. */
void matcher_close_on_length(Matcher *matcher);

/* In all functions below matcher->failed says afterwards whether the question could not be
 * answered, because memory was short or a limit was passed. What is returned then says nothing
 * about the shape, and the same question may be asked again. */

/* Goes on with bytes[n]. False, and the state is ACCEPTOR_DEAD, when the shape forbids them;
 * *refused (may be NULL) is then the index of the first that it forbids. */
bool matcher_push(Matcher *matcher, const char *bytes, size_t n, size_t *refused);
bool matcher_accepts(Matcher *matcher);
/* True when the answer is complete: nothing may follow. */
bool matcher_complete(Matcher *matcher);

/* Takes the answer back to its first `length` bytes. */
void matcher_rewind(Matcher *matcher, size_t length);

/* The bytes that must come next whatever is chosen, at most `most`: out[n], n is returned. *next
 * are the bytes that may follow them. */
size_t matcher_forced(Matcher *matcher, char *out, size_t most, ByteSet *next);

/* How many of ids[n] the shape allows, one after another from here on. A token that ends the text
 * is the last one that it allows. All n when the matcher failed: they are proposals, and the one
 * who takes them learns why. */
size_t matcher_allowed_tokens(Matcher *matcher, const int32_t *ids, size_t n);

/* A short way to the end of the answer: *bytes[*n], which the matcher owns until it is asked again.
 * Fails when none was found within the limits, or memory is short. */
Status matcher_closing(Matcher *matcher, const char **bytes, size_t *n, Error *error);

#endif
