/* Recursive descent with the precedence of jinja2's parser.py. */
#include "template/parse.h"

#include "template/lex.h"

typedef struct Parser {
    Machine *m;
    const Token *token; /* the current token; T_END is never passed */
    int depth;
} Parser;

typedef struct NodeList {
    Node *first;
    Node **end;
} NodeList;

static Node *parse_expression(Parser *p, bool with_condition);
static Node *parse_tuple(Parser *p, bool with_condition, bool explicit_parentheses);
static Node *parse_unary(Parser *p, bool with_filter);
static Node *parse_filter(Parser *p, Node *node);
static Node *parse_block(Parser *p, const char *const *end_words);

static Node *new_node(Parser *p, NodeKind kind) {
    Node *node = NEW(p->m, Node);
    node->kind = (uint8_t)kind;
    node->line = p->token->line;
    return node;
}

static Node *new_binary(Parser *p, NodeKind kind, Operator op, Node *first, Node *second) {
    Node *node = new_node(p, kind);
    node->op = (uint8_t)op, node->first = first, node->second = second;
    return node;
}

static void parse_append(NodeList *list, Node *node) {
    *(list->end ? list->end : &list->first) = node;
    list->end = &node->next;
}

static void deeper(Parser *p) {
    if (++p->depth > MAX_PARSE_DEPTH) jinja_fail(p->m, "the template is nested too deeply");
}

/* ---- tokens ---- */

static void parse_advance(Parser *p) {
    if (p->token->kind != T_END) p->token++;
    p->m->line = p->token->line;
}

static bool at_kind(const Parser *p, TokenKind kind, const char *text) {
    return p->token->kind == kind && jinja_text_is(p->token->text, text);
}
static bool at_word(const Parser *p, const char *s) {
    return at_kind(p, T_NAME, s);
}
static bool at_operator(const Parser *p, const char *s) {
    return at_kind(p, T_OPERATOR, s);
}

static bool skip_word(Parser *p, const char *s) {
    bool found = at_word(p, s);
    if (found) parse_advance(p);
    return found;
}

static bool skip_operator(Parser *p, const char *s) {
    bool found = at_operator(p, s);
    if (found) parse_advance(p);
    return found;
}

static NORETURN void unexpected(Parser *p, const char *wanted) {
    Text got = p->token->text;
    jinja_fail(p->m, "expected %s, got '%.*s'", wanted, jinja_text_shown(got),
               (const char *)got.bytes);
}

static void expect_operator(Parser *p, const char *s) {
    if (!skip_operator(p, s)) unexpected(p, s);
}

static Text expect_name(Parser *p) {
    if (p->token->kind != T_NAME) unexpected(p, "a name");
    Text name = p->token->text;
    parse_advance(p);
    return name;
}

/* ---- expressions, from the tightest binding ---- */

static Node *new_const(Parser *p, Value value) {
    Node *node = new_node(p, N_CONST);
    node->value = value;
    return node;
}

static Node *parse_name(Parser *p) {
    Node *node = new_node(p, N_NAME);
    node->text = expect_name(p);
    if (jinja_text_is(node->text, "true") || jinja_text_is(node->text, "True")) {
        return new_const(p, jinja_value_bool(true));
    }
    if (jinja_text_is(node->text, "false") || jinja_text_is(node->text, "False")) {
        return new_const(p, jinja_value_bool(false));
    }
    if (jinja_text_is(node->text, "none") || jinja_text_is(node->text, "None")) {
        return new_const(p, none);
    }
    return node;
}

/* Adjacent strings are one string. */
static Node *parse_constant(Parser *p) {
    Node *node = new_const(p, p->token->value);
    parse_advance(p);
    if (node->value.type != V_STRING) return node;
    Builder b = {0};
    jinja_build(p->m, &b, *node->value.as.text);
    while (p->token->kind == T_CONST && p->token->value.type == V_STRING) {
        jinja_build(p->m, &b, *p->token->value.as.text);
        parse_advance(p);
    }
    node->value = jinja_value_text(p->m, jinja_built(&b));
    return node;
}

