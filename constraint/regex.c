#include "constraint/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { MOST_LIVE_STATES = 1 << 15, MOST_DEPTH = 4000 };

static Regex give_up(RegexArena *arena, const char *why) {
    if (!arena->failed) arena->failed = why;
    return REGEX_NONE;
}

bool regex_count_work(RegexArena *arena, size_t steps) {
    arena->work += steps;
    if (arena->work > arena->most_work) give_up(arena, "it takes too many steps");
    return !arena->failed;
}

/* ---- The arena ----------------------------------------------------------------------------- */

static Regex new_node(RegexArena *arena, RegexNode node) {
    if (arena->n_nodes >= arena->most_nodes) return give_up(arena, "it has too many states");
    if (!array_reserve(&arena->nodes, &arena->nodes_capacity, arena->n_nodes + 1,
                       sizeof *arena->nodes))
        return give_up(arena, "there is no memory for it");
    node.run = -1;
    node.live = node.searched ? 0 : 1;
    arena->nodes[arena->n_nodes] = node;
    return (Regex)arena->n_nodes++;
}

static bool is_list(unsigned kind) {
    return kind == RE_OR || kind == RE_AND;
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* The items of a list are looked up before they are stored: `items` where they are not. */
static uint64_t hash_node(const RegexArena *arena, const RegexNode *n, const uint32_t *items) {
    uint64_t h = mix(n->kind, n->b);
    if (!is_list(n->kind)) return mix(mix(h, n->a), n->c);
    if (!items) items = arena->lists + n->a;
    for (size_t i = 0; i < n->b; i++) h = mix(h, items[i]);
    return h;
}

static bool same_node(const RegexArena *arena, const RegexNode *x, const RegexNode *n,
                      const uint32_t *items) {
    if (x->kind != n->kind || x->b != n->b) return false;
    if (!is_list(n->kind)) return x->a == n->a && x->c == n->c;
    return memcmp(arena->lists + x->a, items, n->b * sizeof *items) == 0;
}

static bool grow_table(RegexArena *arena) {
    size_t size = arena->table_size ? 2 * arena->table_size : 1024;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < arena->n_nodes; i++) {
        size_t at = hash_node(arena, &arena->nodes[i], NULL) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = (uint32_t)i + 1;
    }
    free(arena->table);
    arena->table = table;
    arena->table_size = size;
    return true;
}

/* The node that equals `n`, made where there is none. items[n.b]: of a list. */
static Regex intern(RegexArena *arena, RegexNode n, const uint32_t *items) {
    if (arena->failed) return REGEX_NONE;
    if (2 * (arena->n_nodes + 1) > arena->table_size && !grow_table(arena))
        return give_up(arena, "there is no memory for it");
    size_t mask = arena->table_size - 1, at = hash_node(arena, &n, items) & mask;
    for (; arena->table[at]; at = (at + 1) & mask)
        if (same_node(arena, &arena->nodes[arena->table[at] - 1], &n, items))
            return arena->table[at] - 1;
    if (is_list(n.kind)) {
        if (arena->n_lists + n.b > 16 * arena->most_nodes)
            return give_up(arena, "it has too many states");
        if (!array_reserve(&arena->lists, &arena->lists_capacity, arena->n_lists + n.b,
                           sizeof *arena->lists))
            return give_up(arena, "there is no memory for it");
        n.a = (uint32_t)arena->n_lists;
        memcpy(arena->lists + n.a, items, n.b * sizeof *items);
        arena->n_lists += n.b;
    }
    Regex made = new_node(arena, n);
    if (!arena->failed) arena->table[at] = made + 1;
    return made;
}

