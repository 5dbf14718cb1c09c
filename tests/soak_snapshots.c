/* A thousand random forks, truncations, drafts, saves and loads with each of several models, each
 * compared bit by bit with a new run. Takes minutes (`make soak`); test_snapshots runs a sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sharing_cases.h"

static void a_thousand_steps_equal_new_runs(void **state) {
    (void)state;
    static const char *const models[] = {
        "random:tiny,n_layers=6,window=70,window_pattern=6",
        "random:tiny,n_layers=4,window=1,window_pattern=2",
        "fixture:gemma3n",
        "fixture:llama4",
        "fixture:glm_moe_dsa",
        "fixture:qwen3_5",
        "fixture:qwen3_next",
        "fixture:lfm2",
        "fixture:granitemoehybrid",
        "fixture:jamba",
        "fixture:falcon_mamba",   /* no layer attends */
        "fixture:falcon_h1-bias", /* keys and a state in one layer */
        "fixture:zamba2-bias",
        "fixture:zamba",
        "fixture:lfm3",
        "fixture:olmo_hybrid",
        "fixture:zaya",
        "fixture:inkling",
        "fixture:inkling2",
        "fixture:inkling2_loop",
        "fixture:kimi_linear",
        "fixture:minimax",
        "fixture:glm5_next-page",
        "fixture:recurrent_gemma",
        "fixture:rwkv",
        "fixture:xlstm",
    };
    for (uint32_t i = 0; i < sizeof models / sizeof *models; i++) {
        print_message("%s\n", models[i]);
        sharing_mix(models[i], 1000 + i, 500);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_steps_equal_new_runs)};
    return cmocka_run_group_tests_name("soak_snapshots", tests, NULL, NULL);
}
