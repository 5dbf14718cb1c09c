/* What is said of the machine: whether a model fits it, and the report for maintainers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "core/config_fields.h"
#include "kvcache/kvcache_sizes.h"
#include "modes/open/fit.h"
#include "tests/process.h"

static const char MODEL[] = "models/stories.bin";

static Session session;

static int open_model(void **state) {
    (void)state;
    Error error;
    const ModelOptions options = {.n_threads = 1};
    assert_int_equal(modelfile_open(&session.file, MODEL, -1, &error), STATUS_OK);
    assert_int_equal(model_open(&session.model, session.file, &options, &error), STATUS_OK);
    session.kv_type = KV_F16;
    return 0;
}

static int close_model(void **state) {
    (void)state;
    model_close(session.model);
    modelfile_close(session.file);
    return 0;
}

static void a_model_that_does_not_fit_is_said_with_type_and_context(void **state) {
    (void)state;
    char text[200] = "";
    assert_false(fit_warning(&session, (double)modelfile_bytes(session.file), text, sizeof text));
    assert_string_equal(text, "");
    assert_true(fit_warning(&session, 2.9 * 1048576, text, sizeof text));
    assert_non_null(strstr(text, "2.9 MiB free: the weights' 3.2 MiB do not fit; with --type "));
    assert_non_null(strstr(text, " and leave room for -c "));
    assert_true(fit_warning(&session, 1e6, text, sizeof text));
    assert_non_null(strstr(text, "do not fit and are read again from disk"));
    Process p = RUN("run", MODEL, "-n", "2");
    assert_string_equal(p.err, "");
    process_free(&p);
}

static void a_model_fits_with_its_whole_context_a_part_of_it_or_another_type(void **state) {
    (void)state;
    size_t context = model_context(session.model);
    char text[200];
    Fit fit = fit_of(&session, 1e9);
    assert_true(fit.weights_fit && fit.context == context);
    fit_text(&fit, context, text, sizeof text);
    assert_string_equal(text, "953.7 MiB free: fits, with the cache of all 1024 positions");
    /* Room for the weights and three quarters of the cache. */
    fit = fit_of(&session, fit.weights + 0.75 * fit.cache);
    assert_true(fit.weights_fit && fit.context < context && fit.context > context / 2);
    fit_text(&fit, context, text, sizeof text);
    assert_non_null(strstr(text, "free: fits with -c "));
    /* Weights of 8 bits that would fit in 5, beside the cache of a short text. */
    const KvShape shape = model_kv_shape(session.model, KV_F16);
    double some = (double)kvcache_sequence_bytes(&shape, 512);
    fit = fit_of(&session, fit.weights * 190 / 272 + some);
    assert_false(fit.weights_fit);
    assert_string_equal(fit.type, "q5");
    assert_true(fit.type_bytes < fit.weights * 0.7);
    fit_text(&fit, context, text, sizeof text);
    assert_non_null(strstr(text, "do not fit; with --type q5 they take 2.0 MiB and leave room "
                                 "for -c "));
    assert_true(fit.type_context >= 512 && fit.type_context < context);
    fit = fit_of(&session, 1e5);
    assert_true(!fit.weights_fit && !fit.type);
    fit_text(&fit, context, text, sizeof text);
    assert_non_null(strstr(text, "are read again from disk"));
}

static void a_report_names_program_machine_model_and_options_but_no_text(void **state) {
    (void)state;
    Process p = RUN("run", MODEL, "--bug-report", "-i", "my secret", "-t", "0.5", "-f", "a file");
    assert_int_equal(p.status, 1); /* the file is missing, which is told on stderr */
    process_free(&p);
    p = RUN("run", MODEL, "--bug-report", "-i", "my secret", "-t", "0.5", "--kv-type", "q8");
    assert_int_equal(p.status, 0);
    static const char *const parts[] = {
        "verbatim ",      "libraries ",        "system ",      "processor ",
        "memory ",        "sandbox ",          "model ",       "checksum ",
        "computes with ", "--temperature 0.5", "--kv-type q8", "--prompt ..."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(p.out, parts[i])) fail_msg("no %s in:\n%s", parts[i], p.out);
    assert_null(strstr(p.out, "secret"));
    assert_null(strstr(p.out, MODEL));
    process_free(&p);
}

