#include "constraint/regex_decimal.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "constraint/regex_internal.h"

/* A bound's state is n << 3 | point << 2 | order. n: digits read, of the whole part (counted up to
 * one more than the bound has) or, once the point was read, of the fraction. order: how the digits
 * read compare with as many digits of the bound. */
enum { STATE_LESS, STATE_EQUAL, STATE_GREATER };
enum { MOST_DIGITS = 1000 };

static uint32_t pack(uint32_t n, bool point, uint32_t order) {
    return n << 3 | (uint32_t)point << 2 | order;
}

/* Whether a number that ends in this state compares so with the bound. One that is equal so far but
 * shorter is less, as the bound's last digit after the point is not 0. */
static bool bound_holds(const RegexDecimal *d, RegexCompare compare, uint32_t state) {
    uint32_t n = state >> 3, order = state & 3;
    bool point = state >> 2 & 1;
    if (!point && n < d->n_whole) {
        order = STATE_LESS;
    } else if (order == STATE_EQUAL && (!point ? d->n_fraction > 0 : n < d->n_fraction)) {
        order = STATE_LESS;
    }
    return compare == AT_LEAST  ? order >= STATE_EQUAL
           : compare == ABOVE   ? order == STATE_GREATER
           : compare == AT_MOST ? order <= STATE_EQUAL
                                : order == STATE_LESS;
}

static Regex bound_node(RegexArena *arena, uint32_t decimal, RegexCompare compare, uint32_t state) {
    const RegexDecimal *d = &arena->decimals[decimal];
    return regex_intern(arena,
                        (RegexNode){.kind = RE_BOUND,
                                    .nullable = bound_holds(d, compare, state) && state >> 3 > 0,
                                    .searched = true,
                                    .a = decimal,
                                    .b = compare,
                                    .c = state},
                        NULL);
}

static void split_digits(RegexArena *arena) {
    for (unsigned char c = '0'; c <= '9'; c++) regex_byte(arena, c);
    regex_byte(arena, '.');
}

Regex regex_bound(RegexArena *arena, const char *text, RegexCompare compare) {
    RegexDecimal d = {0};
    size_t length = strlen(text);
    const char *point = memchr(text, '.', length), *end = text + length;
    if (!point) point = end;
    while (text < point && *text == '0') text++;
    while (end > point + 1 && end[-1] == '0') end--;
    d.n_whole = (uint32_t)(point - text);
    d.n_fraction = end > point ? (uint32_t)(end - point - 1) : 0;
    if (length > MOST_DIGITS) return regex_give_up(arena, "a number in it has too many digits");
    split_digits(arena);
    d.digits = malloc(d.n_whole + d.n_fraction + 1);
    if (!d.digits || !array_reserve(&arena->decimals, &arena->decimals_capacity,
                                    arena->n_decimals + 1, sizeof *arena->decimals)) {
        free(d.digits);
        return regex_give_up(arena, "there is no memory for it");
    }
    memcpy(d.digits, text, d.n_whole);
    if (d.n_fraction > 0) memcpy(d.digits + d.n_whole, point + 1, d.n_fraction);
    for (size_t i = 0; i < arena->n_decimals; i++) {
        const RegexDecimal *o = &arena->decimals[i];
        if (o->n_whole != d.n_whole || o->n_fraction != d.n_fraction ||
            memcmp(o->digits, d.digits, d.n_whole + d.n_fraction) != 0)
            continue;
        free(d.digits);
        return bound_node(arena, (uint32_t)i, compare, STATE_EQUAL);
    }
    arena->decimals[arena->n_decimals] = d;
    return bound_node(arena, (uint32_t)arena->n_decimals++, compare, STATE_EQUAL);
}

/* The derivative of a bounded number by one byte: what may follow it. A leading zero is not a digit
 * of the whole part: "0.5" has none. In the state with n == 0 and no point nothing was read. */
