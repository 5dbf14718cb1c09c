/* Families of the user's: --family FILE, and verbatim.family beside an own_transformer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "modes/open/conversion_files.h"
#include "convert/convert.h"
#include "formats/family/families.h"
#include "formats/family/family_page.h"
#include "formats/family/given_family.h"
#include "families/reading/source_open.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/tiny_model.h"

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Converts the fixture, with the page unless it is NULL, into directory/model.bin; its path, which
 * the caller frees. */
static Status convert_with(const char *source, const char *page, const char *target, Error *error) {
    char *file = fixture_path(source, "mine.family");
    ConvertOptions options = {.type = "f32", .n_threads = 1, .source.family = page ? file : NULL};
    if (page) write_file(file, page);
    FILE *out = fopen(target, "w+b");
    assert_non_null(out);
    Status status = convert_source(source, &options, dup(fileno(out)), error);
    fclose(out);
    free(file);
    return status;
}

/* The logits of the fixture's text, which the caller frees. */
static float *logits_with(const Fixture *f, const char *page) {
    const ModelOptions options = {.n_threads = 1};
    char *source = fixture_source(f), *target = fixture_path(source, "model.bin");
    Error error;
    if (convert_with(source, page, target, &error) != STATUS_OK) fail_msg("%s", error.text);
    size_t read_before = family_pages_read();
    TinyModel model = tiny_model_map(target, &options, KV_F32);
    float *logits = tiny_model_run(&model, 0, 0, f->ids, f->n_ids, f->n_ids);
    assert_int_equal(family_pages_read(), read_before); /* a model.bin needs no page */
    if (page) {
        size_t n;
        const char *note, *digest;
        assert_true(modelfile_meta_text(model.file, "source.family", &note, &n));
        static const char says[] = "family mine (mine.family): not compared with a reference";
        assert_true(n == sizeof says - 1 && memcmp(note, says, n) == 0);
        assert_true(modelfile_meta_text(model.file, "source.family_sha256", &digest, &n));
        assert_int_equal(n, 64);
        assert_string_equal(modelfile_config(model.file)->family, "mine");
    }
    tiny_model_close(&model);
    fixture_remove_directory(source);
    free(target);
    return logits;
}

static void rename_type(Fixture *f, const char *type) {
    json_object_set_new(json_object_get(f->json, "config"), "model_type", json_string(type));
}

