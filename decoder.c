/* A decoder-only transformer, from a prompt to text, in one file and plain loops.
 *
 *     make
 *     build/decoder models/stories.bin "Once upon a time" 40 0.8 4
 *
 * prints what `./run models/stories.bin -i "Once upon a time" -n 40 -t 0.8 -s 4` prints, byte for
 * byte. Read this first; docs/guide-to-code.md then says where `run` does each step fast.
 *
 * Two models, which are the ends of one history:
 *
 *     the paper's    "Attention Is All You Need" (arXiv:1706.03762), its decoder without the
 *                    encoder: models/paper-mha.bin, and the same with shared keys (-gqa, -mqa)
 *                    or with positions told otherwise (-rope, -alibi, -learned)
 *     a llama        (arXiv:2302.13971, section 2.2): models/stories.bin
 *
 * Both turn a list of token ids into one number (logit) for each token of the vocabulary, which
 * says how likely that token is to come next. All they do lies in seven steps:
 *
 *     1 text -> token ids      2 token id -> vector x[dim]     3 the position goes into x
 *     4 attention: x takes from earlier positions     5 feed-forward: each x by itself
 *     (4 and 5 again for each layer)     6 x -> logits[vocab_size]     7 logits -> next token
 *
 * Shapes stand in brackets beside the lines: [n_heads][head_dim] is n_heads rows of head_dim
 * numbers, one after the other. Other programs (and PyTorch) compute the same sums in another
 * order and get other last bits. Here the order is that of docs/numerics.md, because then the bytes
 * can be compared; where a line looks odd for its task, that is why. A product and attention stand
 * here twice, in that order and as a book has them (plain_...). With a sixth argument, `plain`, the
 * book's are used, and the largest difference of the two is printed at the end. Of products it is
 * large where weights have 8 bits or fewer, because the exact order rounds x to 8 bits as well: 0.6
 * for stories.bin, and 3e-5 after `./export models/stories.bin mine-f32.bin --type f32`. The type
 * bf16_act rounds x as well, to bfloat16: its exact order is its definition.
 *
 * Other files open the model (core/modelfile.h, core/weights.h; core/config.h explains each field
 * of `c->...`), give one weight or a row of them as floats (kernels/tensor.h: matrix_...), cut text
 * into tokens and join them again (tokenizer.h). What is between the ids and the logits is all
 * here. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "base/shown_text.h"
#include "generation.h"
#include "tokenizer.h"
#include "core/weights.h"
#include "kernels/bfloat.h"

enum {
    SUMS = 16,          /* partial sums of a vector's sum */
    BLOCK = 64,         /* positions that attention takes at once */
    MOST_CONTEXT = 1024 /* `run` joins sums of 1024 positions each; this file has the first alone */
};

/* How far the book's formulas are from the exact order: the largest |difference| of one number. */
typedef struct Plain {
    bool used;
    float product, attention;
} Plain;

typedef struct Decoder {
    const Config *c;
    Weights w;
    HeadShape heads;
    bool half_cache; /* keys and values are rounded to 16 bits, where weights are smaller than 32 */
    float *keys;     /* [n_layers][context][n_kv_heads][head_dim], the "KV cache" */
    float *values;   /* the same */
    /* What one token's pass works in. */
    float *x, *normed, *y; /* [dim] */
    float *q, *attended;   /* [n_heads][head_dim] */
    float *hidden, *up;    /* [ffn_dim] */
    float *cosine, *sine;  /* [head_dim / 2] */
    float *logits;         /* [vocab_size] */
    float *row, *other;    /* of the plain formulas: a row of weights, and what they give */
    Plain plain;
} Decoder;

/* ---- Arithmetic -------------------------------------------------------------------------- */

/* exp(x). The C library's may differ in the last bit from one machine to the next, so there is one
 * here: x = n ln 2 + r with |r| <= ln 2 / 2, then exp(x) = 2^n exp(r), and exp(r) by its series.
 * fmaf(a, b, c) is a * b + c with one rounding, rintf the nearest whole number, ldexpf(a, n)
 * a * 2^n. Below the first bound the result is taken for 0, above the second it is too large. */
static float exponential(float x) {
    static const float factor[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24,
                                   1.0f / 6,    0.5f,       1.0f,       1.0f};
    if (x < -87.33f) return 0.0f;
    if (x > 88.72f) return INFINITY;
    float n = rintf(x * 1.44269504f);
    float r = fmaf(n, -1.42860677e-6f, fmaf(n, -0.693145752f, x)); /* ln 2 in two parts */
    float sum = factor[0];
    for (int i = 1; i < 8; i++) sum = fmaf(sum, r, factor[i]);
    return ldexpf(sum, (int)n);
}

