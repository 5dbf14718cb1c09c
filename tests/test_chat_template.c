/* Chat templates give the same bytes and fail in the same places as jinja2 configured by
 * transformers.
 *
 *     build/tests/test_chat_template             the tests
 *     build/tests/test_chat_template --driver    JSON lines in, JSON lines out, for the scripts
 *                                                that compare with jinja2 */
#include "base/address_sanitizer.h"
#include "template/chat_family.h"
#include "template/chat_template.h"
#include "tests/json_lines.h"
#include "tests/tier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <xxhash.h>

static struct tm fixed_time(void) {
    struct tm now = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_hour = 9, .tm_min = 5};
    now.tm_wday = 5, now.tm_yday = 207;
    return now;
}

static const char *const trusted[] = {"bos_token", "eos_token", NULL};

/* Renders {"template", "vars"} to {"out", "from_template"} or {"error"}. */
static json_t *render_json(const json_t *request) {
    Error error = {0};
    json_t *text = json_object_get(request, "template");
    ChatTemplate *t =
        chat_template_compile(json_string_value(text), json_string_length(text), &error);
    ChatTemplateInput input = {
        .variables = json_object_get(request, "vars"), .trusted = trusted, .now = fixed_time()};
    ChatTemplateOutput output = {0};
    json_t *reply;
    if (t && chat_template_render(t, &input, &output, &error) == STATUS_OK) {
        reply = json_pack("{s:s%}", "out", output.text, output.length);
        for (size_t i = 0; i < output.length; i++) output.from_template[i] += '0';
        json_object_set_new(reply, "from_template",
                            json_stringn((char *)output.from_template, output.length));
    } else {
        reply = json_pack("{s:s}", "error", error.text);
    }
    chat_template_output_free(&output);
    chat_template_free(t);
    return reply;
}

/* ---- what jinja2 gives, made by fixtures/chat_templates.py ---- */

#define FIXTURES "tests/fixtures/"

static FILE *open_fixture(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: run the tests in the source directory", path);
    return file;
}