static void assert_page_gives_the_same(Fixture *f, float *expected, const char *page) {
    rename_type(f, "mine");
    float *logits = logits_with(f, page);
    assert_memory_equal(expected, logits, f->n_ids * f->vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    fixture_free(f);
}

/* Replaces the parts of the fixture's names of tensors; their values stay those of the old names.
 */
static void rename_tensors(Fixture *f, const char *const names[][2], size_t n) {
    json_t *renamed = json_object(), *recipe;
    const char *name;
    json_object_foreach(json_object_get(f->json, "tensors"), name, recipe) {
        char text[128], before[128];
        snprintf(text, sizeof text, "%s", name);
        for (size_t i = 0; i < n; i++) {
            memcpy(before, text, sizeof before);
            const char *at = strstr(before, names[i][0]);
            if (at)
                snprintf(text, sizeof text, "%.*s%s%s", (int)(at - before), before, names[i][1],
                         at + strlen(names[i][0]));
        }
        json_t *copy = json_deep_copy(recipe);
        json_array_append_new(copy, json_string(name));
        json_object_set_new(renamed, text, copy);
    }
    json_object_set_new(f->json, "tensors", renamed);
}

static void rename_key(Fixture *f, const char *key, const char *to) {
    json_t *config = json_object_get(f->json, "config");
    json_object_set(config, to, json_object_get(config, key));
    json_object_del(config, key);
}

/* What an editor puts before a page and a config.json (RFC 8259, section 8.1: a reader may ignore
 * it).
 */
static void a_byte_order_mark_is_no_part_of_a_page_or_of_json(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-gqa");
    rename_type(&f, "mine");
    char *source = fixture_source(&f), *target = fixture_path(source, "model.bin"),
         *config = fixture_path(source, "config.json"), *marked = NULL;
    size_t length;
    char *text = file_read(config, &length);
    assert_true(asprintf(&marked, "\xEF\xBB\xBF%.*s", (int)length, text) > 0);
    write_file(config, marked);
    Error error;
    if (convert_with(source,
                     "\xEF\xBB\xBF"
                     "family mine like llama\n",
                     target, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    fixture_remove_directory(source);
    free(target), free(config), free(marked), free(text);
    fixture_free(&f);
}

/* Every tensor and two keys have other names. */
static void a_renamed_llama(void **state) {
    (void)state;
    static const char *const names[][2] = {{"self_attn.q_proj", "att.query"},
                                           {"self_attn.k_proj", "att.key"},
                                           {"self_attn.v_proj", "att.value"},
                                           {"self_attn.o_proj", "att.out"},
                                           {"mlp.gate_proj", "ff.a"},
                                           {"mlp.up_proj", "ff.b"},
                                           {"mlp.down_proj", "ff.c"},
                                           {"input_layernorm", "n1"},
                                           {"post_attention_layernorm", "n2"},
                                           {"model.layers", "net.blocks"},
                                           {"model.embed_tokens", "net.words"},
                                           {"model.norm", "net.last"},
                                           {"lm_head", "head"}};
    Fixture f = fixture_load("llama-gqa");
    float *expected = logits_with(&f, NULL);
    rename_tensors(&f, names, sizeof names / sizeof *names);
    rename_key(&f, "hidden_size", "width");
    rename_key(&f, "num_key_value_heads", "groups");
    assert_page_gives_the_same(&f, expected,
                               "# a test's\n"
                               "family mine like llama\n"
                               "key    dim <- width required\n"
                               "key    n_kv_heads <- groups = 0\n"
                               "layers net.blocks.%u.\n"
                               "matrix token_embedding <- net.words.weight [vocab_size, dim]\n"
                               "norm   attention_norm <- .n1\n"
                               "norm   ffn_norm <- .n2\n"
                               "linear wq <- .att.query [n_heads * head_dim, dim]\n"
                               "linear wk <- .att.key [n_kv_heads * head_dim, dim]\n"
                               "linear wv <- .att.value [n_kv_heads * head_dim, dim]\n"
                               "linear wo <- .att.out [dim, n_heads * head_dim]\n"
                               "linear w_gate <- .ff.a [ffn_dim, dim]\n"
                               "linear w_up <- .ff.b [ffn_dim, dim]\n"
                               "linear w_down <- .ff.c [dim, ffn_dim]\n"
                               "norm   final_norm <- net.last\n"
                               "linear output <- head [vocab_size, dim] tied\n");
}

/* transformers has no class of EXAONE 3. The names of its keys and tensors are those that vLLM's
 * models/exaone.py and llama.cpp's converter read; what is computed is a llama. */
static void exaone_is_a_llama_under_its_own_names(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"model.layers", "transformer.h"},
        {"self_attn.o_proj", "attn.attention.out_proj"},
        {"self_attn", "attn.attention"},
        {"gate_proj", "c_fc_0"},
        {"up_proj", "c_fc_1"},
        {"down_proj", "c_proj"},
        {"input_layernorm", "ln_1"},
        {"post_attention_layernorm", "ln_2"},
        {"model.embed_tokens", "transformer.wte"},
        {"model.norm", "transformer.ln_f"},
    };
    Fixture f = fixture_load("llama-gqa");
    float *expected = logits_with(&f, NULL);
    rename_tensors(&f, names, sizeof names / sizeof *names);
    rename_key(&f, "num_hidden_layers", "num_layers");
    rename_key(&f, "rms_norm_eps", "layer_norm_epsilon");
    rename_key(&f, "hidden_act", "activation_function");
    json_object_set_new(json_object_get(f.json, "config"), "tie_word_embeddings", json_false());
    rename_type(&f, "exaone");
    float *logits = logits_with(&f, NULL);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    fixture_free(&f);
}

/* transformers 5.24 saves these models by reversing renamings that are meant for the vision half.
 * The names are what save_pretrained of the two classes writes. */
static void names_that_transformers_saves_are_read(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *type, *names[2][2];
    } cases[] = {
        {"kimi_k25",
         "kimi_k25",
         {{"language_model.model.layers.", "language_model.model.blocks."},
          {".self_attn.q_proj.", ".self_wqkv."}}},
        {"llava",
         "qianfan_ocr",
         {{"language_model.model.layers.", "language_model.model.encoder.layers."},
          {"language_model.model.layers.", "language_model.model.encoder.layers."}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f = fixture_load(cases[i].fixture);
        rename_type(&f, cases[i].type);
        float *expected = logits_with(&f, NULL);
        rename_tensors(&f, cases[i].names, 2);
        float *logits = logits_with(&f, NULL);
        assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
        free(expected);
        free(logits);
        fixture_free(&f);
    }
}

/* transformers saves the vectors of Molmo 2's additional tokens after the others. */
static void rows_of_additional_tokens_are_left_out(void **state) {
    (void)state;
    Fixture f = fixture_load("molmo2");
    float *expected = logits_with(&f, NULL);
    json_t *recipe =
        json_object_get(json_object_get(f.json, "tensors"), "model.transformer.wte.embedding");
    json_t *shape = json_array_get(recipe, 3);
    json_array_set_new(shape, 0, json_integer(json_integer_value(json_array_get(shape, 0)) + 5));
    float *logits = logits_with(&f, NULL);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    fixture_free(&f);
}

/* GPT-NeoX, without what the program knows of it. */
static void fused_and_interleaved_projections(void **state) {
    (void)state;
    Fixture f = fixture_load("gpt_neox");
    float *expected = logits_with(&f, NULL);
    assert_page_gives_the_same(
        &f, expected,
        "family mine\n"
        "set    norm layer\n"
        "set    gated false\n"
        "key    vocab_size required\n"
        "key    dim <- hidden_size required\n"
        "key    ffn_dim <- intermediate_size required\n"
        "key    n_layers <- num_hidden_layers required\n"
        "key    n_heads <- num_attention_heads required\n"
        "key    context <- max_position_embeddings = 2048\n"
        "key    norm_eps <- layer_norm_eps = 1e-5\n"
        "key    activation <- hidden_act = gelu\n"
        "key    parallel_block <- use_parallel_residual = true\n"
        "bias   w_up w_down\n"
        "bias   wq wk wv wo if attention_bias absent true\n"
        "rope   theta rotary_emb_base\n"
        "rope   part rotary_pct\n"
        "rope   part_absent 0.25\n"
        "layers gpt_neox.layers.%u.\n"
        "matrix token_embedding <- gpt_neox.embed_in.weight [vocab_size, dim]\n"
        "use    llama_norms\n"
        "linear wq wk wv <- .attention.query_key_value [n_heads * head_dim + n_kv_heads * head_dim "
        "+ n_kv_heads * head_dim, dim] by n_kv_heads\n"
        "linear wo <- .attention.dense [dim, n_heads * head_dim]\n"
        "linear w_up <- .mlp.dense_h_to_4h [ffn_dim, dim]\n"
        "linear w_down <- .mlp.dense_4h_to_h [dim, ffn_dim]\n"
        "norm   final_norm <- gpt_neox.final_layer_norm\n"
        "linear output <- embed_out [vocab_size, dim]\n");
}

/* layer_types says which layers have a window. */
static void windows_by_a_list(void **state) {
    (void)state;
    Fixture f = fixture_load("ministral");
    float *expected = logits_with(&f, NULL);
    assert_page_gives_the_same(&f, expected,
                               "family mine like llama\nwithout biases\nwindows 4096\n");
}

/* ---- Drafts ---- */

/* What --families prints for the directory; the caller frees it. */
static char *draft_of(const char *directory) {
    Source *source;
    Error error;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (source_open(&source, directory, NULL, &error) != STATUS_OK ||
        source_print_draft(source, out, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    source_close(source);
    fclose(out);
    return text;
}

/* Of a model that only has another name. */
static void the_draft_of_a_renamed_model_runs_it(void **state) {
    (void)state;
    static const char *const names[] = {"llama-gqa", "gpt_neox",  "glm4",
                                        "gpt2",      "qwen3_moe", "deepseek_v3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Fixture f = fixture_load(names[i]);
        float *expected = logits_with(&f, NULL);
        rename_type(&f, "mine");
        char *source = fixture_source(&f), *page = draft_of(source);
        fixture_remove_directory(source);
        assert_non_null(strstr(page, "family mine like "));
        assert_page_gives_the_same(&f, expected, page);
        free(page);
    }
}

static void assert_says(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("no '%s' in\n%s", what, text);
}

/* Keys that nothing reads, tensors that nothing takes, and tensors that are missing. */
static void a_draft_names_what_the_nearest_family_does_not_explain(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-gqa");
    json_t *tensors = json_object_get(f.json, "tensors");
    json_t *config = json_object_get(f.json, "config");
    static const char fused[] = "model.layers.0.mlp.gate_up_proj.weight";
    static const char gate[] = "model.layers.0.mlp.gate_proj.weight";
    json_object_set_new(config, "attn_scale", json_real(0.5));
    json_object_set(tensors, fused, json_object_get(tensors, gate));
    for (int layer = 0; layer < 64; layer++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%d.mlp.up_proj.weight", layer);
        json_object_del(tensors, name);
    }
    rename_type(&f, "mine");
    char *source = fixture_source(&f), *page = draft_of(source);
    char *target = fixture_path(source, "model.bin");
    Error error;
    assert_says(page, "\nfamily mine like llama\n");
    assert_says(page, "\n#   key    ? <- attn_scale   here 0.5\n");
    assert_says(page, "\n#   linear ? <- .mlp.gate_up_proj [ffn_dim, dim]\n");
    assert_says(page, "\n#   w_up <- .mlp.up_proj.weight\n");
    assert_int_equal(convert_with(source, NULL, target, &error), STATUS_FAILED);
    assert_says(error.text, "the nearest that runs is 'llama': it reads no key 'attn_scale'; it "
                            "takes no tensor '.mlp.gate_up_proj.weight'; the model lacks its "
                            "'.mlp.up_proj.weight'");
    fixture_remove_directory(source);
    free(page);
    free(target);
    fixture_free(&f);
}

/* ---- What is refused ---- */

static void assert_refused(const char *type, const char *page, const char *says) {
    Fixture f = fixture_load("llama-gqa");
    Error error;
    rename_type(&f, type);
    char *source = fixture_source(&f), *target = fixture_path(source, "model.bin");
    assert_int_equal(convert_with(source, page, target, &error), STATUS_FAILED);
    if (!strstr(error.text, says)) fail_msg("%s\nnot\n%s", error.text, says);
    fixture_remove_directory(source);
    free(target);
    fixture_free(&f);
}

static void a_page_redefines_nothing(void **state) {
    (void)state;
    assert_refused("llama", "family llama like llama\n",
                   "mine.family: the program has a family 'llama': give yours another name");
    assert_refused("llama", "family mine like llama\n", "config.json: model_type is 'llama', but ");
    assert_refused("mine", "family llava like llama\n", "the program knows 'llava'");
    assert_refused("mine", "family mine like llama\ngguf llama\n",
                   "the program knows GGUF files of 'llama'");
    assert_refused("mine", "family mine like llama\nkey dim <- width required\n",
                   "config.json: width is missing");
    assert_refused("mine", "family mine like llama\nset n_heads = 4\n", "mine.family:2:13: ");
    assert_refused("mine", "family mine like llama\nlinear wq <- .q [dim, dim]\n",
                   "tensor 'model.layers.0.q.weight' is missing");
    assert_refused("mine", "family mine like llama\nwithout wq wk wv\n", "is not part of a model");
}

/* A stranger's page changes the numbers of layers and heads after they were checked. Later code,
 * such as the hooks of the family that the page refers to, must use checked numbers. */
static void a_page_keeps_what_its_lines_and_hooks_count_with(void **state) {
    (void)state;
    static const char *const counting[] = {
        "windows 4",
        "rope_layers sliding",
        "kinds foo a=delta else delta",
        "kinds delta alone",
        "no_windows",
        "latent_heads",
        "wide_ffn",
        "set norm_place after always",
    };
    for (size_t i = 0; i < sizeof counting / sizeof *counting; i++) {
        char page[128];
        snprintf(page, sizeof page, "family mine like llama\nset n_layers 100000 always\n%s\n",
                 counting[i]);
        assert_refused("mine", page, "'set n_layers 100000' gives 100000 layers of ");
    }
    assert_refused("mine", "family mine like zamba2\nset n_layers 3000000 always\n",
                   "gives 3000000 layers");
    assert_refused("mine", "family mine like zamba2\nset n_heads 0 always\n", " of 0 heads");
    assert_refused("mine", "family mine like llama\ncap head_dim n_layers 100000\n",
                   " is no field of numbers with a fraction");
    assert_refused("mine", "family mine like llama\ncap head_dim activation silu\n",
                   " is no field of numbers with a fraction");
}

/* A draft of `run --families` is like its nearest family, whichever that is. */
static void a_page_may_be_like_any_family(void **state) {
    (void)state;
    const char *name;
    for (size_t i = 0; (name = family_name(i)); i++) {
        char page[128];
        Error error;
        int n = snprintf(page, sizeof page, "family mine like %s\n", name);
        FamilyPage *read;
        if (family_page_read(&read, "mine.family", page, (size_t)n, &error) != STATUS_OK)
            fail_msg("%s: %s", name, error.text);
        family_page_free(read);
    }
}

/* Of a config.json with lines about GGUF files alone, or with none. */
static void a_page_without_keys_describes_no_directory(void **state) {
    (void)state;
    static const char *const pages[] = {
        "family mine\n",
        ("family mine\ngguf mine\nmatrix token_embedding <- token_embd.weight [vocab_size, dim]\n"
         "use gguf_attention\n"),
        "family mine\nmatrix token_embedding <- model.embed_tokens.weight [vocab_size, dim]\n",
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        assert_refused("mine", pages[i], "mine.family has no line 'key'");
        assert_refused("own_transformer", pages[i], "mine.family has no line 'key'");
    }
    assert_refused("own_transformer", "family mine\nkey dim <- hidden_size required\n",
                   "the page has keys, but no tensors");
    assert_refused("baichuan", NULL, "runs from GGUF files alone");
}

/* A wrapper that is not known is told by its text model, and a dense model has no experts. */
static void a_refusal_looks_into_the_text_model(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-gqa");
    Error error;
    json_t *text = json_incref(json_object_get(f.json, "config"));
    json_object_set_new(text, "num_experts", json_integer(0));
    for (int known = 1; known >= 0; known--) {
        json_object_set_new(text, "model_type", json_string(known ? "llama" : "zebra"));
        json_t *whole = json_pack("{s:s, s:O}", "model_type", "newvl", "text_config", text);
        json_object_set_new(f.json, "config", whole);
        char *source = fixture_source(&f), *target = fixture_path(source, "model.bin");
        assert_int_equal(convert_with(source, NULL, target, &error), STATUS_FAILED);
        const char *says = known
                               ? "its text_config is of type 'llama', which runs"
                               : "the nearest that runs is 'llama': it reads no key 'num_experts'";
        if (!strstr(error.text, says)) fail_msg("%s", error.text);
        assert_null(strstr(error.text, "routed experts"));
        fixture_remove_directory(source);
        free(target);
    }
    json_decref(text);
    /* With few keys the tensors tell: sizes that are a family's defaults are not the model's. */
    static const char *const few[] = {"{}", "{\"hidden_size\": 60}", "{\"model_type\": \"zebra\"}"};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        json_t *whole = json_pack("{s:s, s:o}", "model_type", "newvl", "text_config",
                                  json_loads(few[i], 0, NULL));
        json_object_set_new(f.json, "config", whole);
        char *source = fixture_source(&f), *target = fixture_path(source, "model.bin");
        assert_int_equal(convert_with(source, NULL, target, &error), STATUS_FAILED);
        if (!strstr(error.text, "the nearest that runs is 'llama': ") ||
            strstr(error.text, "it takes no tensor"))
            fail_msg("%s: %s", few[i], error.text);
        fixture_remove_directory(source);
        free(target);
    }
    fixture_free(&f);
}

/* The draft of a wrapper is about its text model: of the object's own model_type, or of the whole's
 * where the object has none; and the page of a family that runs is printed as it is. */
static void a_draft_looks_into_the_text_model(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"zebra", "\nfamily zebra like llama\n"},
                                           {NULL, "\nfamily newvl like llama\n"},
                                           {"llama", "\nfamily llama\n"}};
    Fixture f = fixture_load("llama-gqa");
    json_t *text = json_incref(json_object_get(f.json, "config"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_object_del(text, "model_type");
        if (cases[i][0]) json_object_set_new(text, "model_type", json_string(cases[i][0]));
        json_t *whole = json_pack("{s:s, s:O}", "model_type", "newvl", "text_config", text);
        json_object_set_new(f.json, "config", whole);
        char *source = fixture_source(&f), *page = draft_of(source);
        assert_says(page, "# This is about the text_config of config.json: make a directory with");
        assert_says(page, cases[i][1]);
        assert_null(strstr(page, "config.json that no line reads"));
        fixture_remove_directory(source);
        free(page);
    }
    json_decref(text);
    fixture_free(&f);
}

/* The beginning of a longer name could be another tensor's. */
static void a_word_that_is_too_long_is_refused(void **state) {
    (void)state;
    char page[256], name[97];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(page, sizeof page, "family mine like llama\nnorm final_norm <- %s\n", name);
    assert_refused("mine", page, "mine.family:2:20: a word of more than 95 characters");
    snprintf(page, sizeof page, "family mine like llama\nkey dim <- hidden_size = 8\n%s\n", name);
    assert_refused("mine", page, "mine.family:3:1: ");
}

/* Copying config.json for each of its keys took 34 s for these. */
static void a_config_of_many_keys_is_refused_soon(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-gqa");
    json_t *config = json_object_get(f.json, "config");
    Error error;
    char name[32];
    for (int i = 0; i < 8000; i++) {
        snprintf(name, sizeof name, "some_key_%d", i);
        json_object_set_new(config, name, json_integer(i));
    }
    rename_type(&f, "mine");
    char *source = fixture_source(&f), *target = fixture_path(source, "model.bin");
    clock_t start = clock();
    assert_int_equal(convert_with(source, NULL, target, &error), STATUS_FAILED);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 10.0);
    assert_non_null(strstr(error.text, "it reads no key 'some_key_0', 'some_key_1', 'some_key_2', "
                                       "'some_key_3' and 7996 more"));
    fixture_remove_directory(source);
    free(target);
    fixture_free(&f);
}

/* A directory's own page counts for an own_transformer alone. */
static void a_directory_brings_a_family_for_an_own_transformer_alone(void **state) {
    (void)state;
    const char page[] = "family mine like llama\n";
    Fixture f = fixture_load("llama-gqa");
    for (int own = 0; own < 2; own++) {
        Error error;
        rename_type(&f, own ? "own_transformer" : "mine");
        char *source = fixture_source(&f), *target = fixture_path(source, "model.bin");
        char *file = fixture_path(source, GIVEN_FAMILY_FILE);
        write_file(file, page);
        Status status = convert_with(source, NULL, target, &error);
        assert_int_equal(status, own ? STATUS_OK : STATUS_FAILED);
        if (!own) assert_non_null(strstr(error.text, "model_type 'mine' is not known"));
        fixture_remove_directory(source);
        free(target);
        free(file);
    }
    fixture_free(&f);
}

static void name_conversion(const char *source, const char *page, char *name, size_t size) {
    Source *s;
    Error error;
    assert_int_equal(source_open(&s, source, NULL, &error), STATUS_OK);
    assert_int_equal(given_family_open(s, page, &error), STATUS_OK);
    assert_true(conversion_name(s, "q8", name, size));
    source_close(s);
}

/* An edited page makes another conversion, even where its size and date are the same. */
static void an_edited_page_converts_again(void **state) {
    (void)state;
    char without[128], first[128], again[128], edited[128];
    Fixture f = fixture_load("llama-gqa");
    char *source = fixture_source(&f), *file = fixture_path(source, "mine.family");
    name_conversion(source, NULL, without, sizeof without);
    write_file(file, "family mine like llama\nset norm_place around\n");
    name_conversion(source, file, first, sizeof first);
    name_conversion(source, file, again, sizeof again);
    write_file(file, "family mine like llama\nset norm_place before\n");
    name_conversion(source, file, edited, sizeof edited);
    assert_string_equal(first, again);
    assert_string_not_equal(first, without);
    assert_string_not_equal(first, edited);
    fixture_remove_directory(source);
    free(file);
    fixture_free(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_order_mark_is_no_part_of_a_page_or_of_json),
        cmocka_unit_test(a_renamed_llama),
        cmocka_unit_test(exaone_is_a_llama_under_its_own_names),
        cmocka_unit_test(names_that_transformers_saves_are_read),
        cmocka_unit_test(rows_of_additional_tokens_are_left_out),
        cmocka_unit_test(fused_and_interleaved_projections),
        cmocka_unit_test(windows_by_a_list),
        cmocka_unit_test(the_draft_of_a_renamed_model_runs_it),
        cmocka_unit_test(a_draft_names_what_the_nearest_family_does_not_explain),
        cmocka_unit_test(a_page_redefines_nothing),
        cmocka_unit_test(a_page_keeps_what_its_lines_and_hooks_count_with),
        cmocka_unit_test(a_page_may_be_like_any_family),
        cmocka_unit_test(a_page_without_keys_describes_no_directory),
        cmocka_unit_test(a_word_that_is_too_long_is_refused),
        cmocka_unit_test(a_refusal_looks_into_the_text_model),
        cmocka_unit_test(a_draft_looks_into_the_text_model),
        cmocka_unit_test(a_config_of_many_keys_is_refused_soon),
        cmocka_unit_test(a_directory_brings_a_family_for_an_own_transformer_alone),
        cmocka_unit_test(an_edited_page_converts_again),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