/* The sum of 16 partial sums: 8 + 8, 4 + 4, 2 + 2, 1 + 1. A vector's sum is kept in 16 parts,
 * element i in part i % 16, since a processor adds 8 or 16 numbers at once. */
static float joined(float sums[SUMS]) {
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* Puts the book's numbers plain[n] in the place of exact[n]. */
static void replace(float *exact, const float *plain, size_t n, float *largest_difference) {
    for (size_t i = 0; i < n; i++) {
        *largest_difference = fmaxf(*largest_difference, fabsf(plain[i] - exact[i]));
        exact[i] = plain[i];
    }
}

/* exact_multiply for bf16_act: x is rounded to 16 bits, and in each block of 32 the even and the
 * odd inputs are summed apart, as processors with instructions for such numbers do. */
static void bfloat_multiply(float *out, const Matrix *w, const float *x) {
    for (size_t i = 0; i < w->rows; i++)
        for (size_t first = 0; first < w->cols; first += BFLOAT_BLOCK) {
            float sums[2] = {0.0f, 0.0f};
            for (size_t k = first; k < w->cols && k < first + BFLOAT_BLOCK; k++)
                sums[k % 2] = fmaf(matrix_float(w, i, k), bfloat_activation(x[k]), sums[k % 2]);
            out[i] += sums[0] + sums[1];
        }
}

/* out[rows] = W x, with W [rows][cols] and x [cols]: each output is the dot product of a row of W
 * with x. Nearly all the time of a language model is spent here.
 *
 * Weights of 8 bits and fewer come in groups (of 32, say) with one scale: weight = scale * code. x
 * is rounded to such groups as well, so that the products are of whole numbers. */
static void exact_multiply(float *out, const Matrix *w, const float *x) {
    size_t group = type_group(w->type);
    memset(out, 0, w->rows * sizeof *out);
    if (type_input_form(w->type) == FORM_BFLOATS) {
        bfloat_multiply(out, w, x);
        return;
    }
    for (size_t i = 0; !group && i < w->rows; i++)
        for (size_t k = 0; k < w->cols; k++) out[i] = fmaf(matrix_float(w, i, k), x[k], out[i]);
    for (size_t first = 0; group && first < w->cols; first += group) {
        size_t n = w->cols - first < group ? w->cols - first : group;
        int32_t codes[WEIGHT_GROUP_MAX] = {0}, code_sum = 0; /* of x */
        float largest = 0.0f, x_scale = 0.0f;
        for (size_t k = 0; k < n; k++) largest = fmaxf(largest, fabsf(x[first + k]));
        if (largest >= 1e-30f) {
            float to_code = 127.0f / largest;
            x_scale = largest / 127.0f;
            for (size_t k = 0; k < n; k++) {
                float code = rintf(x[first + k] * to_code);
                codes[k] = (int32_t)fmaxf(-127.0f, fminf(code, 127.0f)); /* 127 if it is NaN */
                code_sum += codes[k];
            }
        }
        for (size_t i = 0; i < w->rows; i++) {
            WeightGroup weights;
            int32_t dot = 0;
            matrix_group(w, i, first / group, &weights);
            for (size_t k = 0; k < group; k++) dot += weights.codes[k] * codes[k];
            out[i] = fmaf((float)dot, weights.scale * x_scale, out[i]);
            if (type_has_minima(w->type)) /* weight = scale * code - minimum */
                out[i] = fmaf(-(x_scale * (float)code_sum), weights.minimum, out[i]);
        }
    }
}

/* The same as a book has it: out_i = sum of W_ik x_k. Nothing is rounded to 8 bits but what the
 * file has so. */
static void plain_multiply(Decoder *d, float *out, const Matrix *w, const float *x) {
    for (size_t i = 0; i < w->rows; i++) {
        matrix_row(w, i, d->row);
        out[i] = 0.0f;
        for (size_t k = 0; k < w->cols; k++) out[i] += d->row[k] * x[k];
    }
}

static void multiply(Decoder *d, float *out, const Matrix *w, const float *x) {
    exact_multiply(out, w, x);
    if (!d->plain.used) return;
    plain_multiply(d, d->other, w, x);
    replace(out, d->other, w->rows, &d->plain.product);
}

/* out = W x + b. The paper's maps have a bias b; a llama's have none. */
static void linear(Decoder *d, float *out, const Linear *map, const float *x) {
    multiply(d, out, &map->w, x);
    for (size_t i = 0; map->bias && i < map->w.rows; i++) out[i] += map->bias[i];
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

/* LayerNorm (arXiv:1607.06450), the paper's: shift x to mean 0, scale it to variance 1, then a
 * learned factor and bias for each element. It keeps numbers at one size, however many layers add
 * to them. `out` may be x. */
static void layer_norm(float *out, const Norm *norm, const float *x, size_t n, float eps) {
    float sums[SUMS] = {0}, squares[SUMS] = {0};
    for (size_t i = 0; i < n; i++) sums[i % SUMS] += x[i];
    float mean = joined(sums) / (float)n;
    for (size_t i = 0; i < n; i++)
        squares[i % SUMS] = fmaf(x[i] - mean, x[i] - mean, squares[i % SUMS]);
    float inverse = 1.0f / sqrtf(joined(squares) / (float)n + eps); /* eps: never 1 / 0 */
    for (size_t i = 0; i < n; i++) {
        out[i] = (x[i] - mean) * inverse * norm->weight[i];
        if (norm->bias) out[i] += norm->bias[i];
    }
}

/* RMSNorm (arXiv:1910.07467), a llama's: the mean stays, and there is no bias. As good, for less.
 */
static void rms_norm(float *out, const Norm *norm, const float *x, size_t n, float eps) {
    float squares[SUMS] = {0};
    for (size_t i = 0; i < n; i++) squares[i % SUMS] = fmaf(x[i], x[i], squares[i % SUMS]);
    float inverse = 1.0f / sqrtf(joined(squares) / (float)n + eps);
    for (size_t i = 0; i < n; i++) out[i] = x[i] * inverse * norm->weight[i];
}

/* ---- Steps 2 and 3: a token and its position become a vector ------------------------------ */

/* x[dim] = row `token` of the embedding, a table [vocab_size][dim] that training has filled. The
 * paper multiplies it by sqrt(dim) (section 3.4): embedding_scale. */
static void embed(const Decoder *d, int32_t token, float *x) {
    matrix_row(&d->w.token_embedding, (size_t)token, x);
    for (size_t i = 0; i < d->c->dim; i++) x[i] *= d->c->embedding_scale;
}

/* Attention takes sums over positions, and a sum has no order: the position must be told.
 *
 * The paper adds sinusoids to x (section 3.5): element 2i gets sin(position * f_i) and element
 * 2i + 1 cos(position * f_i), with f_i = 10000^(-2i / dim). The f_i are in the file. */
static void add_sinusoids(const Decoder *d, size_t position, float *x) {
    for (size_t i = 0; i < d->c->dim / 2; i++) {
        float sine, cosine;
        numbers_sin_cos((float)position * d->w.sinusoid_freqs[i], &sine, &cosine);
        x[2 * i] += sine;
        x[2 * i + 1] += cosine;
    }
}

/* A table of vectors that training has filled, one a position, serves as well (GPT-2). It ends
 * where the training texts did. */
static void add_learned(const Decoder *d, size_t position, float *x) {
    add(x, d->w.position_embedding + position * d->c->dim, d->c->dim);
}

/* A llama leaves x alone and rotates queries and keys instead (RoPE, arXiv:2104.09864): pair i of
 * a head is turned by the angle position * f_i. The dot product of two vectors that are turned by
 * the angles a and b depends on a - b alone, so that attention sees distances. */
static void find_angles(Decoder *d, size_t position) {
    for (size_t i = 0; i < d->heads.rotary_dim / 2; i++)
        numbers_sin_cos((float)position * d->w.rope_freqs[0][i], &d->sine[i], &d->cosine[i]);
}

static void rotate(const Decoder *d, float *head) {
    size_t n_pairs = d->heads.rotary_dim / 2;
    for (size_t i = 0; i < n_pairs; i++) {
        /* Which elements are a pair is a habit of the files: Meta's, or Hugging Face's. */
        bool neighbours = d->c->rope_pairing == ROPE_INTERLEAVED;
        float *a = head + (neighbours ? 2 * i : i), *b = neighbours ? a + 1 : a + n_pairs;
        float first = *a, second = *b;
        *a = fmaf(first, d->cosine[i], -(second * d->sine[i]));
        *b = fmaf(second, d->cosine[i], first * d->sine[i]);
    }
}

/* ---- Step 4: attention --------------------------------------------------------------------- */

/* Where the key (or value) of a position lies in the cache: [head_dim]. */
static float *cached(const Decoder *d, float *cache, size_t layer, size_t position, size_t head) {
    return cache +
           ((layer * d->c->context + position) * d->heads.n_kv_heads + head) * d->heads.head_dim;
}

/* ALiBi (arXiv:2108.12409) tells positions here and nowhere else: a score falls by the head's slope
 * for each position of distance. 0: the model tells them otherwise. */
static float slope(const Decoder *d, size_t head) {
    return d->c->position == POSITION_ALIBI ? d->w.alibi_slopes[head] : 0.0f;
}

/* Scaled dot-product attention (section 3.2.1) of one head and the query at `position`:
 *
 *     out = softmax(q . k / sqrt(head_dim)) v       over the positions 0 ... position
 *
 * Later positions do not exist yet, which is all there is to the causal mask. Softmax makes
 * weights that sum to 1: exp(score) / sum of all exp(score). The largest score is subtracted
 * first, which changes nothing but keeps exp from overflowing. */
static void plain_attend(const Decoder *d, size_t layer, size_t head, size_t kv_head,
                         const float *q, size_t position, float *out) {
    size_t head_dim = d->heads.head_dim;
    float weight[MOST_CONTEXT + 1], largest = -INFINITY, sum = 0.0f;
    for (size_t p = 0; p <= position; p++) {
        const float *k = cached(d, d->keys, layer, p, kv_head);
        float dot = 0.0f;
        for (size_t i = 0; i < head_dim; i++) dot += q[i] * k[i];
        weight[p] = dot * d->c->attention_scale - slope(d, head) * (float)(position - p);
        largest = fmaxf(largest, weight[p]);
    }
    for (size_t p = 0; p <= position; p++) sum += weight[p] = expf(weight[p] - largest);
    memset(out, 0, head_dim * sizeof *out);
    for (size_t p = 0; p <= position; p++) {
        const float *v = cached(d, d->values, layer, p, kv_head);
        for (size_t i = 0; i < head_dim; i++) out[i] += weight[p] / sum * v[i];
    }
}

/* The same in the exact order: block by block, as FlashAttention does (arXiv:2205.14135), with the
 * largest score so far: when a block raises it, what has been summed is scaled down by exp(old -
 * new). The division by the sum comes at the end. */
static void exact_attend(const Decoder *d, size_t layer, size_t head, size_t kv_head,
                         const float *q, size_t position, float *out) {
    size_t head_dim = d->heads.head_dim;
    float largest = -INFINITY, sums[SUMS] = {0};
    memset(out, 0, head_dim * sizeof *out);
    for (size_t first = 0; first <= position; first += BLOCK) {
        size_t n = position + 1 - first < BLOCK ? position + 1 - first : BLOCK;
        float weight[BLOCK], old = largest; /* first scores; of positions that are not seen: 0 */
        for (size_t p = 0; p < n; p++) {
            const float *k = cached(d, d->keys, layer, first + p, kv_head);
            float dot = 0.0f;
            for (size_t i = 0; i < head_dim; i++) dot = fmaf(q[i], k[i], dot);
            weight[p] = dot * d->c->attention_scale; /* 1 / sqrt(head_dim) */
            if (slope(d, head) != 0.0f)
                weight[p] = fmaf((float)(first + p) - (float)position, slope(d, head), weight[p]);
            if (weight[p] > largest) largest = weight[p];
        }
        float shrink = exponential(old - largest);
        for (size_t p = 0; p < BLOCK; p++)
            weight[p] = p < n ? exponential(weight[p] - largest) : 0.0f;
        for (size_t i = 0; i < SUMS; i++)
            sums[i] =
                fmaf(sums[i], shrink, weight[i] + weight[i + 16] + weight[i + 32] + weight[i + 48]);
        for (size_t i = 0; i < head_dim; i++) out[i] *= shrink;
        for (size_t p = 0; p < n; p++) {
            const float *v = cached(d, d->values, layer, first + p, kv_head);
            for (size_t i = 0; i < head_dim; i++) out[i] = fmaf(weight[p], v[i], out[i]);
        }
    }
    float share = 1.0f / joined(sums);
    for (size_t i = 0; i < head_dim; i++) out[i] *= share;
}

static void attend(Decoder *d, size_t layer, size_t head, size_t position) {
    size_t head_dim = d->heads.head_dim, group = d->heads.n_heads / d->heads.n_kv_heads;
    const float *q = d->q + head * head_dim;
    float *out = d->attended + head * head_dim;
    exact_attend(d, layer, head, head / group, q, position, out);
    if (!d->plain.used) return;
    plain_attend(d, layer, head, head / group, q, position, d->other);
    replace(out, d->other, head_dim, &d->plain.attention);
}

/* Multi-head attention (section 3.2.2): y[dim] = Wo (the heads' outputs side by side).
 *
 * Three maps of the same input: the query is what a position looks for, the key what it offers, the
 * value what it gives. Several heads look for several things at once.
 *
 * Keys and values of earlier positions never change, so they are computed once and kept: the KV
 * cache. A llama keeps fewer of them: with grouped queries (arXiv:2305.13245) n_heads / n_kv_heads
 * heads in a row share one key and value. In the paper n_kv_heads = n_heads. */
static void attention(Decoder *d, size_t layer, size_t position, const float *in, float *y) {
    const LayerWeights *w = &d->w.layers[layer];
    const HeadShape *h = &d->heads;
    size_t n_kept = (size_t)h->n_kv_heads * h->head_dim;
    float *k = cached(d, d->keys, layer, position, 0);   /* [n_kv_heads][head_dim] */
    float *v = cached(d, d->values, layer, position, 0); /* [n_kv_heads][head_dim] */
    linear(d, d->q, &w->wq,
           in); /* [n_heads][head_dim] = Wq [n_heads * head_dim][dim] times [dim] */
    linear(d, k, &w->wk, in);
    linear(d, v, &w->wv, in);
    if (d->c->position == POSITION_ROPE) {
        for (size_t i = 0; i < h->n_heads; i++) rotate(d, d->q + i * h->head_dim);
        for (size_t i = 0; i < h->n_kv_heads; i++) rotate(d, k + i * h->head_dim);
    }
    for (size_t i = 0; d->half_cache && i < n_kept; i++) {
        k[i] = numbers_half_to_float(numbers_float_to_half(k[i]));
        v[i] = numbers_half_to_float(numbers_float_to_half(v[i]));
    }
    for (size_t i = 0; i < h->n_heads; i++) attend(d, layer, i, position);
    linear(d, y, &w->wo, d->attended); /* [dim] = Wo [dim][n_heads * head_dim] times it */
}

/* ---- Step 5: the feed-forward network ------------------------------------------------------ */

/* The paper's (section 3.3): y = W2 max(0, W1 x + b1) + b2, wider inside than outside. Attention
 * moves information between positions; this works on what has arrived at one. */
static void paper_feed_forward(Decoder *d, const FeedForward *f, const float *in, float *y) {
    linear(d, d->hidden, &f->up, in);                                               /* [ffn_dim] */
    for (size_t i = 0; i < f->width; i++) d->hidden[i] = fmaxf(0.0f, d->hidden[i]); /* ReLU */
    linear(d, y, &f->down, d->hidden);                                              /* [dim] */
}

/* A llama's: SwiGLU (arXiv:2002.05202). y = Wdown (silu(Wgate x) * (Wup x)), with the product
 * element by element and silu(g) = g / (1 + exp(-g)), a ReLU without its corner. */
static void llama_feed_forward(Decoder *d, const FeedForward *f, const float *in, float *y) {
    linear(d, d->hidden, &f->gate, in); /* [ffn_dim] */
    linear(d, d->up, &f->up, in);       /* [ffn_dim] */
    for (size_t i = 0; i < f->width; i++) {
        float gate = d->hidden[i];
        d->hidden[i] = gate * (1.0f / (1.0f + exponential(-gate))) * d->up[i];
    }
    linear(d, y, &f->down, d->hidden); /* [dim] */
}

/* ---- A layer, and all of them --------------------------------------------------------------- */

/* x is the residual stream: each layer adds to it, none replaces it. The paper normalizes after the
 * addition, LayerNorm(x + f(x)) (section 3.1): post-norm. */
static void paper_layer(Decoder *d, size_t layer, size_t position, float *x) {
    const LayerWeights *w = &d->w.layers[layer];
    size_t dim = d->c->dim;
    attention(d, layer, position, x, d->y);
    add(x, d->y, dim);
    layer_norm(x, &w->attention_norm, x, dim, d->c->norm_eps);
    paper_feed_forward(d, &w->ffn, x, d->y);
    add(x, d->y, dim);
    layer_norm(x, &w->ffn_norm, x, dim, d->c->norm_eps);
}

/* A llama normalizes what f reads, x + f(norm(x)): pre-norm. From the last layer to the first there
 * is then a way of additions alone, along which deep models are easier to train. */
static void llama_layer(Decoder *d, size_t layer, size_t position, float *x) {
    const LayerWeights *w = &d->w.layers[layer];
    size_t dim = d->c->dim;
    rms_norm(d->normed, &w->attention_norm, x, dim, d->c->norm_eps);
    attention(d, layer, position, d->normed, d->y);
    add(x, d->y, dim);
    rms_norm(d->normed, &w->ffn_norm, x, dim, d->c->norm_eps);
    llama_feed_forward(d, &w->ffn, d->normed, d->y);
    add(x, d->y, dim);
}

/* Reads the token at `position`; the positions before it have been read. Step 6: d->logits
 * [vocab_size] = the output map of x. It is often the embedding's table again (section 3.4): the
 * logit of a token is then how much x points where that token's vector does. */
static void forward(Decoder *d, int32_t token, size_t position) {
    bool is_paper = d->c->norm_place == NORM_AFTER;
    float *x = d->x; /* [dim] */
    embed(d, token, x);
    if (d->c->position == POSITION_SINUSOIDAL) add_sinusoids(d, position, x);
    if (d->c->position == POSITION_LEARNED) add_learned(d, position, x);
    if (d->c->position == POSITION_ROPE) find_angles(d, position);
    for (size_t layer = 0; layer < d->c->n_layers; layer++) {
        if (is_paper) {
            paper_layer(d, layer, position, x);
        } else {
            llama_layer(d, layer, position, x);
        }
    }
    /* Post-norm ends in a norm anyway. */
    if (!is_paper) rms_norm(x, &d->w.final_norm, x, d->c->dim, d->c->norm_eps);
    linear(d, d->logits, &d->w.output, x);
}

/* ---- Step 7: from logits to the next token -------------------------------------------------- */

/* Temperature 0, "greedy": the token with the largest logit; of equal ones the first. */
static int32_t likeliest(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

/* Otherwise a token is drawn. Softmax of logits / temperature gives probabilities: below 1 the
 * likely become likelier, above 1 all become more alike. Top-p (arXiv:1904.09751) keeps the
 * smallest set of the most likely tokens whose probabilities sum to p, because thousands of
 * unlikely tokens together are not so unlikely. Probabilities are not divided by their sum; all is
 * compared with the sum instead. (`run` finds the edge without sorting, with sums in another order:
 * it could differ where the edge is met to the last bit of a double.) */
static int32_t sample(float *x, size_t n, const SamplerOptions *o, size_t position) {
    float largest = x[likeliest(x, n)], sums[SUMS] = {0};
    for (size_t i = 0; i < n; i++) {
        x[i] = exponential((x[i] - largest) / o->temperature);
        sums[i % SUMS] += x[i];
    }
    double goal = fmax((double)o->top_p * (double)joined(sums), DBL_MIN), weight = 0.0;
    float edge = 0.0f;   /* the smallest that is kept */
    size_t edge_end = n; /* of those equal to it, the ones before this index */
    for (float below = INFINITY; o->top_p < 1.0f && weight < goal; below = edge) {
        edge = 0.0f;
        for (size_t i = 0; i < n; i++) /* the next smaller one */
            if (x[i] < below && x[i] > edge) edge = x[i];
        for (edge_end = 0; edge_end < n && weight < goal; edge_end++)
            if (x[edge_end] == edge) weight += (double)edge;
        if (edge == 0.0f) break;
    }
    double kept = 0.0, passed = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] < edge || (x[i] == edge && i >= edge_end)) x[i] = 0.0f;
        kept += (double)x[i];
    }
    /* A dart at a line on which each token has a piece as long as its probability. The number is
     * a function of seed and position, so that the same seed gives the same text. */
    double dart = sampler_random(o->seed, 0, position) * kept;
    size_t chosen = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] == 0.0f) continue;
        passed += (double)x[i];
        chosen = i;
        if (passed > dart) break;
    }
    return (int32_t)chosen;
}

