/* From a source's tensors to the runner's: tables of names and shapes.
 *
 * A format's reader lists what its files hold as RawTensors. A family is a table of TensorRules
 * that says which of them becomes which of the runner's tensors; applying it checks every shape. */
#ifndef FORMATS_RULES_H
#define FORMATS_RULES_H

#include "formats/source.h"

enum { RAW_MAX_DIMS = 4 };

/* A tensor as its file describes it. */
typedef struct RawTensor {
    char *name;         /* owned by the table */
    StoredType type;    /* STORED_TYPES: one that this program cannot read */
    char type_name[16]; /* the source's name of the type, for messages */
    uint32_t n_dims;
    uint64_t dims[RAW_MAX_DIMS]; /* outermost first */
    size_t file;                 /* index into Source.files */
    uint64_t offset;             /* from that file's start */
    uint64_t bytes;              /* in that file; GGUF: 0 for types that cannot be read */
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

/* A length that the Config gives, in some layer. */
typedef enum Extent {
    N_NONE,
    N_ONE,
    N_TWO,
    N_THREE,
    N_DIM,
    N_TWO_DIMS, /* 2 * dim */
    N_VOCAB,
    N_FFN,
    N_Q,         /* n_heads * head_dim */
    N_KV,        /* n_kv_heads * head_dim */
    N_HEAD,      /* head_dim */
    N_V,         /* n_kv_heads * value_dim */
    N_OUT,       /* n_heads * value_dim */
    N_HEADS,     /* n_heads */
    N_POSITIONS, /* context + position_offset */
    N_EXPERTS,
    N_EXPERT_FFN,
    N_SHARED_FFN,
    N_GROUP, /* head_dim times the query heads that share a key/value head */
    /* Of layers that keep a state. */
    N_STATE_HEADS, /* state_heads */
    N_STATE_KEYS,  /* state_key_heads * state_key_dim */
    N_STATE_OUT,   /* state_heads * state_value_dim */
    N_STATE_OUTS,  /* 2 * N_STATE_OUT */
    N_STATE_VALUE, /* state_value_dim */
    N_STATE_MIXED, /* 2 * N_STATE_KEYS + N_STATE_OUT: what the convolution takes */
    N_STATE_TAPS,  /* state_kernel */
    N_STATE_RANK,  /* state_rank */
    N_ADAPTER,     /* adapter_rank */
    N_EXPERT_DIM,  /* expert_dim, or dim where that is 0 */
    /* Of Gemma 3n and 4. */
    N_PER_LAYER,       /* per_layer_dim */
    N_PER_LAYERS,      /* n_layers * per_layer_dim */
    N_PER_LAYER_VOCAB, /* per_layer_vocab */
    N_STREAMS,         /* altup_streams */
    N_STREAM_PAIRS,    /* altup_streams squared */
    N_LAUREL,          /* laurel_rank */
    N_STREAMS_DIM,     /* altup_streams * dim */
    N_STREAM_SHARES,   /* 2 * altup_streams, and its square where streams mix */
    /* Of latent attention. */
    N_VALUE,       /* value_dim of one head */
    N_REST,        /* head_dim without the rotated elements: latent attention */
    N_LATENT,      /* latent_dim */
    N_LATENT_Q,    /* latent_q_dim */
    N_LATENT_QS,   /* 2 * latent_q_dim */
    N_LATENT_KV,   /* latent_dim and the rotated elements */
    N_INDEX,       /* index_dim */
    N_INDEX_HEADS, /* index_heads */
    N_INDEX_Q,     /* index_heads * index_dim */
    N_INDEX_POOL,  /* index_pool */
    EXTENTS
} Extent;

size_t extent_of(Extent extent, const Config *config, uint32_t layer);

enum {
    RULE_OPTIONAL = 1,     /* the source may lack the tensor */
    RULE_VECTOR = 2,       /* stays float32 in plain order even though rows > 1 */
    RULE_TRANSPOSED = 4,   /* stored as inputs x outputs */
    RULE_ADD_ONE = 8,      /* Gemma's norms: the file holds weight - 1 */
    RULE_TIED = 16,        /* may share token_embedding: RuleContext.tied */
    RULE_GROUPED = 32,     /* fused q, k, v lie together for each key/value head; `skip` counts rows
                            * within such a group */
    RULE_EVEN = 64,        /* the stored rows 0, 2, 4, ... */
    RULE_ODD = 128,        /* the stored rows 1, 3, 5, ... */
    RULE_MATRIX = 256,     /* a matrix even though rows is 1 */
    RULE_EITHER_WAY = 512, /* stored as outputs x inputs or, where that does not fit, transposed */
    RULE_BY_HEAD = 1 << 12,      /* fused: the parts lie together for each query head, */
    RULE_BY_STATE_KEY = 1 << 13, /* or for each of state_key_heads; `skip` and `fused` count the
                                  * rows of all heads */
    RULE_MINUS_EXP = 1 << 14,    /* the file holds log(-x) */
    RULE_PAIR = 1 << 20,         /* a layer of the source is two of ours: "%u" in `from` is ours
                                  * halved, rounded down, and "%p" which half (0, 1) */
    RULE_FIRST = 1 << 21,        /* only the first half has it */
    RULE_OWN_KEYS = 1024,        /* left out in layers that read the keys of an earlier one */
    RULE_OF_EMBEDDING = 1 << 15, /* shared with the token embedding where it has its values */
    RULE_OF_OUTPUT = 1 << 16,    /* likewise with the output head */
    /* The stored rows of each head (of an even number) are in the order of interleaved RoPE: undone
     * where rope_pairing is ROPE_HALVES. */
    RULE_PAIRED = 1 << 17,
    /* The stored heads of a state are in the order of their key heads, or those of each key head
     * stand apart, as state_tiled has them: brought into the order that the configuration has. */
    RULE_STATES = 1 << 18,
    RULE_TILED_STATES = 1 << 19,
    RULE_HEADS = 2048 /* one tensor for each query head, of the head's part of `from` */
};

/* Makes the runner's tensor `to` of the source's tensor `from`.
 *
 * A %u in `from` is the layer, and `to` is then the name within the layer; a second %u, in both, is
 * the expert, or with RULE_HEADS the head: `from` then holds all heads one after another, each of
 * the rows `fused`, from which `skip` and rows (or columns, where transposed) choose. Where `to`
 * names the expert and `from` does not, the experts' tensors are stacked in
 * one of one more dimension. "%h" in `from` is the head: the tensors of all heads are joined to one
 * vector. Neighbouring rules that name a layer are applied layer by layer.
 *
 * rows N_ONE makes a vector; `fused` then counts elements instead of rows. */
typedef struct TensorRule {
    const char *to, *from;
    Extent rows, cols;
    unsigned flags;
    Extent skip[2];  /* rows of a fused matrix before this part: the sum of these */
    Extent fused[3]; /* rows of the whole fused matrix: the sum of these; none: not fused */
} TensorRule;

typedef struct RuleContext {
    Source *source;
    RawTable *table;
    const char *prefix; /* replaces a leading "model." of every `from`; NULL: nothing does */
    /* Replaces "model.layers." in prediction layers (Config.mtp_layers), which are then numbered
     * from 0; NULL: they are numbered on from the other layers. */
    const char *mtp_prefix;
    /* The table names the matrices that an adapter adds to (adapter.h): none is required, each is
     * outputs x inputs whatever the rule says, and a layout that a sum of products cannot have is
     * refused. */
    bool is_adapter;
    bool tied;          /* a RULE_TIED tensor shares the embedding unless the source has another */
    const char *biases; /* the matrices and norms that have a bias in this model, by their `to`
                         * between spaces, and "norms" where all norms have one; another bias is
                         * refused. NULL: what the source has is taken */
} RuleContext;

/* Applies rules[], which ends with a rule whose `to` is NULL. */
Status rules_apply(const RuleContext *context, const TensorRule *rules, Error *error);

/* Applies rules[] to one layer: what they make are tensors of that layer, whether or not `from`
 * names it. */
Status rules_apply_to_layer(const RuleContext *context, const TensorRule *rules, uint32_t layer,
                            Error *error);

/* The source's tensor `from`; NULL: the source lacks it. */
RawTensor *rules_find(const RuleContext *context, const char *from);

/* Reads one stored tensor as float32 into *out[rows][cols], malloc'ed: for what a rule cannot
 * describe. *out is NULL after a failure. */
Status rules_read(const RuleContext *context, const char *from, size_t rows, size_t cols,
                  float **out, Error *error);

/* Refuses a tensor inside a layer that no rule took: it changes what the layer computes, so the
 * model is not of the family that it claims (`family`, for the message). The layers' tensors are
 * named `layers`, the number, and a rest. Names that end with one of harmless[] (up to a NULL) may
 * stay unused, as may the tensors of layers beyond n_layers + mtp_layers. */
Status rules_check_leftovers(const RuleContext *context, const char *layers,
                             const char *const *harmless, const char *family, Error *error);

#endif
