/* From a source's tensors to the runner's: tables of names and shapes.
 *
 * A format's reader lists what its files hold as RawTensors. A family is a table of TensorRules
 * that says which of them becomes which of the runner's tensors; applying it checks every shape. */
#ifndef FORMATS_FAMILY_RULES_H
#define FORMATS_FAMILY_RULES_H

#include "formats/containers/source.h"
#include "formats/family/presets.h"

enum { RAW_MAX_DIMS = 4 };

/* A tensor as its file describes it. */
typedef struct RawTensor {
    char *name;          /* owned by the table */
    StoredType type;     /* STORED_TYPES: one that this program cannot read */
    char type_name[16];  /* the source's name of the type, for messages */
    const char *instead; /* what to take in place of a type that cannot be read; NULL: not known */
    uint32_t n_dims;
    uint64_t dims[RAW_MAX_DIMS]; /* outermost first */
    size_t file;                 /* index into Source.files */
    uint64_t offset;             /* from that file's start */
    uint64_t bytes;              /* in that file; GGUF: 0 for types that cannot be read,
                                  * but I32 and I64 */
    SeparateScales scales;
    BlockScales blocks;
    float ternary_scale; /* as SourceTensor has it */
    bool used;           /* some rule took it */
} RawTensor;

typedef struct RawTable {
    RawTensor *items;
    size_t n, capacity;
} RawTable;

/* Adds an empty entry with a copy of the name; NULL: no memory. */
RawTensor *raw_table_add(RawTable *table, const char *name, size_t name_bytes);
/* Sorts by name, which raw_table_find needs. Fails, naming the tensor, when two have one name. */
Status raw_table_sort(RawTable *table, Error *error);
RawTensor *raw_table_find(const RawTable *table, const char *name);
void raw_table_free(RawTable *table);

/* ---- Rules ---- */

/* Which tensors a rule reads. */
typedef enum RuleForm {
    FORM_LINEAR, /* FROM.weight[rows][cols] and, where the source has it, FROM.bias[rows] */
    FORM_NORM,   /* FROM.weight[rows] and, where the source has it, FROM.bias[rows] */
    FORM_MATRIX, /* FROM[rows][cols] */
    FORM_VECTOR, /* FROM[rows] */
    FORM_TABLE   /* FROM[rows][cols], kept as float32 in plain order */
} RuleForm;

/* Whether a matrix is stored transposed, as inputs x outputs. */
typedef enum RuleTurned { TURNED_NEVER, TURNED_ALWAYS, TURNED_WHERE_IT_FITS } RuleTurned;

/* Reorderings of rows; of a matrix whose columns are heads of states, of its columns too. */
typedef enum RuleOrder {
    ORDER_AS_STORED,
    /* The rows of each head (of an even number) are stored in the order of interleaved RoPE: undone
     * where rope_pairing is ROPE_HALVES. */
    ORDER_PAIRED,
    /* Heads of a state are stored grouped by key head. They are brought into the order that the
     * configuration has (state_tiled). */
    ORDER_STATES,
    /* The same, stored tiled: the first head of each key head, then the second of each. */
    ORDER_TILED_STATES
} RuleOrder;

/* What the source's values are changed to. A bias is never changed. */
typedef enum RuleValues {
    VALUES_AS_STORED,
    VALUES_PLUS_ONE, /* Gemma's norms: the file holds weight - 1 */
    VALUES_MINUS_EXP /* the file holds log(-x) */
} RuleValues;

/* Makes the runner's tensor `to` of the source's tensor `from`.
 *
 * `from` that begins with "." is in a layer: RuleContext.layers stands before it, and `to` is the
 * name within the layer. A "%u" in both is then the expert, or with each_head the head. Where `to`
 * names the expert and `from` does not, the experts' tensors are stacked in one of one more
 * dimension. "%h" in `from` is the head: the tensors of all heads are joined to one vector. "%p" is
 * 0 in layers with an even number, 1 in the others. Neighbouring rules that are in a layer are
 * applied layer by layer.
 *
 * Sizes are sums of products of named sizes: sizes.h. Where `to` has several names, with a space
 * between two, the stored tensor holds them one after another, and each has one term of `rows`; "-"
 * is a part that nothing takes. */