/* "eos", end of sequence, are the tokens after which nothing follows. */
static bool ends_text(const GenerationOptions *o, int32_t token) {
    for (size_t i = 0; i < o->n_eos; i++)
        if (o->eos[i] == token) return true;
    return false;
}

/* ---- From the prompt to the text ------------------------------------------------------------ */

static void check(Status status, const Error *error) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "decoder: ");
    shown_text_write(stderr, error->text, strlen(error->text));
    fprintf(stderr, "\n");
    exit(1);
}

/* Damaged weights, or numbers too large for float32, give infinity or NaN, from which no token can
 * be chosen. */
static void check_finite(const float *logits, size_t vocab_size, size_t position) {
    Error error;
    for (size_t i = 0; i < vocab_size; i++)
        if (!isfinite(logits[i]))
            check(error_set(&error,
                            "the logit of token %zu after %zu tokens is not a finite number", i,
                            position),
                  &error);
}

/* A token is a piece of text, and a character may need several: a TokenDecoder keeps bytes
 * back until a character is whole. */
static void print_token(TokenDecoder *decoder, int32_t token) {
    const char *bytes;
    size_t length;
    Error error;
    check(token_decoder_push(decoder, token, &bytes, &length, &error), &error);
    shown_text_write(stdout, bytes, length);
}

