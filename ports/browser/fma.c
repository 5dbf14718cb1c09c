/* fmaf and fma for WebAssembly, which has no such instruction: x * y + z, rounded once, to nearest
 * even. wasi-libc's are not used: its fmaf wants to change the rounding mode, which WebAssembly
 * does not have, and rounds some sums near a tie wrongly; its fma gives +0 for a negative product
 * that underflows. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static uint64_t double_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The product of two floats is exact in double. Their sum with z is rounded to odd there, which has
 * more than two bits beyond a float's, so that the second rounding gives what one would have given
 * (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
 * rounding to odd", IEEE Transactions on Computers 57(4), 2008). */
float fmaf(float x, float y, float z) {
    double product = (double)x * (double)y, c = (double)z, sum = product + c;
    double part = sum - product, rest = (product - (sum - part)) + (c - part); /* TwoSum: exact */
    uint64_t bits = double_bits(sum);
    /* Not finite: `rest` is NaN, or the float overflows as well. */
    if (rest != 0.0 && (bits & 1) == 0 && isfinite(sum)) {
        bits += (rest > 0.0) == (sum > 0.0) ? 1 : (uint64_t)-1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

typedef unsigned __int128 Wide;

/* x = mantissa * 2^exponent with 2^52 <= mantissa < 2^53, without the sign; x is finite and not 0.
 */
static uint64_t split(double x, int *exponent) {
    uint64_t bits = double_bits(x), mantissa = bits & (((uint64_t)1 << 52) - 1);
    int biased = (int)(bits >> 52 & 0x7FF);
    if (biased > 0) {
        mantissa |= (uint64_t)1 << 52;
    } else {
        int shift = __builtin_clzll(mantissa) - 11;
        mantissa <<= shift;
        biased = 1 - shift;
    }
    *exponent = biased - 1075;
    return mantissa;
}

/* Moves the bits down; the last one becomes 1 where any that leave are. */
static Wide shift_sticky(Wide x, int n) {
    if (n == 0) return x;
    if (n > 127) return x != 0;
    return x >> n | (x << (128 - n) != 0);
}

static int bit_length(Wide x) {
    uint64_t high = (uint64_t)(x >> 64), low = (uint64_t)x;
    return high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(low);
}

/* x * 2^exponent, rounded; x is not 0. */
static double round_wide(Wide x, int exponent) {
    int drop = bit_length(x) - 53;
    if (drop < -1074 - exponent) drop = -1074 - exponent; /* subnormal */
    if (drop <= 0) return scalbn((double)(uint64_t)x, exponent);
    if (drop > 127) return 0.0;
    Wide kept = x >> drop, rest = x - (kept << drop), half = (Wide)1 << (drop - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    return scalbn((double)(uint64_t)kept, exponent + drop);
}

/* In integers of 128 bits. */
double fma(double x, double y, double z) {
    if (!isfinite(x) || !isfinite(y) || x == 0.0 || y == 0.0) return x * y + z;
    if (!isfinite(z)) return z; /* also where x * y overflows */
    if (z == 0.0) return x * y; /* its sign also where it underflows */
    int ex, ey, e_small, e_large;
    Wide large = (Wide)split(x, &ex) * split(y, &ey) << 20, small = (Wide)split(z, &e_small) << 72;
    bool minus = signbit(x) != signbit(y), small_minus = signbit(z);
    e_large = ex + ey - 20;
    e_small -= 72;
    if (e_small > e_large) {
        Wide other = large;
        int e_other = e_large;
        bool other_minus = minus;
        large = small, e_large = e_small, minus = small_minus;
        small = other, e_small = e_other, small_minus = other_minus;
    }
    /* Both have their first bit at 124 or 125. Bits are lost only where the first ones do not
     * cancel. */
    small = shift_sticky(small, e_large - e_small);
    if (minus == small_minus) {
        large += small;
    } else if (large >= small) {
        large -= small;
    } else {
        large = small - large;
        minus = small_minus;
    }
    if (large == 0) return 0.0;
    double sum = round_wide(large, e_large);
    return minus ? -sum : sum;
}