typedef struct TensorRule {
    RuleForm form;
    const char *to, *from;
    const char *rows, *cols; /* a vector has no cols, a norm without rows has "dim" */
    const char *by; /* the parts lie together for each of this many groups of rows: "n_kv_heads" */
    RuleTurned turned;
    RuleOrder order;
    RuleValues values;
    const char *same_as; /* shared with this tensor of ours where it has the same values, or where
                          * the source lacks it */
    bool if_tied;        /* same_as holds only in models whose RuleContext.tied is set */
    bool optional;       /* the source may lack the tensor */
    bool longer;         /* the source may have more rows after those, which nothing takes */
    bool own_keys;       /* left out in layers that read the keys of an earlier one */
    bool each_head;      /* one tensor for each query head, of the head's part of `from`; rows and
                          * cols are as stored */
    const char *parts;   /* with each_head: so many parts instead of query heads */
    bool first_of_pair;  /* only layers with an even number have it */
    uint32_t of_kind;    /* 1 + the LayerKindNumber of the layers that have it; 0: all layers */
    Preset where;        /* models have it whose field has this value; without a field: all */
    bool where_not;      /* those whose field has another value */
    bool always; /* the expert is one of those that every token goes to (always_experts), which come
                  * after the others and are counted from 0 in `from` */
} TensorRule;

/* The forms as rows of a table: LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * head_dim"). */
#define LINEAR(...)                                                                                \
    { .form = FORM_LINEAR, __VA_ARGS__ }
#define NORM(...)                                                                                  \
    { .form = FORM_NORM, __VA_ARGS__ }
#define MATRIX(...)                                                                                \
    { .form = FORM_MATRIX, __VA_ARGS__ }
#define VECTOR(...)                                                                                \
    { .form = FORM_VECTOR, __VA_ARGS__ }
#define TABLE(...)                                                                                 \
    { .form = FORM_TABLE, __VA_ARGS__ }

typedef struct RuleContext {
    Source *source;
    RawTable *table;
    const char *prefix; /* replaces a leading "model." of every name; NULL: nothing does */
    /* What stands before the names in a layer, with "%u" for its number or "%q" for half of it,
     * rounded down. */
    const char *layers;
    /* `layers` of prediction layers (Config.mtp.n_layers), which are then numbered from 0; NULL:
     * they are numbered on from the other layers. */
    const char *mtp_prefix;
    /* The table names the matrices that an adapter adds to (adapter.h): none is required, each is
     * outputs x inputs whatever the rule says, and a layout that a sum of products cannot have is
     * refused. */
    bool is_adapter;
    bool tied; /* an if_tied tensor shares the embedding unless the source has another; a
                * source without the embedding has it under the other's name */
    const TensorRule *all; /* where the other is looked for; rules_apply sets it */
    const char *biases;    /* the matrices and norms that have a bias in this model, by their `to`
                            * between spaces, and "norms" where all norms have one; another bias is
                            * refused. NULL: what the source has is taken */
} RuleContext;

/* Applies rules[], which ends with a rule whose `to` is NULL. */
Status rules_apply(const RuleContext *context, const TensorRule *rules, Error *error);

/* Applies rules[] to one layer: what they make are tensors of that layer, whether or not `from`
 * is in it. */
Status rules_apply_to_layer(const RuleContext *context, const TensorRule *rules, uint32_t layer,
                            Error *error);

/* What a rule's name in the source ends with, before a bias: ".weight" or nothing. */
const char *rules_weight(const TensorRule *rule);

/* The source's tensor `from`; NULL: the source lacks it. */
RawTensor *rules_find(const RuleContext *context, const char *from);

/* Reads one stored tensor as float32 into *out[rows][cols], malloc'ed: for what a rule cannot
 * describe. *out is NULL after a failure. */
Status rules_read(const RuleContext *context, const char *from, size_t rows, size_t cols,
                  float **out, Error *error);

/* Refuses a tensor inside a layer that no rule took: it changes what the layer computes, so the
 * model is not of the family that it claims (`family`, for the message). The layers' tensors are
 * named `layers`, the number, and a rest. Names that end with one of harmless[] (up to a NULL) may
 * stay unused, as may the tensors of layers beyond n_layers + mtp_layers: a note of the source says
 * how many layers these are, prediction layers excepted. */
Status rules_check_leftovers(const RuleContext *context, const char *layers,
                             const char *const *harmless, const char *family, Error *error);

#endif
