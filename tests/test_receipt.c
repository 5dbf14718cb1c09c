/* Receipts: what a run wrote down repeats its answers, on any instruction set, and each changed
 * byte is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/numeric.h"
#include "modes/proof/model_digest.h"
#include "modes/proof/revisions.h"
#include "tests/fixture.h"
#include "tests/gguf_fixture.h"
#include "tests/process.h"
#include "tests/tiny_model.h"

static const char MODEL[] = "models/stories.bin";

/* ---- SHA-256 ----------------------------------------------------------------------------------
 */

static void expect_digest(const char *text, size_t n, const char *expected) {
    char digest[SHA256_HEX];
    sha256_text(text, n, digest);
    assert_string_equal(digest, expected);

    /* Where the processor has instructions for it, that was their digest. */
    Sha256 plain;
    uint8_t bytes[SHA256_BYTES];
    sha256_init(&plain);
    plain.by_instructions = false;
    sha256_add(&plain, text, n);
    sha256_end(&plain, bytes);
    sha256_hex(bytes, digest);
    assert_string_equal(digest, expected);
}

/* FIPS 180-4's examples, as NIST publishes them (csrc.nist.gov, "SHA256" and "SHA2 Additional"). */
static void sha256_gives_nists_digests(void **state) {
    (void)state;
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_digest(two, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_digest("\xbd", 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    expect_digest("\xc9\x8c\x8e\x55", 4,
                  "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
    char zeros[64] = {0};
    expect_digest(zeros, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    expect_digest(zeros, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    expect_digest(zeros, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
    expect_digest(zeros, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

static void sha256_takes_a_text_in_any_pieces(void **state) {
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N), hex[SHA256_HEX];
    uint8_t digest[SHA256_BYTES];
    memset(text, 'a', N);
    expect_digest(text, N, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    Sha256 hash;
    sha256_init(&hash);
    for (size_t at = 0, n = 0; at < N; at += n) {
        n = at % 131 < N - at ? at % 131 + 1 : N - at;
        if (n > N - at) n = N - at;
        sha256_add(&hash, text + at, n);
        sha256_add(&hash, NULL, 0);
    }
    sha256_end(&hash, digest);
    sha256_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

/* RFC 4231, test cases 1, 2 and 6. */
static void hmac_gives_the_rfcs_digests(void **state) {
    (void)state;
    char key[131], digest[SHA256_HEX];
    const char *large = "Test Using Larger Than Block-Size Key - Hash Key First";
    memset(key, 0x0b, 20);
    sha256_hmac_text(key, 20, "Hi There", 8, digest);
    assert_string_equal(digest, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    sha256_hmac_text("Jefe", 4, "what do ya want for nothing?", 28, digest);
    assert_string_equal(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    sha256_hmac_text(key, sizeof key, large, strlen(large), digest);
    assert_string_equal(digest, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* ---- Digests of models ------------------------------------------------------------------------
 */

/* The digest of each tensor by its name. */
static json_t *tensors_of(const char *source, const char *type, int n_threads,
                          char weights[SHA256_HEX]) {
    const ModelOptions options = {.n_threads = 1};
    const ModelDigestOptions how = {.n_threads = n_threads};
    TinyModel tiny = tiny_model_open(source, type, &options, KV_F32);
    json_t *tensors = json_object();
    TensorDigest *digests;
    Error error;
    assert_int_equal(model_digest_weights(tiny.file, &how, weights, &digests, &error), STATUS_OK);
    for (size_t i = 0; i < modelfile_n_tensors(tiny.file); i++)
        json_object_set_new(tensors, digests[i].tensor->name, json_string(digests[i].sha256));
    free(digests);
    tiny_model_close(&tiny);
    return tensors;
}

static void a_float_tensor_has_the_digest_of_its_rows(void **state) {
    (void)state;
    const ModelOptions options = {.n_threads = 1};
    const ModelDigestOptions how = {.n_threads = 2};
    char weights[SHA256_HEX], digest[SHA256_HEX];
    TensorDigest *digests;
    Error error;
    TinyModel tiny = tiny_model_open("random:tiny", NULL, &options, KV_F32);
    assert_int_equal(model_digest_weights(tiny.file, &how, weights, &digests, &error), STATUS_OK);
    for (size_t i = 0; i < modelfile_n_tensors(tiny.file); i++) {
        const FileTensor *tensor = digests[i].tensor;
        if (tensor->type == TENSOR_VECTOR) continue;
        assert_int_equal(tensor->type, TENSOR_F32);
        Matrix w = modelfile_matrix(tiny.file, tensor, 0);
        float *rows = malloc(w.rows * w.cols * sizeof *rows);
        for (size_t row = 0; row < w.rows; row++) matrix_row(&w, row, rows + row * w.cols);
        sha256_text(rows, w.rows * w.cols * sizeof *rows, digest);
        assert_string_equal(digests[i].sha256, digest);
        free(rows);
    }
    free(digests);
    tiny_model_close(&tiny);
}

static void digests_do_not_depend_on_threads(void **state) {
    (void)state;
    static const char *const types[] = {NULL, "f16", "bf16", "q8", "q4m", "q4", "q6", "q5"};
    char one[SHA256_HEX], two[SHA256_HEX], last[SHA256_HEX] = "";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        json_decref(tensors_of("random:tiny", types[i], 1, one));
        json_decref(tensors_of("random:tiny", types[i], 3, two));
        assert_string_equal(one, two);
        assert_string_not_equal(one, last);
        memcpy(last, one, sizeof last);
    }
}

/* The same weights in a Hugging Face directory and in a GGUF file. */
static void digests_do_not_depend_on_the_container(void **state) {
    (void)state;
    json_t *gguf = gguf_fixture_load("gpt_neox");
    Fixture f = fixture_load(json_string_value(json_object_get(gguf, "source")));
    char *source = fixture_source(&f), *directory = fixture_directory(),
         *path = fixture_path(directory, "model.gguf"), one[SHA256_HEX], two[SHA256_HEX];
    gguf_fixture_write(gguf, path, STORED_F32, false);
    json_t *a = tensors_of(source, NULL, 1, one), *b = tensors_of(path, NULL, 1, two);
    assert_true(json_equal(a, b));
    assert_string_equal(one, two);
    json_decref(a);
    json_decref(b);
    free(path);
    fixture_remove_directory(directory);
    fixture_remove_directory(source);
    fixture_free(&f);
    json_decref(gguf);
}

/* ---- Runs -------------------------------------------------------------------------------------
 */

typedef struct Files {
    char *directory, *receipt, *requests, *key, *session, *model;
} Files;

static const char REQUESTS[] =
    "{\"id\": \"a\", \"prompt\": \"Once upon a time\", \"n\": 2, \"seed\": 3}\n"
    "\n"
    "{\"prompt\": [\"The dog\", \"A cat\"], \"logprobs\": 2}\n"
    "{\"prompt\": \"One day\", \"echo\": true, \"logprobs\": 1, \"max_tokens\": 0}\n"
    "{\"prompt\": 3}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi!\"}]}\n"
    "{\"custom_id\": \"e\", \"method\": \"POST\", \"url\": \"/v1/embeddings\", \"body\": "
    "{\"input\": "
    "[\"My dog\", \"My bird\"]}}\n";

static const char KEY[] = "a key of 16 byte";

static int set_up(void **state) {
    Files *f = calloc(1, sizeof *f);
    f->directory = fixture_directory();
    f->receipt = fixture_path(f->directory, "receipt.json");
    f->requests = fixture_path(f->directory, "requests.jsonl");
    f->key = fixture_path(f->directory, "key");
    f->session = fixture_path(f->directory, "session");
    f->model = fixture_path(f->directory, "model.bin");
    file_write(f->requests, REQUESTS, strlen(REQUESTS));
    file_write(f->key, KEY, strlen(KEY));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    Files *f = *state;
    free(f->receipt);
    free(f->requests);
    free(f->key);
    free(f->session);
    free(f->model);
    fixture_remove_directory(f->directory);
    free(f);
    return 0;
}

/* Runs `run` and expects this exit status, and these parts in what it says (ends with NULL). */
static void expect(int status, const char *const *argv, const char *input,
                   const char *const *parts) {
    Process p = process_run(argv, input, input ? strlen(input) : 0);
    if (p.status != status) fail_msg("status %d:\n%s%s", p.status, p.out, p.err);
    for (; *parts; parts++)
        if (!strstr(p.out, *parts) && !strstr(p.err, *parts))
            fail_msg("no %s in:\n%s%s", *parts, p.out, p.err);
    process_free(&p);
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT(status, arguments, ...)                                                             \
    expect(status, ARGUMENTS arguments, NULL, ARGUMENTS(__VA_ARGS__))

static void write_text(const Files *f) {
    EXPECT(0,
           ("run", MODEL, "-i", "Once upon", "-n", "12", "--isa", "reference", "-t", "0.8",
            "--receipt", f->receipt),
           "");
}

static void write_batch(const Files *f) {
    EXPECT(3,
           ("run", MODEL, "--batch", f->requests, "-n", "6", "--pooling", "mean", "-t", "0.8",
            "--isa", "reference", "-j", "1", "--receipt", f->receipt),
           "");
}

static void write_chat(const Files *f) {
    static const char lines[] = "Hello\n/set temperature 0.4\nTell me a story\n/retry\nBye\n";
    unlink(f->session);
    expect(0,
           ARGUMENTS("run", MODEL, "-m", "chat", "-n", "8", "-y", "Be kind", "--session",
                     f->session, "--receipt", f->receipt),
           lines, ARGUMENTS(""));
}

/* Replaces `from` by `to`, of the same length, in the file; in the last place where it stands. */
static void change(const char *path, const char *from, const char *to) {
    size_t n, m = strlen(from);
    char *text = file_read(path, &n), *found = NULL;
    for (char *at = text; (at = memmem(at, n - (size_t)(at - text), from, m)); at++) found = at;
    assert_non_null(found);
    assert_int_equal(m, strlen(to));
    memcpy(found, to, m);
    file_write(path, text, n);
    free(text);
}

static void a_text_is_repeated_on_another_instruction_set(void **state) {
    const Files *f = *state;
    write_text(f);
    EXPECT(0, ("run", MODEL, "--replay", f->receipt), "{\"part\": \"weights\", \"same\": true}",
           "{\"part\": \"item\", \"number\": 1, \"same\": true}");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "-j", "3", "--chunk", "2"), "");
}

static void a_batch_is_repeated(void **state) {
    const Files *f = *state;
    write_batch(f);
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "-j", "2"), "\"number\": 1, \"same\": true",
           "\"number\": 3, \"same\": true", "\"number\": 4, \"same\": true",
           "\"number\": 5, \"same\": true", "\"number\": 6, \"same\": true",
           "\"number\": 7, \"same\": true");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--pooling", "last"),
           "\"settings.pooling\", \"expected\": \"mean\"", "item.result_sha256\", \"number\": 7");
}

/* The receipt of a part holds its requests: it is repeated without the others, or from the whole
 * file. Its results are those of any part. */
static void a_part_of_a_batch_is_repeated(void **state) {
    const Files *f = *state;
    char *results = f->session; /* any file */
    unlink(results);
    EXPECT(3,
           ("run", MODEL, "--batch", f->requests, "-n", "6", "--pooling", "mean", "--shard", "2/2",
            "-o", results, "--isa", "reference", "--receipt", f->receipt),
           "");
    size_t n;
    char *text = file_read(f->receipt, &n);
    assert_non_null(strstr(text, "\"shard\": {"));
    assert_null(strstr(text, "Once upon"));
    assert_non_null(strstr(text, "My dog"));
    free(text);
    /* Which part it is of a file that nobody gave cannot be told. */
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "\"number\": 1, \"same\": true",
           "{\"part\": \"shard\", \"not_checked\": [\"shard\"]", "0 different, 1 not checked",
           "1 part is not the same");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "--batch", f->requests, "--shard", "2/2"),
           "{\"part\": \"shard\", \"same\": true}", "\"number\": 1, \"same\": true");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--batch", f->requests, "--shard", "1/2"),
           "\"part\": \"shard.part\", \"expected\": 2, \"got\": 1", "item.prompt.sha256");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--batch", f->requests), "item.prompt.sha256");
    EXPECT(2, ("run", MODEL, "--replay", f->receipt, "--shard", "2/2"), "--batch FILE");
    EXPECT(2, ("run", "--merge", results, "--batch", f->requests, "--receipt", f->receipt),
           "--merge");
    /* One that has no lines. */
    file_write(f->key, "", 0);
    EXPECT(0, ("run", MODEL, "--batch", f->key, "--shard", "1/2", "--receipt", f->receipt), "");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "\"seal\", \"same\": true",
           "{\"part\": \"items\", \"not_checked\"", "0 different, 2 not checked");
    file_write(f->key, KEY, strlen(KEY));
    EXPECT(0,
           ("run", MODEL, "--batch", f->requests, "-n", "6", "--shard", "1/2", "--receipt",
            f->receipt, "--receipt-key", f->key),
           "");
    EXPECT(0,
           ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "--batch", f->requests,
            "--shard", "1/2"),
           "{\"part\": \"shard\", \"same\": true}");
    unlink(results);
}

static void embeddings_of_lines_are_repeated(void **state) {
    const Files *f = *state;
    static const char texts[] = "My dog\n\nMy bird\n";
    file_write(f->session, texts, strlen(texts)); /* any file */
    EXPECT(0,
           ("run", MODEL, "--embed", f->session, "--pooling", "mean", "--isa", "reference",
            "--receipt", f->receipt),
           "");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt), "\"number\": 1, \"same\": true",
           "\"number\": 2, \"same\": true", "\"number\": 3, \"same\": true");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "--embed", f->session), "");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--pooling", "last"),
           "\"settings.pooling\", \"expected\": \"mean\"", "item.result_sha256\", \"number\": 3");
    change(f->receipt, "My bird", "My bard");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "{\"part\": \"seal\", \"expected\"",
           "item.prompt.sha256\", \"number\": 3", "item.result_sha256\", \"number\": 3",
           "\"number\": 1, \"same\": true");
    EXPECT(0,
           ("run", MODEL, "--embed", f->session, "--pooling", "mean", "--receipt", f->receipt,
            "--receipt-key", f->key),
           "");
    EXPECT(1, ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key), "--batch FILE");
    EXPECT(0,
           ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "--embed", f->session),
           "");
    /* A line that is not UTF-8 fails, and fails again. */
    static const char damaged[] = "My dog\nMy \xff bird\n";
    file_write(f->session, damaged, strlen(damaged));
    EXPECT(3, ("run", MODEL, "--embed", f->session, "--pooling", "mean", "--receipt", f->receipt),
           "not UTF-8");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt), "\"number\": 1, \"same\": true",
           "\"number\": 2, \"same\": true");
    change(f->receipt, "4d7920ff", "4d7920fe");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "item.prompt.sha256\", \"number\": 2");
    change(f->receipt, "4d7920fe", "4d7920fg");
    EXPECT(1, ("run", MODEL, "--replay", f->receipt), "item 2 of the receipt is damaged");
    unlink(f->session);
}