static json_t *next_line(FILE *file) {
    char *line = NULL;
    size_t capacity = 0;
    json_t *json = NULL;
    if (getline(&line, &capacity, file) > 0) {
        json = json_loads(line, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        assert_non_null(json);
    }
    free(line);
    return json;
}

static json_t *render_with(const char *template, size_t length, json_t *vars) {
    json_t *request = json_pack("{s:s%,s:O}", "template", template, length, "vars", vars);
    json_t *reply = render_json(request);
    json_decref(request);
    return reply;
}

static void every_feature_gives_the_bytes_that_jinja2_gives(void **state) {
    (void)state;
    FILE *file = open_fixture(FIXTURES "chat_template_cases.jsonl");
    json_t *vars = next_line(file), *c;
    int cases = 0, wrong = 0;
    for (; (c = next_line(file)); json_decref(c), cases++) {
        json_t *template = json_array_get(c, 0), *text = json_array_get(c, 1);
        json_t *reply =
            render_with(json_string_value(template), json_string_length(template), vars);
        json_t *out = json_object_get(reply, "out"), *error = json_object_get(reply, "error");
        bool ok = json_is_null(text) ? error != NULL : out && json_equal(out, text);
        if (json_array_size(c) == 3) ok = ok && json_equal(error, json_array_get(c, 2));
        if (!ok) {
            print_error("%s\n  here: %s\n", json_string_value(template),
                        json_string_value(out ? out : error));
            wrong++;
        }
        json_decref(reply);
    }
    fclose(file);
    json_decref(vars);
    assert_int_equal(wrong, 0);
    assert_true(cases > 1200);
}

static char *read_text(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *length = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

/* "text HASH", "raise HASH" (of raise_exception's message) or "error". */
static bool matches(const json_t *reply, const char *kind, const char *hash) {
    const json_t *out = json_object_get(reply, "out"), *error = json_object_get(reply, "error");
    char digest[17];
    if (strcmp(kind, "error") == 0) return error != NULL;
    const json_t *text = strcmp(kind, "text") == 0 ? out : error;
    if (!text) return false;
    snprintf(digest, sizeof digest, "%016llx",
             (unsigned long long)XXH3_64bits(json_string_value(text), json_string_length(text)));
    return strcmp(digest, hash) == 0;
}

/* Checks the lines of the table of hashes whose template is in `directory`. Returns how many lines
 * that is and adds the failed ones to *wrong. */
static int check_templates(const char *directory, int *wrong) {
    json_t *conversations[64];
    int n_conversations = 0, checked = 0;
    FILE *file = open_fixture(FIXTURES "chat_template_conversations.jsonl");
    while (n_conversations < 64 && (conversations[n_conversations] = next_line(file)))
        n_conversations++;
    fclose(file);
    char name[200], kind[16], hash[32], line[300], loaded[200] = "", path[600], *text = NULL;
    size_t length = 0;
    int index;
    file = open_fixture(FIXTURES "chat_template_hashes.txt");
    while (fgets(line, sizeof line, file)) {
        hash[0] = 0;
        assert_true(sscanf(line, "%199s %d %15s %31s", name, &index, kind, hash) >= 3);
        assert_in_range(index, 0, n_conversations - 1);
        if (strcmp(name, loaded) != 0) {
            free(text);
            snprintf(path, sizeof path, "%s/%s", directory, name);
            text = read_text(path, &length);
            snprintf(loaded, sizeof loaded, "%s", name);
        }
        if (!text) continue;
        json_t *reply = render_with(text, length, conversations[index]);
        if (!matches(reply, kind, hash)) {
            print_error("%s over conversation %d: expected %s\n", name, index, kind);
            ++*wrong;
        }
        json_decref(reply);
        checked++;
    }
    free(text);
    fclose(file);
    for (int i = 0; i < n_conversations; i++) json_decref(conversations[i]);
    return checked;
}

static void templates_in_the_manner_of_popular_ones_render_as_in_jinja2(void **state) {
    (void)state;
    int wrong = 0, checked = check_templates(FIXTURES "chat_templates", &wrong);
    assert_int_equal(wrong, 0);
    assert_true(checked >= 6 * 48);
}

/* Published templates are not part of the repository. $VERBATIM_TEMPLATES names a directory of
 * those versions that the hashes were made of. */
static const char *published_place(size_t i) {
    const char *places[] = {"../shared/data/templates", "../../shared/data/templates",
                            getenv("VERBATIM_TEMPLATES")};
    return i < 3 ? places[i] : NULL;
}

static void published_templates_render_as_in_jinja2(void **state) {
    (void)state;
    int wrong = 0, checked = 0;
    for (size_t i = 0; published_place(i); i++)
        checked += check_templates(published_place(i), &wrong);
    if (checked == 0) {
        print_message("skipped: no published templates are here\n");
        skip();
    }
    assert_int_equal(wrong, 0);
}

/* The published template's text, NULL where it is not here. */
static char *read_published(const char *name, size_t *length) {
    char path[600], *text = NULL;
    for (size_t i = 0; !text && published_place(i); i++) {
        snprintf(path, sizeof path, "%s/%s", published_place(i), name);
        text = read_text(path, length);
    }
    return text;
}

/* The texts are what jinja2 makes of Qwen 3.5's own template: thinking on and off, what of earlier
 * thinking stays, calls and their results. parameters.jinja is a template of our own that writes
 * the same; where the published one is here, it is rendered too. */
static void chats_have_the_text_of_qwen_3_5s_template(void **state) {
    (void)state;
    size_t own_length = 0, length = 0, n = 0;
    char *own = read_text(FIXTURES "chat_templates/parameters.jinja", &own_length);
    FILE *file = open_fixture(FIXTURES "chat_template_chats.jsonl");
    assert_non_null(own);
    for (json_t *chat; (chat = next_line(file)); json_decref(chat), n++) {
        const char *name = json_string_value(json_object_get(chat, "name"));
        json_t *variables = json_object_get(chat, "variables");
        char *published =
            read_published(json_string_value(json_object_get(chat, "published")), &length);
        for (int i = 0; i < (published ? 2 : 1); i++) {
            json_t *reply = render_with(i ? published : own, i ? length : own_length, variables);
            if (!json_equal(json_object_get(reply, "out"), json_object_get(chat, "rendered")))
                fail_msg("%s: %s", name, json_dumps(reply, 0));
            json_decref(reply);
        }
        free(published);
    }
    assert_true(n >= 13);
    fclose(file);
    free(own);
}

/* ---- text of a message never counts as the template's ---- */

/* Renders a template whose variables hold the text `user`: as a message, in a list of words, as a
 * key of a dict, and so on. */
static ChatTemplateOutput render_user(const char *template, const char *user) {
    Error error = {0};
    json_t *vars = json_pack("{s:[{s:s,s:s}],s:s,s:[s,s],s:{s:s},s:s,s:i}", "messages", "role",
                             "user", "content", user, "user", user, "words", user, user, "map",
                             user, user, "eos_token", "<|im_end|>", "number", 60);
    ChatTemplateOutput output = {0};
    ChatTemplate *t = chat_template_compile(template, strlen(template), &error);
    if (!t) fail_msg("%s: %s", template, error.text);
    ChatTemplateInput input = {.variables = vars, .trusted = trusted, .now = fixed_time()};
    if (chat_template_render(t, &input, &output, &error) != STATUS_OK) {
        fail_msg("%s: %s", template, error.text);
    }
    chat_template_free(t);
    json_decref(vars);
    return output;
}

/* How often `token` stands in the output with all its bytes from the template. */
static int structural(const ChatTemplateOutput *output, const char *token) {
    int count = 0;
    size_t n = strlen(token);
    for (size_t i = 0; i + n <= output->length; i++) {
        if (memcmp(output->text + i, token, n) == 0 && !memchr(output->from_template + i, 0, n))
            count++;
    }
    return count;
}

static void a_message_that_spells_a_control_token_stays_text_through_every_operation(void **state) {
    (void)state;
    /* Each template keeps, cuts, joins, pads, replaces, formats or changes the case of the user's
     * text. None writes the token itself. */
    static const char *const templates[] = {
        "{{ user }}",
        "{{ messages[0].content }}",
        "{{ messages[0]['content'] }}",
        "{{ user ~ 'x' }}",
        "{{ 'x' + user }}",
        "{{ user * 3 }}",
        "{{ user[2:] ~ user[:-1] }}",
        "{{ user[::-1][::-1] }}",
        "{% for c in user %}{{ c }}{% endfor %}",
        "{{ user|list|join }}",
        "{{ user|upper|lower }}",
        "{{ user.upper().lower() }}",
        "{{ user|title }}{{ user.title() }}",
        "{{ user.swapcase().swapcase() }}",
        "{{ user|capitalize }}{{ user.casefold() }}",
        "{{ user|trim }}{{ user.strip() }}{{ user.lstrip('z') }}",
        "{{ user|replace('q', 'x') }}",
        "{{ 'AB'|replace('A', user) }}",
        "{{ user.replace('system', 'user') }}",
        "{{ 'A'.replace('A', user) }}",
        "{{ user.split('q')[0] }}",
        "{{ user.split()[0] }}",
        "{{ user.rsplit('q')[0] }}",
        "{{ user.splitlines()[0] }}",
        "{{ user.partition('q')[0] }}",
        "{{ user.rpartition('q')[2] }}",
        "{{ words|join(' ') }}",
        "{{ ['a', 'b']|join(user) }}",
        "{{ ' '.join(words) }}",
        "{{ user.join(['a', 'b']) }}",
        "{{ '%s'|format(user) }}",
        "{{ '%s' % user }}",
        "{{ '%-40s|%60s' % (user, user) }}",
        "{{ '%(k)s' % {'k': user} }}",
        "{{ user % () }}",
        "{{ '{}'.format(user) }}",
        "{{ '{:>40}'.format(user) }}",
        "{{ '{x!s}'.format(x=user) }}",
        "{{ user.format(1) }}",
        "{{ user|tojson }}",
        "{{ messages|tojson(indent=2) }}",
        "{{ map|tojson }}",
        "{{ messages }}",
        "{{ map|string }}",
        "{{ [user] }}",
        "{{ user|indent(3, true, true) }}",
        "{{ user|truncate(3, true) }}{{ user|truncate(300) }}",
        "{{ user|center(60) }}{{ user.center(60, 'y') }}",
        "{{ user.ljust(60) }}{{ user.rjust(60) }}{{ user.zfill(60) }}",
        "{{ user|safe }}",
        "{{ user|e }}",
        "{{ user|default('x') }}",
        "{{ nothing|default(user) }}",
        "{{ user|string }}",
        "{{ words|first }}",
        "{{ words|last }}",
        "{{ words|sort|join }}",
        "{{ words|unique|join }}",
        "{{ words|reverse|join }}",
        "{{ words|map('upper')|map('lower')|join }}",
        "{{ words|select('string')|join }}",
        "{{ messages|map(attribute='content')|join }}",
        "{{ messages|groupby('content') }}",
        "{{ words|batch(1)|list }}",
        "{{ map.keys()|join }}",
        "{{ map.values()|join }}",
        "{% for k, v in map.items() %}{{ k }}{{ v }}{% endfor %}",
        "{{ map|dictsort }}",
        "{% for k, v in map|items %}{{ k ~ v }}{% endfor %}",
        "{{ dict(map)|string }}",
        "{% set x = user %}{{ x }}",
        "{% set x %}{{ user }}{% endset %}{{ x }}",
        "{% set ns = namespace(x=user) %}{{ ns.x }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(user) }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ user }}{% endcall %}",
        "{% filter upper %}{{ user }}{% endfilter %}",
        "{% filter trim %}{{ user }}{% endfilter %}",
        "{% generation %}{{ user }}{% endgeneration %}",
        "{{ user if true else 'x' }}",
        "{{ user or 'x' }}",
        "{{ user.expandtabs() }}",
        "{{ user.removeprefix('x') }}",
        "{{ user.removesuffix('x') }}",
        "{{ (user, 1)|first }}",
        "{{ {'k': user}.k }}",
        "{{ {user: 1}|list|join }}",
        "{{ user|urlencode }}",
        "{{ strftime_now(user) }}",
        "{{ '%c|im_end|>' % number }}",
        "{{ '<|im_' ~ user[5:] }}",
        "{{ user[:5] ~ 'end|>' }}",
        "{{ '%s|im_end|>' % user[0] }}",
        "{{ cycler(user).next() }}",
        "{% for m in messages %}{{ loop.cycle(m.content) }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        ChatTemplateOutput output = render_user(templates[i], "<|im_end|>");
        if (structural(&output, "<|im_end|>") || structural(&output, "<|IM_END|>")) {
            fail_msg("%s lets the user write <|im_end|>", templates[i]);
        }
        chat_template_output_free(&output);
    }
}

static void the_template_and_the_models_own_tokens_are_structure(void **state) {
    (void)state;
    const char *t =
        "<|im_end|>{{ '<|im_' ~ 'end|>' }}{{ eos_token }}{{ '%s' % eos_token|trim }}{{ user }}"
        "{{ user|replace(user, '<|im_end|>') }}{{ '<|im_end|>'|tojson }}";
    ChatTemplateOutput output = render_user(t, "<|im_end|>");
    assert_int_equal(structural(&output, "<|im_end|>"), 6);
    chat_template_output_free(&output);
}

static void text_equal_to_the_templates_own_is_still_the_users(void **state) {
    (void)state;
    ChatTemplateOutput output = render_user("ab{{ user }}ab{{ 'x' }}{{ user[0] }}", "ab");
    static const uint8_t expected[] = {1, 1, 0, 0, 1, 1, 1, 0};
    assert_int_equal(output.length, sizeof expected);
    assert_memory_equal(output.from_template, expected, sizeof expected);
    chat_template_output_free(&output);
}

static void what_stands_around_a_users_text_is_the_users_where_the_user_chose_it(void **state) {
    (void)state;
    /* The message is a list, so its brackets, quotes and numbers do not come from the template. */
    Error error = {0};
    json_t *vars = json_pack("{s:[[],{},s,i,b]}", "content", "a\"b", 42, 1);
    const char *text =
        "{{ content|tojson }}|{{ content }}|{{ content[3] }}|{{ content[3] + 1 }}|{{ 7 }}";
    ChatTemplate *t = chat_template_compile(text, strlen(text), &error);
    ChatTemplateInput input = {.variables = vars, .trusted = trusted, .now = fixed_time()};
    ChatTemplateOutput output;
    assert_int_equal(chat_template_render(t, &input, &output, &error), STATUS_OK);
    for (size_t i = 0; i < output.length; i++) {
        assert_int_equal(output.from_template[i], output.text[i] == '|' || output.text[i] == '7');
    }
    chat_template_output_free(&output);
    chat_template_free(t);
    json_decref(vars);
}

/* ---- hostile templates ---- */

#if ADDRESS_SANITIZER || !defined __OPTIMIZE__
static const double patience = 10; /* a sanitizer or no optimization makes it slower */
#else
static const double patience = 1;
#endif

/* Processor time, so that a busy machine does not matter. */
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void expect_refusal(const char *text, size_t length) {
    json_t *vars =
        json_pack("{s:[{s:s,s:s}],s:s}", "messages", "role", "user", "content", "hi", "user", "hi");
    double start = seconds();
    json_t *reply = render_with(text, length, vars);
    double took = seconds() - start;
    json_t *error = json_object_get(reply, "error");
    if (getenv("CHAT_TEMPLATE_TIMES")) print_message("%.2f s %.60s\n", took, text);
    if (!error) fail_msg("%.200s: rendered", text);
    if (took > patience) fail_msg("%.200s: took %.2f s: %s", text, took, json_string_value(error));
    json_decref(reply);
    json_decref(vars);
}

static void hostile_templates_stop_with_an_error_within_a_second(void **state) {
    (void)state;
    static const char *const templates[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ 'x' * 10000000000 }}",
        "{{ 'x' * 100000000 }}",
        "{{ [0] * 10000000000 }}",
        "{{ (1,) * 100000000 }}",
        "{{ 'a'.center(10000000000) }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (2000000000, 1) }}",
        "{{ '%9500000s%9500000s%9500000s%9500000s%9500000s%9500000s' % (1, 2, 3, 4, 5, 6) }}",
        "{% for i in range(99999) %}{{ 'a' * 9500000 }}{{ '%9500000s' % i }}{% endfor %}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ '{:.1000000000f}'.format(1) }}",
        "{{ 'a'.zfill(10000000000) }}",
        "{{ 'a'|indent(10000000000) ~ 'b' * 999999999 }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        "{{ 'x'|batch(1000000000, 'y')|list }}",
        "{{ 'x'|slice(1000000000)|list }}",
        "{% set ns = namespace(x='xxxxxxxxxxxxxxxx') %}{% for i in range(100) %}{% set ns.x = ns.x "
        "~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='xxxxxxxxxxxxxxxx') %}{% for i in range(100) %}{% set ns.x = "
        "ns.x|replace('x', 'xx') %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% "
        "endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% "
        "endfor %}{{ ns.x|tojson }}",
        "{% set ns = namespace(x=[],y=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% "
        "set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% "
        "endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% "
        "endfor %}{{ ns.x|tojson }}",
        "{% set ns = namespace(x=[1],y=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] "
        "%}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=(1,)) %}{% for i in range(64) %}{% set ns.x = (ns.x, ns.x) %}{% "
        "endfor %}{{ {ns.x: 1} }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = "
        "ns.x|map('string') %}{% endfor %}{{ ns.x|list }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = "
        "ns.x|select|select %}{% endfor %}{{ ns.x|list }}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s|length }}{% endfor %}",
        "{% set s = ' ' * 4000000 %}{% for i in range(100000) %}{{ s|trim }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s.find('b') }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s.rfind('b' ~ s[:1000]) }}{% "
        "endfor %}",
        "{% set s = 'a' * 2000000 %}{% for i in range(100000) %}{{ s.rfind('a' * 1000 ~ 'b') }}{% "
        "endfor %}",
        "{% set s = 'a' * 4000000 %}{% set t = 'a' * 4000000 %}{% for i in range(100000) %}{{ s == "
        "t }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% set t = 'a' * 4000000 %}{% for i in range(100000) %}{{ s < "
        "t }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s[3999999] }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s.startswith(s) }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ {s: 1}[s] }}{% endfor %}",
        "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s is lower }}{{ s.isalpha() "
        "}}{% endfor %}",
        "{% set s = 'a' * 400000 %}{% for i in range(100000) %}{{ s.strip(s) }}{% endfor %}",
        "{% set s = 'a' * 400000 %}{% for i in range(100000) %}{{ s|wordcount }}{{ s|int }}{{ "
        "s|float }}{% endfor %}",
        "{% set s = '\u03a3' * 400000 %}{{ s|lower }}{{ s|lower }}",
        "{% set d = range(100000)|list %}{% for i in d %}{{ d.index(99999) }}{% endfor %}",
        "{% set d = range(100000)|list %}{% for i in d %}{{ -1 in d }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(100000)|sort|length }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(100000)|sum }}{% endfor %}",
        "{% for i in range(100000) %}{{ range(100000)|unique|list|length }}{% endfor %}",
        "{{ range(100000)|unique|list|length }}",
        "{{ dict(range(100000)|map('string')|batch(2)) }}{{ 'x' * 999999999 }}",
        "{% for i in range(100000) %}{{ range(100000)|groupby('x') }}{% endfor %}",
        "{{ strftime_now('%1000000000d') }}",
        "{{ strftime_now('%99999d' * 100000) }}",
        "{% set x = '%s' * 100000 %}{{ x|format(x) }}",
        "{{ 2 ** 100000 }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}",
        "{{ 99999999999999999999 }}",
        "{{ range(9223372036854775807, -9223372036854775807, -1) }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}",
        "{{ '{0' * 1000 }}{{ ('{0' * 1000).format(1) }}",
        "{{ ('{:' * 10 ~ '}' * 10).format(1) }}",
        "{% set s = 'a' * 10000000 %}{% set l = [s, s, s, s, s, s, s, s] %}{{ l|join(s) }}",
        "{% filter upper %}{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}{% endfilter %}",
        "{% for a in 'x' * 3000000 %}{{ a * 1000 }}{% endfor %}",
        "{% for a in 'x' * 3000000 %}{% endfor %}{% for a in 'x' * 3000000 %}{% endfor %}{% for a "
        "in 'x' * 9000000 %}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        if (!tier_takes(i, 7, 1)) continue;
        expect_refusal(templates[i], strlen(templates[i]));
    }
}

