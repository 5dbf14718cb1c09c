/* Calling the built-in functions: filters, tests, methods and global functions. */
#ifndef TEMPLATE_CALL_H
#define TEMPLATE_CALL_H

#include "template/iterate.h"
#include "template/number.h"

/* The arguments of one call. */
typedef struct Args {
    size_t count, n_keywords;
    Value *values;         /* [count] */
    Text *keywords;        /* [n_keywords] names */
    Value *keyword_values; /* [n_keywords] */
} Args;

/* A built-in function. `params` names the parameters after the first (the filtered value, the
 * tested value, or the method's object), separated by commas: `a[i]` is the i-th, V_MISSING where
 * the call left it out. '/' instead of a name: the parameter cannot be given by keyword. NULL
 * params: any arguments, and the function reads `args` itself. */
enum { MAX_PARAMS = 6 };
typedef struct Builtin {
    const char *name;
    Value (*call)(Machine *m, Value self, const Value *a, const Args *args);
    const char *params;
    int required; /* how many parameters must be given */
} Builtin;

/* The head of a built-in function, which need not use all of its parameters. */
#define UNUSED __attribute__((unused))
#define BUILTIN(name)                                                                              \
    Value name(UNUSED Machine *m, UNUSED Value self, UNUSED const Value *a, UNUSED const Args *args)

/* The built-in functions by name; NULL for an unknown name. The machine carries this table, so that
 * a function which looks up another by name (`map`, `select`, `is filter`) and a.b, which finds
 * methods, need not know the files that implement them. */
typedef struct Builtins {
    const Builtin *filters, *tests, *globals;
    /* *unsafe: the object has the method, but the sandbox forbids it. */
    const Builtin *(*method)(Value object, Text name, bool *unsafe);
} Builtins;

/* The function of this name in a table that ends with one without a name; NULL: none. */
const Builtin *jinja_find_builtin(const Builtin *table, Text name);

Value jinja_call_builtin(Machine *m, const Builtin *f, Value self, const Args *args);
const Value *jinja_find_keyword(const Args *args, Text name);  /* NULL: not given */
void jinja_dict_update(Machine *m, Dict *d, const Args *args); /* dict(*args, **kwargs) */
NORETURN void jinja_fail_unknown(Machine *m, const char *what,
                                 Text name); /* "No filter named ..." */

/* Optional arguments. */
static inline bool jinja_given(Value v) {
    return v.type != V_MISSING && v.type != V_NONE;
}
static inline bool jinja_flag(Machine *m, Value v) {
    return v.type != V_MISSING && jinja_truth(m, v);
}
static inline int64_t jinja_int_or(Machine *m, Value v, int64_t otherwise) {
    return v.type == V_MISSING ? otherwise : jinja_to_index(m, v);
}
static inline Value jinja_value_or(Value v, Value otherwise) {
    return v.type == V_MISSING ? otherwise : v;
}

#endif
