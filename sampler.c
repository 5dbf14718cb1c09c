#include "sampler.h"

#include <float.h>
#include <stdlib.h>

#include "base/numbers.h"

struct Sampler {
    SamplerOptions options;
    const Numeric *numeric;
    size_t vocab_size;
    int32_t *candidates;     /* [top_k, or vocab_size] the tokens that the first logits stand for */
    const uint64_t *allowed; /* sampler_allow; NULL: all are */
    /* Only where a penalty asks for them: */
    bool *seen;          /* [vocab_size] in the prompt or the text */
    uint32_t *generated; /* [vocab_size] times in the text */
    int32_t *distinct;   /* [n_distinct] the tokens that are seen */
    size_t n_distinct;
};

SamplerOptions sampler_options_default(void) {
    return (SamplerOptions){.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f};
}

static bool has_penalty(const SamplerOptions *o) {
    return o->repetition_penalty != 1.0f || o->presence_penalty != 0.0f ||
           o->frequency_penalty != 0.0f;
}

Status sampler_new(Sampler **out, const SamplerOptions *options, size_t vocab_size,
                   const Numeric *numeric, Error *error) {
    for (size_t i = 0; i < options->n_bias; i++)
        if (options->bias[i].token < 0 || (size_t)options->bias[i].token >= vocab_size)
            return error_set(error, "logit bias: token %d is outside the vocabulary of %zu",
                             options->bias[i].token, vocab_size);
    Sampler *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, "no memory for a sampler");
    s->options = *options;
    s->numeric = numeric;
    s->vocab_size = vocab_size;
    if (s->options.top_k >= vocab_size) s->options.top_k = 0;
    bool failed = false;
    size_t most = options->restricted ? vocab_size : s->options.top_k;
    if (most > 0) failed |= !(s->candidates = calloc(most, sizeof *s->candidates));
    if (has_penalty(options)) {
        failed |= !(s->seen = calloc(vocab_size, sizeof *s->seen));
        failed |= !(s->generated = calloc(vocab_size, sizeof *s->generated));
        failed |= !(s->distinct = calloc(vocab_size, sizeof *s->distinct));
    }
    if (failed) {
        sampler_free(s);
        return error_set(error, "no memory for a sampler of %zu tokens", vocab_size);
    }
    *out = s;
    return STATUS_OK;
}

void sampler_free(Sampler *s) {
    if (!s) return;
    free(s->candidates);
    free(s->seen);
    free(s->generated);
    free(s->distinct);
    free(s);
}

/* ---- Bias and penalties ------------------------------------------------------------------ */

static void see(Sampler *s, int32_t token) {
    if (!s->seen || token < 0 || (size_t)token >= s->vocab_size || s->seen[token]) return;
    s->seen[token] = true;
    s->distinct[s->n_distinct++] = token;
}

void sampler_see_prompt(Sampler *s, const int32_t *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) see(s, tokens[i]);
}

static void penalize(const Sampler *s, float *logits) {
    const SamplerOptions *o = &s->options;
    for (size_t i = 0; i < s->n_distinct; i++) {
        int32_t token = s->distinct[i];
        float x = logits[token];
        x = x < 0.0f ? x * o->repetition_penalty : x / o->repetition_penalty;
        if (s->generated[token] > 0) {
            x -= o->presence_penalty;
            x -= o->frequency_penalty * (float)s->generated[token];
        }
        logits[token] = x;
    }
}

/* ---- The edge of top-k and top-p ---------------------------------------------------------- */

/* Integers in the order of the floats; both zeros are one. */
static inline uint32_t ordered(float x) {
    uint32_t u = float_bits(x + 0.0f);
    return u >> 31 ? ~u : u | 0x80000000u;
}

/* What is kept: the elements above `key`, and the first `ties` of those equal to it. */
typedef struct Cut {
    uint32_t key;
    size_t ties;
} Cut;

static inline bool cut_keeps(Cut *cut, float x) {
    uint32_t key = ordered(x);
    if (key != cut->key) return key > cut->key;
    if (cut->ties == 0) return false;
    cut->ties--;
    return true;
}

/* Takes elements from the largest down until they weigh `goal` (> 0) together. An element
 * weighs 1 when `by_count`, else its own value, which is then not negative. Three passes fix
 * the bits of the last one taken: at each, bucket by the next bits and go down the buckets. */