static void a_chat_is_repeated(void **state) {
    const Files *f = *state;
    write_chat(f);
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "--isa", "reference"),
           "\"number\": 3, \"same\": true", "\"number\": 5, \"same\": true",
           "\"number\": 7, \"same\": true");
    /* The same, resumed: earlier answers are in its receipt as well, unless others settings gave
     * them. */
    expect(0,
           ARGUMENTS("run", MODEL, "-m", "chat", "-n", "8", "--session", f->session, "--receipt",
                     f->receipt),
           "And now?\n", ARGUMENTS(""));
    EXPECT(0, ("run", MODEL, "--replay", f->receipt), "\"number\": 3, \"same\": true",
           "\"number\": 9, \"same\": true");
    expect(0,
           ARGUMENTS("run", MODEL, "-m", "chat", "-n", "8", "--session", f->session, "--receipt",
                     f->receipt, "--kv-type", "q8"),
           "And now?\n", ARGUMENTS(""));
    EXPECT(0, ("run", MODEL, "--replay", f->receipt), "\"number\": 11, \"same\": true");
}

static void a_changed_byte_of_the_model_is_named(void **state) {
    const Files *f = *state;
    size_t n;
    char *model = file_read(MODEL, &n);
    write_text(f);
    model[n / 2] ^= 1;
    file_write(f->model, model, n);
    free(model);
    EXPECT(3, ("run", f->model, "--replay", f->receipt),
           "{\"part\": \"weights\", \"expected\": ", "\"tensors\": [\"layers.",
           "was made with other weights");
    Process p = RUN("run", f->model, "--replay", f->receipt);
    assert_null(strstr(p.out, "\"item\""));
    process_free(&p);
}

