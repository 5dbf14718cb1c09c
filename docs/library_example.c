/* Tells stories with the library: a text as it grows, then its result.
 *
 *     cc -o tell library_example.c $(pkg-config --cflags --libs verbatim)
 *     ./tell MODEL.bin "Once upon a time" "The little dog"
 *
 * It includes verbatim.h alone. Each prompt becomes a request of --batch; all of them share the
 * passes of the model. */
#include <stdio.h>
#include <string.h>
#include <verbatim.h>

enum { MOST = 16 };

/* Writes {"prompt": TEXT, ...} to line[size]; 0: it does not fit. */
static size_t make_request(char *line, size_t size, const char *text) {
    size_t n = (size_t)snprintf(line, size, "{\"max_tokens\": 40, \"seed\": 14, \"prompt\": \"");
    for (; *text && n + 8 < size; text++)
        n += (size_t)snprintf(line + n, size - n,
                              *text == '"' || *text == '\\' ? "\\%c"
                              : (unsigned char)*text < ' '  ? "\\u%04x"
                                                            : "%c",
                              *text);
    return *text ? 0 : n + (size_t)snprintf(line + n, size - n, "\"}");
}

static int fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    return 1;
}

/* Answers several prompts at once: begins a request for each, runs passes until all are done while
 * it shows the first text, and then prints the results. */
int main(int argc, char **argv) {
    VerbatimRequest *requests[MOST] = {0};
    char line[4096], why[VERBATIM_ERROR_BYTES];
    const char *text, *result;
    size_t length, told = 0;
    int n = argc - 2 < MOST ? argc - 2 : MOST, more;
    if (n < 1) return fail("usage: tell MODEL.bin PROMPT...");
    VerbatimModel *model = verbatim_open(argv[1], NULL, why, sizeof why);
    if (!model) return fail(why);
    for (int i = 0; i < n; i++) {
        length = make_request(line, sizeof line, argv[2 + i]);
        if (length == 0) return fail("a prompt is too long");
        requests[i] = verbatim_begin(model, line, length);
        if (!requests[i]) return fail(verbatim_error(model));
    }
    do { /* the first text is shown as it grows */
        more = verbatim_pass(model);
        if (verbatim_text(requests[0], 0, &text, &length) < 0) continue; /* it has failed */
        fwrite(text + told, 1, length - told, stderr);
        told = length;
    } while (more > 0);
    if (more < 0) return fail(verbatim_error(model));
    fputc('\n', stderr);
    for (int i = 0; i < n; i++) {
        if (verbatim_result(requests[i], &result, &length) != 1) return fail(verbatim_error(model));
        puts(result);
        verbatim_end(requests[i]);
    }
    verbatim_close(model);
    return 0;
}
