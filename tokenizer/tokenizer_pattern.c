/* Patterns: compiled from a section, which may hold any, and matched within a bound on the work. */
#include "tokenizer/tokenizer_pattern.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/unicode.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_table.h"

/* Hashes of the patterns that formats/ writes for public tokenizers. Their time is known to be
 * linear in the text (tests/test_tokenizer_patterns.c tries the texts that could make them slow,
 * and prints the hash of a pattern that is missing here), so their steps are not counted, which is
 * quicker. */
static const uint64_t linear_patterns[] = {
    0x39a776641be02822, 0xdcbe889ec666e417, 0xfb7d07ae94a800ed, 0xf6da6024360f54a5,
    0xa7858ed9a43828ec, 0xa02defef52ef2440, 0xa679e348a921f6fa, 0x1572ca47ac488cbc,
    0x2f53c0b1464a1368, 0x8f3f95a5207e72c2, 0x26b16e514ac861db, 0x452c5bec6cdf43a9,
    0xe0bac9424c1f6a7e, 0x3548b1d55e424427, 0x637f0005b6ff230c, 0xae938b614ec46b16,
    0x4c6311fa8be4100a, 0x73d463074b172588, 0x27e898d274f94883, 0x5d6f6adb70202ce9,
    0x692347bfb8990c97, 0x2ae42cb7085f6d58, 0x38ecc7b7facf65f5, 0xc60158bd6c525eae,
    0x1b620b6d55e02f53, 0xb5f226fa0617de89, 0xede50406dfffd996, 0x4508c8f617bac43f,
    0x49cc07b730a02129, 0x33c7c28274bcdcde, 0x85355b49f21f99da, 0xee9d130e0fa9aaef,
    0x4ab4e3c6da339d71, 0xe5a1fa908c50f1d7, 0x2492597843ad5e7f, 0xe1b6f7c05c98de61,
    0x391d50f933ae9c24, 0xb0ac146b11c3121b, 0xa252e6e5034217c2, 0xbfefa58bdc5fc16d,
    0x3e76e221680513b2, 0xfafabb62151c3697, 0x0de96fb347073512, 0x0bdf9e14583671dd,
};

/* Hashes twice, the first hash being the second's seed: neither alone resists one who looks for a
 * slow pattern with a hash from the list. */
uint64_t pattern_hash(const char *pattern, size_t length) {
    return XXH3_64bits_withSeed(pattern, length, XXH64(pattern, length, 0));
}

static bool is_known_linear(const char *pattern, size_t length) {
    uint64_t hash = pattern_hash(pattern, length);
    size_t i = 0, n = sizeof linear_patterns / sizeof *linear_patterns;
    while (i < n && linear_patterns[i] != hash) i++;
    return i < n;
}

/* A pattern may not contain \C or begin with a verb such as (*LIMIT_MATCH=). One that is not known
 * is compiled with a callout before each of its items, which pattern_step counts. Both of PCRE2's
 * matchers, JIT and interpreter, then take the same steps: optimizations that would skip places
 * where a match could start are turned off, because the two skip different ones. */
Status pattern_compile(const char *pattern, size_t length, pcre2_code **out, Error *error) {
    size_t offset = 0;
    int code = 0, shown = length < 200 ? (int)length : 200;
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    if (length >= 2 && memcmp(pattern, "(*", 2) == 0)
        return error_set(error, "tokenizer: pattern '%.*s' begins with a verb", shown, pattern);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return table_no_memory(error);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    if (!is_known_linear(pattern, length)) options |= PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE;
    *out = pcre2_compile((PCRE2_SPTR)pattern, length, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!*out) {
        char why[128];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(error, "tokenizer: pattern '%.*s': at %zu: %s", shown, pattern, offset,
                         why);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT the interpreter does it */
    return STATUS_OK;
}

/* PCRE2's callout before each item of a pattern: counts a step and how far the match has moved, and
 * stops it when none are left. */
static int pattern_step(pcre2_callout_block *block, void *scratch) {
    Scratch *s = scratch;
    size_t at = block->current_position, last = s->step_at;
    size_t steps = 1 + (at > last ? at - last : last - at);
    if (steps > s->steps_left) return PCRE2_ERROR_CALLOUT;
    s->steps_left -= steps;
    s->step_at = at;
    return 0;
}

size_t pattern_steps(size_t length) {
    size_t always = (size_t)1 << 25;
    return length < (SIZE_MAX - always) / 256 ? always + 256 * length : SIZE_MAX;
}

void pattern_allow(Scratch *s, size_t steps) {
    s->steps = s->steps_left = steps;
    pcre2_set_callout(s->context, pattern_step, s);
}

/* Runs PCRE2 from m->at on. */
static int match(const Matches *m, Scratch *s, uint32_t options) {
    s->step_at = m->at;
    return pcre2_match(m->code, (PCRE2_SPTR)m->span.bytes, m->span.length, m->at,
                       options | PCRE2_NO_UTF_CHECK, s->match, s->context);
}

static int match_failed(const Matches *m, const Scratch *s, int code, Error *error) {
    int shown = m->string_length < 200 ? (int)m->string_length : 200;
    char why[128];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    if (code == PCRE2_ERROR_CALLOUT)
        snprintf(why, sizeof why, "more than %zu steps for %zu bytes of text", s->steps,
                 m->span.length);
    error_set(error, "tokenizer: pattern '%.*s' failed on this text: %s", shown, m->string, why);
    return -1;
}

/* Finds the next match at or after m->at, [*from, *to), which may be empty. Returns 1, 0: there is
 * none, or -1 with an error. Where the stack of PCRE2's JIT is too small its interpreter tries
 * again, and has the same number of steps left for it. */
static int pattern_next(const Matches *m, Scratch *s, size_t *from, size_t *to, Error *error) {
    size_t steps_left = s->steps_left;
    int found = match(m, s, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        s->steps_left = steps_left;
        found = match(m, s, PCRE2_NO_JIT);
    }
    if (found == PCRE2_ERROR_NOMATCH) return 0;
    if (found < 0) return match_failed(m, s, found, error);
    const size_t *bounds = pcre2_get_ovector_pointer(s->match);
    *from = bounds[0];
    *to = bounds[1] < bounds[0] ? bounds[0] : bounds[1]; /* \K in a lookahead may begin after it */
    return 1;
}

/* Finds the next occurrence of a plain string, as pattern_next does that of a pattern, and moves
 * m->at after it. */
static int string_next(Matches *m, size_t *from, size_t *to) {
    const char *hit = m->string_length ? memmem(m->span.bytes + m->at, m->span.length - m->at,
                                                m->string, m->string_length)
                                       : NULL;
    if (!hit) return 0;
    *from = (size_t)(hit - m->span.bytes);
    m->at = *to = *from + m->string_length;
    return 1;
}

int matches_next(Matches *m, Scratch *scratch, size_t *from, size_t *to, Error *error) {
    if (!m->code) return string_next(m, from, to);
    while (m->at <= m->span.length) {
        int found = pattern_next(m, scratch, from, to, error);
        if (found <= 0) return found;
        bool empty = *from == *to, skip = empty && m->any && *to == m->last_end;
        uint32_t code;
        m->at = m->last_end = *to;
        if (empty)
            m->at += *to < m->span.length
                         ? utf8_next(m->span.bytes + *to, m->span.length - *to, &code)
                         : 1;
        m->any = true;
        if (!skip) return 1;
    }
    return 0;
}
