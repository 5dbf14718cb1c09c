/* Errors, and arithmetic on untrusted sizes.
 *
 * A function that can fail returns a Status and, unless it returns STATUS_OK, has filled
 * one Error with what failed, where and why:
 *
 *     model.bin: tensor 'layers.3.wq': needs 4194304 bytes at offset 8392704, but the file
 *     ends at 9000000
 *
 * Only the programs' main files print an Error and exit. */
#ifndef STATUS_H
#define STATUS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum Status {
    STATUS_OK = 0,
    STATUS_FAILED = 1,       /* the Error says what, where and why */
    STATUS_USAGE = 2,        /* the command line is wrong */
    STATUS_LINES_FAILED = 3, /* a batch was completed, but some of its lines failed */
    STATUS_INTERRUPTED = 130 /* the user asked to stop */
} Status;

typedef struct Error {
    char text[1024]; /* NUL-terminated, without a final newline */
} Error;

#ifdef __GNUC__
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

/* Fills `error` (which may be NULL) and returns STATUS_FAILED, so that reporting a failure takes
 * one line: `return error_set(error, "%s: empty file", path);`. A text that is too long is cut
 * after a whole UTF-8 character. The arguments may point into error->text. */
Status error_set(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "context: " before the text of `error`, and returns STATUS_FAILED. */
Status error_prefix(Error *error, const char *format, ...) PRINTF_LIKE(2, 3);

/* size_add and size_mul store a + b and a * b and return true, or return false on overflow. */
static inline bool size_add(size_t a, size_t b, size_t *sum) {
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool size_mul(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

static inline size_t size_min(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b) {
    return a > b ? a : b;
}

/* `n` rounded up to a multiple of `step` (a power of two); n must be far from SIZE_MAX. */
static inline size_t round_up(size_t n, size_t step) {
    return (n + step - 1) & ~(step - 1);
}

#endif
