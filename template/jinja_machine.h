/* The machine that compiles or renders one template: its memory, its limits, and the way out of
 * errors. A template comes from a stranger's file, so everything that it can make grow is taken
 * from a budget, and running out of a budget is an ordinary error.
 *
 * jinja_fail leaves through one longjmp to chat_template.c. No function of the interpreter owns
 * anything but memory of the machine, so an error leaks nothing and needs no return value.
 *
 * The interpreter's files in the order in which they build on each other:
 *
 *     machine        memory, limits, errors
 *     characters     what Python's str knows of a character: white space, letter, printable ...
 *     text           strings that know of each byte whether the template wrote it; builders
 *     case           upper, lower and title case
 *     value          the types of values
 *     iterate        iteration, length and truth; the `loop` of a for statement
 *     print          str() and repr(); the message of an undefined value's error
 *     compare        equality, order and hashes; dicts; sorting
 *     number         numbers from values and from text
 *     call           arguments, and calling a built-in function
 *     access         a.b, a[b] and a[b:c]
 *     format         one field of '%5d' and '{:>5}'
 *     format_percent, format_braces   the whole strings
 *     arithmetic     + - * / // % **
 *     json           tojson
 *     filters, list_filters, tests, methods, globals   the built-in functions
 *     lex            template text to tokens (Jinja's white space control is all here)
 *     parse          tokens to a tree of nodes (tree.h)
 *     scope          which variable a name means, decided once, as jinja2's compiler does
 *     eval           statements write text, expressions give values
 *
 * Behaviour follows jinja2 3.1 (lexer.py, parser.py, idtracking.py, compiler.py, runtime.py,
 * filters.py, tests.py, sandbox.py) and CPython 3.11's built-in types. */
#ifndef TEMPLATE_JINJA_MACHINE_H
#define TEMPLATE_JINJA_MACHINE_H

#include "base/status.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* MAX_STEPS is about half a second of work. Depths count levels of recursion. */
enum {
    MAX_STEPS = 10000000,
    MAX_MEMORY = 256 << 20,
    MAX_DEPTH = 2400,
    MAX_PARSE_DEPTH = 150,
};

typedef struct Machine {
    struct Chunk *chunks; /* the arena: memory that is freed all at once */
    uint8_t *at, *end;    /* the unused part of the newest chunk */
    size_t memory_left;
    size_t steps_left;
    int depth; /* levels of recursion at the moment */
    int line;  /* of the statement being parsed or run, for errors */
    jmp_buf failed;
    Error *error;
    const struct Builtins *builtins; /* what templates can call: call.h */
    struct Rendering *rendering;     /* eval.c's state */
    struct tm now;                   /* what strftime_now() tells */
    const struct JsonDigits *digits; /* of the input's numbers (json/json_digits.h) */
    const char **written;            /* [n_written] the digits of numbers that are values */
    size_t n_written, written_capacity;
} Machine;

void jinja_machine_init(Machine *m, const struct Builtins *builtins, Error *error);
void jinja_machine_free(Machine *m);

/* Memory of the machine, zeroed; it lives until jinja_machine_free. */
void *jinja_allocate(Machine *m, size_t size);
void *jinja_allocate_array(Machine *m, size_t count, size_t size);
#define NEW(m, Type) ((Type *)jinja_allocate(m, sizeof(Type)))
#define NEW_ARRAY(m, count, Type) ((Type *)jinja_allocate_array(m, count, sizeof(Type)))

/* Makes room for `needed` items in the array that *array points to, of which `count` are in use:
 * base/array.h's array_reserve in memory of the machine. */
void jinja_reserve(Machine *m, void *array, size_t *capacity, size_t count, size_t needed,
                   size_t item_size);

void jinja_spend(Machine *m, size_t bytes);      /* pays for copying so many bytes, and one step */
void jinja_spend_slow(Machine *m, size_t bytes); /* the same for looking at each character */
void jinja_enter(Machine *m);                    /* one level of recursion deeper; pays a step */
static inline void jinja_leave(Machine *m) {
    m->depth--;
}

#define NORETURN __attribute__((noreturn)) /* cppcheck does not know C11's _Noreturn */

/* Fails with "chat template, line N: message"; jinja_fail_verbatim with the message alone. */
NORETURN void jinja_fail(Machine *m, const char *format, ...) PRINTF_LIKE(2, 3);
NORETURN void jinja_fail_verbatim(Machine *m, const void *message, size_t length);

#endif
