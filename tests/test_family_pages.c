/* Families as pages of text: what the reader makes of them, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config_fields.h"
#include "formats/family/builtin_pages.h"
#include "formats/family/families.h"
#include "formats/family/family_lists.h"
#include "formats/family/family_page.h"
#include "formats/family/hooks.h"
#include "formats/family/page_tables.h"
#include "family_print.h"

/* A page with a mistake in its last line, and what is said of it. */
typedef struct Mistake {
    const char *text, *says;
} Mistake;

/* malloc'ed */
static char *printed(const Family *family) {
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    family_print(out, family);
    fclose(out);
    return text;
}

static FamilyPage *read_page(const char *text) {
    FamilyPage *page;
    Error error;
    if (family_page_read(&page, "page", text, strlen(text), &error) != STATUS_OK)
        fail_msg("%s\n%s", error.text, text);
    return page;
}

/* As a page of the program. */
static FamilyPage *read_own_page(const char *text) {
    const BuiltinPage builtin = {.name = "page", .text = text};
    FamilyPage *page;
    Error error;
    if (family_page_read_builtin(&page, &builtin, &error) != STATUS_OK)
        fail_msg("%s\n%s", error.text, text);
    return page;
}

static void every_page_of_the_program_can_be_read(void **state) {
    (void)state;
    size_t n = 0;
    for (const BuiltinPage *page = families_pages; page->name; page++) {
        if (strcmp(page->name, "groups") == 0) continue;
        const Family *family = family_find(page->name);
        n++;
        if (family_is_gguf_alone(page->name)) continue;
        if (!family) fail_msg("families/%s.family cannot be read", page->name);
        assert_string_equal(family->model_type, page->name);
    }
    assert_true(n >= 180);
}

/* The names are those of the pages that read config.json, as far as reading them tells. */
static void names_are_those_of_pages_with_keys(void **state) {
    (void)state;
    const char *name;
    const Family *family;
    size_t n = 0, with_keys = 0;
    for (; (name = family_name(n)); n++) assert_non_null(family_find(name));
    for (size_t i = 0; (family = family_at(i)); i++) with_keys += family->keys != NULL;
    assert_int_equal(n, with_keys);
    assert_true(family_is_gguf_alone("baichuan"));
}

/* A page says all that a family has; its hooks by their names. */
static void a_printed_family_is_read_as_the_same_tables(void **state) {
    (void)state;
    const Family *family;
    size_t n = 0;
    for (size_t i = 0; (family = family_at(i)); i++) {
        char *text = printed(family);
        FamilyPage *page = read_own_page(text);
        char *again = printed(family_page_family(page));
        assert_string_equal(text, again);
        free(text);
        free(again);
        family_page_free(page);
        n++;
    }
    assert_true(n >= 70);
}

/* What a page changes of the one that it is like, and what it leaves. */
static void a_page_that_is_like_another_changes_what_it_names(void **state) {
    (void)state;
    FamilyPage *page = read_page("family mine like llama\n"
                                 "set    norm_place around # as GLM\n"
                                 "key    head_dim = 128\n"
                                 "key    norm_eps <- layer_norm_eps required\n"
                                 "without w_gate w_up\n"
                                 "matrix token_embedding <- model.words.weight [vocab_size, dim]\n"
                                 "linear wq wk wv <- .self_attn.pack [n_heads * head_dim + "
                                 "n_kv_heads * head_dim + n_kv_heads * head_dim, dim]\n"
                                 "norm   post_ffn_norm <- .last\n");
    char *text = printed(family_page_family(page));
    assert_string_equal(text,
                        "family mine\n\n"
                        "set    norm_place around\n"
                        "key    vocab_size = 32000\n"
                        "key    dim <- hidden_size = 4096\n"
                        "key    ffn_dim <- intermediate_size = 11008\n"
                        "key    n_layers <- num_hidden_layers = 32\n"
                        "key    n_heads <- num_attention_heads = 32\n"
                        "key    n_kv_heads <- num_key_value_heads = 0\n"
                        "key    head_dim = 128\n"
                        "key    context <- max_position_embeddings = 2048\n"
                        "key    norm_eps <- layer_norm_eps required\n"
                        "key    activation <- hidden_act = silu\n"
                        "bias   wq wk wv wo if attention_bias\n"
                        "bias   w_up w_down w_gate if mlp_bias\n"
                        "bos    1\n"
                        "eos    2\n"
                        "matrix token_embedding <- model.words.weight [vocab_size, dim]\n"
                        "norm   attention_norm <- .input_layernorm\n"
                        "norm   ffn_norm <- .post_attention_layernorm\n"
                        "linear wq wk wv <- .self_attn.pack [n_heads * head_dim + n_kv_heads * "
                        "head_dim + n_kv_heads * head_dim, dim]\n"
                        "norm   post_ffn_norm <- .last\n"
                        "linear wo <- .self_attn.o_proj [dim, n_heads * head_dim]\n"
                        "linear w_down <- .mlp.down_proj [dim, ffn_dim]\n"
                        "norm   final_norm <- model.norm\n"
                        "linear output <- lm_head [vocab_size, dim] tied\n");
    free(text);
    family_page_free(page);
}