static Cut cut_at(const float *x, size_t n, bool by_count, double goal) {
    enum { BITS = 11, BUCKETS = 1 << BITS };
    static const int shifts[] = {21, 10, 0};
    double above = 0.0, buckets[BUCKETS];
    uint32_t key = 0, known = 0;
    for (int pass = 0; pass < 3; pass++) {
        uint32_t mask = (pass < 2 ? BUCKETS : BUCKETS / 2) - 1, bucket = mask;
        memset(buckets, 0, sizeof buckets);
        for (size_t i = 0; i < n; i++) {
            uint32_t k = ordered(x[i]);
            if ((k & known) == key)
                buckets[k >> shifts[pass] & mask] += by_count ? 1.0 : (double)x[i];
        }
        while (bucket > 0 && above + buckets[bucket] < goal) above += buckets[bucket--];
        key |= bucket << shifts[pass];
        known |= mask << shifts[pass];
    }
    double weight = by_count ? 1.0 : (double)float_from_bits(key & 0x7FFFFFFFu);
    double ties = weight > 0.0 ? ceil((goal - above) / weight) : (double)n;
    return (Cut){key, ties < 1.0 ? 1 : ties < (double)n ? (size_t)ties : n};
}

/* ---- The choice ----------------------------------------------------------------------------- */

static size_t first_equal(const float *x, size_t n, float value) {
    size_t i = 0;
    while (i + 1 < n && x[i] != value) i++;
    return i;
}

void sampler_allow(Sampler *s, const uint64_t *allowed) {
    s->allowed = allowed;
}

/* Moves the allowed logits to the front, in the order of their indices; returns how many. */
static size_t keep_allowed(Sampler *s, float *logits) {
    size_t n = 0;
    for (size_t i = 0; i < s->vocab_size; i++) {
        if (!(s->allowed[i / 64] >> (i % 64) & 1)) continue;
        s->candidates[n] = (int32_t)i;
        logits[n++] = logits[i];
    }
    return n;
}

/* Moves the top_k of n logits to the front, in the order of their indices; returns how many. */
static size_t keep_top_k(Sampler *s, float *logits, size_t n) {
    if (s->options.top_k == 0 || s->options.top_k >= n) return n;
    Cut cut = cut_at(logits, n, true, s->options.top_k);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!cut_keeps(&cut, logits[i])) continue;
        s->candidates[kept] = s->allowed ? s->candidates[i] : (int32_t)i;
        logits[kept++] = logits[i];
    }
    return kept;
}

/* The index of the element drawn from x[n], logits that have been penalized and cut. */
static size_t draw(const Sampler *s, float *x, size_t n, uint64_t position) {
    const SamplerOptions *o = &s->options;
    float max = s->numeric->maximum(x, n);
    /* The difference first: it stays finite or goes to -infinity, whatever the temperature. */
    for (size_t i = 0; i < n; i++) x[i] = (x[i] - max) / o->temperature;
    double sum = (double)s->numeric->softmax_sum(x, 0.0f, n), kept = 0.0;
    Cut cut = {0, n};
    if (o->top_p < 1.0f) cut = cut_at(x, n, false, fmax((double)o->top_p * sum, DBL_MIN));
    for (size_t i = 0; i < n; i++) {
        if (!cut_keeps(&cut, x[i]) || x[i] < o->min_p) x[i] = 0.0f; /* the largest is 1 */
        kept += (double)x[i];
    }
    double target = sampler_random(o->seed, o->sample, position) * kept, passed = 0.0;
    size_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (x[i] == 0.0f) continue;
        passed += (double)x[i];
        last = i;
        if (passed > target) break;
    }
    return last;
}

int32_t sampler_next(Sampler *s, float *logits, uint64_t position) {
    const SamplerOptions *o = &s->options;
    for (size_t i = 0; i < o->n_bias; i++) logits[o->bias[i].token] += o->bias[i].bias;
    if (s->seen) penalize(s, logits);
    size_t n = s->allowed ? keep_allowed(s, logits) : s->vocab_size, chosen;
    if (o->temperature == 0.0f) {
        chosen = first_equal(logits, n, s->numeric->maximum(logits, n));
    } else {
        n = keep_top_k(s, logits, n);
        chosen = draw(s, logits, n, position);
    }
    int32_t token = s->allowed || n < s->vocab_size ? s->candidates[chosen] : (int32_t)chosen;
    see(s, token);
    if (s->generated) s->generated[token]++;
    return token;
}

double sampler_random(uint64_t seed, uint64_t sample, uint64_t position) {
    uint32_t x[4] = {(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)sample,
                     (uint32_t)(sample >> 32)};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0, y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[1] = (uint32_t)b;
        x[3] = (uint32_t)a;
        x[0] = y0;
        x[2] = y2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    uint64_t bits = (uint64_t)x[1] << 32 | x[0];
    return (double)(bits >> 11) * 0x1p-53;
}
