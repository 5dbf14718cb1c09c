/* What the browser's build computes otherwise than the processor does: fused multiply-adds in
 * software (ports/browser/fma.c), compared with the C library's. scripts/test-browser runs the
 * whole. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define fmaf software_fmaf
#define fma software_fma
float software_fmaf(float x, float y, float z);
double software_fma(double x, double y, double z);
#include "ports/browser/fma.c"
#undef fmaf
#undef fma

static uint64_t draw(uint64_t *state) { /* SplitMix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Any bits; exponents near 0; few bits, so that sums are ties; or small numbers and subnormal ones.
 */
static double draw_double(uint64_t *state) {
    uint64_t bits = draw(state), kind = draw(state) % 8;
    if (kind & 1) bits = (bits & 0x800fffffffffffffu) | (980 + (bits >> 40) % 86) << 52;
    if (kind & 2) bits &= ~(uint64_t)0x3ffffff | (draw(state) & 1);
    if (kind & 4) bits = (bits & 0x800fffffffffffffu) | ((bits >> 3) % 560) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float draw_float(uint64_t *state) {
    uint64_t drawn = draw(state), kind = draw(state) % 8;
    uint32_t bits = (uint32_t)drawn;
    if (kind & 1) bits = (bits & 0x807fffffu) | (100 + (bits >> 20) % 56) << 23;
    if (kind & 2) bits &= 0xfffff000u | (uint32_t)(drawn >> 32 & 1);
    if (kind & 4) bits = (bits & 0x807fffffu) | ((bits >> 3) % 40) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void expect_float(float x, float y, float z) {
    float got = software_fmaf(x, y, z), expected = fmaf(x, y, z);
    if (isnan(got) && isnan(expected)) return;
    if (memcmp(&got, &expected, sizeof got) != 0)
        fail_msg("fmaf(%a, %a, %a) is %a, not %a", (double)x, (double)y, (double)z,
                 (double)expected, (double)got);
}

static void expect_double(double x, double y, double z) {
    double got = software_fma(x, y, z), expected = fma(x, y, z);
    if (isnan(got) && isnan(expected)) return;
    if (memcmp(&got, &expected, sizeof got) != 0)
        fail_msg("fma(%a, %a, %a) is %a, not %a", x, y, z, expected, got);
}

static void a_fused_multiply_add_in_software_rounds_once(void **state) {
    enum { N = 100000 };
    uint64_t random = 1;
    (void)state;
    for (int i = 0; i < N; i++) {
        float x = draw_float(&random), y = draw_float(&random);
        expect_float(x, y, draw_float(&random));
        expect_float(x, y, -(x * y)); /* what the product's rounding left */
        double a = draw_double(&random), b = draw_double(&random);
        expect_double(a, b, draw_double(&random));
        expect_double(a, b, -(a * b));
    }
    /* wasi-libc gives other bits for these. */
    expect_float(-0x1.3a4p-26f, 0x1.f4p-12f, 0x1.2cp-120f);
    expect_float(10915841.0f, -3.0f, 0x1p-128f);
    expect_float(-35.015628814697266f, 196608.0f, 0x1.22p-95f);
    expect_double(0x1p-540, -0x1p-830, 0.0);
    expect_double(0x1p1000, 0x1p1000, -INFINITY);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fused_multiply_add_in_software_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