/* The loop that everyone calls generation: read the prompt; then choose a token, print it, read it.
 * The model has no other memory than the cache. */
static void generate(Decoder *d, const Tokenizer *tokenizer, const GenerationOptions *o,
                     const TokenList *prompt) {
    TokenDecoder decoder;
    const char *bytes;
    size_t length, position = 0, vocab_size = d->c->vocab_size;
    Error error;
    token_decoder_init(&decoder, tokenizer, o->decode_flags);
    for (; position < prompt->length; position++) forward(d, prompt->ids[position], position);
    for (size_t n = 1;; n++, position++) {
        check_finite(d->logits, vocab_size, position);
        int32_t token = o->sampling.temperature == 0.0f
                            ? likeliest(d->logits, vocab_size)
                            : sample(d->logits, vocab_size, &o->sampling, position);
        if (ends_text(o, token)) break;
        print_token(&decoder, token);
        if (n == o->max_tokens || position == d->c->context) break;
        forward(d, token, position);
    }
    check(token_decoder_flush(&decoder, &bytes, &length, &error), &error);
    shown_text_write(stdout, bytes, length);
    putchar('\n');
    token_decoder_free(&decoder);
}

/* ---- Opening a model ------------------------------------------------------------------------ */

/* Whether the model is one of the two; `run` knows about 180 families. */
static bool is_known(const Decoder *d, const GenerationOptions *o) {
    const Config *c = d->c;
    bool paper = c->norm == NORM_LAYER && c->norm_place == NORM_AFTER && !c->gated &&
                 c->activation == ACTIVATION_RELU && !c->final_norm;
    bool llama = c->norm == NORM_RMS && c->norm_place == NORM_BEFORE && c->gated &&
                 c->activation == ACTIVATION_SILU && c->final_norm && !c->parallel_block;
    bool positions = (c->position == POSITION_SINUSOIDAL &&
                      c->sinusoid_layout == SINUSOID_INTERLEAVED && c->position_offset == 0) ||
                     (c->position == POSITION_LEARNED && c->position_offset == 0) ||
                     c->position == POSITION_ALIBI ||
                     (c->position == POSITION_ROPE && c->rope_attention_factor == 1.0f &&
                      c->rope_original_context == 0 && c->rope_dynamic_factor == 0.0f);
    bool plain = c->stack == STACK_PLAIN && c->experts.count == 0 && c->qk_norm == QK_NORM_NONE &&
                 c->attention_softcap == 0.0f && c->qkv_clip == 0.0f && c->value_scale == 1.0f &&
                 c->query_scaling == 0.0f && !c->attention_scale_falls && !c->value_norm &&
                 c->residual_scale == 1.0f && c->logit_scale == 1.0f && c->logit_softcap == 0.0f &&
                 !c->round_inputs && !d->w.embedding_norm.present &&
                 d->heads.value_dim == d->heads.head_dim && c->context <= MOST_CONTEXT;
    for (size_t l = 0; l < c->n_layers; l++) {
        const LayerWeights *w = &d->w.layers[l];
        plain &= !c->window[l] && !c->rope_table[l] && !c->chunk[l] && !c->layer_kind[l] &&
                 !c->layer_n_heads[l] && !c->layer_n_kv_heads[l] && !c->layer_head_dim[l] &&
                 !c->layer_ffn_dim[l] && !c->without_ffn[l] && !c->kv_distance[l];
        plain &= w->attention_norm.weight && w->ffn_norm.weight && w->wv.w.data && !w->sinks &&
                 !w->attention_gate.w.data && !w->inner_norm.present;
    }
    const SamplerOptions *s = &o->sampling;
    return (paper || llama) && positions && plain && s->top_k == 0 && s->min_p == 0.0f &&
           s->repetition_penalty == 1.0f;
}