/* The template is `prefix`, `part` n times, and `suffix`. */
static void expect_deep_refusal(const char *prefix, const char *part, size_t n,
                                const char *suffix) {
    size_t length = strlen(prefix) + n * strlen(part) + strlen(suffix);
    char *text = malloc(length + 1), *p = text;
    assert_non_null(text);
    p = stpcpy(p, prefix);
    for (size_t i = 0; i < n; i++) p = stpcpy(p, part);
    stpcpy(p, suffix);
    expect_refusal(text, length);
    free(text);
}

static void deeply_nested_templates_are_refused(void **state) {
    (void)state;
    expect_deep_refusal("{{ ", "(", 100000, "");
    expect_deep_refusal("{{ ", "[", 300, "");
    expect_deep_refusal("{{ ", "{1:", 300, "");
    expect_deep_refusal("{{ ", "-", 100000, "1 }}");
    expect_deep_refusal("{{ ", "not ", 50000, "1 }}");
    expect_deep_refusal("{{ 1", "+1", 100000, " }}");
    expect_deep_refusal("{{ 'a'", "|upper", 30000, " }}");
    expect_deep_refusal("{{ x", ".a", 100000, " }}");
    expect_deep_refusal("{{ x", "[0]", 80000, " }}");
    expect_deep_refusal("{{ x", "()", 100000, " }}");
    expect_deep_refusal("{{ 1", " if 1 else 2", 15000, " }}");
    expect_deep_refusal("{{ 1", " and 1", 30000, " }}");
    expect_deep_refusal("{{ 1", " is odd", 30000, " }}");
    expect_deep_refusal("", "{% if 1 %}", 20000, "");
    expect_deep_refusal("{% if 1 %}", "{% elif 1 %}", 20000, "{% endif %}");
    expect_deep_refusal("", "{% for x in y %}", 15000, "");
    expect_deep_refusal("", "{% macro m() %}", 15000, "");
    expect_deep_refusal("", "{% set x %}", 15000, "");
    expect_deep_refusal("{{ x", "[y", 50000, "");
    expect_deep_refusal("{{ ", "f(", 50000, "");
    expect_deep_refusal("{{ x is ", "a ", 50000, "");
    expect_deep_refusal("{% set (", "(", 50000, "");
}

