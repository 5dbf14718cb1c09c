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
    SamplerRecord *record;   /* sampler_keep_record; NULL: nobody asks */
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

/* Turns logits x[n] to weights exp((x - largest) / temperature), and returns their sum. */
static double weigh(const Sampler *s, float *x, size_t n) {
    float max = s->numeric->maximum(x, n);
    /* The difference first: it stays finite or goes to -infinity, whatever the temperature. */
    for (size_t i = 0; i < n; i++) x[i] = (x[i] - max) / s->options.temperature;
    return (double)s->numeric->softmax_sum(x, 0.0f, n);
}

/* What cuts an element of weight x: top-p, whose edge is `cut`, or min-p. The largest weight is 1.
 */
static inline SamplerCut cut_by(Cut *cut, float x, float min_p) {
    if (!cut_keeps(cut, x)) return SAMPLER_BY_TOP_P;
    return x < min_p ? SAMPLER_BY_MIN_P : SAMPLER_LEFT;
}

/* ---- The record --------------------------------------------------------------------------- */

Status sampler_record_new(SamplerRecord *record, size_t vocab_size, Error *error) {
    *record = (SamplerRecord){.logits = calloc(vocab_size, sizeof(float)),
                              .penalized = calloc(vocab_size, sizeof(float)),
                              .weights = calloc(vocab_size, sizeof(float)),
                              .cuts = calloc(vocab_size, sizeof(uint8_t))};
    if (record->logits && record->penalized && record->weights && record->cuts) return STATUS_OK;
    return error_set(error, "no memory for a record of %zu tokens", vocab_size);
}

void sampler_record_free(SamplerRecord *record) {
    free(record->logits);
    free(record->penalized);
    free(record->weights);
    free(record->cuts);
    *record = (SamplerRecord){0};
}

void sampler_keep_record(Sampler *s, SamplerRecord *record) {
    s->record = record;
}

/* Records which of the penalized logits x[n] may be chosen, and their weights before top-k. The
 * array of the weights serves as the room to compute them in. */
static void record_allowed(Sampler *s, const float *x, size_t n) {
    SamplerRecord *r = s->record;
    r->n_allowed = n;
    r->sum = r->sum_top_k = r->sum_top_p = r->sum_min_p = r->random = 0.0;
    for (size_t i = 0; i < s->vocab_size; i++) r->cuts[i] = SAMPLER_NOT_ALLOWED;
    for (size_t i = 0; i < n; i++)
        r->cuts[s->allowed ? s->candidates[i] : (int32_t)i] = SAMPLER_LEFT;
    memset(r->weights, 0, s->vocab_size * sizeof *r->weights);
    if (s->options.temperature == 0.0f) return;
    memcpy(r->weights, x, n * sizeof *x);
    r->sum = r->sum_top_k = weigh(s, r->weights, n);
    for (size_t i = n;
         s->allowed && i-- > 0;) { /* to the tokens' own places, which are not lower */
        float weight = r->weights[i];
        r->weights[i] = 0.0f;
        r->weights[s->candidates[i]] = weight;
    }
}

/* Records the tokens that top-k left, which are candidates[n]. */
static void record_top_k(Sampler *s, size_t n) {
    SamplerRecord *r = s->record;
    for (size_t i = 0; i < s->vocab_size; i++)
        if (r->cuts[i] == SAMPLER_LEFT) r->cuts[i] = SAMPLER_BY_TOP_K;
    for (size_t i = 0; i < n; i++) r->cuts[s->candidates[i]] = SAMPLER_LEFT;
}

/* Records the weights x[n] that a token is drawn from, and what `cut` and min-p take of them. */
static void record_weights(const Sampler *s, const float *x, size_t n, double sum, Cut cut) {
    SamplerRecord *r = s->record;
    bool listed = s->allowed || n < s->vocab_size;
    r->sum_top_k = sum;
    for (size_t i = 0; i < n; i++) {
        int32_t token = listed ? s->candidates[i] : (int32_t)i;
        SamplerCut by = cut_by(&cut, x[i], s->options.min_p);
        r->cuts[token] = (uint8_t)by;
        r->weights[token] = x[i];
        if (by != SAMPLER_BY_TOP_P) r->sum_top_p += (double)x[i];
    }
}

/* ---- The draw ------------------------------------------------------------------------------- */

/* The index of the element drawn from x[n], logits that have been penalized and cut. */
static size_t draw(const Sampler *s, float *x, size_t n, uint64_t position) {
    const SamplerOptions *o = &s->options;
    double sum = weigh(s, x, n), kept = 0.0;
    Cut cut = {0, n};
    if (o->top_p < 1.0f) cut = cut_at(x, n, false, fmax((double)o->top_p * sum, DBL_MIN));
    if (s->record) record_weights(s, x, n, sum, cut);
    for (size_t i = 0; i < n; i++) {
        if (cut_by(&cut, x[i], o->min_p) != SAMPLER_LEFT) x[i] = 0.0f;
        kept += (double)x[i];
    }
    double random = sampler_random(o->seed, o->sample, position);
    double target = random * kept, passed = 0.0;
    if (s->record) s->record->sum_min_p = kept, s->record->random = random;
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
    SamplerRecord *record = s->record;
    if (record) memcpy(record->logits, logits, s->vocab_size * sizeof *logits);
    for (size_t i = 0; i < o->n_bias; i++) logits[o->bias[i].token] += o->bias[i].bias;
    if (s->seen) penalize(s, logits);
    if (record) memcpy(record->penalized, logits, s->vocab_size * sizeof *logits);
    size_t n = s->allowed ? keep_allowed(s, logits) : s->vocab_size, n_allowed = n, chosen;
    if (record) record_allowed(s, logits, n);
    if (o->temperature == 0.0f) {
        chosen = first_equal(logits, n, s->numeric->maximum(logits, n));
    } else {
        n = keep_top_k(s, logits, n);
        if (record && n < n_allowed) record_top_k(s, n);
        chosen = draw(s, logits, n, position);
    }
    int32_t token = s->allowed || n < s->vocab_size ? s->candidates[chosen] : (int32_t)chosen;
    if (record) record->chosen = token;
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
