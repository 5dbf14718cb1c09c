#include "modes/proof/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "system/terminal.h"

json_t *report_line(const char *part, uint64_t number) {
    json_t *line = json_pack("{s:s}", "part", part);
    if (number) json_object_set_new(line, "number", json_integer((json_int_t)number));
    return line;
}

void report_say(Report *r, json_t *line, Verdict verdict) {
    json_object_set_new(line, "same", verdict_json(verdict));
    char *text = json_dumps(line, JSON_REAL_PRECISION(9));
    if (text && !(r->quiet && verdict == VERDICT_SAME)) terminal_print(stdout, "%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(line);
    r->n_of[verdict]++;
}

void report_compare(Report *r, const char *part, uint64_t number, const json_t *expected,
                    const json_t *got, const char *const *run_fields) {
    Comparison c = comparison_of(part, expected, got, run_fields);
    json_t *difference;
    size_t i;
    json_array_foreach(c.differences, i, difference) {
        const char *field = json_string_value(json_object_get(difference, "field"));
        json_t *line = report_line(field, number);
        json_object_update(line, difference);
        json_object_del(line, "field");
        report_say(r, line, VERDICT_DIFFERENT);
    }
    if (c.n_different == 0 || c.n_not_checked > 0 || c.failed) {
        json_t *line = report_line(part, number);
        comparison_put_names(&c, line);
        report_say(r, line,
                   c.failed              ? VERDICT_DIFFERENT
                   : c.n_not_checked > 0 ? VERDICT_NOT_CHECKED
                                         : VERDICT_SAME);
    }
    comparison_free(&c);
}

void report_not_checked(Report *r, const char *part, uint64_t number, const char *why) {
    json_t *line = report_line(part, number);
    json_object_set_new(line, "not_checked", json_pack("[s]", part));
    json_object_set_new(line, "why", json_string(why));
    report_say(r, line, VERDICT_NOT_CHECKED);
}

Status report_end(const Report *r, const char *name, const char *what, Error *error) {
    size_t same = r->n_of[VERDICT_SAME], different = r->n_of[VERDICT_DIFFERENT],
           unknown = r->n_of[VERDICT_NOT_CHECKED], other = different + unknown, n = same + other;
    terminal_print(stderr, "%s: %zu %s%s: %zu same, %zu different, %zu not checked\n",
                   program_invocation_short_name, n, what, n == 1 ? "" : "s", same, different,
                   unknown);
    if (n == 0)
        return error_set(error, "%s%snothing was checked", name ? name : "", name ? ": " : "");
    if (other == 0) return STATUS_OK;
    error_set(error, "%s%s%zu %s%s not the same", name ? name : "", name ? ": " : "", other, what,
              other == 1 ? " is" : "s are");
    return STATUS_LINES_FAILED;
}