static void a_changed_prompt_answer_or_option_is_named(void **state) {
    const Files *f = *state;
    write_text(f);
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "-i", "Once upom"), "item.prompt.text",
           "item.answers[0].sha256");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "-t", "0.9"),
           "{\"part\": \"settings.temperature\", \"expected\": 0.8");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "-s", "5"), "settings.seed",
           "item.answers[0].seed");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--kv-type", "q8"), "settings.kv-type");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--stop", "x"), "settings.stop");
    /* In the receipt itself the seal tells as well. */
    change(f->receipt, "Once upon", "Once upom");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "{\"part\": \"seal\", \"expected\"",
           "item.prompt.sha256", "item.answers[0].sha256");
    change(f->receipt, "Once upom", "Once upon");
    change(f->receipt, "\"tokens\": 12", "\"tokens\": 13");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "\"seal\", \"expected\"",
           "item.answers[0].tokens");
    write_batch(f);
    change(f->receipt, "A cat", "A car");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "item.prompt.sha256\", \"number\": 3",
           "item.answers[1].sha256\", \"number\": 3", "\"number\": 4, \"same\": true");
    write_chat(f);
    change(f->receipt, "Tell me", "Sell me");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "item.prompt.sha256\", \"number\": 5",
           "nothing was repeated for it");
}

