/* A report as about ten lines of text, to paste. */
#ifndef MEASURE_REPORT_TEXT_H
#define MEASURE_REPORT_TEXT_H

#include <jansson.h>
#include <stdio.h>

/* Prints the lines of a report that report_make has made. */
void report_text_print(FILE *out, const json_t *report);

#endif
