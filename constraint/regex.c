#include "constraint/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "constraint/regex_internal.h"

enum { KEPT_ROWS = 4 << 20 }; /* derivatives whose memory a rewound arena keeps */

Regex regex_give_up(RegexArena *arena, const char *why) {
    if (!arena->failed) arena->failed = why;
    return REGEX_NONE;
}

bool regex_count_work(RegexArena *arena, size_t steps) {
    arena->work += steps;
    if (arena->work > arena->most_work) regex_give_up(arena, "it takes too many steps");
    return !arena->failed;
}

/* ---- The arena ----------------------------------------------------------------------------- */

static Regex new_node(RegexArena *arena, RegexNode node) {
    if (arena->n_nodes >= arena->most_nodes) return regex_give_up(arena, "it has too many states");
    if (!array_reserve(&arena->nodes, &arena->nodes_capacity, arena->n_nodes + 1,
                       sizeof *arena->nodes))
        return regex_give_up(arena, "there is no memory for it");
    node.run = -1;
    node.live = node.searched ? 0 : 1;
    arena->nodes[arena->n_nodes] = node;
    return (Regex)arena->n_nodes++;
}

/* The items of a list are looked up before they are stored: `items` where they are not. */
static uint64_t hash_node(const RegexArena *arena, const RegexNode *n, const uint32_t *items) {
    uint64_t h = regex_mix(n->kind, n->b);
    if (!regex_is_list(n->kind)) return regex_mix(regex_mix(h, n->a), n->c);
    if (!items) items = arena->lists + n->a;
    for (size_t i = 0; i < n->b; i++) h = regex_mix(h, items[i]);
    return h;
}

static bool same_node(const RegexArena *arena, const RegexNode *x, const RegexNode *n,
                      const uint32_t *items) {
    if (x->kind != n->kind || x->b != n->b) return false;
    if (!regex_is_list(n->kind)) return x->a == n->a && x->c == n->c;
    for (size_t i = 0; i < n->b; i++)
        if (arena->lists[x->a + i] != items[i]) return false;
    return true;
}

static uint64_t hash_stored(const void *arena, uint32_t id) {
    return hash_node(arena, &((const RegexArena *)arena)->nodes[id], NULL);
}

/* The node that equals `n`, made where there is none. items[n.b]: of a list. */
Regex regex_intern(RegexArena *arena, RegexNode n, const uint32_t *items) {
    if (arena->failed) return REGEX_NONE;
    IndexTable *table = &arena->table;
    if (!index_table_reserve(table, hash_stored, arena))
        return regex_give_up(arena, "there is no memory for it");
    size_t at = index_table_first(table, hash_node(arena, &n, items));
    for (; table->slots[at]; at = index_table_next(table, at))
        if (same_node(arena, &arena->nodes[table->slots[at] - 1], &n, items))
            return table->slots[at] - 1;
    if (regex_is_list(n.kind)) {
        if (arena->n_lists + n.b > 16 * arena->most_nodes)
            return regex_give_up(arena, "it has too many states");
        if (!array_reserve(&arena->lists, &arena->lists_capacity, arena->n_lists + n.b,
                           sizeof *arena->lists))
            return regex_give_up(arena, "there is no memory for it");
        n.a = (uint32_t)arena->n_lists;
        memcpy(arena->lists + n.a, items, n.b * sizeof *items);
        arena->n_lists += n.b;
    }
    Regex made = new_node(arena, n);
    if (!arena->failed) index_table_set(table, at, made);
    return made;
}

bool regex_arena_init(RegexArena *arena, size_t most_nodes, size_t most_work) {
    *arena = (RegexArena){.most_nodes = most_nodes, .most_work = most_work, .n_classes = 1};
    regex_intern(arena, (RegexNode){.kind = RE_NONE, .searched = false}, NULL);
    regex_intern(arena, (RegexNode){.kind = RE_EMPTY, .nullable = true}, NULL);
    if (arena->failed) return false;
    arena->nodes[REGEX_NONE].live = 2;
    arena->anything = regex_repeat(arena, regex_range(arena, 0, 255), 0, REGEX_MANY);
    return !arena->failed;
}