/* Pages name hooks by names that no other entry has, and each entry has a function. */
static void hooks_have_names_of_their_own(void **state) {
    (void)state;
    size_t n = 0;
    for (const FamilyHook *const *table = families_hooks; *table; table++) {
        for (const FamilyHook *hooks = *table; hooks->name; hooks++, n++) {
            assert_ptr_equal(hooks_find(hooks->name), hooks);
            assert_true(hooks->finish || hooks->more || hooks->gguf_finish || hooks->gguf_more ||
                        hooks->gguf_by_layer);
        }
    }
    assert_true(n >= 1);
}

/* A page of the program takes the functions that it names; one that is like it has them, until it
 * leaves them out. A stranger's page may be like it, but names none. */
static void hooks_are_for_pages_of_the_program(void **state) {
    (void)state;
    const FamilyHook *hooks = hooks_find("hunyuan");
    assert_non_null(hooks);
    FamilyPage *page = read_own_page("family mine like llama\nfinish hunyuan\n");
    assert_ptr_equal(family_page_family(page)->finish, hooks->finish);
    family_page_free(page);
    page = read_page("family mine like hunyuan_v1_moe\n");
    assert_ptr_equal(family_page_family(page)->finish, hooks->finish);
    family_page_free(page);
    page = read_own_page("family mine like hunyuan_v1_moe\nwithout finish\n");
    assert_null(family_page_family(page)->finish);
    family_page_free(page);
    static const Mistake wrong[] = {
        {"family mine like llama\nfinish hunyuann", "2:8: no functions are called 'hunyuann'"},
        {"family mine like llama\nmore hunyuan", "2:6: 'hunyuan' has no 'more' here"},
        {"family mine like llama\nby_layer hunyuan", "2:10: 'hunyuan' has no 'by_layer' here"},
        {"family mine like llama\nfinish", "2:7: the name is missing"},
        {"family mine like llama\nfinish hunyuan x", "2:16: 'x' is too much here"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const BuiltinPage builtin = {.name = "page", .text = wrong[i].text};
        char says[200];
        Error error;
        snprintf(says, sizeof says, "families/page.family:%s", wrong[i].says);
        assert_int_equal(family_page_read_builtin(&page, &builtin, &error), STATUS_FAILED);
        assert_string_equal(error.text, says);
    }
}

/* Tensors after `layers of KIND` belong to such layers, up to the next such line; a GGUF file's
 * tensors begin with all layers. */
static void tensors_may_be_those_of_one_kind_of_layers(void **state) {
    (void)state;
    FamilyPage *page = read_page("family mine\n"
                                 "linear wo <- .o [dim, dim]\n"
                                 "layers of delta\n"
                                 "use llama_norms\n"
                                 "layers of all\n"
                                 "norm final_norm <- norm\n"
                                 "layers of latent\n"
                                 "gguf mine\n"
                                 "linear wo <- .o [dim, dim]\n");
    char *text = printed(family_page_family(page));
    assert_string_equal(strstr(text, "linear"), "linear wo <- .o [dim, dim]\n"
                                                "layers of delta\n"
                                                "norm   attention_norm <- .input_layernorm\n"
                                                "norm   ffn_norm <- .post_attention_layernorm\n"
                                                "layers of all\n"
                                                "norm   final_norm <- norm\n"
                                                "\n"
                                                "gguf mine\n"
                                                "linear wo <- .o [dim, dim]\n");
    assert_int_equal(family_page_family(page)->tensors[1].of_kind, 1 + LAYER_DELTA);
    free(text);
    family_page_free(page);
}

/* Tensors after `where` belong to models whose configuration says so, together with the kind of
 * their layers. */
static void tensors_may_be_those_of_some_models(void **state) {
    (void)state;
    FamilyPage *page = read_page("family mine\n"
                                 "linear wo <- .o [dim, dim]\n"
                                 "where norm_place is output\n"
                                 "use llama_norms\n"
                                 "layers of delta\n"
                                 "where n_experts not 0\n"
                                 "matrix router <- .gate [n_experts, dim]\n"
                                 "where all\n"
                                 "layers of all\n"
                                 "norm final_norm <- norm\n"
                                 "where gated is true\n"
                                 "gguf mine\n"
                                 "linear wo <- .o [dim, dim]\n");
    const Family *family = family_page_family(page);
    char *text = printed(family);
    assert_string_equal(strstr(text, "linear"), "linear wo <- .o [dim, dim]\n"
                                                "where norm_place is output\n"
                                                "norm   attention_norm <- .input_layernorm\n"
                                                "norm   ffn_norm <- .post_attention_layernorm\n"
                                                "where n_experts not 0\n"
                                                "layers of delta\n"
                                                "matrix router <- .gate [n_experts, dim]\n"
                                                "where all\n"
                                                "layers of all\n"
                                                "norm   final_norm <- norm\n"
                                                "\n"
                                                "gguf mine\n"
                                                "linear wo <- .o [dim, dim]\n");
    Config config = {.norm_place = NORM_OUTPUT};
    assert_true(preset_holds(&family->tensors[1].where, &config));
    config.norm_place = NORM_BEFORE;
    assert_false(preset_holds(&family->tensors[1].where, &config));
    free(text);
    family_page_free(page);
    /* All models have the tensor that a page cannot do without. */
    family_page_free(read_page("family mine\nlinear wo <- .o [dim, dim]\n"
                               "where gated is true\nnorm final_norm <- norm\n"
                               "where gated not true\nnorm final_norm <- last\n"));
}

static const Mistake mistakes[] = {
    {"family mine\nwhere", "page:2:6: a field is missing"},
    {"family mine\nwhere dims is 4", "page:2:7: no field 'dims'"},
    {"family mine\nwhere dim 4", "page:2:7: expected 'where FIELD is VALUE' or 'where FIELD not "
                                 "VALUE'"},
    {"family mine\nwhere dim is", "page:2:13: the value is missing"},
    {"family mine\nwhere dim is 4 5", "page:2:16: '5' is too much here"},
    {"family mine\nwhere gated is true\nnorm final_norm <- norm",
     "page:3:24: 'final_norm' stands after 'where gated' alone"},
    {"family mine\ngguf mine\nwhere gated is true\nnorm final_norm <- norm\nwhere gated is false\n"
     "norm final_norm <- last",
     "page:6:24: 'final_norm' stands after 'where gated' alone"},
    {"", "page:0:1: a page begins with 'family NAME'"},
    {"# only a comment\n", "page:1:1: a page begins with 'family NAME'"},
    {"model mine", "page:1:1: a page begins with 'family NAME'"},
    {"family", "page:1:7: the name is missing"},
    {"family mine!", "page:1:8: a name is of letters, digits, '_', '-' and '.'"},
    {"family mine/..", "page:1:8: a name is of letters"},
    {"family a123456789b123456789c123456789d123456789e123456789",
     "page:1:8: a name of more than 31 characters"},
    {"family mine as llama", "page:1:13: expected 'like NAME'"},
    {"family mine like", "page:1:17: the name is missing"},
    {"family mine like lama", "page:1:22: no family 'lama'"},
    {"family mine like llama 2", "page:1:24: '2' is too much here"},
    {"family mine\nkeys dim = 1", "page:2:1: 'keys' is no word that begins a line"},
    {"family mine\nset", "page:2:4: a field is missing"},
    {"family mine\nset norm", "page:2:9: the value is missing"},
    {"family mine\nset norm lair",
     "page:2:10: field 'norm' has no value 'lair': it has rms, layer"},
    {"family mine\nset normm layer", "page:2:11: no field 'normm'"},
    {"family mine\nset norm layer rms", "page:2:16: 'rms' is too much here"},
    {"family mine\nset n_layers -1", "page:2:14: field 'n_layers' has no value '-1'"},
    {"family mine\nset n_layers 1e99", "page:2:14: field 'n_layers' has no value '1e99'"},
    {"family mine\nset rope_theta nan", "page:2:16: field 'rope_theta' has no value 'nan'"},
    {"family mine\nset gated maybe", "page:2:11: field 'gated' has no value 'maybe'"},
    {"family mine\nset layer_kind 1", "page:2:16: field 'layer_kind' cannot be set"},
    {"family mine\nset norm layer if", "page:2:16: 'if' is too much here"},
    {"family mine\nset norm lair if x", "page:2:1: field 'norm' has no value 'lair'"},
    {"family mine\nkey", "page:2:4: a field is missing"},
    {"family mine\nkey dimm = 4", "page:2:5: no field 'dimm'"},
    {"family mine\nkey dim", "page:2:5: expected '= VALUE' or 'required'"},
    {"family mine\nkey dim =", "page:2:10: the value is missing"},
    {"family mine\nkey dim = wide", "page:2:11: field 'dim' has no value 'wide'"},
    {"family mine\nkey dim = 4 5", "page:2:13: '5' is too much here"},
    {"family mine\nkey dim <-", "page:2:11: a key is missing"},
    {"family mine\nkey norm = layer", "page:2:5: no key can fill 'norm'"},
    {"family mine\nkey dim = 4\nkey dim = 5", "page:3:5: 'dim' is filled twice"},
    {"family mine\nrefuse hidden_act", "page:2:8: expected 'unless VALUE'"},
    {"family mine\nrefuse hidden_act unless silu", "page:2:26: 'silu' is not a value of JSON"},
    {"family mine\nbias", "page:2:1: a tensor is missing"},
    {"family mine\nbias wq wx if b", "page:2:9: no tensor 'wx'"},
    {"family mine\nbias wq if", "page:2:11: a key is missing"},
    {"family mine\nbias wq if b absent false", "page:2:14: expected 'absent true'"},
    {"family mine\nbias wq unless b", "page:2:9: 'unless' is too much here"},
    {"family mine\nwindows", "page:2:1: windows takes NUMBER"},
    {"family mine\nwindows 4096 each 2", "page:2:1: windows takes NUMBER"},
    {"family mine\nwindows 4096 every", "page:2:1: windows takes NUMBER"},
    {"family mine\nno_windows 4", "page:2:1: no_windows takes no words"},
    {"family mine\nshared_width n 1.5", "page:2:1: '1.5' is not a whole number"},
    {"family mine\nshared_width n", "page:2:1: shared_width takes KEY NUMBER"},
    {"family mine\ncap key softcap 5", "page:2:1: no field 'softcap'"},
    {"family mine\nlinear wq", "page:2:10: expected '<-'"},
    {"family mine\nlinear <- .q [dim, dim]", "page:2:8: a tensor is missing before '<-'"},
    {"family mine\nlinear wx <- .q [dim, dim]", "page:2:8: no tensor 'wx'"},
    {"family mine\nlinear wq <-", "page:2:13: the source's name is missing"},
    {"family mine\nlinear wq <- .q", "page:2:16: the shape is missing: [ROWS, COLUMNS]"},
    {"family mine\nlinear wq <- .q [dim, dim", "page:2:17: ']' is missing"},
    {"family mine\nlinear wq <- .q [dimm, dim]",
     "page:2:17: 'dimm' is not a sum of products of sizes"},
    {"family mine\nlinear wq <- .q [dim - 1, dim]", "page:2:17: 'dim - 1' is not a sum"},
    {"family mine\nlinear wq <- .q [dim]", "page:2:17: linear has two sizes"},
    {"family mine\nvector q_norm <- .q [dim, dim]", "page:2:21: vector has one size"},
    {"family mine\nlinear wq <- .q [dim, dim, dim]", "page:2:17: more than two sizes"},
    {"family mine\nlinear wq wk <- .q [dim, dim]", "page:2:20: 2 names, but 'dim' is a sum of 1"},
    {"family mine\nlinear wq <- .q [dim, dim] turned",
     "page:2:28: 'turned' says nothing of a tensor"},
    {"family mine\nlinear wq <- .q [dim, dim] by", "page:2:30: by is missing"},
    {"family mine\nlinear wq <- .q [dim, dim] by head", "page:2:31: no size 'head'"},
    {"family mine\nlinear wq <- .%s.q [dim, dim]", "page:2:14: '%s' in a name"},
    {"family mine\nlinear wq <- .%u.%u.q [dim, dim]", "page:2:14: too many placeholders"},
    {"family mine\nlinear experts.%u.w_up <- up [dim, dim]",
     "page:2:40: 'up' is no tensor of a layer"},
    {"family mine\nvector q_norm <- .q [dim] transposed", "page:2:37: a vector is not transposed"},
    {"family mine\nuse", "page:2:4: a group is missing"},
    {"family mine\nuse llama", "page:2:5: no group 'llama'"},
    {"family mine\nuse llama_norms .x.", "page:2:5: group 'llama_norms' takes no prefix"},
    {"family mine\nuse shared_expert", "page:2:5: group 'shared_expert' needs a prefix"},
    {"family mine\nrope", "page:2:5: what of RoPE is missing"},
    {"family mine\nrope parts x", "page:2:6: 'parts' says nothing of RoPE"},
    {"family mine\nrope part_absent half", "page:2:18: 'half' is not a number"},
    {"family mine\nrope part", "page:2:10: the value is missing"},
    {"family mine\nwith hooks", "page:2:6: nothing is called 'hooks' here"},
    {"family mine\nprediction all", "page:2:12: prediction layers are none, mtp or nextn"},
    {"family mine\nlayers model.layers.", "page:2:8: 'model.layers.' is not like model.layers.%u."},
    {"family mine\nlayers of", "page:2:10: no layers are ''"},
    {"family mine\nlayers of hair", "page:2:11: no layers are 'hair'"},
    {"family mine\nlayers of delta mamba", "page:2:17: 'mamba' is too much here"},
    {"family mine\nlayers of delta\nnorm final_norm <- norm", "page:3:24: 'norm' is no tensor of"},
    {"family mine\nfinish hunyuan", "page:2:1: 'finish' is for the program's own pages"},
    {"family mine\nmore no_such", "page:2:1: 'more' is for the program's own pages"},
    {"family mine\ngguf g\nby_layer x", "page:3:1: 'by_layer' is for the program's own pages"},
    {"family mine like hunyuan_v1_moe\nwithout finish", "page:2:9: there is no 'finish' to leave"},
    {"family mine\nmatrix rg_lru.input_gate.%u <- .x [dim, dim] each_head parts n_heads",
     "page:2:69: 'parts' is for the program's own pages"},
    {"family mine\ngguf g\nlayers blk.%u.", "page:3:1: expected 'layers of KIND'"},
    {"family mine\nbos 1.5", "page:2:5: 1.5 is not the number of a token"},
    {"family mine\neos 1 2 3 4", "page:2:11: '4' is too much here"},
    {"family mine\nwithout wq", "page:2:9: there is no 'wq' to leave out"},
    {"family mine\nkey dim = 4", "page:2:12: the page has keys, but no tensors"},
    {"family mine\ngguf", "page:2:5: an architecture is missing"},
    {"family mine\ngguf g\nbos 1", "page:3:1: 'bos' stands before the first 'gguf'"},
    {"family mine\ngguf g\nkey dim = 1", "page:3:5: expected '<- KEY'"},
    {"family mine\ngguf g\nwindows 1 every 0", "page:3:17: expected windows N every M"},
    {"family mine\ngguf g\nrope part x",
     "page:3:6: GGUF files have rope theta, local_theta and pairing alone"},
    {"family mine\ngguf g\nrequired", "page:3:1: expected required KEY..."},
    {"family mine\ngguf g\nrequired a\nrequired b", "page:4:1: a second 'required'"},
    {"family mine\ngguf g\nepsilon x", "page:3:9: "},
    {"family mine\ngguf g\nwide_ffn", "page:3:1: 'wide_ffn' is not for GGUF files"},
    {"family mine\ngguf g\nset norm layer if .q absent true",
     "page:3:22: 'absent' is not for GGUF files"},
    {"family mine\ngguf g\nlatent_heads some",
     "page:3:1: latent_heads takes indexers, indexers all or no word"},
    {"family mine\nrope_layers",
     "page:2:1: rope_layers takes sliding, sliding_if_any, local or listed"},
    {"family mine\nscale scores 1", "page:2:1: scale takes embeddings, or scores KEY NUMBER"},
    {"family mine\nwide_ffn key", "page:2:1: wide_ffn takes [KEY NUMBER]"},
    {"family mine\nkinds", "page:2:1: kinds takes KIND [alone], or KEY NAME=KIND ... else KIND"},
    {"family mine\nkinds fast", "page:2:1: kinds takes KIND"},
    {"family mine\nkinds layer_types else delta", "page:2:1: kinds takes KIND"},
    {"family mine\nkinds layer_types a=delta", "page:2:1: kinds takes KIND"},
    {"family mine\nkinds layer_types a=fast else delta", "page:2:1: kinds takes KIND"},
    {"family mine\nkinds layer_types a=delta else delta mamba", "page:2:1: kinds takes KIND"},
    {"family mine\nkinds layer_types a=delta else delta mamba every 0",
     "page:2:1: kinds takes KIND"},
    {"family mine\nkinds t a=delta b=delta c=delta d=delta e=delta f=delta g=delta h=delta "
     "i=delta else delta",
     "page:2:1: kinds takes KIND"},
    {"family mine\nkinds delta alone now", "page:2:1: kinds takes KIND"},
    {"family mine\ngguf g\nkinds fast", "page:3:1: kinds takes KIND"},
    {"family mine\ngranite x", "page:2:1: 'x' is not a whole number"},
    {"family mine\n\x01", "page:2:1: a character that only comments may have"},
    {"family mine\nset norm l\xC3\xA4yer", "page:2:11: a character that only comments may have"},
};

static void mistakes_are_named_with_line_and_column(void **state) {
    (void)state;
    enum { N = sizeof mistakes / sizeof *mistakes };
    size_t n_wrong = 0;
    assert_true(N >= 60);
    for (size_t i = 0; i < N; i++) {
        FamilyPage *page;
        Error error;
        const char *text = mistakes[i].text, *says = mistakes[i].says;
        if (family_page_read(&page, "page", text, strlen(text), &error) == STATUS_OK)
            fail_msg("accepted: %s", text);
        if (strncmp(error.text, says, strlen(says)) != 0) {
            printf("of \"%s\" is said:\n%s\nnot\n%s\n", text, error.text, says);
            n_wrong++;
        }
        assert_null(strchr(error.text, '\n'));
    }
    assert_int_equal(n_wrong, 0);
}

/* Tables that are too long, lines that are, and pages that are like each other. */
static void a_page_is_bounded(void **state) {
    (void)state;
    static char text[200000];
    FamilyPage *page;
    Error error;
    size_t n = (size_t)sprintf(text, "family mine\n");
    for (int i = 0; i < 200; i++)
        n += (size_t)sprintf(text + n, "linear wq <- .q%d [dim, dim]\n", i);
    assert_int_equal(family_page_read(&page, "page", text, n, &error), STATUS_FAILED);
    assert_string_equal(error.text, "page:194:30: more than 192 tensors");
    n = (size_t)sprintf(text, "family mine\nset ");
    memset(text + n, 'x', 600);
    assert_int_equal(family_page_read(&page, "page", text, n + 600, &error), STATUS_FAILED);
    assert_string_equal(error.text, "page:2:1: a line of more than 511 characters");
    memset(text + n, '#', sizeof text - n);
    assert_int_equal(family_page_read(&page, "page", text, sizeof text, &error), STATUS_FAILED);
    assert_string_equal(error.text, "page:0:1: a page of more than 65536 bytes");
}

/* The text of docs/family-pages.md; the caller frees it. */
static char *read_docs(void) {
    FILE *f = fopen("docs/family-pages.md", "r");
    assert_non_null(f);
    char *text = calloc(1, 1 << 17);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 17) - 1, f);
    assert_true(n > 0 && feof(f));
    fclose(f);
    return text;
}

