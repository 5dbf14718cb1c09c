/* Base64, as .tiktoken files and tokenizer.json use it. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

/* The value of a digit; -1: not one. */
static inline int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

#endif
