/* The tree of a template. parse.c makes it, scope.c binds its names, eval.c runs it. */
#ifndef TEMPLATE_TREE_H
#define TEMPLATE_TREE_H

#include "template/value.h"

typedef struct Node Node;
typedef struct Frame Frame;

typedef enum NodeKind {
    /* Expressions. The comment of each kind names the members of Node that it uses; `items`, `body`
     * and `orelse` are lists linked by `next`. */
    N_CONST,    /* value */
    N_NAME,     /* text; hops, slot */
    N_LIST,     /* items */
    N_TUPLE,    /* items */
    N_DICT,     /* items: key, value, key, value ... */
    N_UNARY,    /* op (OP_NOT, OP_ADD, OP_SUBTRACT); first */
    N_BINARY,   /* op; first, second */
    N_AND,      /* first, second */
    N_OR,       /* first, second */
    N_CONCAT,   /* items */
    N_COMPARE,  /* first; items: N_OPERAND */
    N_OPERAND,  /* op; first */
    N_COND,     /* first if second else third (or NULL) */
    N_ATTR,     /* first . text */
    N_ITEM,     /* first [ second ] */
    N_SLICE,    /* first [ items: start, stop, step ] */
    N_CALL,     /* first ( items ) */
    N_FILTER,   /* first | text ( items ); first is NULL for the text of a block */
    N_TEST,     /* first is text ( items ) */
    N_KEYWORD,  /* among the items of a call: text = first */
    N_STAR,     /* among the items of a call: *first */
    N_STARSTAR, /* among the items of a call: **first */
    /* Statements. */
    N_DATA,      /* value */
    N_PRINT,     /* items */
    N_FOR,       /* for first in second if third: body else orelse; frame, test_frame, else_frame */
    N_IF,        /* if first: body, else orelse (an elif is an N_IF alone in orelse) */
    N_SET,       /* first = second */
    N_SET_BLOCK, /* first = body, filtered by second (an N_FILTER or NULL); frame */
    N_MACRO,     /* text(items: N_PARAM): body; frame */
    N_PARAM,     /* text; first: the default or NULL */
    N_CALL_BLOCK,   /* first: the call; items: N_PARAM; body; frame */
    N_FILTER_BLOCK, /* body, filtered by second; frame */
    N_WITH,         /* items: N_SET; body; frame */
    N_GENERATION,   /* body; frame */
    N_BREAK,
    N_CONTINUE,
    N_NSREF, /* the target of a set: text . value */
} NodeKind;

struct Node {
    uint8_t kind;
    uint8_t op;                                  /* an Operator */
    bool store;                                  /* N_NAME: assigned to, not read */
    bool recursive;                              /* N_FOR */
    bool uses_caller, uses_kwargs, uses_varargs; /* N_MACRO, N_CALL_BLOCK */
    int line;
    int hops, slot; /* of a name: how many scopes out, and which variable of that scope */
    int caller_slot, kwargs_slot, varargs_slot; /* of a macro, where used */
    Text text;
    Value value;
    Node *next;
    Node *first, *second, *third;
    Node *items, *body, *orelse;
    Frame *frame, *test_frame, *else_frame;
    const struct Builtin
        *builtin; /* N_FILTER, N_TEST; NULL: the name is unknown, an error if it runs */
};

/* Where a variable gets its first value from when its scope begins. */
typedef enum Load {
    LOAD_PARAMETER, /* set by the statement that opens the scope: loop targets, macro parameters */
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

/* The variables of one scope, known before the template runs. */
struct Frame {
    Frame *parent;
    Symbol *symbols;
    int count;
};

#endif