static void assert_explained(const char *docs, const char *name) {
    for (const char *p = docs; (p = strstr(p, name)); p++) {
        char before = p[-1], after = p[strlen(name)];
        if ((before == '`' || before == ' ') && (after == '`' || after == ' ')) return;
    }
    fail_msg("docs/family-pages.md does not explain '%s'", name);
}

static void every_word_is_explained(void **state) {
    (void)state;
    char *docs = read_docs();
    static const PageMember *const members[] = {page_rope_members, page_family_flags,
                                                page_gguf_flags, page_tensor_members};
    for (const Verb *verb = verbs_all; verb->name; verb++) assert_explained(docs, verb->name);
    for (size_t i = 0; page_forms[i]; i++) assert_explained(docs, page_forms[i]);
    for (size_t i = 0; i < LAYER_KINDS; i++) {
        assert_non_null(page_kinds[i]); /* page_kind ends at the first hole */
        assert_explained(docs, page_kinds[i]);
    }
    for (size_t i = 0; hooks_words[i]; i++) assert_explained(docs, hooks_words[i]);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        for (const PageMember *m = members[i]; m->name; m++) assert_explained(docs, m->name);
    for (const PageChoice *c = page_tensor_choices; c->name; c++) assert_explained(docs, c->name);
    free(docs);
}

