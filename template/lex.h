/* Template text to tokens. */
#ifndef TEMPLATE_LEX_H
#define TEMPLATE_LEX_H

#include "template/value.h"

typedef enum TokenKind {
    T_DATA,        /* text outside tags */
    T_PRINT_BEGIN, /* {{ */
    T_PRINT_END,   /* }} */
    T_BLOCK_BEGIN, /* {% */
    T_BLOCK_END,   /* %} */
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
Token *jinja_lex(Machine *m, Text source);

#endif