/* --type auto: the memory is given, so that the choice is the same anywhere. */
static void the_best_type_that_fits_is_chosen_and_said_with_the_numbers(void **state) {
    (void)state;
    static const struct {
        const char *type, *says;
        int status;
    } cases[] = {
        {"auto:100M", "takes it as it is: 3.2 MiB, and 2.0 MiB for the cache of 1024 positions", 0},
        {"auto:5M",
         "takes q6: 2.5 MiB, and 2.0 MiB for the cache of 1024 positions, fit 5.0 MiB "
         "of free memory; its own type would take 3.2 MiB",
         0},
        {"auto:4500K", "takes q5: 2.2 MiB", 0},
        {"auto:3080K",
         "no type fits 3.0 MiB of free memory: q4, the smallest, takes 2.0 MiB, and the "
         "cache of 1024 positions 2.0 MiB; --type q4 -c 512 would fit",
         1},
        {"auto:1M", "no context is short enough", 1},
        {"auto:lots", "'lots' is not a size like 512M", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Process p = RUN("run", MODEL, "--type", cases[i].type, "--cache-dir", "none", "-n", "1");
        assert_int_equal(p.status, cases[i].status);
        if (!strstr(p.err, cases[i].says)) fail_msg("%s: %s", cases[i].type, p.err);
        process_free(&p);
    }
    /* What the refusal names fits, and a shorter text leaves room for a better type. */
    Process p = RUN("run", MODEL, "--type", "auto:3080K", "-c", "512", "--info");
    PROCESS_SAYS(p, 0, "takes q4: ");
    p = RUN("run", MODEL, "--type", "auto:3080K", "-c", "200", "--info");
    assert_non_null(strstr(p.err, "takes q5: "));
    assert_non_null(strstr(p.out, "q5_k "));
    process_free(&p);
}

/* export chooses with the same words, and writes what was named. */
static void export_takes_the_type_that_fits_another_machine(void **state) {
    (void)state;
    char *fits = build_path("tests/fits.bin"), *named = build_path("tests/named.bin");
    Process p = RUN("export", MODEL, fits, "-t", "auto:5M", "--force");
    PROCESS_SAYS(p, 0, "takes q6: 2.5 MiB");
    p = RUN("export", MODEL, named, "-t", "q6", "--force");
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t n, m;
    char *a = file_read(fits, &n), *b = file_read(named, &m);
    assert_true(n == m && memcmp(a, b, n) == 0);
    unlink(fits);
    p = RUN("export", MODEL, fits, "-t", "auto:1M");
    assert_int_equal(p.status, 1);
    assert_int_not_equal(access(fits, F_OK), 0);
    process_free(&p);
    p = RUN("export", MODEL, fits, "-t", "auto", "--keep", "w_down=q8");
    assert_int_equal(p.status, 2);
    process_free(&p);
    unlink(named);
    free(a);
    free(b);
    free(fits);
    free(named);
}

/* The machine is described although the model is refused. */
static void a_model_that_is_refused_is_reported_as_well(void **state) {
    (void)state;
    char *cut = build_path("tests/cut.bin");
    size_t n;
    char *bytes = file_read(MODEL, &n);
    file_write(cut, bytes, n / 2);
    Process p = RUN("run", cut, "--bug-report");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.out, "processor "));
    assert_true(p.err_length > 0);
    process_free(&p);
    unlink(cut);
    free(cut);
    free(bytes);
}

