/* Routing in a mixture of experts: which experts a token is sent to, and with what weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "experts.h"
#include "isa.h"

static void ties_go_to_the_lowest_index(void **state) {
    (void)state;
    float logits[] = {1, 3, 2, 3, 3, 2};
    uint32_t chosen[4];
    float shares[4];
    experts_route(&numeric_reference, ROUTER_SOFTMAX, 0, logits, 6, 4, chosen, shares);
    const uint32_t expected[] = {1, 3, 4, 2};
    assert_memory_equal(chosen, expected, sizeof expected);
    assert_true(shares[0] == shares[1] && shares[1] == shares[2] && shares[2] > shares[3]);
}

static void no_expert_is_chosen_twice_whatever_the_logits(void **state) {
    (void)state;
    const float nan = NAN;
    for (RouterKind kind = 0; kind < ROUTER_KINDS; kind++) {
        float logits[] = {nan, nan, INFINITY, nan, -INFINITY};
        uint32_t chosen[5];
        float shares[5];
        experts_route(&numeric_reference, kind, 0.01f, logits, 5, 5, chosen, shares);
        unsigned seen = 0;
        for (size_t i = 0; i < 5; i++) seen |= 1u << chosen[i];
        assert_int_equal(seen, 31);
    }
}

static void shares_of_the_chosen_add_up_to_one(void **state) {
    (void)state;
    float logits[] = {0.5f, -1, 2, 0.25f}, of_all[] = {0.5f, -1, 2, 0.25f};
    uint32_t chosen[2];
    float shares[2], parts[2];
    experts_route(&numeric_reference, ROUTER_SOFTMAX_CHOSEN, 0, logits, 4, 2, chosen, shares);
    experts_route(&numeric_reference, ROUTER_SOFTMAX, 0, of_all, 4, 2, chosen, parts);
    assert_float_equal(shares[0] + shares[1], 1, 1e-6f);
    assert_float_equal(shares[0], 1 / (1 + expf(0.5f - 2)), 1e-6f);
    assert_true(parts[0] + parts[1] < 1);
    assert_float_equal(parts[0] / parts[1], shares[0] / shares[1], 1e-5f);
}

/* ROUTER_SPARSE_MIXER: only experts whose logit is within twice the jitter of the largest count in
 * the softmax. */
static void the_sparse_mixer_leaves_out_the_far(void **state) {
    (void)state;
    float logits[] = {10, 9.9f, 5, 4.95f};
    uint32_t chosen[2];
    float shares[2];
    experts_route(&numeric_reference, ROUTER_SPARSE_MIXER, 0.01f, logits, 4, 2, chosen, shares);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    assert_float_equal(shares[0], 1 / (1 + expf(9.9f - 10)), 1e-6f);
    assert_float_equal(shares[1], 1, 1e-6f); /* without the first, none is near */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_lowest_index),
        cmocka_unit_test(no_expert_is_chosen_twice_whatever_the_logits),
        cmocka_unit_test(shares_of_the_chosen_add_up_to_one),
        cmocka_unit_test(the_sparse_mixer_leaves_out_the_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
