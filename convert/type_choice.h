/* --type auto: the best type of weights with which a model fits the free memory.
 *
 * A model fits when its file and the cache of one text do: a text as long as -c says, else of
 * TYPE_CHOICE_CONTEXT positions or, if that is shorter, of the model's own context. The same figure
 * of free memory gives the same type. */
#ifndef TYPE_CHOICE_H
#define TYPE_CHOICE_H

#include "formats/containers/source.h"
#include "session/options.h"

enum { TYPE_CHOICE_CONTEXT = 4096 };

typedef struct TypeWish {
    double free;      /* bytes of memory */
    int scratch;      /* a file in memory, which the sandbox would refuse to make; -1: none */
    uint32_t context; /* 0: not given */
    KvChoice kv_type;
} TypeWish;

/* What a model takes, in bytes. */
typedef struct TypeNeed {
    double weights, cache;
    uint32_t context; /* positions of that KV cache */
} TypeNeed;

typedef struct TypeChoice {
    char type[8]; /* as --type has it; "": as the weights are */
    TypeNeed need,
        better;   /* memory of the chosen type, and of the next better one, which does not fit */
    bool is_best; /* there is no better one */
    char better_type[8];
} TypeChoice;

/* Whether `type` is "auto" or "auto:SIZE". */
bool type_choice_asked(const char *type);

/* Fills in `free` (SIZE, or what is free now, which the sandbox would hide) and `scratch`, which
 * the caller closes, also after a failure. */
Status type_wish_open(TypeWish *wish, const char *type, Error *error);
void type_wish_close(TypeWish *wish);

/* Chooses for a source that is parsed. Fails when no type fits, and says with the numbers which
 * type and context would. */
Status type_choose(const Source *source, const TypeWish *wish, TypeChoice *choice, Error *error);

/* As type_choose, for a source that is open but not parsed: a process of its own parses it, inside
 * the sandbox unless `trusts`. The source stays as it is. */
Status type_choose_apart(Source *source, const TypeWish *wish, bool trusts, TypeChoice *choice,
                         Error *error);

/* Says on stderr what was chosen, and why. */
void type_choice_say(const char *path, const TypeWish *wish, const TypeChoice *choice);

#endif
