/* Hundreds of conversations with trained models, each turn compared bit for bit with a fresh
 * conversation. Takes minutes (`make soak`); test_dialogue runs a sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "tests/dialogue_cases.h"
#include "tests/small_model.h"

static char directory[] = "/tmp/verbatim-soak-XXXXXX";

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    return rmdir(directory);
}

static void mixes(const char *model, uint32_t context, uint32_t n_seeds, int steps) {
    Opened o;
    char path[64], kv[70];
    snprintf(path, sizeof path, "%s/session", directory);
    snprintf(kv, sizeof kv, "%s.kv", path);
    opened_open(&o, model, NULL, context, 12);
    for (uint32_t seed = 1000; seed < 1000 + n_seeds; seed++) {
        dialogue_mix(&o, path, seed, steps);
        unlink(path);
        unlink(kv);
        if (seed % 50 == 49) print_message("%u conversations\n", seed - 999);
    }
    opened_close(&o);
}

static void hundreds_of_mixes_on_stories260K_equal_fresh_conversations(void **state) {
    (void)state;
    char *model = small_model_stories(directory);
    if (!model) {
        print_message("stories260K is absent: skipped\n");
        skip();
    }
    mixes(model, 256, 400, 20);
    unlink(model);
    free(model);
}

static void a_hundred_mixes_on_the_default_model_equal_fresh_conversations(void **state) {
    (void)state;
    mixes("models/stories.bin", 256, 100, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hundreds_of_mixes_on_stories260K_equal_fresh_conversations),
        cmocka_unit_test(a_hundred_mixes_on_the_default_model_equal_fresh_conversations),
    };
    return cmocka_run_group_tests_name("soak_dialogue", tests, make_directory, remove_directory);
}