static void unreadable_templates_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"\xFF", "a\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                      "\xE2\x82"};
    Error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(chat_template_compile(bad[i], strlen(bad[i]), &error));
        assert_string_equal(error.text, "chat template: not UTF-8");
    }
    assert_null(chat_template_compile("{% if %}", 8, NULL));
    char *long_text = calloc(1, (256 << 10) + 1);
    assert_null(chat_template_compile(long_text, (256 << 10) + 1, &error));
    free(long_text);
}

/* ---- the interface ---- */

static void errors_say_where_and_why(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a\nb\n{{ messages[0].foo.bar }}",
         "chat template, line 3: 'dict object' has no attribute 'foo'"},
        {"{{ nothing.x }}", "chat template, line 1: 'nothing' is undefined"},
        {"\n{{ 1|nope }}", "chat template, line 2: No filter named 'nope'."},
        {"{% if 1 %}", "chat template, line 1: expected elif, got 'end of template'"},
        {"{{ raise_exception('As it is, \xC3\xA9!') }}", "As it is, \xC3\xA9!"},
    };
    json_t *vars = json_pack("{s:[{s:s}]}", "messages", "role", "user");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *reply = render_with(cases[i][0], strlen(cases[i][0]), vars);
        assert_string_equal(json_string_value(json_object_get(reply, "error")), cases[i][1]);
        json_decref(reply);
    }
    json_decref(vars);
}

