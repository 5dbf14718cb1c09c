/* From a source's tensors to the runner's: tables of names and shapes.
 *
 * A format's reader lists what its files hold as RawTensors. A family is a table of TensorRules
 * that says which of them becomes which canonical tensor; applying it checks every shape. */
#ifndef FORMATS_RULES_H
#define FORMATS_RULES_H

#include "formats/source.h"

enum { RAW_MAX_DIMS = 4 };

typedef struct RawTensor {
    char *name;         /* owned by the table */
    StoredType type;    /* STORED_TYPES: one that cannot be read */
    char type_name[16]; /* as the source calls it, for messages */
    uint32_t n_dims;
    uint64_t dims[RAW_MAX_DIMS]; /* outermost first */
    size_t file;
    uint64_t offset; /* from that file's start */
    ScalesApart scales;
    bool used; /* some rule took it */
} RawTensor;

typedef struct RawTable {
    RawTensor *items;
    size_t n, capacity;
} RawTable;

/* Adds an empty entry with a copy of the name; NULL: no memory. */
RawTensor *raw_table_add(RawTable *table, const char *name, size_t name_bytes);
/* Sorts by name, after which raw_table_find works; the Error names a tensor that is there twice. */
Status raw_table_sort(RawTable *table, Error *error);
RawTensor *raw_table_find(const RawTable *table, const char *name);
void raw_table_free(RawTable *table);

/* A length, as the Config gives it. */
typedef enum Extent {
    N_NONE,
    N_ONE,
    N_DIM,
    N_VOCAB,
    N_FFN,
    N_Q,         /* n_heads * head_dim */
    N_KV,        /* n_kv_heads * head_dim */
    N_HEAD,      /* head_dim */
    N_HEADS,     /* n_heads */
    N_POSITIONS, /* context + position_offset */
    N_EXPERTS,
    N_EXPERT_FFN,
    N_SHARED_FFN,
    N_GROUP, /* head_dim of the query heads that share a key/value head */
    EXTENTS
} Extent;

size_t extent_of(Extent extent, const Config *config);

enum {
    RULE_OPTIONAL = 1,
    RULE_VECTOR = 2,     /* float32 in plain order also where rows > 1 */
    RULE_TRANSPOSED = 4, /* stored as inputs x outputs */
    RULE_ADD_ONE = 8,    /* Gemma's norms: the file holds weight - 1 */
    RULE_TIED = 16,      /* shares token_embedding where the model is tied */
    RULE_GROUPED = 32,   /* fused q, k, v lie together for each key/value head; `skip` is within
                          * such a group */
    RULE_EVEN = 64,      /* every second row, from the first */
    RULE_ODD = 128,      /* every second row, from the second */
    RULE_MATRIX = 256    /* a matrix also where rows is 1 */
};

/* `from` may hold one %u for the layer, and `to` is then the name within the layer; a second
 * %u in both is the expert. Rules that stand together and name a layer are applied layer by
 * layer. rows N_ONE: a vector; `fused` then counts elements. Where `to` names the expert and
 * `from` does not, the tensors of all experts are stacked in one of a dimension more. A "%h" in
 * `from` is the head: the tensors of all heads are joined to one vector. */
typedef struct TensorRule {
    const char *to, *from;
    Extent rows, cols;
    unsigned flags;
    Extent skip[2];  /* a slice of a fused matrix: after this many rows */
    Extent fused[3]; /* the whole matrix's rows: the sum of these; none: rows */
} TensorRule;

typedef struct RuleContext {
    Source *source;
    RawTable *table;
    /* Replaces a leading "model." of every `from` when it is not NULL. */
    const char *prefix;
    bool tied;
} RuleContext;

/* Applies rules[] up to one whose `to` is NULL. */
Status rules_apply(const RuleContext *context, const TensorRule *rules, Error *error);

/* The values of one stored tensor, *out[rows][cols], malloc'ed: for what no rule can say. */
Status rules_read(const RuleContext *context, const char *from, size_t rows, size_t cols,
                  float **out, Error *error);

#endif
