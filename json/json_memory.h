/* Ending the program when jansson runs out of memory. jansson's reader must never see a failed
 * allocation: it drops the byte that it could not store and then writes past the end of the shorter
 * buffer (2.14, lex_scan_string after strbuffer_append_byte failed). */
#ifndef JSON_MEMORY_H
#define JSON_MEMORY_H

/* Called once by a program's main, before any JSON is read. From then on, when memory for JSON is
 * refused in any thread, the program says so and exits with status 1. */
void json_memory_guard(void);

/* Where the program has called json_memory_guard, ends it in the same way: memory for a part of a
 * JSON text was refused elsewhere. */
void json_memory_refused(void);

#endif
