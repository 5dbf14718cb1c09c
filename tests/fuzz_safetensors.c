/* Fuzz target: converts the input as a Hugging Face directory. The input is a list of files, each
 * one letter (letter_name: its file name), the content and a zero byte. 'm' is model.safetensors
 * and takes all the rest of the input. 'M' is only the JSON header of model.safetensors ('N': of
 * another file): the target puts its length before it and appends tensor data. */
#include "fuzz_mutate.h"
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

FUZZ_MUTATE_PARTS('\0')

static const char *letter_name(uint8_t letter) {
    switch (letter) {
    case 'c':
        return "fuzz/config.json";
    case 'g':
        return "fuzz/generation_config.json";
    case 'h':
        return "fuzz/tokenizer_config.json";
    case 'j':
        return "fuzz/tokenizer.json";
    case 'i':
        return "fuzz/model.safetensors.index.json";
    case 'p':
        return "fuzz/chat_template.jinja";
    case 't':
        return "fuzz/vocab.json";
    case 'v':
        return "fuzz/merges.txt";
    case 'a':
        return "fuzz/added_tokens.json";
    case 'q':
        return "fuzz/chat_template.json";
    case 's':
        return "fuzz/tokenizer.model";
    case 'w':
        return "fuzz/input.txt";
    case 'W':
        return "fuzz/vocabulary.txt";
    default:
        return NULL;
    }
}

static void add_model(Source *source, const uint8_t *header, size_t n, const char *path) {
    enum { DATA = 1 << 20 };
    uint64_t length = n;
    uint8_t *bytes = malloc(8 + n + DATA);
    if (!bytes) return;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, n);
    fuzz_fill(bytes + 8 + n, DATA);
    fuzz_add_file(source, path, bytes, 8 + n + DATA);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = data + size;
    bool added[256] = {false};
    if (size > 1 << 20) return 0;
    Source *source = fuzz_source(SOURCE_HUGGINGFACE, "fuzz");
    while (data < end) {
        uint8_t letter = *data++;
        const uint8_t *stop = letter == 'm' ? NULL : memchr(data, 0, (size_t)(end - data));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - data);
        if (!added[letter] && n > 0) {
            if (letter == 'm') {
                fuzz_add_file(source, "fuzz/model.safetensors", data, n);
            } else if (letter == 'M' || letter == 'N') {
                add_model(source, data, n,
                          letter == 'M' ? "fuzz/model.safetensors" : "fuzz/other.safetensors");
            } else if (letter_name(letter)) {
                fuzz_add_file(source, letter_name(letter), data, n);
            }
            added[letter] = true;
        }
        data = stop + (stop < end);
    }
    fuzz_convert(source, NULL);
    return 0;
}