static Node *parse_list(Parser *p, NodeKind kind, const char *end) {
    Node *node = new_node(p, kind);
    NodeList items = {0};
    parse_advance(p);
    while (!at_operator(p, end)) {
        if (items.first) expect_operator(p, ",");
        if (at_operator(p, end)) break;
        parse_append(&items, parse_expression(p, true));
        if (kind == N_DICT) {
            expect_operator(p, ":");
            parse_append(&items, parse_expression(p, true));
        }
    }
    expect_operator(p, end);
    node->items = items.first;
    return node;
}

static Node *parse_primary(Parser *p) {
    if (p->token->kind == T_NAME) return parse_name(p);
    if (p->token->kind == T_CONST) return parse_constant(p);
    deeper(p);
    Node *node = NULL;
    if (skip_operator(p, "(")) {
        node = parse_tuple(p, true, true);
        expect_operator(p, ")");
    } else if (at_operator(p, "[")) {
        node = parse_list(p, N_LIST, "]");
    } else if (at_operator(p, "{")) {
        node = parse_list(p, N_DICT, "}");
    } else {
        unexpected(p, "an expression");
    }
    p->depth--;
    return node;
}

/* name=value, unless a keyword argument of that name is among `items` already. */
static Node *parse_keyword(Parser *p, const Node *items) {
    Node *node = new_node(p, N_KEYWORD);
    node->text = expect_name(p);
    expect_operator(p, "=");
    for (const Node *n = items; n; n = n->next) {
        if (n->kind == N_KEYWORD && jinja_text_equal(n->text, node->text)) {
            jinja_fail(p->m, "keyword argument repeated");
        }
    }
    node->first = parse_expression(p, true);
    return node;
}

/* *list or **dict; the stars have been passed. */
static Node *parse_starred(Parser *p, NodeKind kind) {
    Node *node = new_node(p, kind);
    node->first = parse_expression(p, true);
    return node;
}

/* The arguments of a call, in parentheses: positional, then name=value and *list, then **dict. */
static Node *parse_arguments(Parser *p) {
    static const char wrong[] = "invalid syntax for function call expression";
    NodeList items = {0};
    bool keyword = false, star = false, star_star = false;
    expect_operator(p, "(");
    while (!at_operator(p, ")")) {
        if (items.first) expect_operator(p, ",");
        if (items.first && at_operator(p, ")")) break;
        if (star_star) jinja_fail(p->m, "%s", wrong);
        if (skip_operator(p, "**")) {
            parse_append(&items, parse_starred(p, N_STARSTAR));
            star_star = true;
        } else if (skip_operator(p, "*")) {
            if (star) jinja_fail(p->m, "%s", wrong);
            parse_append(&items, parse_starred(p, N_STAR));
            star = true;
        } else if (p->token->kind == T_NAME && p->token[1].kind == T_OPERATOR &&
                   jinja_text_is(p->token[1].text, "=")) {
            parse_append(&items, parse_keyword(p, items.first));
            keyword = true;
        } else {
            if (keyword || star) jinja_fail(p->m, "%s", wrong);
            parse_append(&items, parse_expression(p, true));
        }
    }
    expect_operator(p, ")");
    return items.first;
}

static Node *parse_call(Parser *p, Node *callee) {
    Node *node = new_node(p, N_CALL);
    node->first = callee;
    node->items = parse_arguments(p);
    return node;
}

/* a[i], a[i, j] (a tuple) or a[] (the empty tuple); `index` is NULL for a[]. */
static Node *parse_item(Parser *p, Node *object, Node *index) {
    Node *node = new_node(p, N_ITEM);
    node->first = object;
    node->second = index ? index : new_node(p, N_TUPLE);
    if (!at_operator(p, ",")) return node;
    NodeList items = {0};
    parse_append(&items, node->second);
    while (skip_operator(p, ",")) parse_append(&items, parse_expression(p, true));
    node->second = new_node(p, N_TUPLE);
    node->second->items = items.first;
    return node;
}

