/* The inside of the chat template interpreter; chat_template.h is its only door.
 *
 *     machine.c   memory from one arena, and the limits: every loop and recursion pays here
 *     text.c      strings that know where each byte came from; builders
 *     unicode.c   what Python's str knows of characters: white space, case, printable
 *     lex.c       template text to tokens (Jinja's white space control is all here)
 *     parse.c     tokens to a tree of nodes
 *     scope.c     which variable a name means, decided once, as jinja2's compiler does
 *     eval.c      statements write text, expressions make values
 *     value.c     Python's rules for truth, equality, order, str() and containers
 *     number.c    arithmetic, and numbers to text
 *     format.c    '%s' % x and '{}'.format(x)
 *     json.c      tojson
 *     filters.c list_filters.c tests.c methods.c globals.c   what templates call
 *
 * Errors: fail() leaves through one longjmp to chat_template.c. Nothing between owns anything
 * but arena memory, so nothing leaks, and no function has to pass an error on.
 *
 * Behaviour follows jinja2 3.1 (lexer.py, parser.py, idtracking.py, compiler.py, runtime.py,
 * filters.py, tests.py, sandbox.py) and CPython 3.11's built-in types. */
#ifndef TEMPLATE_TEMPLATE_H
#define TEMPLATE_TEMPLATE_H

#include "base/status.h"

#include <setjmp.h>
#include <stdint.h>
#include <time.h>

/* The two values of every `from_template` flag. A value made of several parts comes from the
 * template only if all its parts do, so flags are combined with `&`. */
enum { FROM_MESSAGE = 0, FROM_TEMPLATE = 1 };

/* ---- text: UTF-8 with one flag per byte; never changed once made, so parts are shared ---- */

typedef struct Text {
    const uint8_t *bytes;
    const uint8_t *from_template; /* [length] FROM_MESSAGE or FROM_TEMPLATE */
    size_t length;
} Text;

/* Text that is being written. The buffers grow in the arena. */
typedef struct Builder {
    uint8_t *bytes;
    uint8_t *from_template;
    size_t length;
    size_t capacity;
} Builder;

/* ---- values ---- */

typedef enum ValueType {
    V_MISSING, /* no value yet: reading it as a variable gives V_UNDEFINED */
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STRING,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_VIEW,     /* what dict.keys(), values() and items() return */
    V_RANGE,    /* range(...): not a list, it prints as range(0, 3) */
    V_ITERATOR, /* what Python's generators are here: can be read once */
    V_NAMESPACE,
    V_MACRO,
    V_LOOP,     /* the `loop` of a for statement */
    V_FUNCTION, /* a global function, or a method together with its object */
    V_CYCLER,
    V_JOINER,
} ValueType;

typedef struct Machine Machine;
typedef struct Value Value;
typedef struct Dict Dict;
typedef struct Iter Iter;
typedef struct Node Node;
typedef struct Frame Frame;
typedef struct Scope Scope;
typedef struct Loop Loop;
typedef struct Builtin Builtin;

struct Value {
    uint8_t type;
    uint8_t from_template; /* of numbers, None, True and containers; text knows its own */
    bool markup; /* a string that |safe or |escape made: adding to it escapes the other side */
    union {
        int64_t integer; /* V_INT, and 0 or 1 for V_BOOL */
        double real;
        const Text *text;
        const struct List *list; /* V_LIST, V_TUPLE */
        Dict *dict;              /* V_DICT, V_NAMESPACE */
        const struct View *view;
        const struct Range *range;
        Iter *iter;
        const struct Undefined *undefined;
        const struct Macro *macro;
        Loop *loop;
        const struct Function *function;
        struct Cycler *cycler;
        struct Joiner *joiner;
    } as;
};

typedef struct List {
    Value *items;
    size_t count;
} List;

typedef struct Entry {
    Value key, value;
    uint64_t hash;
} Entry;

struct Dict { /* entries in the order of insertion */
    Entry *entries;
    size_t count, capacity;
};

