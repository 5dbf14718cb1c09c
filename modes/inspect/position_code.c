#include "modes/inspect/position_code.h"

#include <math.h>

#include "base/numbers.h"
#include "core/forward_steps.h"

/* A vector of the model file and its length; NULL when the file has none of that name. */
static const float *vector_of(const ModelFile *file, const char *name, size_t *n) {
    const FileTensor *tensor = modelfile_find(file, name);
    if (!tensor || tensor->type != TENSOR_VECTOR) return NULL;
    *n = (size_t)tensor->rows * (size_t)tensor->cols;
    return modelfile_data(file, tensor);
}

/* Finds the file's table of the positional encoding, and sets the sizes that it implies; NULL: the
 * file has none. */
static const float *table_of(PositionCode *code, const Session *session) {
    const ModelFile *file = session->file;
    const float *table;
    switch (code->kind) {
    case POSITION_SINUSOIDAL:
        table = vector_of(file, "sinusoid.freqs", &code->n);
        code->n_columns = 2 * code->n;
        return table;
    case POSITION_ROPE:
        table = vector_of(file, "rope.freqs", &code->n);
        code->n_columns = 2 * code->n;
        /* The model's frequencies, which --override and the context may have changed. */
        return table && code->n == session->model->n_pairs[0]
                   ? session->model->weights.rope_freqs[0]
                   : table;
    case POSITION_ALIBI:
        table = vector_of(file, "alibi.slopes", &code->n);
        code->n_columns = code->n;
        return table;
    default:
        table = vector_of(file, "position_embedding", &code->n);
        code->n_columns = code->config->dim;
        code->n_positions = code->n_columns ? code->n / code->n_columns : 0;
        return table;
    }
}

Status position_code_of(PositionCode *code, const Session *session, Error *error) {
    const Config *c = model_config(session->model);
    *code = (PositionCode){.config = c, .kind = c->position, .n_positions = c->context};
    if (c->position == POSITION_NONE)
        return error_set(error, "%s: the model has no position code",
                         modelfile_path(session->file));
    code->table = table_of(code, session);
    if (code->table && code->n > 0 && code->n_positions > 0) return STATUS_OK;
    return error_set(error, "%s: the table of positions is missing", modelfile_path(session->file));
}

/* The angle of a pair, within what numbers_sin_cos takes, whatever the file holds. */
static void turn(const PositionCode *code, size_t position, size_t pair, float *sine,
                 float *cosine) {
    const float most = 0x1p30f;
    float angle = (float)position * code->table[pair];
    if (!(angle > -most)) angle = angle <= -most ? -most : 0.0f;
    numbers_sin_cos(angle < most ? angle : most, sine, cosine);
}

bool position_code_turns(const PositionCode *code) {
    return code->kind == POSITION_SINUSOIDAL || code->kind == POSITION_ROPE;
}

void position_code_pair(const PositionCode *code, size_t pair, size_t *sine, size_t *cosine) {
    bool halves = code->kind == POSITION_ROPE ? code->config->rope_pairing == ROPE_HALVES
                                              : code->config->sinusoid_layout == SINUSOID_HALVES;
    *sine = halves ? pair : 2 * pair;
    *cosine = halves ? code->n + pair : 2 * pair + 1;
}

void position_code_vector(const PositionCode *code, size_t position, float *out) {
    const Config *c = code->config;
    size_t at = position + (code->kind == POSITION_SINUSOIDAL ? c->position_offset : 0);
    if (code->kind == POSITION_LEARNED) {
        for (size_t i = 0; i < code->n_columns; i++)
            out[i] = code->table[position * code->n_columns + i];
    } else if (code->kind == POSITION_ALIBI) {
        for (size_t i = 0; i < code->n; i++)
            out[i] = expf(-fabsf(code->table[i]) * (float)position);
    } else {
        for (size_t i = 0; i < code->n; i++) {
            size_t sine, cosine;
            position_code_pair(code, i, &sine, &cosine);
            turn(code, at, i, &out[sine], &out[cosine]);
        }
    }
}

/* cos(a - b) for pairs that turn. */
static double turned_similarity(const PositionCode *code, size_t a, size_t b) {
    size_t distance = a > b ? a - b : b - a;
    double sum = 0.0;
    for (size_t i = 0; i < code->n; i++) {
        float sine, cosine;
        turn(code, distance, i, &sine, &cosine);
        sum += (double)cosine;
    }
    return sum / (double)code->n;
}

double position_code_similarity(const PositionCode *code, size_t a, size_t b) {
    double product = 0.0, squares_a = 0.0, squares_b = 0.0;
    if (position_code_turns(code)) return turned_similarity(code, a, b);
    if (code->kind == POSITION_ALIBI) {
        for (size_t i = 0; i < code->n; i++)
            product += exp(-fabs((double)code->table[i] * ((double)a - (double)b)));
        return product / (double)code->n;
    }
    const float *x = code->table + a * code->n_columns, *y = code->table + b * code->n_columns;
    for (size_t i = 0; i < code->n_columns; i++) {
        product += (double)x[i] * (double)y[i];
        squares_a += (double)x[i] * (double)x[i];
        squares_b += (double)y[i] * (double)y[i];
    }
    return squares_a > 0.0 && squares_b > 0.0 ? product / sqrt(squares_a * squares_b) : 0.0;
}

double position_code_by_distance(const PositionCode *code, size_t distance) {
    if (code->kind != POSITION_LEARNED) return position_code_similarity(code, 0, distance);
    double sum = 0.0, n = 0.0;
    for (size_t p = 0; p + distance < code->n_positions && p < POSITION_CODE_MOST; p++, n++)
        sum += position_code_similarity(code, p, p + distance);
    return n > 0.0 ? sum / n : 0.0;
}

double position_code_turning_error(const PositionCode *code, size_t distance, size_t n) {
    double worst = 0.0;
    for (size_t i = 0; i < code->n; i++) {
        float sine, cosine;
        turn(code, distance, i, &sine, &cosine);
        for (size_t p = 0; p + distance < n; p++) {
            float s, c, to_s, to_c;
            turn(code, p, i, &s, &c);
            turn(code, p + distance, i, &to_s, &to_c);
            double turned_s = (double)s * (double)cosine + (double)c * (double)sine;
            double turned_c = (double)c * (double)cosine - (double)s * (double)sine;
            worst = fmax(worst, fmax(fabs(turned_s - (double)to_s), fabs(turned_c - (double)to_c)));
        }
    }
    return worst;
}

/* The vectors of pairs that turn have the size sqrt(n): their distance is that of one pair after
 * the turn of `distance` positions, summed over the pairs, wherever they are. */
static double turned_distance(const PositionCode *code, size_t distance) {
    return sqrt(fmax(0.0, 2.0 * (double)code->n * (1.0 - turned_similarity(code, 0, distance))));
}

static double vector_distance(const PositionCode *code, size_t a, size_t b) {
    const float *x = code->table + a * code->n_columns, *y = code->table + b * code->n_columns;
    double squares = 0.0;
    for (size_t i = 0; i < code->n_columns; i++)
        squares += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(squares);
}

double position_code_nearest(const PositionCode *code, size_t n, size_t *a, size_t *b) {
    double nearest = INFINITY;
    const bool turns = position_code_turns(code);
    *a = *b = 0;
    for (size_t p = 0; p < (turns ? 1 : n); p++)
        for (size_t q = p + 1; q < n; q++) {
            double distance = turns ? turned_distance(code, q) : vector_distance(code, p, q);
            if (distance < nearest) nearest = distance, *a = p, *b = q;
        }
    return nearest;
}
