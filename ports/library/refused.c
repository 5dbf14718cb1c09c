#include "ports/library/refused.h"

#include "base/call_mode.h"

unsigned long library_refused(void) {
    atomic_ulong *counter = call_mode_setting().refused;
    return counter ? atomic_load(counter) : 0;
}

#ifdef VERBATIM_SHARED
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_reader.h"

static void note_refused(void) {
    atomic_ulong *counter = call_mode_setting().refused;
    if (counter) atomic_fetch_add(counter, 1);
}

static void *library_noted(void *memory) {
    if (!memory) note_refused();
    return memory;
}

/* The allocators of the C library that our code calls. */
#define ALLOCATOR(name, parameters, arguments)                                                     \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        return library_noted(__real_##name arguments);                                             \
    }
ALLOCATOR(malloc, (size_t n), (n))
ALLOCATOR(calloc, (size_t n, size_t each), (n, each))
ALLOCATOR(realloc, (void *old, size_t n), (old, n))
ALLOCATOR(aligned_alloc, (size_t alignment, size_t n), (alignment, n))
ALLOCATOR(strdup, (const char *text), (text))
ALLOCATOR(strndup, (const char *text, size_t n), (text, n))

/* Functions of jansson, and our reader on it, that allocate. They fail for other reasons, too (a
 * text that is not UTF-8), and json_dumps can succeed without the bytes that it had no memory for:
 * what tells is the errno of malloc. */
#define MAKER(type, name, parameters, arguments)                                                   \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        int before = errno;                                                                        \
        errno = 0;                                                                                 \
        type made = __real_##name arguments;                                                       \
        if (errno == ENOMEM) note_refused();                                                       \
        errno = before;                                                                            \
        return made;                                                                               \
    }
MAKER(json_t *, json_object, (void), ())
MAKER(json_t *, json_array, (void), ())
MAKER(json_t *, json_string, (const char *text), (text))
MAKER(json_t *, json_stringn, (const char *text, size_t n), (text, n))
MAKER(json_t *, json_string_nocheck, (const char *text), (text))
MAKER(json_t *, json_stringn_nocheck, (const char *text, size_t n), (text, n))
MAKER(json_t *, json_integer, (json_int_t number), (number))
MAKER(json_t *, json_real, (double number), (number))
MAKER(json_t *, json_copy, (json_t * json), (json))
MAKER(json_t *, json_deep_copy, (const json_t *json), (json))
MAKER(json_t *, json_vsprintf, (const char *format, va_list list), (format, list))
MAKER(int, json_object_set_new, (json_t * object, const char *key, json_t *value),
      (object, key, value))
MAKER(int, json_object_set_new_nocheck, (json_t * object, const char *key, json_t *value),
      (object, key, value))
MAKER(int, json_object_update, (json_t * object, json_t *other), (object, other))
MAKER(int, json_array_append_new, (json_t * array, json_t *value), (array, value))
MAKER(int, json_array_insert_new, (json_t * array, size_t i, json_t *value), (array, i, value))
MAKER(int, json_array_extend, (json_t * array, json_t *other), (array, other))
MAKER(json_t *, json_vpack_ex,
      (json_error_t * error, size_t flags, const char *format, va_list list),
      (error, flags, format, list))
MAKER(json_t *, json_reader_load,
      (const char *text, size_t length, size_t flags, json_error_t *where),
      (text, length, flags, where))
MAKER(json_t *, json_reader_load_digits,
      (const char *text, size_t length, size_t flags, JsonDigits *digits, json_error_t *where),
      (text, length, flags, digits, where))
MAKER(char *, json_dumps, (const json_t *json, size_t flags), (json, flags))
MAKER(int, json_dump_callback,
      (const json_t *json, json_dump_callback_t callback, void *data, size_t flags),
      (json, callback, data, flags))

json_t *__wrap_json_pack(const char *format, ...);
json_t *__wrap_json_pack(const char *format, ...) {
    va_list list;
    va_start(list, format);
    json_t *made = __wrap_json_vpack_ex(NULL, 0, format, list);
    va_end(list);
    return made;
}

json_t *__wrap_json_sprintf(const char *format, ...);
json_t *__wrap_json_sprintf(const char *format, ...) {
    va_list list;
    va_start(list, format);
    json_t *made = __wrap_json_vsprintf(format, list);
    va_end(list);
    return made;
}
#endif
