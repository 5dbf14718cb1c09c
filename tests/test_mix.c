/* The types that --type and --keep give to each matrix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convert/mix.h"

static const Config config = {.n_layers = 24};

static void one_type_spends_more_bits_on_what_every_token_meets(void **state) {
    (void)state;
    assert_int_equal(mix_choose("q4_k", "layers.3.wq", &config), TENSOR_Q4_K);
    assert_int_equal(mix_choose("q4_k", "output", &config), TENSOR_Q6_K);
    assert_int_equal(mix_choose("q5", "layers.3.wq", &config), TENSOR_Q5_K);
    assert_int_equal(mix_choose("q5", "token_embedding", &config), TENSOR_Q6_K);
    assert_int_equal(mix_choose("q6", "output", &config), TENSOR_Q6_K);
    assert_int_equal(mix_choose("q4", "output", &config), TENSOR_Q8);
    assert_int_equal(mix_choose("q8", "output", &config), TENSOR_Q8);
    assert_int_equal(mix_choose("f16", "output", &config), TENSOR_F16);
}

static void the_mix_chooses_layers_at_both_ends_and_each_third(void **state) {
    (void)state;
    static const unsigned chosen[] = {0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23};
    for (unsigned layer = 0, k = 0; layer < 24; layer++) {
        char name[64];
        bool more = chosen[k] == layer;
        if (more) k++;
        snprintf(name, sizeof name, "layers.%u.w_down", layer);
        assert_int_equal(mix_choose("q4m", name, &config), more ? TENSOR_Q6_K : TENSOR_Q4_K);
        snprintf(name, sizeof name, "layers.%u.experts.7.w_down", layer);
        assert_int_equal(mix_choose("q4m", name, &config), more ? TENSOR_Q6_K : TENSOR_Q4_K);
        snprintf(name, sizeof name, "layers.%u.wv", layer);
        assert_int_equal(mix_choose("q4m", name, &config), more ? TENSOR_Q6_K : TENSOR_Q4_K);
        snprintf(name, sizeof name, "layers.%u.wk", layer);
        assert_int_equal(mix_choose("q4m", name, &config), TENSOR_Q4_K);
    }
}

static void mixtures_of_few_bits_spare_values_and_outputs(void **state) {
    (void)state;
    static const struct {
        const char *mix, *name;
        TensorType type;
    } cases[] = {
        {"q3", "layers.3.wq", TENSOR_Q3_K},
        {"q3", "layers.3.wv", TENSOR_Q5_K},
        {"q3", "layers.3.wo", TENSOR_Q4_K},
        {"q3", "layers.0.w_down", TENSOR_Q4_K},
        {"q3", "layers.3.experts.7.w_down", TENSOR_Q3_K},
        {"q3", "output", TENSOR_Q6_K},
        {"q3", "layers.3.hyper.attention", TENSOR_F32},
        {"q2", "layers.3.w_up", TENSOR_Q2_K},
        {"q2", "layers.3.wv", TENSOR_Q4_K},
        {"q2", "layers.3.wo", TENSOR_Q3_K},
        {"q2", "layers.3.w_down", TENSOR_Q3_K},
        {"q2", "token_embedding", TENSOR_Q6_K},
        {"q3,wv=q2", "layers.3.wv", TENSOR_Q2_K}, /* as a type it is that of most matrices */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mix_choose(cases[i].mix, cases[i].name, &config), cases[i].type);
}

static void names_that_are_kept_have_their_own_types(void **state) {
    (void)state;
    const char *mix = "q4m,w_down=q8,layers.1=f16,output=q5";
    assert_int_equal(mix_choose(mix, "layers.3.w_down", &config), TENSOR_Q8);
    assert_int_equal(mix_choose(mix, "layers.1.w_down", &config), TENSOR_F16);
    assert_int_equal(mix_choose(mix, "layers.11.wq", &config), TENSOR_Q4_K);
    assert_int_equal(mix_choose(mix, "layers.1.wq", &config), TENSOR_F16);
    assert_int_equal(mix_choose(mix, "output", &config), TENSOR_Q5_K);
}

static void names_of_other_programs_lead_to_ours(void **state) {
    (void)state;
    static const struct {
        const char *theirs, *says;
    } cases[] = {{"Q4_K_M", "did you mean q4m?"},
                 {"Q3_K_M", "did you mean q3?"},
                 {"Q3_K", "did you mean q3_k?"},
                 {"Q2_K_S", "did you mean q2_k?"},
                 {"3", "did you mean q3?"},
                 {"2bit", "did you mean q2?"},
                 {"IQ2_XXS", "did you mean iq2_xxs?"},
                 {"iq3_m", "did you mean iq3_s?"},
                 {"IQ4_NL", "did you mean q4_nl?"},
                 {"IQ4_XS", "did you mean iq4_xs?"}};
    Error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mix_check(cases[i].theirs, &error), STATUS_FAILED);
        if (!strstr(error.text, cases[i].says)) fail_msg("%s", error.text);
    }
}

static void what_is_no_mix_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *mix, *says;
    } bad[] = {{"q9", "'q9'"},       {"", "''"},        {"vector", "'vector'"},
               {"q8,", "''"},        {"q8,wq", "'wq'"}, {"q8,=q8", "'=q8'"},
               {"q8,wq=q9", "'q9'"}, {"q4m,wq=", "''"}, {"q4m,wq=q8,=", "'='"}};
    Error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mix_check(bad[i].mix, &error), STATUS_FAILED);
        assert_non_null(strstr(error.text, bad[i].says));
    }
    assert_int_equal(mix_check("q4m,wq=q8,layers.0=f16", &error), STATUS_OK);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_type_spends_more_bits_on_what_every_token_meets),
        cmocka_unit_test(the_mix_chooses_layers_at_both_ends_and_each_third),
        cmocka_unit_test(mixtures_of_few_bits_spare_values_and_outputs),
        cmocka_unit_test(names_that_are_kept_have_their_own_types),
        cmocka_unit_test(names_of_other_programs_lead_to_ours),
        cmocka_unit_test(what_is_no_mix_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
