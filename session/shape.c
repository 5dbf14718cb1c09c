#include "session/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/terminal.h"
#include "system/text_file.h"

static const size_t MOST_TEXT = (size_t)16 << 20;

/* The text of the option that asks for a shape, and the kind of the shape. STATUS_USAGE when there
 * are two. */
static Status find_option(const Options *o, ShapeKind *kind, const char **text, Error *error) {
    const struct {
        ShapeKind kind;
        const char *name, *text;
    } all[] = {{SHAPE_JSON_SCHEMA, "--json-schema", o->json_schema},
               {SHAPE_REGEX, "--regex", o->regex},
               {SHAPE_GRAMMAR, "--grammar", o->grammar},
               {SHAPE_JSON_OBJECT, "--json", o->json_object ? "" : NULL},
               {SHAPE_CHOICE, "--choice", o->choice.n > 0 ? "" : NULL}};
    const char *first = NULL;
    *kind = SHAPE_NONE;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].text) continue;
        if (first) {
            error_set(error, "%s and %s both say what an answer looks like: use one of them", first,
                      all[i].name);
            return STATUS_USAGE;
        }
        first = all[i].name;
        *kind = all[i].kind;
        *text = all[i].text;
    }
    return STATUS_OK;
}

unsigned session_json_form(const Options *o) {
    return (o->json_order == JSON_ORDER_ANY ? JSON_ANY_ORDER : 0) |
           (o->json_space == JSON_SPACE_ANY ? JSON_ANY_SPACE : 0);
}

Status session_shape_open(SessionShape *s, const Options *o, Error *error) {
    const char *text = "";
    if (find_option(o, &s->source.kind, &text, error) != STATUS_OK) return STATUS_USAGE;
    s->name = "the shape";
    if (s->source.kind == SHAPE_CHOICE && o->choice.n == 1 && strpbrk(o->choice.items[0], ",|"))
        terminal_say("--choice '%s' is one text, which leaves no choice: --choice is repeated for "
                     "each",
                     o->choice.items[0]);
    if (text[0] != '@') return STATUS_OK;
    s->name = text + 1;
    s->fd = open(s->name, O_RDONLY | O_CLOEXEC);
    return s->fd < 0 ? error_set(error, "%s: %s", s->name, strerror(errno)) : STATUS_OK;
}

/* The texts of --choice as a JSON array. */
static char *choices_text(const OptionList *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->n; i++) json_array_append_new(array, json_string(list->items[i]));
    char *text = json_array_size(array) == list->n ? json_dumps(array, JSON_COMPACT) : NULL;
    json_decref(array);
    return text;
}

Status session_shape_read(SessionShape *s, const Options *o,
                          const volatile sig_atomic_t *interrupted, Error *error) {
    const char *text = "";
    if (s->source.kind == SHAPE_NONE) return STATUS_OK;
    if (s->fd >= 0) {
        Status status = text_file_read(s->fd, s->name, MOST_TEXT, interrupted, &s->text,
                                       &s->source.length, error);
        if (status != STATUS_OK) return status;
        /* A regular expression is one line. */
        if (s->source.kind == SHAPE_REGEX)
            s->source.length = text_file_without_line_end(s->text, s->source.length);
        s->text[s->source.length] = '\0';
    } else {
        find_option(o, &s->source.kind, &text, error);
        s->text = s->source.kind == SHAPE_CHOICE ? choices_text(&o->choice) : strdup(text);
        if (!s->text) return error_set(error, "no memory for the shape, or it is not UTF-8");
        s->source.length = strlen(s->text);
    }
    s->source.text = s->text;
    s->source.form = session_json_form(o);
    if (text_file_check(s->name, s->text, s->source.length, error) != STATUS_OK)
        return STATUS_FAILED;
    Acceptor *acceptor;
    if (shape_source_compile(&s->source, &acceptor, error) != STATUS_OK) return STATUS_FAILED;
    acceptor_free(acceptor);
    return STATUS_OK;
}

Status session_shape_check(const Session *session, Error *error) {
    Shape *shape;
    const ShapeSource *source = session->shape;
    if (!source || source->kind == SHAPE_NONE || !session->shapes) return STATUS_OK;
    if (shape_store_get(session->shapes, source, &shape, error) != STATUS_OK) return STATUS_FAILED;
    shape_store_release(session->shapes, shape);
    return STATUS_OK;
}

void session_shape_close(SessionShape *s) {
    if (s->fd >= 0) close(s->fd);
    free(s->text);
}

Status session_rule(const Session *session, const ShapeSource *source,
                    const GenerationOptions *options, TokenRule **rule, Error *error) {
    Shape *shape;
    Matcher *matcher;
    *rule = NULL;
    if (!source || source->kind == SHAPE_NONE) return STATUS_OK;
    if (shape_store_get(session->shapes, source, &shape, error) != STATUS_OK) return STATUS_FAILED;
    if (shape_store_matcher(session->shapes, shape, options, &matcher, error) != STATUS_OK)
        return STATUS_FAILED;
    if (session->options->on_length == LENGTH_CLOSE) matcher_close_on_length(matcher);
    *rule = &matcher->rule;
    return STATUS_OK;
}

bool session_rule_is_met(TokenRule *rule) {
    return matcher_accepts((Matcher *)rule);
}