/* What stands in the brackets of a[...]: an index or a slice, whose parts may be left out. */
static Node *parse_subscript(Parser *p, Node *object) {
    Node *parts[3] = {NULL, NULL, NULL};
    int n = 0;
    while (!at_operator(p, "]") && !at_operator(p, ",")) {
        if (skip_operator(p, ":")) {
            if (++n == 3) unexpected(p, "]");
        } else if (parts[n]) {
            unexpected(p, "]");
        } else {
            parts[n] = parse_expression(p, true);
        }
    }
    if (n == 0) return parse_item(p, object, parts[0]);
    Node *node = new_node(p, N_SLICE);
    NodeList items = {0};
    for (int i = 0; i < 3; i++) parse_append(&items, parts[i] ? parts[i] : new_const(p, none));
    node->first = object;
    node->items = items.first;
    return node;
}

/* Parses what may follow an expression any number of times: .name, [subscript] and (arguments). */
static Node *parse_postfix(Parser *p, Node *node) {
    for (;;) {
        if (skip_operator(p, ".")) {
            Node *attr = new_node(p, N_ATTR);
            attr->first = node;
            if (p->token->kind == T_CONST && p->token->value.type == V_INT) { /* a.0 */
                attr->kind = N_ITEM;
                attr->second = new_const(p, p->token->value);
                parse_advance(p);
            } else {
                attr->text = expect_name(p);
            }
            node = attr;
        } else if (skip_operator(p, "[")) {
            deeper(p);
            node = parse_subscript(p, node);
            p->depth--;
            expect_operator(p, "]");
        } else if (at_operator(p, "(")) {
            node = parse_call(p, node);
        } else {
            return node;
        }
    }
}

static Text parse_dotted_name(Parser *p) {
    Text name = expect_name(p);
    while (skip_operator(p, ".")) {
        Builder b = {0};
        jinja_build(p->m, &b, name);
        jinja_build_c(p->m, &b, ".", FROM_TEMPLATE);
        jinja_build(p->m, &b, expect_name(p));
        name = jinja_built(&b);
    }
    return name;
}

/* What stands after `is`: [not] NAME, with arguments in parentheses or one argument without. */
static Node *parse_test(Parser *p, Node *tested) {
    bool negated = skip_word(p, "not");
    Node *node = new_node(p, N_TEST);
    node->first = tested;
    node->text = parse_dotted_name(p);
    bool bare = (p->token->kind == T_NAME && !at_word(p, "else") && !at_word(p, "or") &&
                 !at_word(p, "and")) ||
                p->token->kind == T_CONST || at_operator(p, "[") || at_operator(p, "{");
    if (at_operator(p, "(")) {
        node->items = parse_arguments(p);
    } else if (bare) {
        if (at_word(p, "is")) jinja_fail(p->m, "You cannot chain multiple tests with is");
        node->items = parse_postfix(p, parse_primary(p));
    }
    return negated ? new_binary(p, N_UNARY, OP_NOT, node, NULL) : node;
}

