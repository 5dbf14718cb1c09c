#include "library/refused.h"

#include <stdatomic.h>

static atomic_ulong refused; /* one for the process, as memory is */

unsigned long library_refused(void) {
    return atomic_load(&refused);
}

#ifdef VERBATIM_SHARED
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void *library_noted(void *memory) {
    if (!memory) atomic_fetch_add(&refused, 1);
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

/* Functions of jansson that make a value, or -1 or NULL where memory is short. They fail for other
 * reasons, too (a text that is not UTF-8), which leave errno as it was. */
#define MAKER(type, name, parameters, arguments, fails)                                            \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        int before = errno;                                                                        \
        errno = 0;                                                                                 \
        type made = __real_##name arguments;                                                       \
        if (made == (fails) && errno == ENOMEM) atomic_fetch_add(&refused, 1);                     \
        errno = before;                                                                            \
        return made;                                                                               \
    }
MAKER(json_t *, json_object, (void), (), NULL)
MAKER(json_t *, json_array, (void), (), NULL)
MAKER(json_t *, json_string, (const char *text), (text), NULL)
MAKER(json_t *, json_stringn, (const char *text, size_t n), (text, n), NULL)
MAKER(json_t *, json_string_nocheck, (const char *text), (text), NULL)
MAKER(json_t *, json_stringn_nocheck, (const char *text, size_t n), (text, n), NULL)
MAKER(json_t *, json_integer, (json_int_t number), (number), NULL)
MAKER(json_t *, json_real, (double number), (number), NULL)
MAKER(json_t *, json_copy, (json_t * json), (json), NULL)
MAKER(json_t *, json_deep_copy, (const json_t *json), (json), NULL)
MAKER(json_t *, json_vsprintf, (const char *format, va_list list), (format, list), NULL)
MAKER(int, json_object_set_new, (json_t * object, const char *key, json_t *value),
      (object, key, value), -1)
MAKER(int, json_object_set_new_nocheck, (json_t * object, const char *key, json_t *value),
      (object, key, value), -1)
MAKER(int, json_object_update, (json_t * object, json_t *other), (object, other), -1)
MAKER(int, json_array_append_new, (json_t * array, json_t *value), (array, value), -1)
MAKER(int, json_array_insert_new, (json_t * array, size_t i, json_t *value), (array, i, value), -1)
MAKER(int, json_array_extend, (json_t * array, json_t *other), (array, other), -1)
MAKER(json_t *, json_vpack_ex,
      (json_error_t * error, size_t flags, const char *format, va_list list),
      (error, flags, format, list), NULL)
MAKER(char *, json_dumps, (const json_t *json, size_t flags), (json, flags), NULL)
MAKER(int, json_dump_callback,
      (const json_t *json, json_dump_callback_t callback, void *data, size_t flags),
      (json, callback, data, flags), -1)

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