/* Recorded answers beside a receipt are drafts: they save passes, and are compared as well. */
static void recorded_answers_are_drafted_and_compared(void **state) {
    const Files *f = *state;
    size_t n;
    char *text = f->session; /* any file */
    unlink(text);
    EXPECT(0, ("run", MODEL, "-i", "Once upon", "-n", "40", "-o", text, "--receipt", f->receipt),
           "");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "--check", text, "--stats"),
           "{\"part\": \"recorded\", \"same\": true}", "of them accepted");
    char *bytes = file_read(text, &n);
    bytes[n / 2] ^= 1;
    file_write(text, bytes, n);
    free(bytes);
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--check", text),
           "{\"part\": \"recorded\", \"expected\"",
           "{\"part\": \"item\", \"number\": 1, \"same\": true}");
    Process p = RUN("run", MODEL, "--batch", f->requests, "-n", "6", "--receipt", f->receipt);
    assert_int_equal(p.status, 3);
    file_write(text, p.out, p.out_length);
    process_free(&p);
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "--check", text),
           "\"number\": 6, \"same\": true");
    change(text, "\"finish_reason\": \"length\"", "\"finish_reason\": \"lengtH\"");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--check", text), "\"part\": \"recorded\"",
           "finish_reason", "\"number\": 1, \"same\": true");
    unlink(text);
}

