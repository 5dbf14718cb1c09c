#include "measure/report_text.h"

#include <string.h>

#include "base/size.h"
#include "json/json_object.h"
#include "system/terminal.h"

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_text(object, key);
    return text && *text ? text : "unknown";
}

static void print_machine(FILE *out, const json_t *machine) {
    char memory[32], bytes[32];
    const json_t *sets = json_value(machine, "instruction_sets");
    const json_t *caches = json_value(machine, "caches");
    terminal_print(out, "machine    %s, %s, %.0f processors, %.0f cores for this process, %s\n",
                   text_of(machine, "processor"), text_of(machine, "architecture"),
                   json_number(machine, "processors", 0.0), json_number(machine, "cores", 0.0),
                   size_text(json_number(machine, "memory", 0.0), memory, sizeof memory));
    terminal_print(out, "has       ");
    for (size_t i = 0; i < json_array_size(sets); i++)
        terminal_print(out, " %s", json_string_value(json_array_get(sets, i)));
    terminal_print(out, "; caches");
    for (size_t i = 0; i < json_array_size(caches); i++) {
        const json_t *cache = json_array_get(caches, i);
        if (strcmp(text_of(cache, "type"), "Instruction") == 0) continue;
        terminal_print(out, " L%.0f %s", json_number(cache, "level", 0.0),
                       size_text(json_number(cache, "bytes", 0.0), bytes, sizeof bytes));
    }
    terminal_print(out, "; %s, %s\n", text_of(machine, "kernel"), text_of(machine, "c_library"));
}

static void print_sums(FILE *out, const json_t *sums) {
    double n_stories = json_number(sums, "n_stories", 0.0);
    double n_logits = json_number(sums, "n_logits", 0.0);
    if (json_flag(sums, "equal", false))
        terminal_print(out,
                       "sums       all as they must be: %.0f of stories, %.0f of logits (%zu types "
                       "of weights, each instruction set)\n",
                       n_stories, n_logits, json_array_size(json_value(sums, "logits")));
    else
        terminal_print(out, "sums       %.0f of %.0f ARE NOT AS THEY MUST BE: %s\n",
                       json_number(sums, "n_other", 0.0), n_stories + n_logits,
                       text_of(sums, "other"));
}

/* One line for each measurement of the standard model. */
static void print_speeds(FILE *out, const json_t *speeds) {
    for (size_t i = 0; i < json_array_size(speeds); i++) {
        const json_t *s = json_array_get(speeds, i);
        const char *what = text_of(s, "what");
        char about[64] = "one text";
        if (strcmp(what, "prefill") == 0)
            snprintf(about, sizeof about, "a prompt of %.0f tokens",
                     json_number(s, "position", 0.0));
        else if (strcmp(what, "batch") == 0)
            snprintf(about, sizeof about, "%.0f texts at once", json_number(s, "batch", 0.0));
        terminal_print(out, "%-8s   %.2f tokens/s of %s, %.0f%% of what %s allows\n", what,
                       json_number(s, "tokens_per_second", 0.0), about,
                       100.0 * json_number(s, "share", 0.0),
                       strcmp(text_of(s, "limit"), "peak") == 0 ? "the peak" : "the memory");
    }
}

static void print_beside(FILE *out, const json_t *beside) {
    for (size_t i = 0; i < json_array_size(beside); i++) {
        const json_t *peer = json_array_get(beside, i);
        const json_t *decode = json_value(peer, "decode"), *prefill = json_value(peer, "prefill");
        terminal_print(
            out,
            "beside     %s: decode %.2f tokens/s, ours %.2fx as fast; prefill %.2f, ours %.2fx\n",
            text_of(peer, "program"), json_number(decode, "tokens_per_second", 0.0),
            json_number(decode, "ratio", 0.0), json_number(prefill, "tokens_per_second", 0.0),
            json_number(prefill, "ratio", 0.0));
    }
}

void report_text_print(FILE *out, const json_t *report) {
    char bytes[32];
    const json_t *program = json_value(report, "program"), *limits = json_value(report, "limits");
    const json_t *model = json_value(report, "model");
    terminal_print(out, "verbatim   %s, numeric revision %.0f, compiler %s%s\n",
                   text_of(program, "version"), json_number(program, "numeric_revision", 0.0),
                   text_of(program, "compiler"),
                   json_flag(report, "quick", false) ? "; --quick: the speeds mean nothing" : "");
    print_machine(out, json_value(report, "machine"));
    print_sums(out, json_value(report, "sums"));
    terminal_print(out,
                   "limits     reads %.2f GB/s; %.3f TOPS of fma, %.3f of 8-bit products (%s, %.0f "
                   "thread%s)\n",
                   json_number(limits, "read_bandwidth", 0.0) / 1e9,
                   json_number(limits, "peak_fma", 0.0) / 1e12,
                   json_number(limits, "peak_dot", 0.0) / 1e12, text_of(limits, "instruction_set"),
                   json_number(limits, "threads", 0.0),
                   json_number(limits, "threads", 0.0) == 1.0 ? "" : "s");
    terminal_print(out, "model      generated weights in %s, %s, %.0f million products a token\n",
                   text_of(model, "type"),
                   size_text(json_number(model, "bytes", 0.0), bytes, sizeof bytes),
                   json_number(model, "operations_per_token", 0.0) / 2e6);
    print_speeds(out, json_value(report, "speed"));
    print_beside(out, json_value(report, "beside"));
}
