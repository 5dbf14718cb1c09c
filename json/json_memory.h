/* Ending the program when jansson runs out of memory. Much code that makes and writes JSON checks
 * no call for a lack of memory, and jansson's json_dumps can succeed without the bytes that it had
 * no memory for (2.14): the alternative to ending is a text that lacks a part. The allocators are
 * the process's, so a library cannot set them; ports/library/refused.h says what it does. */
#ifndef JSON_MEMORY_H
#define JSON_MEMORY_H

/* Called once by a program's main, before any JSON is read. From then on, when memory for JSON is
 * refused in any thread, the program says so and exits with status 1. */
void json_memory_guard(void);

/* Where the program has called json_memory_guard, ends it in the same way: memory for a part of a
 * JSON text was refused elsewhere. */
void json_memory_refused(void);

#endif
