/* jansson without memory. Its reader drops what it cannot store and then writes behind the
 * shorter buffer (2.14, lex_scan_string after strbuffer_append_byte failed), so that a NULL must
 * never reach it: when memory for JSON is refused, the program says so and ends with
 * status 1, from whatever thread. */
#ifndef JSON_MEMORY_H
#define JSON_MEMORY_H

/* Called once by a program's main, before any JSON is read. */
void json_memory_guard(void);

#endif