static Node *parse_filters_and_tests(Parser *p, Node *node) {
    for (;;) {
        if (at_operator(p, "|"))
            node = parse_filter(p, node);
        else if (skip_word(p, "is"))
            node = parse_test(p, node);
        else if (at_operator(p, "("))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* A chain "| name(arguments) | ..."; `node` is NULL for the text of a block. */
static Node *parse_filter(Parser *p, Node *node) {
    while (skip_operator(p, "|")) {
        Node *filter = new_node(p, N_FILTER);
        filter->first = node;
        filter->text = parse_dotted_name(p);
        if (at_operator(p, "(")) filter->items = parse_arguments(p);
        node = filter;
    }
    return node;
}

static Node *parse_unary(Parser *p, bool with_filter) {
    Node *node;
    if (at_operator(p, "-") || at_operator(p, "+")) {
        Operator op = at_operator(p, "-") ? OP_SUBTRACT : OP_ADD;
        deeper(p);
        parse_advance(p);
        node = new_binary(p, N_UNARY, op, parse_unary(p, false), NULL);
        p->depth--;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    return with_filter ? parse_filters_and_tests(p, node) : node;
}

static Node *parse_power(Parser *p) {
    Node *left = parse_unary(p, true);
    while (skip_operator(p, "**"))
        left = new_binary(p, N_BINARY, OP_POWER, left, parse_unary(p, true));
    return left;
}

/* Passes one of the operators first ... last and returns it; OP_NONE: none of them comes next. */
static Operator skip_any(Parser *p, Operator first, Operator last) {
    for (Operator op = first; op <= last; op++) {
        if (skip_operator(p, jinja_operator_name(op))) return op;
    }
    return OP_NONE;
}

static Node *parse_product(Parser *p) {
    Node *left = parse_power(p);
    for (Operator op; (op = skip_any(p, OP_MULTIPLY, OP_MODULO));) {
        left = new_binary(p, N_BINARY, op, left, parse_power(p));
    }
    return left;
}

static Node *parse_concat(Parser *p) {
    Node *first = parse_product(p);
    if (!at_operator(p, "~")) return first;
    NodeList items = {0};
    parse_append(&items, first);
    while (skip_operator(p, "~")) parse_append(&items, parse_product(p));
    Node *node = new_node(p, N_CONCAT);
    node->items = items.first;
    return node;
}

static Node *parse_sum(Parser *p) {
    Node *left = parse_concat(p);
    for (Operator op; (op = skip_any(p, OP_ADD, OP_SUBTRACT));) {
        left = new_binary(p, N_BINARY, op, left, parse_concat(p));
    }
    return left;
}

/* Skips a comparison operator and returns it. `not in` is two tokens; a lone `not` is none. */
static Operator comparison(Parser *p) {
    if (skip_word(p, "in")) return OP_IN;
    if (at_word(p, "not") && p->token[1].kind == T_NAME && jinja_text_is(p->token[1].text, "in")) {
        parse_advance(p);
        parse_advance(p);
        return OP_NOT_IN;
    }
    return skip_any(p, OP_EQUAL, OP_AT_LEAST);
}

static Node *parse_compare(Parser *p) {
    Node *first = parse_sum(p), *node = NULL;
    NodeList operands = {0};
    for (Operator op; (op = comparison(p));) {
        if (!node) node = new_binary(p, N_COMPARE, OP_NONE, first, NULL);
        parse_append(&operands, new_binary(p, N_OPERAND, op, parse_sum(p), NULL));
        node->items = operands.first;
    }
    return node ? node : first;
}

static Node *parse_not(Parser *p) {
    if (!skip_word(p, "not")) return parse_compare(p);
    deeper(p);
    Node *node = new_binary(p, N_UNARY, OP_NOT, parse_not(p), NULL);
    p->depth--;
    return node;
}

static Node *parse_and(Parser *p) {
    Node *left = parse_not(p);
    while (skip_word(p, "and")) left = new_binary(p, N_AND, OP_NONE, left, parse_not(p));
    return left;
}

static Node *parse_or(Parser *p) {
    Node *left = parse_and(p);
    while (skip_word(p, "or")) left = new_binary(p, N_OR, OP_NONE, left, parse_and(p));
    return left;
}

static Node *parse_expression(Parser *p, bool with_condition) {
    deeper(p);
    Node *node = parse_or(p);
    while (with_condition && skip_word(p, "if")) {
        node = new_binary(p, N_COND, OP_NONE, node, parse_or(p));
        if (skip_word(p, "else")) node->third = parse_expression(p, true);
    }
    p->depth--;
    return node;
}

/* One expression, or several with commas, which are a tuple. */
static Node *parse_tuple(Parser *p, bool with_condition, bool explicit_parentheses) {
    NodeList items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.first) expect_operator(p, ",");
        if (p->token->kind == T_PRINT_END || p->token->kind == T_BLOCK_END || at_operator(p, ")")) {
            break;
        }
        parse_append(&items, parse_expression(p, with_condition));
        if (!at_operator(p, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && items.first) return items.first;
    if (!is_tuple && !explicit_parentheses) unexpected(p, "an expression");
    Node *node = new_node(p, N_TUPLE);
    node->items = items.first;
    return node;
}

/* ---- targets of assignments ---- */

static void make_target(Parser *p, Node *node) {
    if (node->kind == N_NAME) {
        node->store = true;
    } else if (node->kind == N_TUPLE) {
        for (Node *n = node->items; n; n = n->next) make_target(p, n);
    } else if (node->kind != N_NSREF) {
        jinja_fail(p->m, "can't assign to this expression");
    }
}

static Node *parse_target_primary(Parser *p, bool with_namespace) {
    Node *node = parse_primary(p);
    if (with_namespace && node->kind == N_NAME && skip_operator(p, ".")) {
        node->kind = N_NSREF;
        node->value = jinja_value_text(p->m, expect_name(p));
    }
    return node;
}

/* Parses the target of an assignment: a variable or a tuple of them, with_namespace also attributes
 * of namespaces. */
static Node *parse_target(Parser *p, bool with_namespace) {
    NodeList items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.first) expect_operator(p, ",");
        if (p->token->kind == T_BLOCK_END || at_operator(p, ")")) {
            break;
        }
        parse_append(&items, parse_target_primary(p, with_namespace));
        if (!at_operator(p, ",")) break;
        is_tuple = true;
    }
    Node *target = items.first;
    if (!target) unexpected(p, "a variable");
    if (is_tuple) {
        target = new_node(p, N_TUPLE);
        target->items = items.first;
    }
    make_target(p, target);
    return target;
}

static Node *parse_name_target(Parser *p) {
    Node *node = parse_name(p);
    make_target(p, node);
    return node;
}

/* ---- statements ---- */

static const char *const end_if[] = {"elif", "else", "endif", NULL};
static const char *const end_else[] = {"endif", NULL};
static const char *const end_for[] = {"endfor", "else", NULL};
static const char *const end_for_else[] = {"endfor", NULL};
static const char *const end_set[] = {"endset", NULL};
static const char *const end_macro[] = {"endmacro", NULL};
static const char *const end_call[] = {"endcall", NULL};
static const char *const end_filter[] = {"endfilter", NULL};
static const char *const end_with[] = {"endwith", NULL};
static const char *const end_generation[] = {"endgeneration", NULL};

static void parse_for(Parser *p, Node *node) {
    node->first = parse_target(p, false);
    if (!skip_word(p, "in")) unexpected(p, "in");
    node->second = parse_tuple(p, false, false);
    if (skip_word(p, "if")) node->third = parse_expression(p, true);
    node->recursive = skip_word(p, "recursive");
    node->body = parse_block(p, end_for);
    if (skip_word(p, "else")) node->orelse = parse_block(p, end_for_else);
    parse_advance(p); /* endfor */
}

static void parse_if(Parser *p, Node *node) {
    node->first = parse_tuple(p, false, false);
    node->body = parse_block(p, end_if);
    if (at_word(p, "elif")) {
        node->orelse = new_node(p, N_IF);
        parse_advance(p);
        deeper(p);
        parse_if(p, node->orelse);
        p->depth--;
        return;
    }
    if (skip_word(p, "else")) node->orelse = parse_block(p, end_else);
    parse_advance(p); /* endif */
}

static void parse_set(Parser *p, Node *node) {
    node->first = parse_target(p, true);
    if (skip_operator(p, "=")) {
        node->second = parse_tuple(p, true, false);
        return;
    }
    node->kind = N_SET_BLOCK;
    node->second = parse_filter(p, NULL);
    node->body = parse_block(p, end_set);
    parse_advance(p);
}

static void parse_with(Parser *p, Node *node) {
    NodeList sets = {0};
    while (p->token->kind != T_BLOCK_END) {
        if (sets.first) expect_operator(p, ",");
        Node *set = new_node(p, N_SET);
        set->first = parse_target(p, false);
        expect_operator(p, "=");
        set->second = parse_expression(p, true);
        parse_append(&sets, set);
    }
    node->items = sets.first;
    node->body = parse_block(p, end_with);
    parse_advance(p);
}

/* Parses the parameters of a macro or a call block, with their defaults, into node->items. */
static void parse_parameters(Parser *p, Node *node) {
    NodeList parameters = {0};
    bool has_default = false;
    expect_operator(p, "(");
    while (!at_operator(p, ")")) {
        if (parameters.first) expect_operator(p, ",");
        Node *parameter = new_node(p, N_PARAM);
        parameter->text = parse_name_target(p)->text;
        for (Node *n = parameters.first; n; n = n->next) {
            if (jinja_text_equal(n->text, parameter->text)) jinja_fail(p->m, "duplicate parameter");
        }
        if (skip_operator(p, "=")) {
            parameter->first = parse_expression(p, true);
            has_default = true;
        } else if (has_default) {
            jinja_fail(p->m, "non-default argument follows default argument");
        }
        parse_append(&parameters, parameter);
    }
    expect_operator(p, ")");
    node->items = parameters.first;
}

static void parse_macro(Parser *p, Node *node) {
    node->text = parse_name_target(p)->text;
    parse_parameters(p, node);
    node->body = parse_block(p, end_macro);
    parse_advance(p);
}

static void parse_call_block(Parser *p, Node *node) {
    if (at_operator(p, "(")) parse_parameters(p, node);
    node->first = parse_expression(p, true);
    if (node->first->kind != N_CALL) jinja_fail(p->m, "expected call");
    node->body = parse_block(p, end_call);
    parse_advance(p);
}

static void parse_filter_block(Parser *p, Node *node) {
    Node *filter = new_node(p, N_FILTER); /* the first filter has no '|' before it */
    filter->text = parse_dotted_name(p);
    if (at_operator(p, "(")) filter->items = parse_arguments(p);
    node->second = parse_filter(p, filter);
    node->body = parse_block(p, end_filter);
    parse_advance(p);
}

static void parse_generation(Parser *p, Node *node) {
    node->body = parse_block(p, end_generation);
    parse_advance(p);
}

static void parse_print(Parser *p, Node *node) {
    NodeList items = {0};
    while (p->token->kind != T_BLOCK_END) {
        if (items.first) expect_operator(p, ",");
        parse_append(&items, parse_expression(p, true));
    }
    node->items = items.first;
}

static void parse_nothing(Parser *p, Node *node) {
    (void)p, (void)node;
}

/* Parses the statement whose first word comes next, with the blocks that belong to it. */
static Node *parse_statement(Parser *p) {
    static const struct {
        const char *word;
        NodeKind kind;
        void (*parse)(Parser *, Node *);
    } statements[] = {
        {"for", N_FOR, parse_for},
        {"if", N_IF, parse_if},
        {"set", N_SET, parse_set},
        {"macro", N_MACRO, parse_macro},
        {"call", N_CALL_BLOCK, parse_call_block},
        {"filter", N_FILTER_BLOCK, parse_filter_block},
        {"with", N_WITH, parse_with},
        {"generation", N_GENERATION, parse_generation},
        {"print", N_PRINT, parse_print},
        {"break", N_BREAK, parse_nothing},
        {"continue", N_CONTINUE, parse_nothing},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!at_word(p, statements[i].word)) continue;
        Node *node = new_node(p, statements[i].kind);
        parse_advance(p);
        deeper(p);
        statements[i].parse(p, node);
        p->depth--;
        return node;
    }
    unexpected(p, "a statement");
}