void regex_arena_free(RegexArena *arena) {
    for (size_t i = 0; i < arena->n_decimals; i++) free(arena->decimals[i].digits);
    free(arena->decimals);
    free(arena->nodes);
    index_table_free(&arena->table);
    free(arena->lists);
    free(arena->sets);
    free(arena->rows);
    free(arena->utf8);
    *arena = (RegexArena){0};
}

RegexMark regex_arena_mark(const RegexArena *arena) {
    return (RegexMark){arena->n_nodes, arena->n_lists, arena->n_sets};
}

void regex_arena_rewind(RegexArena *arena, RegexMark mark) {
    index_table_clear(&arena->table);
    arena->n_nodes = mark.n_nodes;
    arena->n_lists = mark.n_lists;
    arena->n_sets = mark.n_sets;
    arena->n_rows = 0;
    if (arena->rows_capacity > KEPT_ROWS) { /* most of an arena's memory */
        free(arena->rows);
        arena->rows = NULL;
        arena->rows_capacity = 0;
    }
    for (size_t i = 0; i < arena->n_nodes; i++) {
        index_table_add(&arena->table, hash_stored(arena, (uint32_t)i), i);
        arena->nodes[i].row = 0;
    }
}

size_t regex_arena_memory(const RegexArena *arena) {
    return arena->nodes_capacity * sizeof *arena->nodes +
           arena->table.size * sizeof *arena->table.slots +
           arena->lists_capacity * sizeof *arena->lists +
           arena->sets_capacity * sizeof *arena->sets + arena->rows_capacity * sizeof *arena->rows;
}

size_t regex_arena_bytes(const RegexArena *arena) {
    return arena->n_nodes * sizeof *arena->nodes + arena->n_lists * sizeof *arena->lists +
           arena->n_rows * sizeof *arena->rows;
}

/* Splits the byte classes that `set` divides. The derivatives by class are then out of date. */
static void split_classes(RegexArena *arena, const ByteSet *set) {
    int inside[256], outside[256];
    memset(inside, -1, sizeof inside);
    memset(outside, -1, sizeof outside);
    size_t n = 0;
    uint8_t class_of[256];
    for (unsigned b = 0; b < 256; b++) {
        int *to = byteset_has(set, b) ? &inside[arena->class_of[b]] : &outside[arena->class_of[b]];
        if (*to < 0) *to = (int)n++;
        class_of[b] = (uint8_t)*to;
    }
    if (n == arena->n_classes) return;
    memcpy(arena->class_of, class_of, sizeof class_of);
    for (unsigned b = 256; b-- > 0;) arena->byte_of[class_of[b]] = (uint8_t)b;
    arena->n_classes = n;
    free(arena->utf8);
    arena->utf8 = NULL;
    for (size_t i = 0; i < arena->n_nodes; i++) arena->nodes[i].row = 0;
    arena->n_rows = 0;
}

static uint32_t intern_set(RegexArena *arena, const ByteSet *set) {
    for (size_t i = 0; i < arena->n_sets; i++)
        if (memcmp(&arena->sets[i], set, sizeof *set) == 0) return (uint32_t)i;
    if (!regex_count_work(arena, 256 + arena->n_sets)) return 0;
    if (!array_reserve(&arena->sets, &arena->sets_capacity, arena->n_sets + 1,
                       sizeof *arena->sets)) {
        regex_give_up(arena, "there is no memory for it");
        return 0;
    }
    arena->sets[arena->n_sets] = *set;
    split_classes(arena, set);
    return (uint32_t)arena->n_sets++;
}

/* ---- Constructors -------------------------------------------------------------------------- */

