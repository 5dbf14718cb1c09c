/* Imports SentencePiece's .model, a protocol buffer (sentencepiece_model.proto), BPE or Unigram.
 * The section encodes and decodes as the sentencepiece library does. */
#include "formats/tokenizers/tokenizer_spm.h"

#include <math.h>
#include <string.h>

#include "tokenizer/charsmap.h"
#include "base/unicode.h"
#include "formats/tokenizers/tokenizer_write.h"

/* ---- Protocol buffer wire format ---- */

typedef struct Field {
    uint32_t number, wire; /* 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes */
    uint64_t value;
    const char *bytes; /* wire 2: bytes[value] */
} Field;

static bool read_varint(const char **p, const char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t byte = (uint8_t) * (*p)++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* Reads the next field: 1, or 0 at the end, or -1 when the message is damaged. */
static int next_field(const char **p, const char *end, Field *field) {
    uint64_t tag;
    if (*p == end) return 0;
    if (!read_varint(p, end, &tag)) return -1;
    *field = (Field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
    size_t left = (size_t)(end - *p), fixed = field->wire == 1 ? 8 : 4;
    switch (field->wire) {
    case 0:
        return read_varint(p, end, &field->value) ? 1 : -1;
    case 1:
    case 5:
        if (left < fixed) return -1;
        memcpy(&field->value, *p, fixed);
        *p += fixed;
        return 1;
    case 2:
        if (!read_varint(p, end, &field->value) || field->value > (size_t)(end - *p)) return -1;
        field->bytes = *p;
        *p += field->value;
        return 1;
    default:
        return -1;
    }
}

/* ---- The model ---- */

enum { UNIGRAM = 1, BPE = 2 };

typedef struct Spm {
    Builder b;
    uint64_t model_type;
    int64_t bos_id, eos_id;
    bool byte_fallback, space_as_suffix, dummy_prefix, remove_extra, escape;
    TextRange unk_surface;
    float least, most;
    Error *error;
} Spm;

typedef struct Piece {
    const char *text;
    size_t n;
    float score;
    uint64_t type;
} Piece;

static bool read_piece(Field message, Piece *piece) {
    const char *p = message.bytes, *end = p + message.value;
    Field field;
    int more;
    *piece = (Piece){.text = "", .type = PIECE_NORMAL};
    while ((more = next_field(&p, end, &field)) > 0) {
        if (field.number == 1 && field.wire == 2) {
            piece->text = field.bytes;
            piece->n = field.value;
        } else if (field.number == 2 && field.wire == 5) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&piece->score, &bits, 4);
        } else if (field.number == 3 && field.wire == 0) {
            piece->type = field.value;
        }
    }
    return more == 0 && piece->n > 0 && isfinite(piece->score) &&
           utf8_valid_prefix(piece->text, piece->n) == piece->n;
}

/* Reads the fields of TrainerSpec that decide ids: numbers are those of sentencepiece_model.proto.
 */
static bool read_trainer(Spm *m, Field message) {
    const char *p = message.bytes, *end = p + message.value;
    Field field;
    int more;
    while ((more = next_field(&p, end, &field)) > 0) {
        if (field.number == 44 && field.wire == 2)
            m->unk_surface = builder_text(&m->b, field.bytes, field.value);
        if (field.wire != 0) continue;
        if (field.number == 3) m->model_type = field.value;
        if (field.number == 24) m->space_as_suffix = field.value != 0;
        if (field.number == 35) m->byte_fallback = field.value != 0;
        if (field.number == 41) m->bos_id = (int32_t)field.value;
        if (field.number == 42) m->eos_id = (int32_t)field.value;
    }
    return more == 0;
}

/* Reads a NormalizerSpec of sentencepiece: 2 precompiled_charsmap, 3 add_dummy_prefix, 4
 * remove_extra_whitespaces, 5 escape_whitespaces. */
static bool read_normalizer(Spm *m, Field message) {
    const char *p = message.bytes, *end = p + message.value;
    Field field;
    int more;
    while ((more = next_field(&p, end, &field)) > 0) {
        if (field.number == 2 && field.wire == 2 && field.value > 0) {
            m->b.charsmap = field.bytes;
            m->b.charsmap_size = field.value;
        }
        if (field.wire != 0) continue;
        if (field.number == 3) m->dummy_prefix = field.value != 0;
        if (field.number == 4) m->remove_extra = field.value != 0;
        if (field.number == 5) m->escape = field.value != 0;
    }
    return more == 0;
}

/* Adds a piece of a SentencePiece model with what its type asks for: a token of the model, an added
 * token, a byte, the unknown token. */