typedef struct View {
    Value dict;
    enum { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } kind;
} View;

typedef struct Range {
    int64_t start, stop, step;
    size_t count;
} Range;

typedef struct Undefined { /* only there to say why, should somebody use it */
    const char *hint;      /* the whole message, or NULL */
    Value object;          /* V_MISSING: a variable; else the object that lacks `name` */
    Value name;
} Undefined;

typedef struct Macro {
    const Node *node;
    Scope *scope; /* where it was defined */
} Macro;

typedef struct Function {
    Value self; /* V_MISSING for a global function */
    const Builtin *builtin;
} Function;

typedef struct Cycler {
    const List *items;
    size_t at;
} Cycler;

typedef struct Joiner {
    Value separator;
    bool used;
} Joiner;

/* One pass over a value. `next` stores the next item and returns true, or returns false. */
struct Iter {
    bool (*next)(Machine *m, Iter *it, Value *item);
    Value source;
    size_t at, count;
    Iter *inner;             /* filters that work item by item: what they read */
    const struct Args *args; /* ... and what they were called with */
    const Node *node;        /* for ... if: the statement */
    Scope *scope;
    bool negate, by_attribute; /* reject (and slice, not batch); selectattr */
    Dict *seen;                /* unique */
};

/* `loop`: jinja2's LoopContext. */
struct Loop {
    Iter *iter;
    Value iterable;
    Value before, current, after; /* V_MISSING where there is none; after: only when peeked */
    Value last_changed;
    int64_t index0, length; /* length -1: not asked for yet */
    int64_t depth0;
    const Node *node; /* of a recursive loop, else NULL */
    Scope *scope;
};

/* The arguments of one call. */
typedef struct Args {
    size_t count, n_keywords;
    Value *values;
    Text *keywords;        /* [n_keywords] names */
    Value *keyword_values; /* [n_keywords] */
} Args;

/* Something that templates call. `params` names the parameters after the first (the filtered
 * value, the tested value, or the method's object), separated by commas: `a[i]` is the i-th,
 * V_MISSING where the call left it out. '/' instead of a name: it cannot be given by keyword.
 * NULL params: any arguments, and the function reads `args` itself. */
enum { MAX_PARAMS = 6 };
struct Builtin {
    const char *name;
    Value (*call)(Machine *m, Value self, const Value *a, const struct Args *args);
    const char *params;
    int required;
};

/* ---- the tree ---- */

typedef enum NodeKind {
    /* Expressions. `items` is a list linked by `next`. */
    N_CONST,    /* value */
    N_NAME,     /* text; hops, slot */
    N_LIST,     /* items */
    N_TUPLE,    /* items */
    N_DICT,     /* items: key, value, key, value ... */
    N_UNARY,    /* op '+' '-' 'n'(ot); first */
    N_BINARY,   /* op '+' '-' '*' '/' 'd'(//) '%' 'p'(**); first, second */
    N_AND,      /* first, second */
    N_OR,       /* first, second */
    N_CONCAT,   /* items */
    N_COMPARE,  /* first; items: N_OPERAND */
    N_OPERAND,  /* op '=' '!' '<' 'l'(<=) '>' 'g'(>=) 'i'(n) 'o'(not in); first */
    N_COND,     /* first if second else third (or NULL) */
    N_ATTR,     /* first . text */
    N_ITEM,     /* first [ second ] */
    N_SLICE,    /* first [ items: start, stop, step ] */
    N_CALL,     /* first ( items ) */
    N_FILTER,   /* first | text ( items ); first NULL: the block's text */
    N_TEST,     /* first is text ( items ) */
    N_KEYWORD,  /* among the items of a call: text = first */
    N_STAR,     /* among the items of a call: *first */
    N_STARSTAR, /* among the items of a call: **first */
    /* Statements. */
    N_DATA,         /* value */
    N_PRINT,        /* items */
    N_FOR,          /* for first in second if third: body else orelse; frame, test and else's */
    N_IF,           /* if first: body, else orelse (an elif is an N_IF alone in orelse) */
    N_SET,          /* first = second */
    N_SET_BLOCK,    /* first = body, through second (an N_FILTER or NULL); frame */
    N_MACRO,        /* text(items: N_PARAM): body; frame */
    N_PARAM,        /* text; first: the default or NULL */
    N_CALL_BLOCK,   /* first: the call; items: N_PARAM; body; frame */
    N_FILTER_BLOCK, /* body through second; frame */
    N_WITH,         /* items: N_SET; body; frame */
    N_GENERATION,   /* body; frame */
    N_BREAK,
    N_CONTINUE,
    N_NSREF, /* as a target of set: text . value */
} NodeKind;