Regex regex_set(RegexArena *arena, const ByteSet *set) {
    if (!(set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3])) return REGEX_NONE;
    uint32_t id = intern_set(arena, set);
    return regex_intern(arena, (RegexNode){.kind = RE_SET, .a = id}, NULL);
}

Regex regex_range(RegexArena *arena, unsigned char from, unsigned char to) {
    ByteSet set = {{0}};
    byteset_add(&set, from, to);
    return regex_set(arena, &set);
}

Regex regex_byte(RegexArena *arena, unsigned char byte) {
    return regex_range(arena, byte, byte);
}

Regex regex_text(RegexArena *arena, const char *bytes, size_t n) {
    Regex out = REGEX_EMPTY;
    while (n-- > 0) out = regex_concat(arena, regex_byte(arena, (unsigned char)bytes[n]), out);
    return out;
}

/* Returns the expression "a, then b". Concatenations are kept right-leaning, (x y) b as x (y b),
 * so that both forms are one node. */
Regex regex_concat(RegexArena *arena, Regex a, Regex b) {
    if (a == REGEX_NONE || b == REGEX_NONE) return REGEX_NONE;
    if (a == REGEX_EMPTY) return b;
    if (b == REGEX_EMPTY) return a;
    if (!regex_count_work(arena, 1)) return REGEX_NONE;
    if (arena->nodes[a].kind == RE_CONCAT) { /* right-leaning; the left side's depth is 1 */
        Regex stack[64];
        size_t n = 0;
        while (n < 64 && arena->nodes[a].kind == RE_CONCAT)
            stack[n++] = arena->nodes[a].a, a = arena->nodes[a].b;
        Regex out = regex_concat(arena, a, b);
        while (n-- > 0 && !arena->failed) out = regex_concat(arena, stack[n], out);
        return arena->failed ? REGEX_NONE : out;
    }
    const RegexNode *x = &arena->nodes[a], *y = &arena->nodes[b];
    RegexNode node = {.kind = RE_CONCAT,
                      .nullable = x->nullable && y->nullable,
                      .searched = x->searched || y->searched,
                      .a = a,
                      .b = b};
    return regex_intern(arena, node, NULL);
}

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool items_push(RegexArena *arena, RegexItems *items, uint32_t id) {
    if (!items->ids) items->ids = items->few, items->capacity = 32;
    if (items->n == items->capacity) {
        size_t capacity = 2 * items->capacity;
        uint32_t *ids = malloc(capacity * sizeof *ids);
        if (!ids) return regex_give_up(arena, "there is no memory for it") != 0;
        memcpy(ids, items->ids, items->n * sizeof *ids);
        if (items->ids != items->few) free(items->ids);
        items->ids = ids;
        items->capacity = capacity;
    }
    items->ids[items->n++] = id;
    return true;
}

void regex_items_free(RegexItems *items) {
    if (items->ids != items->few) free(items->ids);
}

/* Adds an item, or the items of an item of the same kind. */
void regex_items_add(RegexArena *arena, RegexItems *items, unsigned kind, Regex id) {
    RegexNode n = arena->nodes[id];
    if (n.kind != kind) {
        items_push(arena, items, id);
        return;
    }
    for (size_t i = 0; i < n.b; i++)
        if (!items_push(arena, items, arena->lists[n.a + i])) return;
}