static Status add_piece(Spm *m, uint32_t id, const Piece *piece) {
    Builder *b = &m->b;
    bool unigram = m->model_type == UNIGRAM;
    bool in_model = piece->type == PIECE_NORMAL || piece->type == PIECE_USER_DEFINED;
    if (piece->type == PIECE_UNUSED && !unigram)
        return error_set(m->error, "sentencepiece: unused pieces in a BPE model ('%.*s')",
                         (int)(piece->n < 100 ? piece->n : 100), piece->text);
    double score = piece->score;
    /* A user-defined piece gets a higher score than any other pieces of its characters. */
    if (unigram && piece->type == PIECE_USER_DEFINED) score = (float)piece->n * m->most - 0.1;
    if (builder_token(b, id, piece->text, piece->n, score,
                      (in_model ? BUILD_IN_MODEL : 0) | (in_model && unigram ? BUILD_PIECE : 0),
                      m->error) != STATUS_OK)
        return STATUS_FAILED;
    if (piece->type == PIECE_UNKNOWN) {
        if (b->header.unk_id >= 0) return error_set(m->error, "sentencepiece: two unknown pieces");
        b->header.unk_id = (int32_t)id;
        b->tokens[id].text = m->unk_surface; /* it is decoded to this */
    } else if (piece->type == PIECE_CONTROL) {
        builder_added(b, id, ADDED_SPECIAL, piece->text, piece->n);
    } else if (piece->type == PIECE_USER_DEFINED) {
        builder_added(b, id, ADDED_NORMALIZED | (unigram ? ADDED_IN_MODEL : 0), piece->text,
                      piece->n);
    } else if (piece->type == PIECE_BYTE) {
        int byte = builder_byte_of(piece->text, piece->n);
        if (byte < 0) return error_set(m->error, "sentencepiece: bad byte piece %u", id);
        b->bytes[byte] = id;
        b->has_bytes = true;
    }
    return STATUS_OK;
}

/* Reads the file twice: first everything but the pieces, and the range of their scores, then the
 * pieces. */
static Status read_model(Spm *m, const char *bytes, size_t size) {
    const char *end = bytes + size;
    Field field;
    Piece piece = {0};
    for (int pass = 0; pass < 2; pass++) {
        const char *p = bytes;
        uint32_t id = 0;
        int more;
        while ((more = next_field(&p, end, &field)) > 0) {
            bool ok = true;
            if (field.wire != 2) continue;
            if (field.number == 2 && pass == 0) ok = read_trainer(m, field);
            if (field.number == 3 && pass == 0) ok = read_normalizer(m, field);
            if (field.number == 1) ok = read_piece(field, &piece);
            if (!ok) return error_set(m->error, "sentencepiece: damaged message %u", field.number);
            if (field.number != 1) continue;
            if (pass == 0 && piece.type == PIECE_NORMAL) {
                m->least = fminf(m->least, piece.score);
                m->most = fmaxf(m->most, piece.score);
            }
            if (pass == 1 && add_piece(m, id, &piece) != STATUS_OK) return STATUS_FAILED;
            id++;
        }
        if (more < 0) return error_set(m->error, "sentencepiece: damaged file");
        if (pass == 0 && m->model_type != BPE && m->model_type != UNIGRAM)
            return error_set(m->error, "sentencepiece: model type %llu is not supported",
                             (unsigned long long)m->model_type);
    }
    return STATUS_OK;
}

/* Adds the normalizer and decoder that every SentencePiece model has, and writes the section. */
static Status spm_finish(Spm *m, TokenizerBlob *out) {
    Builder *b = &m->b;
    const TextRange none = {0, 0};
    TextRange mark = builder_text(b, "\xE2\x96\x81", 3), space = builder_text(b, " ", 1);
    Charsmap map;
    if (b->header.unk_id < 0) return error_set(m->error, "sentencepiece: no unknown piece");
    if (b->charsmap && !charsmap_open(&map, b->charsmap, b->charsmap_size))
        return error_set(m->error, "sentencepiece: damaged character map");
    b->header.model = m->model_type == UNIGRAM ? MODEL_UNIGRAM : MODEL_BPE;
    b->header.flags = SECTION_SENTENCEPIECE | SECTION_FUSE_UNK | SECTION_ADDED_IN_CHARSMAP |
                      (m->byte_fallback && b->has_bytes ? SECTION_BYTE_FALLBACK : 0);
    b->header.unk_score = m->least - 10.0f;
    builder_normalizer(b, NORMALIZE_SENTENCEPIECE,
                       (m->dummy_prefix ? SPM_DUMMY_PREFIX : 0u) |
                           (m->remove_extra ? SPM_REMOVE_EXTRA_SPACES : 0u) |
                           (m->escape ? SPM_ESCAPE_SPACES : 0u) |
                           (m->space_as_suffix ? SPM_SPACE_AS_SUFFIX : 0u) |
                           (b->charsmap ? SPM_CHARSMAP : 0u),
                       none, none);
    builder_index(b);
    if (b->header.model == MODEL_BPE) builder_merges_by_score(b);
    builder_decoder(b, DECODER_REPLACE_STRING, mark, space, 0, 0);
    builder_decoder(b, DECODER_BYTE_FALLBACK, none, none, 0, 0);
    builder_decoder(b, DECODER_FUSE, none, none, 0, 0);
    if (m->dummy_prefix || m->remove_extra) builder_decoder(b, DECODER_STRIP, space, none, 1, 0);
    if (m->bos_id >= 0 && m->bos_id < b->header.n_tokens) {
        b->header.bos_id = (int32_t)m->bos_id;
        builder_prefix(b, m->bos_id);
    }
    builder_eos(b, m->eos_id);
    return tokenizer_write(b, out, m->error);
}

Status tokenizer_import_sentencepiece(const void *bytes, size_t size, TokenizerBlob *out,
                                      Error *error) {
    Spm m = {.model_type = UNIGRAM,
             .bos_id = 1,
             .eos_id = 2,
             .dummy_prefix = true,
             .remove_extra = true,
             .escape = true,
             .least = INFINITY,
             .most = 1.17549435e-38f, /* the library starts from FLT_MIN */
             .error = error};
    *out = (TokenizerBlob){0};
    builder_init(&m.b);
    m.unk_surface = builder_text(&m.b, " \xE2\x81\x87 ", 5);
    Status status = read_model(&m, bytes, size);
    if (status == STATUS_OK) status = spm_finish(&m, out);
    builder_free(&m.b);
    return status;
}
