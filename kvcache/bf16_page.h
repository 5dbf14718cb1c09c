/* Keys and values in bfloat16: how a page of the KV cache stores one head of them.
 *
 * Both are matrices in panels of bf16_act (kernels/tensor.h), so that attention's products are its
 * products. Two neighbours along the axis that a product sums over lie together:
 *
 *     keys     bfloat [KV_PAGE / 16 panels][head_dim / 2, rounded up][16 positions][2 elements]
 *     values   bfloat [value_dim / 16 panels, rounded up][KV_PAGE / 2][16 elements][2 positions]
 *
 * An element is rounded to nearest even, and to +0 below 2^-40 (kernels/bfloat.h). What fills up a
 * pair or a panel is +0. */
#ifndef KVCACHE_BF16_PAGE_H
#define KVCACHE_BF16_PAGE_H

#include <stddef.h>

#include "base/status.h"
#include "kernels/weight_types.h"

enum { BF16_PAGE = 64 }; /* positions, KV_PAGE */

/* Where the pair of elements 2 * pair and 2 * pair + 1 of the key in slot `slot` lies, in pairs. */
static inline size_t bf16_key_pair(size_t key_dim, size_t pair, size_t slot) {
    return (slot / PANEL_ROWS * ((key_dim + 1) / 2) + pair) * PANEL_ROWS + slot % PANEL_ROWS;
}

/* Where element e of the key in slot `slot` lies, in numbers; and of the value. */
static inline size_t bf16_key_place(size_t key_dim, size_t e, size_t slot) {
    return 2 * bf16_key_pair(key_dim, e / 2, slot) + e % 2;
}
static inline size_t bf16_value_place(size_t e, size_t slot) {
    return ((e / PANEL_ROWS * (BF16_PAGE / 2) + slot / 2) * PANEL_ROWS + e % PANEL_ROWS) * 2 +
           slot % 2;
}

/* Bytes of one position's key, or value, of one head. */
static inline size_t bf16_key_bytes(size_t key_dim) {
    return round_up(key_dim, 2) * sizeof(uint16_t);
}
static inline size_t bf16_value_bytes(size_t value_dim) {
    return round_up(value_dim, PANEL_ROWS) * sizeof(uint16_t);
}

#endif
