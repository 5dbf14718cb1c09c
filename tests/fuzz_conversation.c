/* Opens any bytes as a conversation's file. If that is not refused, adds and removes messages and
 * expects an undamaged file when it is opened again. Then reads the same bytes as /load does. */
#include "modes/chat/conversation.h"
#include "fuzz_mutate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void reopen(const char *path, size_t expected) {
    Conversation c;
    Error note, error;
    if (conversation_open(&c, path, "m", 7, NULL, &note, &error) != STATUS_OK) abort();
    if (note.text[0] || conversation_length(&c) != expected) abort();
    conversation_close(&c);
}

FUZZ_MUTATE_PARTS('\n')

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64], aside[80], kv[80];
    /* Shape of the KV cache pages, which one input in four is opened with. */
    static const KvShape shape = {
        .type = KV_F16, .n_layers = 1, .layers = {{.n_kv_heads = 1, .key_dim = 4, .value_dim = 4}}};
    Conversation c;
    Error note, error;
    const char *directory =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* fsync is free in shm */
    snprintf(path, sizeof path, "%s/verbatim-fuzz-%ld", directory, (long)getpid());
    snprintf(aside, sizeof aside, "%s.damaged", path);
    snprintf(kv, sizeof kv, "%s.kv", path);
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    fwrite(data, 1, size, f);
    fclose(f);
    const KvShape *kept = size % 4 == 0 ? &shape : NULL;
    if (conversation_open(&c, path, "m", 7, kept, &note, &error) == STATUS_OK) {
        size_t n = conversation_length(&c);
        for (size_t i = 0; i < n; i++)
            if (!conversation_role(&c, i) || !conversation_content(&c, i)) abort();
        if (conversation_append(&c, "user", "hi\n", 3, &error) != STATUS_OK) abort();
        if (conversation_set_system(&c, "s", &error) != STATUS_OK) abort();
        if (conversation_truncate(&c, n / 2 + 1, &error) != STATUS_OK) abort();
        size_t now = conversation_length(&c);
        conversation_close(&c);
        reopen(path, now);
    } else if (!error.text[0]) {
        abort();
    }
    unlink(path);
    unlink(aside);
    unlink(kv);
    if (conversation_new(&c, "m", 7, &error) != STATUS_OK) return 0;
    char *text = malloc(size + 1), *back;
    size_t length;
    memcpy(text, data, size);
    text[size] = '\0';
    if (conversation_adopt(&c, "loaded", text, size, &error) == STATUS_OK &&
        conversation_text(&c, &back, &length, &error) == STATUS_OK)
        free(back);
    free(text);
    conversation_close(&c);
    return 0;
}