/* Sorts the items, drops repeated ones, and joins the byte sets among them into one item. */
static void items_sort(RegexArena *arena, RegexItems *items, bool join) {
    ByteSet joined = {{0}};
    size_t n = 0, sets = 0;
    if (!join) memset(&joined, 0xFF, sizeof joined);
    for (size_t i = 0; i < items->n; i++) {
        const RegexNode *x = &arena->nodes[items->ids[i]];
        if (x->kind == RE_SET && ++sets)
            for (int k = 0; k < 4; k++)
                joined.bits[k] = join ? joined.bits[k] | arena->sets[x->a].bits[k]
                                      : joined.bits[k] & arena->sets[x->a].bits[k];
    }
    if (sets > 1) {
        for (size_t i = 0; i < items->n; i++)
            if (arena->nodes[items->ids[i]].kind != RE_SET) items->ids[n++] = items->ids[i];
        items->ids[n++] = regex_set(arena, &joined);
        items->n = n;
        n = 0;
    }
    bool sorted = true;
    for (size_t i = 1; i < items->n; i++) sorted &= items->ids[i - 1] < items->ids[i];
    if (!sorted) qsort(items->ids, items->n, sizeof *items->ids, compare_ids);
    for (size_t i = 0; i < items->n; i++)
        if (i == 0 || items->ids[i] != items->ids[i - 1]) items->ids[n++] = items->ids[i];
    items->n = n;
}

Regex regex_make_or(RegexArena *arena, RegexItems *items) {
    bool nullable = false, searched = false;
    size_t n = 0;
    items_sort(arena, items, true);
    for (size_t i = 0; i < items->n; i++) {
        Regex id = items->ids[i];
        if (id == REGEX_NONE) continue;
        if (id == arena->anything) return id;
        nullable |= arena->nodes[id].nullable;
        searched |= arena->nodes[id].searched;
        items->ids[n++] = id;
    }
    if (n == 0) return REGEX_NONE;
    if (n == 1) return items->ids[0];
    RegexNode node = {.kind = RE_OR, .nullable = nullable, .searched = searched, .b = (uint32_t)n};
    return regex_intern(arena, node, items->ids);
}

Regex regex_make_and(RegexArena *arena, RegexItems *items) {
    bool nullable = true, empty = false;
    size_t n = 0;
    items_sort(arena, items, false);
    for (size_t i = 0; i < items->n; i++) {
        Regex id = items->ids[i];
        if (id == REGEX_NONE) return REGEX_NONE;
        nullable &= arena->nodes[id].nullable;
        empty |= id == REGEX_EMPTY;
        if (id != arena->anything) items->ids[n++] = id;
    }
    if (empty) return nullable ? REGEX_EMPTY : REGEX_NONE;
    if (n == 0) return arena->anything;
    if (n == 1) return items->ids[0];
    RegexNode node = {.kind = RE_AND, .nullable = nullable, .searched = true, .b = (uint32_t)n};
    return regex_intern(arena, node, items->ids);
}

static Regex make_list(RegexArena *arena, unsigned kind, const Regex *list, size_t n) {
    RegexItems items = {0};
    if (!regex_count_work(arena, n)) return REGEX_NONE;
    for (size_t i = 0; i < n; i++) regex_items_add(arena, &items, kind, list[i]);
    Regex out = kind == RE_OR ? regex_make_or(arena, &items) : regex_make_and(arena, &items);
    regex_items_free(&items);
    return arena->failed ? REGEX_NONE : out;
}

Regex regex_or(RegexArena *arena, const Regex *items, size_t n) {
    return make_list(arena, RE_OR, items, n);
}

Regex regex_or2(RegexArena *arena, Regex a, Regex b) {
    return make_list(arena, RE_OR, (Regex[]){a, b}, 2);
}

Regex regex_and2(RegexArena *arena, Regex a, Regex b) {
    return make_list(arena, RE_AND, (Regex[]){a, b}, 2);
}

Regex regex_not(RegexArena *arena, Regex a) {
    if (arena->failed) return REGEX_NONE;
    if (a == REGEX_NONE) return arena->anything;
    if (a == arena->anything) return REGEX_NONE;
    RegexNode n = arena->nodes[a];
    if (n.kind == RE_NOT) return n.a;
    return regex_intern(
        arena, (RegexNode){.kind = RE_NOT, .nullable = !n.nullable, .searched = true, .a = a},
        NULL);
}