static float *floats(size_t rows, size_t cols) {
    Error error;
    float *array = calloc(rows, cols * sizeof *array);
    if (!array) check(error_set(&error, "no memory"), &error);
    return array;
}

/* Allocates the KV cache and the vectors of one step. Vectors that follow each other here share an
 * allocation: free_room frees only the first of them. */
static void make_room(Decoder *d) {
    const Config *c = d->c;
    const HeadShape *h = &d->heads;
    size_t kept = (size_t)h->n_kv_heads * h->head_dim;
    d->keys = floats((size_t)c->n_layers * c->context, kept);
    d->values = floats((size_t)c->n_layers * c->context, kept);
    d->x = floats(3, c->dim);
    d->normed = d->x + c->dim;
    d->y = d->normed + c->dim;
    d->q = floats(2 * (size_t)h->n_heads, h->head_dim);
    d->attended = d->q + (size_t)h->n_heads * h->head_dim;
    d->hidden = floats(2, c->ffn_dim);
    d->up = d->hidden + c->ffn_dim;
    d->cosine = floats(2, h->head_dim);
    d->sine = d->cosine + h->head_dim;
    d->logits = floats(c->vocab_size, 1);
    size_t widest = kept + (size_t)h->n_heads * h->head_dim + c->dim + c->ffn_dim + c->vocab_size;
    d->row = floats(2, widest);
    d->other = d->row + widest;
}