/* The row of the table that begins with the field, among others; the caller frees it. */
static char *row_of(const char *table, const char *field) {
    char name[64];
    snprintf(name, sizeof name, "`%s`", field);
    for (const char *p = table; (p = strstr(p, "\n| `")); p++) {
        const char *cell = p + 3, *end = strstr(cell, " | "), *found = strstr(cell, name);
        if (end && found && found < end) return strndup(end + 3, strcspn(end + 3, "\n"));
    }
    fail_msg("docs/family-pages.md has no row for the values of '%s'", field);
    return NULL;
}

static void the_values_of_fields_that_have_names_are_listed(void **state) {
    (void)state;
    char *docs = read_docs(), name[64];
    const char *table = strstr(docs, "names as values");
    const ConfigField *field;
    assert_non_null(table);
    for (size_t i = 0; (field = config_field(i)); i++) {
        if (field->kind != FIELD_ENUM) continue;
        char *row = row_of(table, field->name), *p = row;
        for (const char *const *value = field->names; *value; value++) {
            snprintf(name, sizeof name, "`%s`", *value);
            char *next = strstr(p, name);
            if (!next || memchr(p, '`', (size_t)(next - p)))
                fail_msg("docs/family-pages.md: `%s` does not list %s next: %s", field->name, name,
                         row);
            p = next + strlen(name);
        }
        if (strchr(p, '`')) fail_msg("docs/family-pages.md: `%s` has no value %s", field->name, p);
        free(row);
    }
    free(docs);
}

