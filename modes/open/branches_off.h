/* --override attention=off, ffn=off: branches of a model (core/branch.h) that add nothing to x, of
 * all layers, of one, or a single head, for seeing what each is worth. */
#ifndef BRANCHES_OFF_H
#define BRANCHES_OFF_H

#include "model.h"

enum { BRANCHES_OFF_MOST = 64 };

/* What is switched off. */
typedef struct BranchOff {
    bool attention; /* else the feed-forward network, or the mixture in its place */
    size_t layer;   /* SIZE_MAX: of all layers that have it */
    size_t head;    /* of attention; SIZE_MAX: the whole branch */
} BranchOff;

typedef struct BranchOffList {
    BranchOff items[BRANCHES_OFF_MOST];
    size_t n;
} BranchOffList;

/* Reads "off", "off:LAYER" or, for attention, "off:LAYER.HEAD"; false: it is none of these. */
bool branches_off_read(const char *value, bool attention, BranchOff *off);

/* Lets the model, which has just been opened, compute so from now on. Fails where it has no such
 * branch or head, or adds it in a way of its own. branches_off_free, after the model is closed;
 * NULL does nothing. */
typedef struct BranchesOff BranchesOff;
Status branches_off_apply(BranchesOff **off, Model *model, const BranchOffList *list, Error *error);
void branches_off_free(BranchesOff *off);

#endif
