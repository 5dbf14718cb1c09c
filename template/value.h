/* The types of values, which are Python's and Jinja's. */
#ifndef TEMPLATE_VALUE_H
#define TEMPLATE_VALUE_H

#include "template/jinja_text.h"

typedef enum ValueType {
    V_MISSING, /* no value: an argument that was not given, a variable that was not set */
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
    V_RANGE,    /* range(...), which is not a list: it prints as range(0, 3) */
    V_ITERATOR, /* Python's generator: can be read once */
    V_NAMESPACE,
    V_MACRO,
    V_LOOP,     /* the `loop` of a for statement */
    V_FUNCTION, /* a global function, or a method together with its object */
    V_CYCLER,
    V_JOINER,
} ValueType;

/* The operators of expressions; parser, arithmetic and comparison share them. */
typedef enum Operator {
    OP_NONE,
    OP_NOT,
    OP_ADD,      /* also the unary + */
    OP_SUBTRACT, /* also the unary - */
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR_DIVIDE,
    OP_MODULO,
    OP_POWER,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_AT_MOST,
    OP_GREATER,
    OP_AT_LEAST,
    OP_IN,
    OP_NOT_IN,
} Operator;

typedef struct Value Value;

struct Value {
    uint8_t type;
    uint8_t from_template; /* of numbers, None, True and containers; a text has its own flags */
    bool markup;      /* a string that |safe or |escape made: adding to it escapes the other side */
    bool is_group;    /* a tuple of |groupby: its items have the names `grouper` and `list` */
    uint32_t written; /* of a number: which of the machine's digits it is printed with, from 1 */
    union {
        int64_t integer; /* V_INT, and 0 or 1 for V_BOOL */
        double real;
        const Text *text;
        const struct List *list; /* V_LIST, V_TUPLE */
        struct Dict *dict;       /* V_DICT, V_NAMESPACE */
        const struct View *view;
        const struct Range *range;
        struct Iter *iter; /* iterate.h */
        const struct Undefined *undefined;
        const struct Macro *macro;
        struct Loop *loop; /* iterate.h */
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

typedef struct Dict { /* entries in the order of insertion */
    Entry *entries;
    size_t count, capacity;
} Dict;

typedef struct View {
    Value dict;
    enum { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } kind;
} View;

typedef struct Range {
    int64_t start, stop, step;
    size_t count;
} Range;

/* Says what is undefined, for the error of whoever uses the value. */
typedef struct Undefined {
    const char *hint; /* the whole message, or NULL */
    Value object;     /* the object that lacks `name`; V_MISSING: `name` is a variable */
    Value name;
} Undefined;

typedef struct Macro {
    Text name;               /* empty for the body of a call block */
    const struct Node *node; /* tree.h */
    struct Scope *scope;     /* where it was defined: eval.c */
} Macro;

typedef struct Function {
    Value self;                    /* V_MISSING for a global function */
    const struct Builtin *builtin; /* call.h */
} Function;

typedef struct Cycler {
    const List *items;
    size_t at;
} Cycler;

typedef struct Joiner {
    Value separator;
    bool used;
} Joiner;

static const Value none = {.type = V_NONE, .from_template = FROM_TEMPLATE};
static const Value missing = {.type = V_MISSING};

/* Values from the template; a caller that knows better sets `from_template`. */
static inline Value jinja_value_bool(bool b) {
    return (Value){.type = V_BOOL, .from_template = FROM_TEMPLATE, .as.integer = b};
}
static inline Value jinja_value_int(int64_t i) {
    return (Value){.type = V_INT, .from_template = FROM_TEMPLATE, .as.integer = i};
}
static inline Value jinja_value_float(double f) {
    return (Value){.type = V_FLOAT, .from_template = FROM_TEMPLATE, .as.real = f};
}
Value jinja_value_text(Machine *m, Text t);
Value jinja_value_markup(Machine *m, Text t);
Value jinja_value_like(Machine *m, Value model, Text t); /* markup if the model is */
Value jinja_value_list(Machine *m, ValueType type, Value *items, size_t count);
Value jinja_value_pair(Machine *m, Value a, Value b);
Value jinja_value_dict(Machine *m);
Value jinja_value_view(Machine *m, Value dict, int kind);
Value jinja_value_function(Machine *m, Value self, const struct Builtin *builtin);
Value jinja_value_undefined(Machine *m, const char *hint, Value object, Value name);

void jinja_list_append(Machine *m, List *list, size_t *capacity, Value item);

const char *jinja_operator_name(Operator op); /* as a template spells it */
const char *jinja_type_name(Value v);         /* as Python calls it */
bool jinja_is_number(Value v);                /* int, float or bool */
bool jinja_is_integer(Value v);               /* int or bool */
bool jinja_is_list(Value v);                  /* list or tuple */
bool jinja_has_length(Value v);

#endif
