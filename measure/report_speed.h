/* The speeds of a report: the machine's limits, the standard model's figures, and other programs'
 * beside them. */
#ifndef MEASURE_REPORT_SPEED_H
#define MEASURE_REPORT_SPEED_H

#include <jansson.h>

#include "measure/report_options.h"

/* Adds "limits" {"threads", "instruction_set", "read_bandwidth", "peak_fma", "peak_dot"}, "model"
 * {"shape", "type", "bytes"}, "speed" [{"what", "batch", "position", "tokens_per_second", "rate",
 * "share", "limit"}] and "beside" [{"program", "rounds", "decode", "prefill"}] to the report. Rates
 * are bytes or operations a second. */
Status report_speeds(const ReportOptions *options, json_t *report, Error *error);

#endif
