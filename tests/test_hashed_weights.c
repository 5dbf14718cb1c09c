/* hashed_tensor makes the same weights as the Python scripts that made the fixtures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/numbers.h"
#include "kernels/panel_pack.h"
#include "tests/hashed_weights.h"

static void weights_have_the_bits_that_python_computes(void **state) {
    (void)state;
    /* weights.tensor("layers.0.wq", [1000], bits, scale, offset), elements 0, 1 and 999 */
    static const struct {
        unsigned bits;
        double scale, offset;
        uint32_t expected[3];
    } cases[] = {
        {20, 0.3, 0.0, {0xBC821F66, 0xBE8C6910, 0xBD6C4180}},
        {24, 0.1, 1.0, {0x3F7EA501, 0x3F689927, 0x3F7B13F7}},
        {5, 0.4375, 0.0, {0xBC600000, 0xBECB0000, 0xBDC40000}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float w[1000];
        hashed_tensor("layers.0.wq", cases[i].bits, cases[i].scale, cases[i].offset, w, 1000);
        assert_int_equal(float_bits(w[0]), cases[i].expected[0]);
        assert_int_equal(float_bits(w[1]), cases[i].expected[1]);
        assert_int_equal(float_bits(w[999]), cases[i].expected[2]);
    }
}

static void narrow_weights_are_exact_in_sixteen_bits(void **state) {
    (void)state;
    float w[4096];
    hashed_tensor("layers.0.wq", 5, 7 * 0.0625, 0, w, 4096);
    for (size_t i = 0; i < 4096; i++) {
        assert_true(numbers_half_to_float(numbers_float_to_half(w[i])) == w[i]);
        assert_true(bfloat_to_float(panel_float_to_bfloat(w[i])) == w[i]);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_have_the_bits_that_python_computes),
        cmocka_unit_test(narrow_weights_are_exact_in_sixteen_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