static void keyed_prompts_are_not_in_the_receipt(void **state) {
    const Files *f = *state;
    EXPECT(3,
           ("run", MODEL, "--batch", f->requests, "-n", "6", "-y", "Be secret", "--receipt",
            f->receipt, "--receipt-key", f->key),
           "");
    size_t n;
    char *text = file_read(f->receipt, &n);
    assert_null(strstr(text, "dog"));
    assert_null(strstr(text, "secret"));
    free(text);
    EXPECT(1, ("run", MODEL, "--replay", f->receipt), "--receipt-key");
    EXPECT(1, ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key), "--batch FILE");
    EXPECT(0,
           ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "--batch", f->requests,
            "-y", "Be secret"),
           "");
    EXPECT(3,
           ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "--batch", f->requests,
            "-y", "Be public"),
           "settings.system.hmac");
    EXPECT(
        0,
        ("run", MODEL, "-i", "Once", "-n", "4", "--receipt", f->receipt, "--receipt-key", f->key),
        "");
    EXPECT(1, ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key), "-i or -f");
    EXPECT(0, ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "-i", "Once"), "");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "-i", "Onca"),
           "item.prompt.hmac");
}

/* The conversation's file gives the messages again that a keyed receipt does not have. */
static void a_keyed_chat_is_repeated_from_its_session(void **state) {
    const Files *f = *state;
    unlink(f->session);
    expect(0,
           ARGUMENTS("run", MODEL, "-m", "chat", "-n", "8", "--session", f->session, "--receipt",
                     f->receipt, "--receipt-key", f->key),
           "Hello\nTell me a story\n", ARGUMENTS(""));
    size_t n;
    char *text = file_read(f->receipt, &n);
    assert_null(strstr(text, "story"));
    free(text);
    EXPECT(1, ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key), "--session");
    EXPECT(0,
           ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "--session", f->session,
            "--isa", "reference"),
           "\"number\": 2, \"same\": true", "\"number\": 4, \"same\": true");
    change(f->session, "Tell me", "Sell me");
    EXPECT(3,
           ("run", MODEL, "--replay", f->receipt, "--receipt-key", f->key, "--session", f->session),
           "\"number\": 2, \"same\": true", "item.prompt.hmac\", \"number\": 4");
    write_text(f);
    EXPECT(1, ("run", MODEL, "--replay", f->receipt, "--session", f->session), "not of a chat");
    unlink(f->session);
}

static void what_is_no_receipt_is_refused(void **state) {
    const Files *f = *state;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{}",
                                        "{\"verbatim_receipt\": 3}",
                                        ("{\"verbatim_receipt\": 1, \"program\": {}, \"model\": "
                                         "{}, \"settings\": {}, \"tensors\": {}, \"items\": 3, "
                                         "\"kind\": \"text\"}")};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        file_write(f->receipt, texts[i], strlen(texts[i]));
        EXPECT(1, ("run", MODEL, "--replay", f->receipt), "receipt");
    }
    static const char empty[] =
        "{\"verbatim_receipt\": 1, \"program\": {}, \"model\": {}, \"settings\": {%s}, "
        "\"tensors\": {}, \"items\": [], \"kind\": \"%s\"}";
    char text[512];
    snprintf(text, sizeof text, empty, "\"output\": \"x\"", "text");
    file_write(f->receipt, text, strlen(text));
    EXPECT(1, ("run", MODEL, "--replay", f->receipt), "'output' is not one of this version's");
    snprintf(text, sizeof text, empty, "\"temperature\": -1", "chat");
    file_write(f->receipt, text, strlen(text));
    EXPECT(1, ("run", MODEL, "--replay", f->receipt), "out of range");
    static const char *const kinds[] = {"\"system\": 5", "\"stop\": \"\"", "\"stop\": 7",
                                        "\"stop\": true", "\"special\": \"no\""};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(text, sizeof text, empty, kinds[i], "chat");
        file_write(f->receipt, text, strlen(text));
        EXPECT(1, ("run", MODEL, "--replay", f->receipt), "has a value of the wrong type");
    }
    EXPECT(2, ("run", MODEL, "--replay", f->receipt, "--receipt", f->receipt), "use one of them");
    EXPECT(2, ("run", MODEL, "--info", "--receipt", f->receipt), "not of this");
    EXPECT(2, ("run", MODEL, "-i", "x", "--receipt-key", f->receipt), "--receipt-key needs");
}

/* ---- Forgeries with a new seal -----------------------------------------------------------------
 */

