/* Files of strangers that are one JSON object, as Python may have written them, and members of
 * objects. */
#ifndef JSON_OBJECT_H
#define JSON_OBJECT_H

#include <jansson.h>

#include "base/status.h"

/* Parses a whole text, which must be an object; free it with json_decref. The Error names the path
 * and the line. */
Status json_parse(json_t **out, const char *path, const void *text, size_t bytes, Error *error);

/* Members of an object. A value that is NULL or not an object has no members, and a member that is
 * null counts as absent. */
const json_t *json_value(const json_t *object, const char *key); /* NULL: absent */
/* The value of the first of "KEY|OLDER_KEY" that the object has, if possible one that is not null;
 * NULL: it has none of them. "KEY.INNER" is a member of the object KEY. */
const json_t *json_first(const json_t *object, const char *keys);
double json_number(const json_t *object, const char *key, double absent);
const char *json_text(const json_t *object, const char *key); /* NULL: absent or not a text */
bool json_flag(const json_t *object, const char *key, bool absent);
/* The same of a switch of a model's class, where null is false whatever its absence means: classes
 * that take a null test it as Python's None. Of "KEY|OLDER_KEY" as json_first. */
bool json_switch(const json_t *object, const char *keys, bool absent);

#endif