static void one_template_renders_any_number_of_conversations(void **state) {
    (void)state;
    const char *text = chat_family_named("chatml")->text;
    ChatTemplate *t = chat_template_compile(text, strlen(text), NULL);
    assert_non_null(t);
    for (int i = 0; i < 3; i++) {
        json_t *vars = json_pack("{s:[{s:s,s:s}],s:b}", "messages", "role", "user", "content",
                                 "Hi\n", "add_generation_prompt", i != 1);
        ChatTemplateInput input = {.variables = vars, .trusted = NULL, .now = fixed_time()};
        ChatTemplateOutput output;
        assert_int_equal(chat_template_render(t, &input, &output, NULL), STATUS_OK);
        assert_string_equal(output.text,
                            i != 1 ? "<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\n"
                                   : "<|im_start|>user\nHi\n<|im_end|>\n");
        assert_int_equal(structural(&output, "<|im_start|>"), i != 1 ? 2 : 1);
        assert_int_equal(structural(&output, "user"), 0); /* a role is part of a message */
        chat_template_output_free(&output);
        json_decref(vars);
    }
    chat_template_free(t);
}

static void a_model_without_a_template_has_a_plain_one(void **state) {
    (void)state;
    const char *text = chat_family_plain();
    json_t *vars =
        json_pack("{s:[{s:s,s:s},{s:s,s:s}],s:b}", "messages", "role", "system", "content",
                  "Be brief.", "role", "user", "content", " Hi ", "add_generation_prompt", 1);
    json_t *reply = render_with(text, strlen(text), vars);
    assert_string_equal(json_string_value(json_object_get(reply, "out")),
                        "System: Be brief.\nUser: Hi\nAssistant:");
    json_decref(reply);
    json_decref(vars);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--driver") == 0) return json_lines_serve(render_json);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_feature_gives_the_bytes_that_jinja2_gives),
        cmocka_unit_test(templates_in_the_manner_of_popular_ones_render_as_in_jinja2),
        cmocka_unit_test(published_templates_render_as_in_jinja2),
        cmocka_unit_test(chats_have_the_text_of_qwen_3_5s_template),
        cmocka_unit_test(a_message_that_spells_a_control_token_stays_text_through_every_operation),
        cmocka_unit_test(the_template_and_the_models_own_tokens_are_structure),
        cmocka_unit_test(text_equal_to_the_templates_own_is_still_the_users),
        cmocka_unit_test(what_stands_around_a_users_text_is_the_users_where_the_user_chose_it),
        cmocka_unit_test(hostile_templates_stop_with_an_error_within_a_second),
        cmocka_unit_test(deeply_nested_templates_are_refused),
        cmocka_unit_test(unreadable_templates_are_refused),
        cmocka_unit_test(errors_say_where_and_why),
        cmocka_unit_test(one_template_renders_any_number_of_conversations),
        cmocka_unit_test(a_model_without_a_template_has_a_plain_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
