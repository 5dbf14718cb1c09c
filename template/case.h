/* Upper, lower and title case of text, as Python's str has them. */
#ifndef TEMPLATE_CASE_H
#define TEMPLATE_CASE_H

#include "template/jinja_text.h"

typedef enum Case { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_FOLD } Case;

Text jinja_text_case(Machine *m, Text t, Case how); /* every character */
Text jinja_text_capitalize(Machine *m, Text t);
Text jinja_text_title(Machine *m, Text t);    /* str.title() */
bool jinja_text_is_lower(Machine *m, Text t); /* has letters, and all are lower case */
bool jinja_text_is_upper(Machine *m, Text t);

#endif
