#include "tokenizer/charsmap.h"

#include <stdint.h>
#include <string.h>

#include "base/unicode.h"

bool charsmap_open(Charsmap *map, const void *bytes, size_t size) {
    uint32_t trie;
    if (size < 4) return false;
    memcpy(&trie, bytes, 4);
    if (trie > size - 4 || trie % 4 != 0) return false;
    map->units = (const char *)bytes + 4;
    map->n_units = trie / 4;
    map->strings = map->units + trie;
    map->strings_size = size - 4 - trie;
    return true;
}

static bool read_unit(const Charsmap *map, size_t i, uint32_t *unit) {
    if (i >= map->n_units) return false;
    memcpy(unit, map->units + 4 * i, 4);
    return true;
}

/* Darts-clone's unit: bits 0-7 label (bit 31 clear), bit 8 has a leaf, bit 9 the offset is
 * shifted by 8, bits 10-30 offset; a leaf holds its value in bits 0-30. */
static size_t unit_offset(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

static bool unit_has_label(uint32_t unit, uint8_t byte) {
    return (unit & 0x800000FFu) == byte;
}

static bool unit_has_leaf(uint32_t unit) {
    return unit >> 8 & 1;
}

static uint32_t leaf_value(uint32_t leaf) {
    return leaf & 0x7FFFFFFFu;
}

size_t charsmap_find(const Charsmap *map, const char *text, size_t n, bool shortest,
                     const char **to, size_t *to_length) {
    size_t found = 0;
    uint32_t unit, leaf, value = 0;
    if (!read_unit(map, 0, &unit)) return 0;
    size_t node = unit_offset(unit);
    /* A node's child by a byte is the unit at node ^ byte, if it has that label; node ^ offset are
     * its own children, and where a key ends there, the leaf is at that place itself. */
    for (size_t i = 0; i < n && text[i] && !(shortest && found); i++) {
        const uint8_t byte = (uint8_t)text[i];
        node ^= byte;
        if (!read_unit(map, node, &unit) || !unit_has_label(unit, byte)) break;
        node ^= unit_offset(unit);
        if (unit_has_leaf(unit) && read_unit(map, node, &leaf)) {
            found = i + 1;
            value = leaf_value(leaf);
        }
    }
    if (found == 0 || value >= map->strings_size) return 0;
    if (found < n && utf8_continues(text[found])) return 0;
    const char *string = map->strings + value;
    size_t length = strnlen(string, map->strings_size - value);
    if (utf8_valid_prefix(string, length) != length) return 0;
    *to = string;
    *to_length = length;
    return found;
}