struct Node {
    uint8_t kind;
    char op;
    bool store;                                  /* N_NAME: assigned to, not read */
    bool recursive;                              /* N_FOR */
    bool uses_caller, uses_kwargs, uses_varargs; /* N_MACRO, N_CALL_BLOCK */
    int line;
    int hops, slot; /* names: how many scopes out, and which variable of that scope */
    int caller_slot, kwargs_slot, varargs_slot; /* macros, where used */
    Text text;
    Value value;
    Node *next;
    Node *first, *second, *third;
    Node *items, *body, *orelse;
    Frame *frame, *test_frame, *else_frame;
    const Builtin *builtin; /* N_FILTER, N_TEST; NULL: unknown, an error if it runs */
};

/* The variables of one scope, known before the template runs. How each begins: */
typedef enum Load {
    LOAD_PARAMETER, /* set by whoever enters: loop targets, macro parameters */
    LOAD_INPUT,     /* from the template's input variables and global functions */
    LOAD_ALIAS,     /* a copy of an outer scope's variable */
    LOAD_UNDEFINED,
} Load;

typedef struct Symbol {
    Text name;
    Load load;
    int slot;
    int hops, outer_slot; /* LOAD_ALIAS */
    struct Symbol *next;
} Symbol;

struct Frame {
    Frame *parent;
    Symbol *symbols;
    int count;
};

struct Scope { /* a Frame at work */
    Scope *parent;
    Value *slots; /* [frame->count] */
};

/* ---- machine.c ---- */

struct Machine {
    struct Chunk *chunks; /* the arena */
    uint8_t *at, *end;
    size_t memory_left;
    size_t steps_left;
    size_t max_output;
    int depth;
    int line; /* of the statement at work, for errors */
    jmp_buf failed;
    Error *error;
    /* only while rendering */
    Dict *inputs;
    Builder *out;
    Value block_text; /* what the innermost filter of a block reads */
    struct tm now;
};

enum { MAX_DEPTH = 2400, MAX_PARSE_DEPTH = 150 };

void machine_free(Machine *m);
void *allocate(Machine *m, size_t size);                     /* zeroed */
void *allocate_array(Machine *m, size_t count, size_t size); /* zeroed */
#define NEW(m, Type) ((Type *)allocate(m, sizeof(Type)))
#define NEW_ARRAY(m, count, Type) ((Type *)allocate_array(m, count, sizeof(Type)))
void spend(Machine *m, size_t bytes);      /* pays for copying so many bytes, and one step */
void spend_slow(Machine *m, size_t bytes); /* the same for looking at each character */
void enter(Machine *m);                    /* one level of recursion deeper; pays a step */
static inline void leave(Machine *m) {
    m->depth--;
}

#define NORETURN __attribute__((noreturn)) /* cppcheck does not know C11's _Noreturn */

/* Fails with "line N: message"; fail_verbatim with the message alone. */
NORETURN void fail(Machine *m, const char *format, ...) PRINTF_LIKE(2, 3);
NORETURN void fail_verbatim(Machine *m, Text message);
NORETURN void fail_undefined(Machine *m, Value undefined);

/* ---- text.c ---- */