bool regex_arena_init(RegexArena *arena, size_t most_nodes, size_t most_work) {
    *arena = (RegexArena){.most_nodes = most_nodes, .most_work = most_work, .n_classes = 1};
    intern(arena, (RegexNode){.kind = RE_NONE, .searched = false}, NULL);
    intern(arena, (RegexNode){.kind = RE_EMPTY, .nullable = true}, NULL);
    if (arena->failed) return false;
    arena->nodes[REGEX_NONE].live = 2;
    arena->anything = regex_repeat(arena, regex_range(arena, 0, 255), 0, REGEX_MANY);
    return !arena->failed;
}

void regex_arena_free(RegexArena *arena) {
    for (size_t i = 0; i < arena->n_decimals; i++) free(arena->decimals[i].digits);
    free(arena->decimals);
    free(arena->nodes);
    free(arena->table);
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
    memset(arena->table, 0, arena->table_size * sizeof *arena->table);
    arena->n_nodes = mark.n_nodes;
    arena->n_lists = mark.n_lists;
    arena->n_sets = mark.n_sets;
    arena->n_rows = 0;
    for (size_t i = 0; i < arena->n_nodes; i++) {
        size_t at = hash_node(arena, &arena->nodes[i], NULL) & (arena->table_size - 1);
        while (arena->table[at]) at = (at + 1) & (arena->table_size - 1);
        arena->table[at] = (uint32_t)i + 1;
        arena->nodes[i].row = 0;
    }
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
        give_up(arena, "there is no memory for it");
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
    return intern(arena, (RegexNode){.kind = RE_SET, .a = id}, NULL);
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
    return intern(arena, node, NULL);
}

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

Regex regex_anything(const RegexArena *arena) {
    return arena->anything;
}

/* A list of items on its way to a node. */
typedef struct Items {
    uint32_t *ids;
    size_t n, capacity;
    uint32_t few[32];
} Items;

static bool items_push(RegexArena *arena, Items *items, uint32_t id) {
    if (!items->ids) items->ids = items->few, items->capacity = 32;
    if (items->n == items->capacity) {
        size_t capacity = 2 * items->capacity;
        uint32_t *ids = malloc(capacity * sizeof *ids);
        if (!ids) return give_up(arena, "there is no memory for it") != 0;
        memcpy(ids, items->ids, items->n * sizeof *ids);
        if (items->ids != items->few) free(items->ids);
        items->ids = ids;
        items->capacity = capacity;
    }
    items->ids[items->n++] = id;
    return true;
}

static void items_free(Items *items) {
    if (items->ids != items->few) free(items->ids);
}

/* Adds an item, or the items of an item of the same kind. */
static void items_add(RegexArena *arena, Items *items, unsigned kind, Regex id) {
    RegexNode n = arena->nodes[id];
    if (n.kind != kind) {
        items_push(arena, items, id);
        return;
    }
    for (size_t i = 0; i < n.b; i++)
        if (!items_push(arena, items, arena->lists[n.a + i])) return;
}