static void the_first_value_of_a_field_is_the_usual_one(void **state) {
    (void)state;
    const Config usual = config_default();
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++) {
        if (field->kind != FIELD_ENUM) continue;
        unsigned value = *(const unsigned *)((const char *)&usual + field->offset);
        const char *expected = strcmp(field->name, "position") == 0          ? "rope"
                               : strcmp(field->name, "gate_activation") == 0 ? "sigmoid"
                                                                             : field->names[0];
        assert_string_equal(field->names[value], expected);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_of_the_program_can_be_read),
        cmocka_unit_test(names_are_those_of_pages_with_keys),
        cmocka_unit_test(a_printed_family_is_read_as_the_same_tables),
        cmocka_unit_test(a_page_that_is_like_another_changes_what_it_names),
        cmocka_unit_test(hooks_have_names_of_their_own),
        cmocka_unit_test(hooks_are_for_pages_of_the_program),
        cmocka_unit_test(tensors_may_be_those_of_one_kind_of_layers),
        cmocka_unit_test(tensors_may_be_those_of_some_models),
        cmocka_unit_test(mistakes_are_named_with_line_and_column),
        cmocka_unit_test(a_page_is_bounded),
        cmocka_unit_test(every_word_is_explained),
        cmocka_unit_test(the_values_of_fields_that_have_names_are_listed),
        cmocka_unit_test(the_first_value_of_a_field_is_the_usual_one),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