static void free_room(Decoder *d) {
    float *arrays[] = {d->keys, d->values, d->x, d->q, d->hidden, d->cosine, d->logits, d->row};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    weights_free(&d->w);
}

/* Reads one argument, a number from 0 to `most`. */
static double number(const char *text, double most) {
    char *end;
    Error error;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0.0) || value > most)
        check(error_set(&error, "%s: not a number from 0 to %g", text, most), &error);
    return value;
}

/* Opens the model, encodes the prompt and generates. Every failure after the usage message ends the
 * program in check(). */
int main(int argc, char **argv) {
    ModelFile *file;
    Tokenizer *tokenizer;
    Decoder d = {0};
    TokenList prompt = {0};
    Error error;
    size_t n_bytes;
    d.plain.used = argc == 7 && strcmp(argv[6], "plain") == 0;
    if (argc != 6 && !d.plain.used) {
        fprintf(stderr, "usage: decoder MODEL.bin PROMPT TOKENS TEMPERATURE SEED [plain]\n");
        return 2;
    }
    check(modelfile_open(&file, argv[1], -1, &error), &error);
    d.c = modelfile_config(file);
    d.heads = config_heads(d.c, 0);
    check(weights_find(&d.w, file, d.c, &error), &error);
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &n_bytes);
    if (!section) check(error_set(&error, "%s: has no tokenizer", argv[1]), &error);
    check(tokenizer_open_for(&tokenizer, argv[1], section, n_bytes, d.c->vocab_size, &error),
          &error);
    GenerationOptions o = generation_defaults(file, tokenizer); /* top-p; which tokens end a text */
    if (!is_known(&d, &o))
        check(error_set(&error, "%s: neither the paper's decoder nor a plain llama", argv[1]),
              &error);
    o.max_tokens = (size_t)number(argv[3], 1e9);
    o.sampling.temperature = (float)number(argv[4], 1e3);
    o.sampling.seed = (uint64_t)number(argv[5], 1e15);
    if (*argv[2]) o.decode_flags |= TOKEN_DECODER_CONTINUE;
    d.half_cache = d.w.layers[0].wq.w.type != TENSOR_F32;
    make_room(&d);
    check(tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), NULL, TOKENIZE_ADD_BOS, &prompt,
                           &error),
          &error); /* step 1; BOS: the token that begins a text */
    if (prompt.length == 0 || prompt.length > d.c->context)
        check(error_set(&error, "the prompt has %zu tokens, not from 1 to %u", prompt.length,
                        d.c->context),
              &error);
    generate(&d, tokenizer, &o, &prompt);
    if (fflush(stdout) != 0 || ferror(stdout))
        check(error_set(&error, "stdout: cannot be written"), &error);
    if (d.plain.used)
        fprintf(stderr,
                "plain formulas, largest difference: %.2g of a product, %.2g of attention%s\n",
                (double)d.plain.product, (double)d.plain.attention,
                type_input_form(d.w.layers[0].wq.w.type) == FORM_BFLOATS
                    ? "; bf16_act rounds what its weights multiply, by its definition"
                    : "");
    token_list_free(&prompt);
    free_room(&d);
    tokenizer_close(tokenizer);
    modelfile_close(file);
    return 0;
}