/* Changes a receipt and seals it again, as anybody can. */
static void forge(const char *path, void (*change_it)(json_t *receipt)) {
    json_t *receipt = json_load_file(path, 0, NULL);
    char digest[SHA256_HEX];
    assert_non_null(receipt);
    change_it(receipt);
    json_object_del(receipt, "seal");
    char *text = json_dumps(receipt, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    sha256_text(text, strlen(text), digest);
    json_object_set_new(receipt, "seal", json_string(digest));
    assert_int_equal(json_dump_file(receipt, path, JSON_REAL_PRECISION(9)), 0);
    free(text);
    json_decref(receipt);
}

static json_t *member(json_t *json, const char *first, const char *second) {
    return json_object_get(json_object_get(json, first), second);
}

static void change_tensor(json_t *r) {
    json_t *tensors = json_object_get(r, "tensors");
    const char *name = json_object_iter_key(json_object_iter(tensors));
    json_object_set_new(tensors, name, json_string("0000"));
}
static void add_key(json_t *r) {
    json_object_set_new(r, "approved_by", json_string("you"));
}
static void add_key_of_model(json_t *r) {
    json_object_set_new(json_object_get(r, "model"), "licence", json_string("MIT"));
}
static void add_key_of_program(json_t *r) {
    json_object_set_new(json_object_get(r, "program"), "tested", json_true());
}
static void add_a_zero_byte_to_the_kind(json_t *r) {
    json_object_set_new(r, "kind", json_stringn("batch\0", 6));
}
static void add_a_zero_byte_to_a_setting(json_t *r) {
    json_object_set_new(json_object_get(r, "settings"), "kv-type", json_stringn("f32\0", 4));
}
static void drop_items(json_t *r) {
    json_array_clear(json_object_get(r, "items"));
}
static void drop_last_item(json_t *r) {
    json_t *items = json_object_get(r, "items");
    json_array_remove(items, json_array_size(items) - 1);
}
static void double_item(json_t *r) {
    json_t *items = json_object_get(r, "items");
    json_array_insert(items, 0, json_array_get(items, 0));
}
static void drop_count(json_t *r) {
    json_object_del(r, "count");
}
static void add_shard(json_t *r) {
    json_object_set_new(r, "shard", json_pack("{s:i, s:i}", "part", 1, "of", 2));
}
static void drop_a_setting(json_t *r) {
    json_object_del(json_object_get(r, "settings"), "top-k");
}
static void drop_an_answer(json_t *r) {
    json_object_del(json_array_get(json_object_get(r, "items"), 0), "answers");
}
static void make_by_later_version(json_t *r) {
    json_object_set_new(json_object_get(r, "program"), "version", json_string("9.9"));
    json_object_set_new(json_object_get(r, "program"), "commit", json_string("abc"));
}
static void make_of_version_1(json_t *r) {
    json_object_set_new(r, "verbatim_receipt", json_integer(1));
    json_object_del(r, "count");
}
static void rename_source(json_t *r) {
    json_t *file = json_array_get(json_object_get(member(r, "model", "source"), "files"), 0);
    json_object_set_new(file, "name", json_string("other.bin"));
    json_object_set_new(file, "sha256", json_string("0000"));
}
static void drop_source(json_t *r) {
    json_object_del(json_object_get(r, "model"), "source");
}

static void every_field_of_a_sealed_receipt_is_looked_at(void **state) {
    const Files *f = *state;
    static const struct {
        void (*change_it)(json_t *receipt);
        int status;
        const char *wanted;
    } forgeries[] = {
        {change_tensor, 3, "{\"part\": \"tensors."},
        {add_key, 3, "{\"part\": \"approved_by\", \"expected\": \"you\", \"got\": null"},
        {add_key_of_model, 3, "{\"part\": \"licence\""},
        {add_key_of_program, 3, "{\"part\": \"program.tested\""},
        {add_a_zero_byte_to_the_kind, 1, "it has no 'items' or no 'kind'"},
        {add_a_zero_byte_to_a_setting, 1, "'kv-type' holds a zero byte"},
        {drop_items, 3, "{\"part\": \"count\", \"expected\": 5, \"got\": 0"},
        {drop_last_item, 3, "{\"part\": \"count\", \"expected\": 5, \"got\": 4"},
        {double_item, 1, "item 2 of the receipt has no number, or not a larger one"},
        {drop_count, 3, "{\"part\": \"count\", \"not_checked\": [\"count\"], \"same\": null}"},
        {add_shard, 3, "{\"part\": \"shard\", \"not_checked\""},
        {drop_a_setting, 3, "\"not_checked\": [\"settings.top-k\"]"},
        {drop_an_answer, 3, "\"not_checked\": [\"item.answers\"]"},
        {make_by_later_version, 0,
         "\"run\": [\"program.version\", \"program.commit\"], \"made_by\": {\"name\": "
         "\"verbatim\", "
         "\"version\": \"9.9\""},
        {make_of_version_1, 0, "\"number\": 5, \"same\": true"},
    };
    static const char requests[] = "{\"prompt\": \"The dog\"}\n{\"prompt\": \"A cat\"}\n"
                                   "{\"prompt\": \"One\"}\n{\"prompt\": \"Two\"}\n"
                                   "{\"prompt\": \"Three\"}\n";
    file_write(f->session, requests, strlen(requests)); /* any file */
    EXPECT(0, ("run", MODEL, "--batch", f->session, "-n", "3", "--receipt", f->receipt), "");
    size_t n;
    char *text = file_read(f->receipt, &n);
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        file_write(f->receipt, text, n);
        forge(f->receipt, forgeries[i].change_it);
        EXPECT(forgeries[i].status, ("run", MODEL, "--replay", f->receipt), forgeries[i].wanted);
    }
    free(text);
    unlink(f->session);
}

