/* Routing in a mixture of experts: which experts a token is sent to, and with what weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "layers/experts/experts.h"
#include "core/isa.h"
#include "layers/experts/routing.h"

/* A router of n experts of which n_used are chosen. */
static Config router(RouterKind kind, uint32_t n, uint32_t n_used) {
    Config c = config_default();
    c.router.kind = kind;
    c.router.jitter = 0.01f;
    c.experts.count = n;
    c.experts.per_token = n_used;
    return c;
}

static void route(const Config *c, const float *correction, float *logits, uint32_t *chosen,
                  float *shares) {
    if (c->router.kind <= ROUTER_SOFTMAX_CHOSEN)
        experts_route(&numeric_reference, c, logits, chosen, shares);
    else
        routing_route(&numeric_reference, c, correction, logits, chosen, shares);
}

static void ties_go_to_the_lowest_index(void **state) {
    (void)state;
    float logits[] = {1, 3, 2, 3, 3, 2};
    uint32_t chosen[4];
    float shares[4];
    const Config c = router(ROUTER_SOFTMAX, 6, 4);
    route(&c, NULL, logits, chosen, shares);
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
        const Config c = router(kind, 5, 5);
        route(&c, NULL, logits, chosen, shares);
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
    const Config by_chosen = router(ROUTER_SOFTMAX_CHOSEN, 4, 2),
                 by_all = router(ROUTER_SOFTMAX, 4, 2);
    route(&by_chosen, NULL, logits, chosen, shares);
    route(&by_all, NULL, of_all, chosen, parts);
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
    const Config c = router(ROUTER_SPARSE_MIXER, 4, 2);
    route(&c, NULL, logits, chosen, shares);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    assert_float_equal(shares[0], 1 / (1 + expf(9.9f - 10)), 1e-6f);
    assert_float_equal(shares[1], 1, 1e-6f); /* without the first, none is near */
}

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

/* The correction decides who is chosen, and has no part in the shares. */
static void a_correction_ranks_but_does_not_share(void **state) {
    (void)state;
    float logits[] = {2, 1, 0, -1};
    const float correction[] = {0, 0, 0.5f, 0.7f};
    uint32_t chosen[2];
    float shares[2];
    Config c = router(ROUTER_SIGMOID_SCORES, 4, 2);
    c.router.scale = 2.5f;
    route(&c, correction, logits, chosen, shares);
    assert_int_equal(chosen[0], 2);
    assert_int_equal(chosen[1], 3);
    assert_float_equal(shares[0], 2.5f * sigmoid(0), 1e-6f);
    assert_float_equal(shares[1], 2.5f * sigmoid(-1), 1e-6f);
    float again[] = {2, 1, 0, -1};
    c.router.normalize = true;
    route(&c, correction, again, chosen, shares);
    assert_float_equal(shares[0] + shares[1], 2.5f, 1e-6f);
    assert_float_equal(shares[0] / shares[1], sigmoid(0) / sigmoid(-1), 1e-5f);
}

/* Three groups of three: the first has the best expert, the second the best two, the third the best
 * three. */
static void experts_of_other_groups_are_not_chosen(void **state) {
    (void)state;
    const float logits[] = {3, -9, -9, 2.5f, 2.4f, -9, 2.3f, 2.2f, 2.1f};
    uint32_t chosen[3];
    float shares[3], copy[9];
    Config c = router(ROUTER_SOFTMAX_SCORES, 9, 3);
    c.router.groups = 3;
    c.router.groups_used = 1;
    const uint32_t of_one[] = {0, 1, 2}, of_two[] = {3, 4, 5};
    memcpy(copy, logits, sizeof copy);
    route(&c, NULL, copy, chosen, shares);
    assert_memory_equal(chosen, of_one, sizeof of_one);
    c.router.kind = ROUTER_SIGMOID_SCORES;
    memcpy(copy, logits, sizeof copy);
    route(&c, NULL, copy, chosen, shares);
    assert_memory_equal(chosen, of_two, sizeof of_two);
    assert_float_equal(shares[0], sigmoid(2.5f), 1e-6f);
}

/* Scores that round to 0 do not become shares of 0 / 0. */
static void a_sum_of_zero_is_not_divided_by(void **state) {
    (void)state;
    float logits[] = {-200, -300, -400};
    uint32_t chosen[2];
    float shares[2];
    Config c = router(ROUTER_SIGMOID_SCORES, 3, 2);
    c.router.normalize = true;
    route(&c, NULL, logits, chosen, shares);
    assert_true(shares[0] == 0 && shares[1] == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_lowest_index),
        cmocka_unit_test(no_expert_is_chosen_twice_whatever_the_logits),
        cmocka_unit_test(shares_of_the_chosen_add_up_to_one),
        cmocka_unit_test(the_sparse_mixer_leaves_out_the_far),
        cmocka_unit_test(a_correction_ranks_but_does_not_share),
        cmocka_unit_test(experts_of_other_groups_are_not_chosen),
        cmocka_unit_test(a_sum_of_zero_is_not_divided_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
