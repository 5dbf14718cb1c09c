#include "modes/proof/compare.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 256 };

/* ---- Names ------------------------------------------------------------------------------------
 */

static void put_name(Comparison *c, json_t *list, const char *path) {
    if (json_array_size(list) >= COMPARISON_NAMES) return;
    if (json_array_append_new(list, json_string(path)) != 0) c->failed = true;
}

static void differ(Comparison *c, const char *path, const json_t *expected, const json_t *got) {
    c->n_different++;
    if (json_array_size(c->differences) >= COMPARISON_NAMES) return;
    json_t *entry = json_object();
    bool fits =
        json_object_set_new(entry, "field", json_string(path)) == 0 &&
        json_object_set(entry, "expected", expected ? (json_t *)expected : json_null()) == 0 &&
        json_object_set(entry, "got", got ? (json_t *)got : json_null()) == 0;
    if (fits && !got)
        fits = json_object_set_new(entry, "error", json_string("there is no such field")) == 0;
    if (!fits || json_array_append(c->differences, entry) != 0) c->failed = true;
    json_decref(entry);
}

static bool names_run(const Comparison *c, const char *path) {
    for (const char *const *field = c->run_fields; field && *field; field++)
        if (strcmp(*field, path) == 0) return true;
    return false;
}

static void inner_path(char inner[PATH_BYTES], const char *path, const char *key) {
    snprintf(inner, PATH_BYTES, "%s%s%s", path, path[0] ? "." : "", key);
}

/* ---- Values -----------------------------------------------------------------------------------
 */

/* Numbers are doubles, so that 3.0 is 3, as a program writes it that has read and written a record;
 * whole numbers are compared beyond 2^53 as well. json_equal takes -0.0 for 0.0. */
static bool same_leaf(const json_t *a, const json_t *b) {
    if (!json_is_number(a) || !json_is_number(b) || (json_is_integer(a) && json_is_integer(b)))
        return json_equal(a, b);
    double x = json_number_value(a), y = json_number_value(b);
    return memcmp(&x, &y, sizeof x) == 0;
}

static void compare(Comparison *c, const char *path, const json_t *expected, const json_t *got);

/* A key that both have, or one of them. */
static void compare_member(Comparison *c, const char *path, const json_t *expected,
                           const json_t *got) {
    bool run = got && names_run(c, path);
    if (!got) {
        differ(c, path, expected, NULL);
    } else if (!expected && run) {
        put_name(c, c->run, path);
    } else if (!expected) {
        c->n_not_checked++;
        put_name(c, c->not_checked, path);
    } else if (run && json_typeof(expected) == json_typeof(got) && !json_is_object(got) &&
               !json_is_array(got)) {
        if (!same_leaf(expected, got)) put_name(c, c->run, path);
    } else {
        compare(c, path, expected, got);
    }
}

/* Compares two objects key by key, and reports the keys that only one of them has. */
static void compare_objects(Comparison *c, const char *path, const json_t *expected,
                            const json_t *got) {
    static const char exact[] = "bytes"; /* says more than the "text" beside it: it goes first */
    char inner[PATH_BYTES];
    const char *key;
    json_t *value;
    const json_t *first[] = {json_object_get(expected, exact), json_object_get(got, exact)};
    inner_path(inner, path, exact);
    if (first[0] && first[1]) compare_member(c, inner, first[0], first[1]);
    json_object_foreach((json_t *)got, key, value) {
        const json_t *other = json_object_get(expected, key);
        if (other && strcmp(key, exact) == 0) continue;
        inner_path(inner, path, key);
        compare_member(c, inner, other, value);
    }
    json_object_foreach((json_t *)expected, key, value) {
        if (json_object_get(got, key)) continue;
        inner_path(inner, path, key);
        compare_member(c, inner, value, NULL);
    }
}

static void compare_arrays(Comparison *c, const char *path, const json_t *expected,
                           const json_t *got) {
    size_t n = json_array_size(expected), n_got = json_array_size(got);
    for (size_t i = 0; i < n && i < n_got; i++) {
        char inner[PATH_BYTES];
        snprintf(inner, sizeof inner, "%s[%zu]", path, i);
        compare(c, inner, json_array_get(expected, i), json_array_get(got, i));
    }
    if (n == n_got) return;
    json_t *lengths[] = {json_integer((json_int_t)n), json_integer((json_int_t)n_got)};
    differ(c, path, lengths[0], lengths[1]);
    json_decref(lengths[0]);
    json_decref(lengths[1]);
}

/* A list of bytes differs as a whole: the first of them that differs says where. */
static bool is_bytes(const char *path) {
    size_t n = strlen(path);
    return n >= 5 && strcmp(path + n - 5, "bytes") == 0 && (n == 5 || path[n - 6] == '.');
}

static void compare(Comparison *c, const char *path, const json_t *expected, const json_t *got) {
    if (json_is_object(expected) && json_is_object(got)) {
        compare_objects(c, path, expected, got);
    } else if (json_is_array(expected) && json_is_array(got) && !is_bytes(path)) {
        compare_arrays(c, path, expected, got);
    } else if (!same_leaf(expected, got)) {
        differ(c, path, expected, got);
    }
}

Comparison comparison_of(const char *path, const json_t *expected, const json_t *got,
                         const char *const *run_fields) {
    Comparison c = {.run_fields = run_fields,
                    .differences = json_array(),
                    .not_checked = json_array(),
                    .run = json_array()};
    c.failed = !c.differences || !c.not_checked || !c.run;
    if (expected || got) compare_member(&c, path, expected, got);
    return c;
}

void comparison_free(Comparison *c) {
    json_decref(c->differences);
    json_decref(c->not_checked);
    json_decref(c->run);
    *c = (Comparison){0};
}

/* ---- Verdict -----------------------------------------------------------------------------------
 */

Verdict comparison_verdict(const Comparison *c) {
    if (c->failed || c->n_different > 0) return VERDICT_DIFFERENT;
    return c->n_not_checked > 0 ? VERDICT_NOT_CHECKED : VERDICT_SAME;
}

json_t *verdict_json(Verdict verdict) {
    return verdict == VERDICT_NOT_CHECKED ? json_null() : json_boolean(verdict == VERDICT_SAME);
}

void comparison_put_names(const Comparison *c, json_t *report) {
    if (c->n_not_checked > 0) json_object_set(report, "not_checked", c->not_checked);
    if (c->n_not_checked > COMPARISON_NAMES)
        json_object_set_new(report, "not_checked_fields",
                            json_integer((json_int_t)c->n_not_checked));
    if (json_array_size(c->run) > 0) json_object_set(report, "run", c->run);
}
