/* Any bytes as the records of a KV cache file of any type, after a valid start. A record whose
 * first byte is odd gets its right checksum, so that its contents are used. What is loaded must be
 * a prefix of the tokens asked for, and attention over it must have the same result on every
 * instruction set. */
#include "kvcache/kvcache_sizes.h"
#include "modes/chat/kvfile.h"
#include "core/isa.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

enum { N_TOKENS = 3 * KV_PAGE + 5 };

enum { HEAD_DIM = 5, N_QUERIES = 9 };

/* The layout of kvfile.c's records: checksum, checksum of the tokens before, page, n, part, zero,
 * tokens, data. Every record gets a part that the shape has. */
static void repair(const KvShape *shape, uint8_t *bytes, size_t size, const int32_t *tokens) {
    const KvLayout layout = kvcache_layout(shape);
    size_t head = 32 + 4 * KV_PAGE, at = 0;
    while (size - at >= head) {
        uint32_t page, part;
        memcpy(&page, bytes + at + 16, 4);
        memcpy(&part, bytes + at + 24, 4);
        part %= (uint32_t)layout.n_groups + 1;
        memcpy(bytes + at + 24, &part, 4);
        size_t data = part == layout.n_groups ? layout.state_bytes : layout.data_bytes[part];
        if (size - at - head < data) break;
        if (bytes[at] & 2 && page <= N_TOKENS / KV_PAGE) {
            uint64_t before = XXH3_64bits(tokens, page * KV_PAGE * sizeof *tokens);
            memcpy(bytes + at + 8, &before, 8);
        }
        if (bytes[at] & 1) {
            uint64_t seed = XXH3_64bits(bytes + at + 8, head - 8);
            uint64_t checksum = XXH3_64bits_withSeed(bytes + at + head, data, seed);
            memcpy(bytes + at, &checksum, 8);
        }
        at += head + data;
    }
}

/* What was loaded, saved into a new file, is loaded from there. */
static void check_copy(const KvCache *cache, const int32_t *tokens, size_t n) {
    const KvShape *shape = kvcache_shape(cache);
    KvFile *file;
    KvCache *other;
    Error error;
    bool begun;
    size_t loaded = 0;
    int fd = memfd_create("copy", 0);
    if (fd < 0 || kvcache_new(&other, shape, 1, 0, &error) != STATUS_OK) return;
    if (kvfile_open(&file, "copy", fd, 1, shape, &begun, &error) != STATUS_OK || !begun) abort();
    if (kvfile_save(file, cache, 0, tokens, &error) != STATUS_OK) abort();
    if (kvfile_load(file, other, 0, tokens, N_TOKENS - 1, &loaded, &error) != STATUS_OK) abort();
    if (!kvcache_has_states(shape) && loaded < n / KV_PAGE * KV_PAGE) abort();
    if (kvcache_has_states(shape) && loaded != n) abort();
    kvfile_close(file);
    kvcache_free(other);
}

/* Computes the attention of the last n_rows positions of what was loaded, with a window and ALiBi:
 * result[n_rows][HEAD_DIM]. */
static void attend(const AttentionKernel *kernel, AttentionMemory *memory, const KvCache *cache,
                   size_t n, size_t n_rows, float (*result)[HEAD_DIM]) {
    static const float slope = 0.05f;
    const AttentionParams params = {.n_heads = 1,
                                    .n_kv_heads = 1,
                                    .head_dim = HEAD_DIM,
                                    .value_dim = HEAD_DIM,
                                    .scale = 0.4f,
                                    .window = n > 40 ? (uint32_t)n - 30 : 0,
                                    .alibi_slopes = &slope};
    AttentionRow rows[N_QUERIES];
    float q[N_QUERIES][HEAD_DIM];
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t d = 0; d < HEAD_DIM; d++) q[i][d] = (float)(i * 7 % 5 + d * d) * 0.25f - 1.5f;
        rows[i] = (AttentionRow){.position = (int32_t)(n - n_rows + i)};
    }
    attention_forward(kernel, memory, &params, cache, rows, n_rows, q[0], result[0], NULL);
}

static void check_attention(const KvCache *cache, size_t n) {
    float expected[N_QUERIES][HEAD_DIM], result[N_QUERIES][HEAD_DIM];
    size_t n_rows = n < N_QUERIES ? n : N_QUERIES;
    for (size_t i = 0; isa_available(i); i++) {
        const Kernels *kernels = isa_available(i)->kernels;
        MatmulMemory *products = matmul_memory_new(kernels, 1, 1, 1);
        AttentionMemory *memory = attention_memory_new(kernels, products, HEAD_DIM, n, 1);
        if (!products || !memory) abort();
        attend(isa_available(i)->attention, memory, cache, n, n_rows, i ? result : expected);
        for (size_t j = 0; i > 0 && j < n_rows * HEAD_DIM; j++) {
            const float *a = &expected[0][0] + j, *b = &result[0][0] + j;
            if (memcmp(a, b, sizeof *a) != 0 && !(isnan(*a) && isnan(*b))) abort();
        }
        attention_memory_free(memory);
        matmul_memory_free(products);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("kv", 0);
    KvFile *file;
    KvCache *cache;
    Error error;
    bool begun;
    int32_t tokens[N_TOKENS];
    size_t loaded = 0;
    const KvType type = size ? (KvType)((data[size - 1] >> 1) % KV_TYPES) : KV_F16;
    /* Layer 0 sees everything; others may have a window or a state. */
    KvShape shape = kvcache_uniform_shape(3, 1, HEAD_DIM, type);
    shape.layers[1] = (KvLayer){.state_floats = size > 1 && data[size - 2] & 1 ? 40 : 0};
    shape.layers[2].window = size > 1 && data[size - 2] & 2 ? 30 : 0;
    if (fd < 0 || kvcache_new(&cache, &shape, 1, 0, &error) != STATUS_OK) return 0;
    /* Zeros but for one, so that the input's records can be of these tokens. */
    for (size_t i = 0; i < N_TOKENS; i++) tokens[i] = 0;
    if (size > 0) tokens[KV_PAGE + 3] = data[size - 1] & 1;
    if (kvfile_open(&file, "kv", dup(fd), 1, &shape, &begun, &error) != STATUS_OK) abort();
    kvfile_close(file);
    uint8_t *bytes = malloc(size + 1);
    memcpy(bytes, data, size);
    repair(&shape, bytes, size, tokens);
    off_t end = lseek(fd, 0, SEEK_END);
    if (pwrite(fd, bytes, size, end) != (ssize_t)size) abort();
    free(bytes);
    if (kvfile_open(&file, "kv", dup(fd), 1, &shape, &begun, &error) != STATUS_OK) abort();
    if (begun) abort();
    if (kvfile_load(file, cache, 0, tokens, N_TOKENS - 1, &loaded, &error) == STATUS_OK) {
        if (loaded > N_TOKENS - 1 || (size_t)kvcache_next(cache, 0) != loaded) abort();
        if (kvfile_save(file, cache, 0, tokens, &error) != STATUS_OK) abort();
        check_copy(cache, tokens, loaded);
        if (loaded > 0) check_attention(cache, loaded);
    }
    kvfile_close(file);
    kvcache_free(cache);
    close(fd);
    return 0;
}
