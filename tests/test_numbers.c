/* numbers_power and numbers_sin_cos, which RoPE depends on, agree with the C library's functions to
 * the last bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/numbers.h"

static void powers_are_the_library_s_to_1e_14(void **state) {
    (void)state;
    static const double bases[] = {
        1.0001, 1.5, 2.0, 1.4142135623730951, 9.999, 10000.0, 5e5, 1e6, 3e9, 1e37, 0.3, 1e-12};
    double worst = 0.0;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        for (double exponent = -2.0; exponent <= 2.5; exponent += 1.0 / 128) {
            double expected = pow(bases[i], exponent);
            worst = fmax(worst, fabs(numbers_power(bases[i], exponent) / expected - 1.0));
        }
    print_message("at most %.1e\n", worst);
    /* The error grows with the size of the exponent, here at most 200. */
    assert_true(worst < 1e-13);
    assert_true(numbers_power(1.0, 123.0) == 1.0);
    assert_true(numbers_power(2.0, 10.0) / 1024.0 - 1.0 < 1e-15);
    assert_true(numbers_power(1e300, 2.0) == HUGE_VAL);
    assert_true(numbers_power(1e300, -2.0) == 0.0);
}

static void sines_are_the_library_s_rounded_once(void **state) {
    (void)state;
    size_t different = 0, n = 0;
    for (float x = 0.0f; x < 2e5f; x = x * 1.0003f + 0.0007f, n++) {
        float sine, cosine;
        numbers_sin_cos(x, &sine, &cosine);
        different += sine != (float)sin((double)x) || cosine != (float)cos((double)x);
    }
    /* Where the exact result lies next to the midpoint of two floats, the last bit of the double
     * decides the rounding. */
    assert_true(n > 10000 && different <= 2);
    /* A table of frequencies may hold any number: no number of quarter turns is undefined. */
    for (float x = 1e18f; x < INFINITY; x *= 1e4f) {
        float sine = 1.0f, cosine = 1.0f;
        numbers_sin_cos(x, &sine, &cosine);
        assert_true(sine != 1.0f || cosine != 1.0f);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_are_the_library_s_to_1e_14),
        cmocka_unit_test(sines_are_the_library_s_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