Text text_c(Machine *m, const char *s); /* a C string of the template's */
Text text_fill(Machine *m, const char *bytes, size_t length, uint8_t from_template);
Text text_cut(Text t, size_t from, size_t to); /* byte offsets */
bool text_is(Text t, const char *s);
bool text_equal(Text a, Text b);
int text_compare(Text a, Text b);
uint8_t text_from_template(Text t);                   /* FROM_TEMPLATE if all of it is */
uint32_t text_char(Text t, size_t at, size_t *size);  /* the code point at a byte offset */
size_t text_count(Machine *m, Text t);                /* code points */
size_t text_offset(Machine *m, Text t, size_t index); /* byte offset of the index-th code point */
/* Byte offset of the first (last) `needle` in [from, t.length], or SIZE_MAX. */
size_t text_find(Machine *m, Text t, Text needle, size_t from);
size_t text_find_last(Machine *m, Text t, Text needle);
bool text_starts(Text t, Text prefix);
bool text_ends(Text t, Text suffix);
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
Text text_strip(Machine *m, Text t, int sides);                           /* white space */
Text text_strip_chars(Machine *m, Text t, Text chars, int sides);         /* any of `chars` */
Text text_replace(Machine *m, Text t, Text old, Text new, int64_t count); /* -1: all */
Text text_escape(Machine *m, Text t);                                     /* HTML */

void build(Machine *m, Builder *b, Text t);
void build_bytes(Machine *m, Builder *b, const void *bytes, size_t length, uint8_t from_template);
void build_c(Machine *m, Builder *b, const char *s, uint8_t from_template);
void build_char(Machine *m, Builder *b, uint32_t c, uint8_t from_template);
void build_repeat(Machine *m, Builder *b, Text t, int64_t times);
Text built(const Builder *b);

/* ---- unicode.c ---- */

bool char_is_space(uint32_t c);
bool char_is_alpha(uint32_t c);
bool char_is_digit(uint32_t c);
bool char_is_numeric(uint32_t c);
bool char_is_lower(uint32_t c);
bool char_is_upper(uint32_t c); /* also title case */
bool char_is_word(uint32_t c);  /* \w */
bool char_is_printable(uint32_t c);
bool char_ends_line(uint32_t c); /* for splitlines */
typedef enum Case { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_FOLD } Case;
Text text_case(Machine *m, Text t, Case how); /* every character */
Text text_capitalize(Machine *m, Text t);
Text text_title(Machine *m, Text t); /* str.title() */

/* ---- value.c ---- */

static inline Value value_none(void) {
    return (Value){.type = V_NONE, .from_template = FROM_TEMPLATE};
}
static inline Value value_bool(bool b) {
    return (Value){.type = V_BOOL, .from_template = FROM_TEMPLATE, .as.integer = b};
}
static inline Value value_int(int64_t i) {
    return (Value){.type = V_INT, .from_template = FROM_TEMPLATE, .as.integer = i};
}
static inline Value value_float(double f) {
    return (Value){.type = V_FLOAT, .from_template = FROM_TEMPLATE, .as.real = f};
}
Value value_text(Machine *m, Text t);
Value value_markup(Machine *m, Text t);
Value value_like(Machine *m, Value model, Text t); /* markup if the model is */
Value value_list(Machine *m, ValueType type, Value *items, size_t count);
Value value_pair(Machine *m, Value a, Value b);
Value value_dict(Machine *m);
Value value_undefined(Machine *m, const char *hint, Value object, Value name);
const char *type_name(Value v); /* as Python calls it */
bool is_number(Value v);        /* int, float or bool */
bool is_integer(Value v);       /* int or bool */

bool truth(Machine *m, Value v);
bool equal(Machine *m, Value a, Value b);
bool same(Value a, Value b);                               /* `is` */
int compare(Machine *m, Value a, Value b, const char *op); /* < 0, 0, > 0; 2: unordered (NaN) */
bool contains(Machine *m, Value container, Value item);
bool has_length(Value v);
int64_t length(Machine *m, Value v);