/* Parses statements up to a tag that begins with one of `end_words`, which stays the current token;
 * NULL: up to the end of the template. */
static Node *parse_statements(Parser *p, const char *const *end_words) {
    NodeList list = {0};
    while (p->token->kind != T_END) {
        if (p->token->kind == T_DATA) {
            Node *node = new_node(p, N_DATA);
            node->value = p->token->value;
            parse_append(&list, node);
            parse_advance(p);
        } else if (p->token->kind == T_PRINT_BEGIN) {
            parse_advance(p);
            Node *node = new_node(p, N_PRINT);
            node->items = parse_tuple(p, true, false);
            parse_append(&list, node);
            if (p->token->kind != T_PRINT_END) unexpected(p, "}}");
            parse_advance(p);
        } else {
            parse_advance(p); /* {% */
            for (int i = 0; end_words && end_words[i]; i++) {
                if (at_word(p, end_words[i])) return list.first;
            }
            parse_append(&list, parse_statement(p));
            if (p->token->kind != T_BLOCK_END) unexpected(p, "%}");
            parse_advance(p);
        }
    }
    if (end_words) unexpected(p, end_words[0]);
    return list.first;
}

/* Parses the rest of an opening tag and the statements up to one of `end_words`. */
static Node *parse_block(Parser *p, const char *const *end_words) {
    skip_operator(p, ":");
    if (p->token->kind != T_BLOCK_END) unexpected(p, "%}");
    parse_advance(p);
    return parse_statements(p, end_words);
}

Node *jinja_parse(Machine *m, Text source) {
    Parser p = {.m = m, .token = jinja_lex(m, source)};
    m->line = 1;
    return parse_statements(&p, NULL);
}
