/* What a report says of the machine and of the program that runs on it. */
#ifndef MEASURE_REPORT_MACHINE_H
#define MEASURE_REPORT_MACHINE_H

#include <jansson.h>

/* {"version", "numeric_revision", "compiler", "libraries"} */
json_t *report_program(void);

/* {"processor", "architecture", "instruction_sets", "cores", "processors", "caches", "memory",
 * "kernel", "c_library"}; `cores` are those that this process may use. */
json_t *report_machine(void);

#endif
