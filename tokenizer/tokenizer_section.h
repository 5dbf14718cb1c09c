/* The layout of the tokenizer section of a model.bin; docs/tokenizer-section.md explains each
 * field. Numbers are little-endian; every part starts at a multiple of 8 bytes from the section's
 * start. */
#ifndef TOKENIZER_SECTION_H
#define TOKENIZER_SECTION_H

#include <stdint.h>

#define TOKENIZER_MAGIC "VTOKENS1"
#define TOKENIZER_NONE UINT32_MAX /* no id, no node, an empty slot */

enum { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDLEVEL, MODEL_COUNT };

enum {                                 /* SectionHeader.flags */
       SECTION_BYTE_LEVEL = 1,         /* symbols are bytes, keys the bytes a token stands for */
       SECTION_UNMAP = 2,              /* turn words from ByteLevel's alphabet back into bytes */
       SECTION_BYTE_FALLBACK = 4,      /* a character outside the vocabulary becomes byte tokens */
       SECTION_FUSE_UNK = 8,           /* one unknown token for neighbouring unknown characters */
       SECTION_IGNORE_MERGES = 16,     /* look up whole words before merging */
       SECTION_STRIP_AFTER_BOS = 32,   /* decoding strips a space after every BOS (llama2.c) */
       SECTION_SENTENCEPIECE = 64,     /* Unigram scores are summed in float */
       SECTION_ADDED_IN_CHARSMAP = 128 /* the character map leaves added tokens alone */
};

enum {                   /* the parts, in this order in the header */
       PART_TEXT,        /* bytes that every text offset below points into */
       PART_TOKENS,      /* TokenRecord[n_symbols] */
       PART_DECODE,      /* TextRange[decode_variants][n_tokens] */
       PART_VOCAB,       /* uint32_t[power of two]: hash table, key to symbol */
       PART_PAIRS,       /* PairSlot[power of two]: hash table, two symbols to one */
       PART_BYTES,       /* uint32_t[256]: the symbol of each byte */
       PART_CUTS,        /* uint8_t[8192]: bit [last][first] set where a merge may join, or empty */
       PART_ADDED,       /* AddedRecord[] */
       PART_ADDED_RAW,   /* PairSlot[]: trie of the added tokens to find in raw text */
       PART_ADDED_NORM,  /* PairSlot[]: trie of the added tokens to find in normalized text */
       PART_NORMALIZERS, /* StepRecord[] */
       PART_SPLITS,      /* StepRecord[] */
       PART_DECODERS,    /* StepRecord[]: applied to the whole decoded text */
       PART_PREFIX,      /* int32_t[]: ids put before a text */
       PART_SUFFIX,      /* int32_t[]: ids put after a text */
       PART_EOS,         /* int32_t[]: ids that end a text */
       PART_SCORES,      /* double[n_tokens]: Unigram */
       PART_PIECES,      /* PairSlot[]: trie of the pieces: Unigram */
       PART_CHARSMAP,    /* uint32_t size, the double array of that size, then its strings */
       PART_COUNT
};

typedef struct SectionPart {
    uint64_t offset, length; /* bytes */
} SectionPart;

typedef struct TextRange {
    uint32_t offset, length; /* in PART_TEXT */
} TextRange;

typedef struct SectionHeader {
    char magic[8];
    uint64_t size; /* of the whole section */
    uint32_t model, flags;
    uint32_t n_tokens, n_symbols; /* symbols are the ids, then characters that only merges use */
    int32_t unk_id, bos_id;       /* or -1 */
    uint32_t max_key, max_added;  /* bytes of the longest piece and of the longest added token */
    uint32_t decode_variants;     /* 1, 2 or 4; bit 0: first token of the text, bit 1: last */
    uint32_t reserved;
    double unk_score;                      /* Unigram */
    TextRange subword_prefix, word_suffix; /* BPE: put around characters before looking them up */
    SectionPart parts[PART_COUNT];
} SectionHeader;

enum { TOKEN_SPECIAL = 1, TOKEN_ADDED = 2 };

typedef struct TokenRecord {
    TextRange text;
    uint32_t flags;
} TokenRecord;