uint64_t hash_key(Machine *m, Value key); /* fails where Python's hash() does */
bool hashable(Value key);
Value *dict_find(Machine *m, const Dict *d, Value key); /* NULL: not there */
void dict_set(Machine *m, Dict *d, Value key, Value value);
void dict_append(Machine *m, Dict *d, Value key, Value value); /* the key is known to be new */
void dict_update(Machine *m, Dict *d, const Args *args);       /* dict(*args, **kwargs) */

void build_str(Machine *m, Builder *b, Value v);  /* str(v) */
void build_repr(Machine *m, Builder *b, Value v); /* repr(v) */
Text to_text(Machine *m, Value v);                /* str(v) */
Text repr_text(Machine *m, Value v, bool ascii);

bool is_iterable(Value v);
Iter *iterate(Machine *m, Value v);
Iter *iterate_reversed(Machine *m, Value v); /* NULL where Python's reversed() fails */
bool next_item(Machine *m, Iter *it, Value *item);
Value value_iterator(Iter *it);
List collect(Machine *m, Value v); /* list(v) */

/* item, attribute: Jinja's a[b] and a.b; a missing one is V_UNDEFINED. */
Value get_item(Machine *m, Value object, Value key);
Value get_attr(Machine *m, Value object, Text name);
Value get_method(Machine *m, Value object, Text name); /* V_MISSING: has none */
Value get_slice(Machine *m, Value object, Value start, Value stop, Value step);

/* ---- number.c ---- */

Value arithmetic(Machine *m, char op, Value a, Value b);
Value negate(Machine *m, Value v);
double to_double(Value v);                 /* of a number */
int64_t to_index(Machine *m, Value v);     /* an int or bool; fails otherwise */
Value double_to_int(Machine *m, double f); /* truncates */
bool parse_int(Text t, int base, int64_t *value, bool *overflow);
bool parse_float(Machine *m, Text t, double *value);
enum { FLOAT_TEXT_SIZE = 400 };
int float_repr(double f, char text[static FLOAT_TEXT_SIZE]); /* returns the length */

/* ---- format.c ---- */

Text format_percent(Machine *m, Value format, Value values);
Text format_braces(Machine *m, Value format, const Args *args);

/* ---- json.c ---- */

Text to_json(Machine *m, Value v, bool ascii, Value indent, Value separators, bool sort_keys);

/* ---- filters.c tests.c methods.c globals.c ---- */

const Builtin *find_filter(Text name);
const Builtin *find_test(Text name);
const Builtin *find_method(Value object, Text name, bool *unsafe);
const Builtin *find_global(Text name);
Value call_builtin(Machine *m, const Builtin *f, Value self, const Args *args);
void sort_values(Machine *m, Value *keys, Value *items, size_t count, bool reverse);
Text format_time(Machine *m, Text format);

/* ---- lex.c parse.c scope.c eval.c ---- */

typedef enum TokenKind {
    T_DATA,
    T_PRINT_BEGIN,
    T_PRINT_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_CONST, /* value: a string, int or float */
    T_OPERATOR,
    T_END,
} TokenKind;

typedef struct Token {
    TokenKind kind;
    int line;
    Text text;
    Value value;
} Token;

/* All tokens of a template, T_END last. */
Token *lex(Machine *m, Text source, size_t *count);
Node *parse(Machine *m, Text source); /* statements, linked by next */
Frame *bind_names(Machine *m, Node *statements);
void run(Machine *m, const Node *statements, const Frame *frame); /* writes to m->out */
Value evaluate(Machine *m, const Node *node, Scope *scope);
Value call_value(Machine *m, Value callee, const Args *args);
Value loop_attr(Machine *m, Loop *loop, Text name); /* V_MISSING: no such attribute */
Text loop_recurse(Machine *m, Loop *loop, Value iterable);
int64_t loop_length(Machine *m, Loop *loop);

#endif