/* docs/sizes.md: the papers' models have the papers' numbers of parameters. */
static void shapes_of_papers_have_their_parameters(void **state) {
    (void)state;
    static const struct {
        const char *shape, *line, *also;
    } cases[] = {
        {"random:paper-base,vocab_size=10000", "parameters          24034304\n", NULL},
        {"random:paper-base,vocab_size=10000,weight_groups=1", "parameters          8272384\n",
         NULL},
        {"random:gpt2", "parameters          124439808\n",
         "as much as the layers from position 4608 on (6.00 times dim)"},
        {"random:gpt2-xl", "parameters          1557611200\n", NULL},
        {"random:llama2-7b", "parameters          6738415616\n", NULL},
        {"random:llama2-70b", "parameters          68976648192\n", NULL},
        {"random:llama3-8b", "parameters          8030261248\n", NULL},
        {"random:mistral-7b", "parameters          7241732096\n", NULL},
        {"random:mixtral-8x7b", "parameters          46702792704\n", NULL},
        {"random:palm-540b", "parameters          540356474880\n",
         "multi-head (48) 22.1 GiB, as it is (1) 472.0 MiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Process p = RUN("run", cases[i].shape, "--info");
        if (!strstr(p.out, cases[i].line))
            fail_msg("%s: no '%s' in:\n%s%s", cases[i].shape, cases[i].line, p.out, p.err);
        char source[80]; /* the same number, as the metadata has it */
        snprintf(source, sizeof source, "\nsource.parameters  %s", cases[i].line + 19);
        if (!strstr(p.out, source)) fail_msg("%s: no '%s'", cases[i].shape, source);
        if (cases[i].also && !strstr(p.out, cases[i].also))
            fail_msg("%s: no '%s' in:\n%s", cases[i].shape, cases[i].also, p.out);
        assert_string_equal(p.err, "");
        process_free(&p);
    }
    Process p = RUN("run", "random:dim=64,n_layers=2,n_heads=4,norm=layer", "--info");
    PROCESS_SAYS(p, 0, "gated=0");
}

/* The fields of other families and of other kinds of positions are left to --info all. */
static void info_shows_what_is_set_and_info_all_every_field(void **state) {
    (void)state;
    static const struct {
        const char *shape, *there[6], *absent[6];
    } cases[] = {
        {"random:gpt2",
         {"\nfamily              gpt2\n", "\nposition            learned\n",
          "\ngated               no\n", "\nother fields        1"},
         {"llama", "\nrope_", "\nrotary_dim", "\nstate_heads", "\nalibi_max_bias"}},
        {"random:tiny,position=alibi",
         {"\nfamily              random\n", "\nalibi_max_bias      8\n"},
         {"\nrope_"}},
        {"random:tiny,logit_softcap=30,window=5",
         {"\nrope_theta          10000\n", "\nlogit_softcap       30\n",
          "\nwindow              5 x 2\n"},
         {"\nsinusoid_base", "\nattention_softcap", "\nchunk"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Process p = RUN("run", cases[i].shape, "--info");
        for (size_t k = 0; k < 6 && cases[i].there[k]; k++)
            if (!strstr(p.out, cases[i].there[k]))
                fail_msg("%s: no '%s' in:\n%s", cases[i].shape, cases[i].there[k], p.out);
        for (size_t k = 0; k < 6 && cases[i].absent[k]; k++)
            if (strstr(p.out, cases[i].absent[k]))
                fail_msg("%s: '%s' in:\n%s", cases[i].shape, cases[i].absent[k], p.out);
        process_free(&p);
        p = RUN("run", cases[i].shape, "--info", "all");
        for (size_t k = 0; config_field(k); k++) {
            char begin[80];
            snprintf(begin, sizeof begin, "\n%s ", config_field(k)->name);
            if (!strstr(p.out, begin)) fail_msg("%s: no %s", cases[i].shape, begin + 1);
        }
        assert_null(strstr(p.out, "\nother fields"));
        process_free(&p);
    }
    /* A word that is not "all" is a model. */
    Process p = RUN("run", "--info", "random:tiny"), q = RUN("run", "random:tiny", "--info=more");
    PROCESS_SAYS(q, 2, "--info: 'more' is none of usual|all");
    assert_int_equal(p.status, 0);
    process_free(&p);
}

/* 540 billion weights, of which nothing is written. */
static void the_layers_of_a_shape_are_printed_without_its_weights(void **state) {
    (void)state;
    Process p = RUN("run", "random:palm-540b", "--layers");
    assert_string_equal(p.out, "x = embedding of the token, [18432]\n"
                               "layers 0-117\n"
                               "    x += attention{48 heads of 256, 1 of keys}(norm(x)), "
                               "x += feed-forward{73728, gated}(norm(x))\n"
                               "logits = output(norm(x)), [256000]\n");
    assert_string_equal(p.err, "");
    assert_int_equal(p.status, 0);
    process_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_shows_what_is_set_and_info_all_every_field),
        cmocka_unit_test(the_layers_of_a_shape_are_printed_without_its_weights),
        cmocka_unit_test(shapes_of_papers_have_their_parameters),
        cmocka_unit_test(a_model_that_does_not_fit_is_said_with_type_and_context),
        cmocka_unit_test(a_model_fits_with_its_whole_context_a_part_of_it_or_another_type),
        cmocka_unit_test(the_best_type_that_fits_is_chosen_and_said_with_the_numbers),
        cmocka_unit_test(export_takes_the_type_that_fits_another_machine),
        cmocka_unit_test(a_report_names_program_machine_model_and_options_but_no_text),
        cmocka_unit_test(a_model_that_is_refused_is_reported_as_well),
    };
    return cmocka_run_group_tests_name("info", tests, open_model, close_model);
}