static int compare_texts(const void *a, const void *b) {
    const RegexText *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order != 0) return order;
    return x->n < y->n ? -1 : x->n > y->n;
}

/* What follows the first `at` bytes, which the sorted texts share. */
static Regex texts_after(RegexArena *arena, const RegexText *texts, size_t n, size_t at,
                         unsigned depth) {
    Regex parts[257];
    size_t i = 0, n_parts = 0, same = at;
    if (depth > REGEX_MOST_DEPTH) return regex_give_up(arena, "it is nested too deeply");
    if (!regex_count_work(arena, 1)) return REGEX_NONE;
    const RegexText *first = &texts[0], *last = &texts[n - 1];
    while (same < first->n && same < last->n && first->bytes[same] == last->bytes[same]) same++;
    if (n == 1) return regex_text(arena, first->bytes + at, first->n - at);
    while (i < n && texts[i].n == same) i++;
    if (i > 0) parts[n_parts++] = REGEX_EMPTY;
    while (i < n && !arena->failed) {
        size_t end = i + 1;
        while (end < n && texts[end].bytes[same] == texts[i].bytes[same]) end++;
        Regex rest = texts_after(arena, texts + i, end - i, same + 1, depth + 1);
        parts[n_parts++] =
            regex_concat(arena, regex_byte(arena, (unsigned char)texts[i].bytes[same]), rest);
        i = end;
    }
    Regex all = regex_or(arena, parts, n_parts);
    for (size_t k = same; k-- > at;)
        all = regex_concat(arena, regex_byte(arena, (unsigned char)first->bytes[k]), all);
    return all;
}

Regex regex_texts(RegexArena *arena, RegexText *texts, size_t n) {
    if (n == 0) return REGEX_NONE;
    qsort(texts, n, sizeof *texts, compare_texts);
    return texts_after(arena, texts, n, 0, 0);
}

Regex regex_repeat(RegexArena *arena, Regex a, uint32_t min, uint32_t max) {
    if (arena->failed || min > max) return REGEX_NONE;
    if (max == 0 || a == REGEX_EMPTY) return REGEX_EMPTY;
    if (a == REGEX_NONE) return min == 0 ? REGEX_EMPTY : REGEX_NONE;
    RegexNode n = arena->nodes[a];
    if (min == 1 && max == 1) return a;
    if (n.nullable) min = 0;
    if (n.kind == RE_REPEAT && n.b == 0 && n.c == REGEX_MANY) return a;
    RegexNode node = {.kind = RE_REPEAT,
                      .nullable = min == 0,
                      .searched = n.searched,
                      .a = a,
                      .b = min,
                      .c = max};
    return regex_intern(arena, node, NULL);
}

Regex regex_tag(RegexArena *arena, uint32_t tag) {
    return regex_intern(arena, (RegexNode){.kind = RE_TAG, .nullable = true, .a = tag}, NULL);
}

bool regex_is_end(const RegexArena *arena, Regex id) {
    const RegexNode *n = &arena->nodes[id];
    if (n->kind == RE_EMPTY || n->kind == RE_TAG) return true;
    if (n->kind != RE_OR) return false;
    for (size_t i = 0; i < n->b; i++)
        if (!regex_is_end(arena, arena->lists[n->a + i])) return false;
    return true;
}

size_t regex_tags(const RegexArena *arena, Regex id, uint32_t *tags, size_t most) {
    const RegexNode *n = &arena->nodes[id];
    if (!n->nullable) return 0;
    if (n->kind == RE_CONCAT) return regex_tags(arena, n->b, tags, most);
    if (n->kind != RE_OR) {
        if (most > 0) tags[0] = n->kind == RE_TAG ? n->a : REGEX_PLAIN;
        return 1;
    }
    size_t count = 0;
    for (size_t i = 0; i < n->b; i++) {
        size_t at = count < most ? count : most;
        count += regex_tags(arena, arena->lists[n->a + i], tags + at, most - at);
    }
    return count;
}