static void a_short_key_is_refused(void **state) {
    const Files *f = *state;
    file_write(f->key, "15 bytes of key", 15);
    EXPECT(1,
           ("run", MODEL, "-i", "a", "-n", "1", "--receipt", f->receipt, "--receipt-key", f->key),
           "a key of 15 bytes could be guessed; 16 are the least");
    file_write(f->key, KEY, strlen(KEY));
}

/* ---- Revisions --------------------------------------------------------------------------------
 */

/* The program's table ends with its own revision, and docs/numerics.md says the same. */
static void the_table_of_revisions_is_documented(void **state) {
    (void)state;
    size_t n;
    char *doc = file_read("docs/numerics.md", &n), row[200];
    for (int i = 0; revision_at(i); i++) {
        const Revision *r = revision_at(i);
        bool is_own = !revision_at(i + 1);
        assert_int_equal(r->number, i + 1);
        assert_true(r->first || is_own);
        assert_true(is_own == !r->last);
        assert_true(r->version || r->number == 1);
        assert_true(!is_own || r->number == NUMERIC_REVISION);
        snprintf(row, sizeof row, "| %d | %s | %s%s%s | %s%s%s|", r->number,
                 r->version ? r->version : "-", r->first ? "`" : "", r->first ? r->first : "",
                 r->first ? "`" : "", r->last ? "`" : "", r->last ? r->last : "",
                 r->last ? "` " : "");
        if (!strstr(doc, row)) fail_msg("docs/numerics.md has no row: %s", row);
    }
    free(doc);
}

/* The first line that the script prints for the revision, on stdout or stderr. */
static int rebuild(int revision, char line[300]) {
    char command[100];
    snprintf(command, sizeof command, "scripts/rebuild-revision --commit %d 2>&1", revision);
    FILE *script = popen(command, "r");
    assert_non_null(script);
    if (!fgets(line, 300, script)) line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    while (fgetc(script) != EOF) continue;
    return pclose(script);
}

/* The script checks what core/numeric.h says at the commit; a copy without history, or with a part
 * of it, says why it cannot. */
static void a_revision_leads_to_its_commit(void **state) {
    (void)state;
    char line[300];
    bool lacks = false;
    for (int i = 0; revision_at(i); i++) {
        const Revision *r = revision_at(i);
        if (rebuild(r->number, line) != 0) {
            if (!strstr(line, "no git history") && !strstr(line, "git fetch --unshallow") &&
                !strstr(line, "git cannot read"))
                fail_msg("%s", line);
            print_message("skipped: %s\n", line);
            lacks = true;
        } else if (r->last) {
            assert_string_equal(line, r->last);
        } else {
            assert_int_equal(strspn(line, "0123456789abcdef"), 40);
        }
    }
    assert_int_not_equal(rebuild(NUMERIC_REVISION + 1, line), 0);
    assert_non_null(strstr(line, "a later version knows it"));
    if (lacks) skip();
}

static void a_receipt_of_another_revision_names_version_and_commit(void **state) {
    const Files *f = *state;
    char wanted[200], own[40];
    snprintf(own, sizeof own, "\"numeric_revision\": %d", NUMERIC_REVISION);
    write_text(f);
    change(f->receipt, own, "\"numeric_revision\": 1");
    snprintf(wanted, sizeof wanted,
             "\"expected\": 1, \"got\": %d, \"made_by_version\": ", NUMERIC_REVISION);
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), wanted,
           "\"commit\": \"f2bb07fb2c00b56fb4ab2b6ccf7eba4f0812e146\"",
           "Between them changed: any result. scripts/rebuild-revision 1 builds");
    change(f->receipt, "\"numeric_revision\": 1", "\"numeric_revision\": 2");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "is of numeric revision 2",
           "Between them changed: white space in answers of a JSON shape; keys and white space in "
           "answers of a JSON shape; arguments of tools' calls; ids beyond 64 bits. "
           "scripts/rebuild-revision 2");
    change(f->receipt, "\"numeric_revision\": 2", "\"numeric_revision\": 9");
    Process p = RUN("run", MODEL, "--replay", f->receipt);
    assert_int_equal(p.status, 3);
    assert_non_null(strstr(p.out, "\"expected\": 9"));
    assert_null(strstr(p.out, "\"commit\""));
    process_free(&p);
}

/* The fixture was made by the program of commit db6cb34d: run models/stories.bin -i Lily -s 3 -n 60
 * --on-length close --json-schema {name, age} --receipt FILE. Its answer is {"age" before "name"},
 * with a line end inside; with revision 4 the same command gives another one. */