/* Sorts the items, drops repeated ones, and joins the byte sets among them into one item. */
static void items_sort(RegexArena *arena, Items *items, bool join) {
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

static Regex make_or(RegexArena *arena, Items *items) {
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
    return intern(arena, node, items->ids);
}

static Regex make_and(RegexArena *arena, Items *items) {
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
    return intern(arena, node, items->ids);
}

static Regex make_list(RegexArena *arena, unsigned kind, const Regex *list, size_t n) {
    Items items = {0};
    if (!regex_count_work(arena, n)) return REGEX_NONE;
    for (size_t i = 0; i < n; i++) items_add(arena, &items, kind, list[i]);
    Regex out = kind == RE_OR ? make_or(arena, &items) : make_and(arena, &items);
    items_free(&items);
    return arena->failed ? REGEX_NONE : out;
}

Regex regex_or(RegexArena *arena, const Regex *items, size_t n) {
    return make_list(arena, RE_OR, items, n);
}

Regex regex_or2(RegexArena *arena, Regex a, Regex b) {
    return make_list(arena, RE_OR, (Regex[]){a, b}, 2);
}

Regex regex_and(RegexArena *arena, const Regex *items, size_t n) {
    return make_list(arena, RE_AND, items, n);
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
    return intern(arena,
                  (RegexNode){.kind = RE_NOT, .nullable = !n.nullable, .searched = true, .a = a},
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
    if (depth > MOST_DEPTH) return give_up(arena, "it is nested too deeply");
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
    return intern(arena, node, NULL);
}

Regex regex_tag(RegexArena *arena, uint32_t tag) {
    return intern(arena, (RegexNode){.kind = RE_TAG, .nullable = true, .a = tag}, NULL);
}

/* ---- Numbers ------------------------------------------------------------------------------- */

/* A bound's state: digits before the point (8 bits are not enough: capped), whether the point was
 * read, digits after it, and how what was read compares with the bound's first digits. */
enum { STATE_LESS, STATE_EQUAL, STATE_GREATER };
enum { MOST_DIGITS = 1000 };

static uint32_t pack(uint32_t n, bool point, uint32_t order) {
    return n << 3 | (uint32_t)point << 2 | order;
}

static bool bound_holds(const RegexDecimal *d, RegexCompare compare, uint32_t state) {
    uint32_t n = state >> 3, order = state & 3;
    bool point = state >> 2 & 1;
    if (!point && n < d->n_whole) {
        order = STATE_LESS;
    } else if (order == STATE_EQUAL && (!point ? d->n_fraction > 0 : n < d->n_fraction)) {
        order = STATE_LESS;
    }
    return compare == AT_LEAST  ? order >= STATE_EQUAL
           : compare == ABOVE   ? order == STATE_GREATER
           : compare == AT_MOST ? order <= STATE_EQUAL
                                : order == STATE_LESS;
}

static Regex bound_node(RegexArena *arena, uint32_t decimal, RegexCompare compare, uint32_t state) {
    const RegexDecimal *d = &arena->decimals[decimal];
    return intern(arena,
                  (RegexNode){.kind = RE_BOUND,
                              .nullable = bound_holds(d, compare, state) && state >> 3 > 0,
                              .searched = true,
                              .a = decimal,
                              .b = compare,
                              .c = state},
                  NULL);
}

static void split_digits(RegexArena *arena) {
    for (unsigned char c = '0'; c <= '9'; c++) regex_byte(arena, c);
    regex_byte(arena, '.');
}

Regex regex_bound(RegexArena *arena, const char *text, RegexCompare compare) {
    RegexDecimal d = {0};
    size_t length = strlen(text);
    const char *point = memchr(text, '.', length), *end = text + length;
    if (!point) point = end;
    while (text < point && *text == '0') text++;
    while (end > point + 1 && end[-1] == '0') end--;
    d.n_whole = (uint32_t)(point - text);
    d.n_fraction = end > point ? (uint32_t)(end - point - 1) : 0;
    if (length > MOST_DIGITS) return give_up(arena, "a number in it has too many digits");
    split_digits(arena);
    d.digits = malloc(d.n_whole + d.n_fraction + 1);
    if (!d.digits || !array_reserve(&arena->decimals, &arena->decimals_capacity,
                                    arena->n_decimals + 1, sizeof *arena->decimals)) {
        free(d.digits);
        return give_up(arena, "there is no memory for it");
    }
    memcpy(d.digits, text, d.n_whole);
    if (d.n_fraction > 0) memcpy(d.digits + d.n_whole, point + 1, d.n_fraction);
    for (size_t i = 0; i < arena->n_decimals; i++) {
        const RegexDecimal *o = &arena->decimals[i];
        if (o->n_whole != d.n_whole || o->n_fraction != d.n_fraction ||
            memcmp(o->digits, d.digits, d.n_whole + d.n_fraction) != 0)
            continue;
        free(d.digits);
        return bound_node(arena, (uint32_t)i, compare, STATE_EQUAL);
    }
    arena->decimals[arena->n_decimals] = d;
    return bound_node(arena, (uint32_t)arena->n_decimals++, compare, STATE_EQUAL);
}

/* A leading zero is no digit of the whole part: "0.5" has none. The state with n == 0 and no point
 * stands for nothing read; `0` then moves to the point's side with order fixed. */
static Regex derive_bound(RegexArena *arena, RegexNode node, unsigned char byte) {
    const RegexDecimal *d = &arena->decimals[node.a];
    uint32_t n = node.c >> 3, order = node.c & 3;
    bool point = node.c >> 2 & 1;
    RegexCompare compare = (RegexCompare)node.b;
    if (byte == '.') {
        if (point) return REGEX_NONE;
        if (n < d->n_whole) order = STATE_LESS;
        return bound_node(arena, node.a, compare, pack(0, true, order));
    }
    if (byte < '0' || byte > '9') return REGEX_NONE;
    if (!point) {
        if (n >= d->n_whole) {
            order = byte == '0' && n == 0 ? STATE_EQUAL : STATE_GREATER;
            if (byte == '0' && n == 0) /* the number 0, where the bound is below 1 */
                return bound_node(arena, node.a, compare, pack(d->n_whole + 1, false, order));
            n = d->n_whole; /* more digits change nothing */
        } else if (order == STATE_EQUAL) {
            char own = d->digits[n];
            order = (char)byte < own ? STATE_LESS : (char)byte > own ? STATE_GREATER : STATE_EQUAL;
        }
        if (n == d->n_whole && order == STATE_GREATER && compare >= AT_MOST) return REGEX_NONE;
        return bound_node(arena, node.a, compare, pack(n + 1, false, order));
    }
    if (order == STATE_EQUAL) {
        char own = n < d->n_fraction ? d->digits[d->n_whole + n] : '0';
        order = (char)byte < own ? STATE_LESS : (char)byte > own ? STATE_GREATER : STATE_EQUAL;
    }
    if (order == STATE_GREATER && compare >= AT_MOST) return REGEX_NONE;
    if (order == STATE_LESS && compare < AT_MOST) return REGEX_NONE;
    n = n < d->n_fraction ? n + 1 : d->n_fraction;
    if (n == 0) n = 1;
    return bound_node(arena, node.a, compare, pack(n, true, order));
}

/* The state a: remainder of the digits so far; c: scale << 1 | whether the point was read. */
static Regex multiple_node(RegexArena *arena, uint32_t remainder, uint32_t divisor, uint32_t scale,
                           bool point) {
    uint64_t rest = remainder;
    uint64_t more = 1; /* how many ways there are to go on after the point */
    for (uint32_t i = 0; i < scale; i++) rest = rest * 10 % divisor, more *= 10;
    Regex out = intern(arena,
                       (RegexNode){.kind = RE_MULTIPLE,
                                   .nullable = rest == 0,
                                   .searched = true,
                                   .a = remainder,
                                   .b = divisor,
                                   .c = scale << 1 | point},
                       NULL);
    /* Digits before the point reach any remainder; those after it add less than `more`. */
    bool live = !point || rest == 0 || divisor - rest < more;
    if (!arena->failed) arena->nodes[out].live = live ? 1 : 2;
    return out;
}

Regex regex_multiple(RegexArena *arena, uint32_t divisor, uint32_t scale) {
    split_digits(arena);
    return multiple_node(arena, 0, divisor, scale, false);
}

static Regex derive_multiple(RegexArena *arena, RegexNode n, unsigned char byte) {
    uint32_t scale = n.c >> 1;
    bool point = n.c & 1;
    if (byte == '.') return point ? REGEX_NONE : multiple_node(arena, n.a, n.b, scale, true);
    if (byte < '0' || byte > '9') return REGEX_NONE;
    if (point && scale == 0) /* zeros after the last digit that counts */
        return byte == '0' ? multiple_node(arena, n.a, n.b, 0, true) : REGEX_NONE;
    uint32_t remainder = (uint32_t)(((uint64_t)n.a * 10 + (byte - '0')) % n.b);
    return multiple_node(arena, remainder, n.b, point ? scale - 1 : scale, point);
}

/* ---- Derivatives --------------------------------------------------------------------------- */

static Regex derive_raw(RegexArena *arena, Regex id, unsigned char byte, unsigned depth);

/* The derivative, REGEX_NONE when it matches nothing. */
static Regex derive_live(RegexArena *arena, Regex id, unsigned char byte, unsigned depth) {
    Regex out = derive_raw(arena, id, byte, depth);
    return arena->nodes[out].searched && !regex_live(arena, out) ? REGEX_NONE : out;
}

static Regex derive_concat(RegexArena *arena, RegexNode n, unsigned char byte, unsigned depth) {
    Regex first = regex_concat(arena, derive_live(arena, n.a, byte, depth), n.b);
    if (!arena->nodes[n.a].nullable) return first;
    return regex_or2(arena, first, derive_live(arena, n.b, byte, depth));
}

static Regex derive_list(RegexArena *arena, RegexNode n, unsigned char byte, unsigned depth) {
    Items items = {0};
    Regex out = REGEX_NONE;
    bool dead = false;
    for (size_t i = 0; i < n.b && !arena->failed && !dead; i++) {
        Regex item = arena->lists[n.a + i];
        item = n.kind == RE_OR ? derive_live(arena, item, byte, depth)
                               : derive_raw(arena, item, byte, depth);
        dead = n.kind == RE_AND && item == REGEX_NONE;
        if (item != REGEX_NONE) items_add(arena, &items, n.kind, item);
    }
    if (!arena->failed && !dead)
        out = n.kind == RE_OR ? make_or(arena, &items) : make_and(arena, &items);
    items_free(&items);
    return arena->failed ? REGEX_NONE : out;
}

static Regex derive_new(RegexArena *arena, Regex id, unsigned char byte, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (!regex_count_work(arena, is_list(n.kind) ? n.b : 1)) return REGEX_NONE;
    if (depth > MOST_DEPTH) return give_up(arena, "it is nested too deeply");
    switch ((RegexKind)n.kind) {
    case RE_NONE:
    case RE_EMPTY:
    case RE_TAG:
        return REGEX_NONE;
    case RE_SET:
        return byteset_has(&arena->sets[n.a], byte) ? REGEX_EMPTY : REGEX_NONE;
    case RE_CONCAT:
        return derive_concat(arena, n, byte, depth + 1);
    case RE_OR:
    case RE_AND:
        return derive_list(arena, n, byte, depth + 1);
    case RE_NOT:
        return regex_not(arena, derive_raw(arena, n.a, byte, depth + 1));
    case RE_REPEAT: {
        Regex first = derive_live(arena, n.a, byte, depth + 1);
        if (first == REGEX_NONE) return REGEX_NONE;
        Regex rest =
            regex_repeat(arena, n.a, n.b > 0 ? n.b - 1 : 0, n.c == REGEX_MANY ? n.c : n.c - 1);
        return regex_concat(arena, first, rest);
    }
    case RE_BOUND:
        return derive_bound(arena, n, byte);
    case RE_MULTIPLE:
        return derive_multiple(arena, n, byte);
    }
    return REGEX_NONE;
}

static Regex derive_raw(RegexArena *arena, Regex id, unsigned char byte, unsigned depth) {
    if (arena->failed || id <= REGEX_EMPTY) return REGEX_NONE;
    size_t class = arena->class_of[byte];
    if (!arena->nodes[id].row) {
        size_t at = arena->n_rows ? arena->n_rows : 1;
        if (!array_reserve(&arena->rows, &arena->rows_capacity, at + arena->n_classes,
                           sizeof *arena->rows) ||
            at + arena->n_classes > UINT32_MAX)
            return give_up(arena, "there is no memory for it");
        memset(arena->rows + at, 0, arena->n_classes * sizeof *arena->rows);
        arena->nodes[id].row = (uint32_t)at;
        arena->n_rows = at + arena->n_classes;
    }
    uint32_t known = arena->rows[arena->nodes[id].row + class];
    if (known) return known - 1;
    size_t n_classes = arena->n_classes;
    Regex out = derive_new(arena, id, byte, depth);
    /* A new set may have changed the classes meanwhile. */
    if (!arena->failed && n_classes == arena->n_classes && arena->nodes[id].row)
        arena->rows[arena->nodes[id].row + class] = out + 1;
    return out;
}

Regex regex_derive(RegexArena *arena, Regex id, unsigned char byte) {
    Regex out = derive_live(arena, id, byte, 0);
    return arena->failed ? REGEX_NONE : out;
}

/* ---- Questions ----------------------------------------------------------------------------- */

/* A search through the states that follow one, breadth first. */
typedef struct Search {
    uint32_t *states;
    size_t n, capacity;
    uint32_t *table; /* states + 1 */
    size_t table_size;
} Search;

static void search_free(Search *s) {
    free(s->states);
    free(s->table);
}

static bool search_add(RegexArena *arena, Search *s, uint32_t state) {
    if (2 * (s->n + 1) > s->table_size) {
        size_t size = s->table_size ? 2 * s->table_size : 64;
        uint32_t *table = calloc(size, sizeof *table);
        if (!table) return give_up(arena, "there is no memory for it") != 0;
        for (size_t i = 0; i < s->n; i++) {
            size_t at = mix(0, s->states[i]) & (size - 1);
            while (table[at]) at = (at + 1) & (size - 1);
            table[at] = s->states[i] + 1;
        }
        free(s->table);
        s->table = table;
        s->table_size = size;
    }
    size_t at = mix(0, state) & (s->table_size - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_size - 1))
        if (s->table[at] == state + 1) return true;
    s->table[at] = state + 1;
    if (!array_reserve(&s->states, &s->capacity, s->n + 1, sizeof *s->states))
        return give_up(arena, "there is no memory for it") != 0;
    s->states[s->n++] = state;
    return true;
}

/* Looks for a match among the states that follow `id`. */
static bool search_live(RegexArena *arena, Regex id) {
    Search s = {0};
    bool live = arena->nodes[id].nullable;
    if (!live) search_add(arena, &s, id);
    for (size_t i = 0; i < s.n && !live && !arena->failed; i++) {
        if (s.n > MOST_LIVE_STATES) give_up(arena, "whether it can match takes too many steps");
        regex_count_work(arena, 1);
        for (size_t c = 0; c < arena->n_classes && !live && !arena->failed; c++) {
            Regex next = derive_raw(arena, s.states[i], arena->byte_of[c], 0);
            const RegexNode *n = &arena->nodes[next];
            if (n->live == 2 || next == REGEX_NONE) continue;
            live = n->nullable || n->live == 1;
            if (!live) search_add(arena, &s, next);
        }
    }
    if (!live && !arena->failed)
        for (size_t i = 0; i < s.n; i++) arena->nodes[s.states[i]].live = 2;
    search_free(&s);
    return live && !arena->failed;
}

/* Whether any digits may follow, after some more of them. */
static bool takes_digits(RegexArena *arena, Regex id) {
    for (int i = 0; i < 40 && id != REGEX_NONE; i++) {
        bool same = arena->nodes[id].nullable;
        for (unsigned char c = '0'; c <= '9' && same; c++) same = derive_raw(arena, id, c, 0) == id;
        if (same) return true;
        id = derive_raw(arena, id, '1', 0);
    }
    return false;
}

/* Whether an intersection holds a multiple whose point was not read, and otherwise only what any
 * digits may follow. A search would try as many states as the divisor is large. */
static bool is_live_multiple(RegexArena *arena, RegexNode n) {
    size_t n_multiples = 0;
    for (size_t i = 0; i < n.b; i++) {
        const RegexNode *x = &arena->nodes[arena->lists[n.a + i]];
        n_multiples += x->kind == RE_MULTIPLE && !(x->c & 1);
    }
    for (size_t i = 0; i < n.b && n_multiples == 1; i++) {
        Regex item = arena->lists[n.a + i];
        if (arena->nodes[item].kind != RE_MULTIPLE && !takes_digits(arena, item)) return false;
        if (arena->nodes[item].kind == RE_MULTIPLE && arena->nodes[item].c & 1) return false;
    }
    return n_multiples == 1;
}

static bool live_at(RegexArena *arena, Regex id, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (n.live) return n.live == 1;
    bool live = false;
    if (depth > MOST_DEPTH) return give_up(arena, "it is nested too deeply") != 0;
    if (n.nullable) {
        live = true;
    } else if (n.kind == RE_CONCAT) {
        live = live_at(arena, n.a, depth + 1) && live_at(arena, n.b, depth + 1);
    } else if (n.kind == RE_OR) {
        for (size_t i = 0; i < n.b && !live; i++)
            live = live_at(arena, arena->lists[n.a + i], depth + 1);
    } else if (n.kind == RE_REPEAT) {
        live = live_at(arena, n.a, depth + 1);
    } else {
        live = (n.kind == RE_AND && is_live_multiple(arena, n)) || search_live(arena, id);
    }
    if (!arena->failed) arena->nodes[id].live = live ? 1 : 2;
    return live && !arena->failed;
}

bool regex_live(RegexArena *arena, Regex id) {
    return live_at(arena, id, 0);
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

/* ---- Runs of safe characters ---------------------------------------------------------------- */

/* The bytes of well-formed UTF-8, one byte of each class: first bytes by what must follow. */
enum { N_LEADS = 9 };

typedef struct Bytes {
    uint8_t n, bytes[128];
} Bytes;

typedef struct Utf8Classes {
    Bytes first[N_LEADS], second[N_LEADS], later;
} Utf8Classes;

static const struct {
    uint8_t low, high;           /* first bytes */
    uint8_t n;                   /* bytes that follow */
    uint8_t low_next, high_next; /* the next of them */
} utf8_leads[N_LEADS] = {
    {0x20, 0x7F, 0, 0, 0},       {0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF},
    {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF},
    {0xF0, 0xF0, 3, 0x90, 0xBF}, {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F},
};

static void collect_bytes(const RegexArena *arena, unsigned low, unsigned high, Bytes *out) {
    bool done[256] = {false};
    for (unsigned b = low; b <= high; b++) {
        if (done[arena->class_of[b]] || b == '"' || b == '\\') continue;
        done[arena->class_of[b]] = true;
        out->bytes[out->n++] = (uint8_t)b;
    }
}

static const Utf8Classes *utf8_classes(RegexArena *arena) {
    if (arena->utf8) return arena->utf8;
    Utf8Classes *u = arena->utf8 = calloc(1, sizeof *u);
    if (!u) {
        give_up(arena, "there is no memory for it");
        return NULL;
    }
    for (size_t i = 0; i < N_LEADS; i++) {
        collect_bytes(arena, utf8_leads[i].low, utf8_leads[i].high, &u->first[i]);
        if (utf8_leads[i].n > 0)
            collect_bytes(arena, utf8_leads[i].low_next, utf8_leads[i].high_next, &u->second[i]);
    }
    collect_bytes(arena, 0x80, 0xBF, &u->later);
    return u;
}

/* Adds the states after each text of n bytes, the first one of `bytes`. False: one leads nowhere.
 */
static bool add_texts(RegexArena *arena, const Utf8Classes *u, Search *out, Regex from,
                      const Bytes *bytes, unsigned n) {
    Regex last = REGEX_NONE;
    for (unsigned i = 0; i < bytes->n; i++) {
        Regex next = regex_derive(arena, from, bytes->bytes[i]);
        if (next == REGEX_NONE) return false;
        if (next == last) continue;
        last = next;
        if (n > 1 ? !add_texts(arena, u, out, next, &u->later, n - 1)
                  : !search_add(arena, out, next))
            return false;
    }
    return true;
}

static bool add_characters(RegexArena *arena, Search *out, Regex from) {
    const Utf8Classes *u = utf8_classes(arena);
    if (!u || !add_texts(arena, u, out, from, &u->first[0], 1)) return false;
    for (size_t i = 1; i < N_LEADS; i++)
        for (unsigned k = 0; k < u->first[i].n; k++) {
            Regex next = regex_derive(arena, from, u->first[i].bytes[k]);
            if (next == REGEX_NONE ||
                !add_texts(arena, u, out, next, &u->second[i], utf8_leads[i].n))
                return false;
        }
    return true;
}

int regex_safe_run(RegexArena *arena, Regex id) {
    if (arena->nodes[id].run >= 0) return arena->nodes[id].run;
    Search s = {0};
    int run = 0;
    size_t at = 0, level = 1;
    bool going = search_add(arena, &s, id);
    while (going && run < REGEX_RUN_MOST && s.n <= 256) {
        for (; at < level && going; at++) going = add_characters(arena, &s, s.states[at]);
        if (!going) break;
        if (s.n == level) { /* nothing new */
            run = REGEX_RUN_ALL;
            break;
        }
        level = s.n;
        run++;
    }
    search_free(&s);
    if (!arena->failed) arena->nodes[id].run = (int8_t)run;
    return arena->failed ? 0 : run;
}

static uint32_t search_shortest(RegexArena *arena, Regex id) {
    Search s = {0};
    uint32_t length = 0;
    size_t at = 0, level = 1;
    bool found = arena->nodes[id].nullable;
    if (!found) search_add(arena, &s, id);
    while (!found && !arena->failed && at < s.n && s.n <= MOST_LIVE_STATES) {
        length++;
        for (; at < level && !found && regex_count_work(arena, 1); at++)
            for (size_t c = 0; c < arena->n_classes && !found; c++) {
                Regex next = regex_derive(arena, s.states[at], arena->byte_of[c]);
                if (next == REGEX_NONE) continue;
                found = arena->nodes[next].nullable;
                if (!search_add(arena, &s, next)) break;
            }
        level = s.n;
    }
    search_free(&s);
    return found ? length : UINT32_MAX;
}

static uint32_t add_lengths(uint32_t a, uint32_t b) {
    return b < UINT32_MAX - a ? a + b : UINT32_MAX;
}

/* Parts are asked for their own lengths, so that only intersections, complements and numbers are
 * searched.
 */
static uint32_t shortest_at(RegexArena *arena, Regex id, unsigned depth) {
    RegexNode n = arena->nodes[id];
    uint32_t length = UINT32_MAX;
    if (n.shortest) return n.shortest - 1;
    if (n.live == 2 || depth > MOST_DEPTH || arena->failed) return UINT32_MAX;
    if (n.nullable) {
        length = 0;
    } else if (n.kind == RE_CONCAT) {
        length =
            add_lengths(shortest_at(arena, n.a, depth + 1), shortest_at(arena, n.b, depth + 1));
    } else if (n.kind == RE_OR) {
        for (size_t i = 0; i < n.b; i++) {
            uint32_t own = shortest_at(arena, arena->lists[n.a + i], depth + 1);
            if (own < length) length = own;
        }
    } else if (n.kind == RE_REPEAT) {
        uint64_t all = (uint64_t)shortest_at(arena, n.a, depth + 1) * n.b;
        length = all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
    } else if (n.kind == RE_SET) {
        length = 1;
    } else {
        length = search_shortest(arena, id);
    }
    if (!arena->failed && length != UINT32_MAX) arena->nodes[id].shortest = length + 1;
    return length;
}

uint32_t regex_shortest(RegexArena *arena, Regex id) {
    return shortest_at(arena, id, 0);
}