static Regex derive_bound(RegexArena *arena, RegexNode node, unsigned char byte) {
    const RegexDecimal *d = &arena->decimals[node.a];
    uint32_t n = node.c >> 3, order = node.c & 3;
    bool point = node.c >> 2 & 1;
    RegexCompare compare = (RegexCompare)node.b;
    if (byte == '.') {
        if (point) return REGEX_NONE;
        if (n < d->n_whole) order = STATE_LESS;
        return bound_node(arena, node.a, compare, pack(0, true, order));
    }
    if (byte < '0' || byte > '9') return REGEX_NONE;
    if (!point) {
        if (n >= d->n_whole) {
            order = byte == '0' && n == 0 ? STATE_EQUAL : STATE_GREATER;
            if (byte == '0' && n == 0) /* the number 0, where the bound is below 1 */
                return bound_node(arena, node.a, compare, pack(d->n_whole + 1, false, order));
            n = d->n_whole; /* more digits change nothing */
        } else if (order == STATE_EQUAL) {
            char own = d->digits[n];
            order = (char)byte < own ? STATE_LESS : (char)byte > own ? STATE_GREATER : STATE_EQUAL;
        }
        if (n == d->n_whole && order == STATE_GREATER && compare >= AT_MOST) return REGEX_NONE;
        return bound_node(arena, node.a, compare, pack(n + 1, false, order));
    }
    if (order == STATE_EQUAL) {
        char own = n < d->n_fraction ? d->digits[d->n_whole + n] : '0';
        order = (char)byte < own ? STATE_LESS : (char)byte > own ? STATE_GREATER : STATE_EQUAL;
    }
    if (order == STATE_GREATER && compare >= AT_MOST) return REGEX_NONE;
    if (order == STATE_LESS && compare < AT_MOST) return REGEX_NONE;
    n = n < d->n_fraction ? n + 1 : d->n_fraction;
    if (n == 0) n = 1;
    return bound_node(arena, node.a, compare, pack(n, true, order));
}

/* The node of multiples of `divisor`, of whose digits so far `remainder` is left; `scale` digits
 * may follow the point, which was read if `point`. */
static Regex multiple_node(RegexArena *arena, uint32_t remainder, uint32_t divisor, uint32_t scale,
                           bool point) {
    uint64_t rest = remainder;
    uint64_t more = 1; /* how many ways there are to go on after the point */
    for (uint32_t i = 0; i < scale; i++) rest = rest * 10 % divisor, more *= 10;
    Regex out = regex_intern(arena,
                             (RegexNode){.kind = RE_MULTIPLE,
                                         .nullable = rest == 0,
                                         .searched = true,
                                         .a = remainder,
                                         .b = divisor,
                                         .c = scale << 1 | point},
                             NULL);
    /* Digits before the point reach any remainder; those after it add less than `more`. */
    bool live = !point || rest == 0 || divisor - rest < more;
    if (!arena->failed) arena->nodes[out].live = live ? 1 : 2;
    return out;
}

Regex regex_multiple(RegexArena *arena, uint32_t divisor, uint32_t scale) {
    split_digits(arena);
    return multiple_node(arena, 0, divisor, scale, false);
}

static Regex derive_multiple(RegexArena *arena, RegexNode n, unsigned char byte) {
    uint32_t scale = n.c >> 1;
    bool point = n.c & 1;
    if (byte == '.') return point ? REGEX_NONE : multiple_node(arena, n.a, n.b, scale, true);
    if (byte < '0' || byte > '9') return REGEX_NONE;
    if (point && scale == 0) /* zeros after the last digit that counts */
        return byte == '0' ? multiple_node(arena, n.a, n.b, 0, true) : REGEX_NONE;
    uint32_t remainder = (uint32_t)(((uint64_t)n.a * 10 + (byte - '0')) % n.b);
    return multiple_node(arena, remainder, n.b, point ? scale - 1 : scale, point);
}

Regex regex_derive_decimal(RegexArena *arena, RegexNode node, unsigned char byte) {
    return node.kind == RE_BOUND ? derive_bound(arena, node, byte)
                                 : derive_multiple(arena, node, byte);
}