/* A slot of a hash table with open addressing: a look-up begins at slot section_mix(a, b) & (slots
 * - 1) and probes at most PAIR_PROBES slots. An empty slot has x == TOKENIZER_NONE. PART_PAIRS: a
 * and b are the left and right symbol, x the rank, y the symbol they become. Tries: a is the node
 * (0 the root), b the byte, x the child node, y the entry that ends there (TOKENIZER_NONE: none).
 */
typedef struct PairSlot {
    uint32_t a, b, x, y;
} PairSlot;

enum { PAIR_PROBES = 64 };

enum {
    ADDED_LSTRIP = 1,
    ADDED_RSTRIP = 2,
    ADDED_SINGLE_WORD = 4,
    ADDED_NORMALIZED = 8,
    ADDED_SPECIAL = 16,
    ADDED_IN_MODEL = 32 /* Unigram finds it as a piece; only the character map treats it as added */
};

typedef struct AddedRecord {
    uint32_t id, flags;
    TextRange text;
} AddedRecord;

enum { /* StepRecord.op of PART_NORMALIZERS */
       NORMALIZE_NFC,
       NORMALIZE_NFD,
       NORMALIZE_NFKC,
       NORMALIZE_NFKD,
       NORMALIZE_LOWERCASE,
       NORMALIZE_STRIP,         /* flags: 1 left, 2 right */
       NORMALIZE_STRIP_ACCENTS, /* drops general category M; flags 1: only Mn */
       NORMALIZE_BERT_CLEAN,
       NORMALIZE_BERT_CHINESE,
       NORMALIZE_NMT,
       NORMALIZE_CHARSMAP,        /* the character map, grapheme by grapheme */
       NORMALIZE_SENTENCEPIECE,   /* flags: SPM_* */
       NORMALIZE_PREPEND,         /* puts a before the text, unless the text is empty */
       NORMALIZE_MAP_BYTES,       /* each byte becomes its character of ByteLevel's alphabet */
       NORMALIZE_REPLACE,         /* replaces the string a by b */
       NORMALIZE_REPLACE_PATTERN, /* replaces each match of the pattern a by b */
       NORMALIZE_COUNT
};

enum {
    SPM_DUMMY_PREFIX = 1,
    SPM_REMOVE_EXTRA_SPACES = 2,
    SPM_ESCAPE_SPACES = 4,
    SPM_SPACE_AS_SUFFIX = 8,
    SPM_CHARSMAP = 16
};

enum {                     /* StepRecord.op of PART_SPLITS */
       SPLIT_PATTERN,      /* splits at matches of a; flags: the behaviour, + SPLIT_INVERT */
       SPLIT_METASPACE,    /* spaces become a; flags: METASPACE_*, when to put a before the piece */
       SPLIT_PREFIX_SPACE, /* puts a space before the piece, unless there is one */
       SPLIT_MAP_BYTES,    /* the same as NORMALIZE_MAP_BYTES */
       SPLIT_COUNT
};

enum {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
    SPLIT_BEHAVIOURS,
    SPLIT_INVERT = 8
};

enum { METASPACE_NEVER, METASPACE_FIRST, METASPACE_ALWAYS };

enum {               /* StepRecord.op of PART_DECODERS */
       DECODE_STRIP, /* strips the character a, up to flags & 0xffff times at the start and
                        flags >> 16 times at the end */
       DECODE_REPLACE_PATTERN, /* replaces each match of the pattern a by b */
       DECODE_COUNT
};

typedef struct StepRecord {
    uint32_t op, flags;
    TextRange a, b;
} StepRecord;

enum {
    SECTION_MAX_STEPS = 32,
    SECTION_MAX_ADDED = 1024,
    SECTION_MAX_PIECE = 4096,
    SECTION_MAX_AFFIX = 64
};

/* The hash of a pair. */
static inline uint32_t section_mix(uint32_t a, uint32_t b) {
    uint64_t h = (((uint64_t)a << 32) | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 15);
}

/* The hash of a key of the vocabulary. */
static inline uint64_t section_hash(const char *key, uint64_t length) {
    uint64_t h = 0x243F6A8885A308D3u ^ length;
    for (; length >= 8; key += 8, length -= 8) {
        uint64_t word;
        __builtin_memcpy(&word, key, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    uint64_t word = 0;
    for (uint64_t i = 0; i < length; i++) word |= (uint64_t)(uint8_t)key[i] << (8 * i);
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}

#endif