static void a_receipt_of_revision_3_is_repeated_by_its_rule(void **state) {
    const Files *f = *state;
    static const char fixture[] = "tests/fixtures/revision_3.receipt";
    size_t n;
    char *receipt = file_read(fixture, &n);
    EXPECT(0, ("run", MODEL, "--replay", fixture), "\"expected\": 3, \"got\": 4",
           "\"repeated\": true");
    /* Where another part differs, the note names what its rule does not cover. */
    file_write(f->receipt, receipt, n);
    change(f->receipt, "d53f1b9858", "d53f1b9859");
    EXPECT(
        3, ("run", MODEL, "--replay", f->receipt), "\"repeated\": true", "\"same\": false",
        "is of numeric revision 3, this program of 4. Between them changed: keys and white space "
        "in answers of a JSON shape; arguments of tools' calls; ids beyond 64 bits. "
        "scripts/rebuild-revision 3 builds");
    Process same = RUN("run", MODEL, "--replay", fixture);
    assert_null(strstr(same.err, "Between them changed"));
    process_free(&same);
    /* The same receipt under this revision's number is replayed by this revision's rule. */
    file_write(f->receipt, receipt, n);
    change(f->receipt, "\"numeric_revision\": 3", "\"numeric_revision\": 4");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "\"same\": false");
    free(receipt);
}

/* ---- Conversions ------------------------------------------------------------------------------
 */

static void an_export_is_reproducible(void **state) {
    const Files *f = *state;
    char *other = fixture_path(f->directory, "other.bin");
    static const char *const types[] = {"f16", "q8", "q4m"};
    unlink(f->model);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t n, m;
        EXPECT(0, ("export", MODEL, f->model, "-f", "--type", types[i], "-j", "1"), "");
        EXPECT(0, ("export", MODEL, other, "-f", "--type", types[i], "-j", "3"), "");
        char *one = file_read(f->model, &n), *two = file_read(other, &m);
        assert_int_equal(n, m);
        assert_memory_equal(one, two, n);
        free(one);
        free(two);
        unlink(f->model);
        unlink(other);
    }
    free(other);
}

/* A receipt names the files that a model was converted from, and the type. */
static void a_conversion_names_its_source(void **state) {
    const Files *f = *state;
    char *cache = fixture_path(f->directory, "cache"), digest[SHA256_HEX], wanted[256];
    size_t n;
    char *source = file_read(MODEL, &n);
    sha256_text(source, n, digest);
    free(source);
    EXPECT(0,
           ("run", MODEL, "--type", "q4m", "--cache-dir", cache, "-i", "Once", "-n", "4",
            "--receipt", f->receipt),
           "");
    char *text = file_read(f->receipt, &n);
    snprintf(wanted, sizeof wanted, "\"sha256\": \"%s\"", digest);
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "\"type\": \"q4m\""));
    free(text);
    EXPECT(0, ("run", MODEL, "--type", "q4m", "--cache-dir", cache, "--replay", f->receipt), "");
    EXPECT(3, ("run", MODEL, "--replay", f->receipt), "\"made_from\"", digest);
    text = file_read(f->receipt, &n);
    forge(f->receipt, rename_source);
    EXPECT(3, ("run", MODEL, "--type", "q4m", "--cache-dir", cache, "--replay", f->receipt),
           "{\"part\": \"source.files[0].name\", \"expected\": \"other.bin\"",
           "{\"part\": \"source.files[0].sha256\", \"expected\": \"0000\"");
    file_write(f->receipt, text, n);
    forge(f->receipt, drop_source);
    EXPECT(3, ("run", MODEL, "--type", "q4m", "--cache-dir", cache, "--replay", f->receipt),
           "{\"part\": \"source\", \"not_checked\": [\"source\"]");
    free(text);
    free(cache);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_nists_digests),
        cmocka_unit_test(sha256_takes_a_text_in_any_pieces),
        cmocka_unit_test(hmac_gives_the_rfcs_digests),
        cmocka_unit_test(a_float_tensor_has_the_digest_of_its_rows),
        cmocka_unit_test(digests_do_not_depend_on_threads),
        cmocka_unit_test(digests_do_not_depend_on_the_container),
        cmocka_unit_test(a_text_is_repeated_on_another_instruction_set),
        cmocka_unit_test(a_batch_is_repeated),
        cmocka_unit_test(a_part_of_a_batch_is_repeated),
        cmocka_unit_test(embeddings_of_lines_are_repeated),
        cmocka_unit_test(a_chat_is_repeated),
        cmocka_unit_test(a_changed_byte_of_the_model_is_named),
        cmocka_unit_test(a_changed_prompt_answer_or_option_is_named),
        cmocka_unit_test(recorded_answers_are_drafted_and_compared),
        cmocka_unit_test(keyed_prompts_are_not_in_the_receipt),
        cmocka_unit_test(a_keyed_chat_is_repeated_from_its_session),
        cmocka_unit_test(what_is_no_receipt_is_refused),
        cmocka_unit_test(every_field_of_a_sealed_receipt_is_looked_at),
        cmocka_unit_test(a_short_key_is_refused),
        cmocka_unit_test(the_table_of_revisions_is_documented),
        cmocka_unit_test(a_revision_leads_to_its_commit),
        cmocka_unit_test(a_receipt_of_another_revision_names_version_and_commit),
        cmocka_unit_test(a_receipt_of_revision_3_is_repeated_by_its_rule),
        cmocka_unit_test(an_export_is_reproducible),
        cmocka_unit_test(a_conversion_names_its_source),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
