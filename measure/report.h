/* `bench --report`: what this machine is, whether it gives the bits that verbatim promises, and how
 * fast it is, as one JSON document and as ten lines of text.
 *
 *     {"report": "verbatim", "format": 1, ...}
 *
 * docs/benchmarks.md lists the members. A reader takes documents with the `format` that it knows: a
 * member may be added without a new number, but none changes its meaning. Nothing in a report names
 * the machine, its user or a folder. */
#ifndef MEASURE_REPORT_H
#define MEASURE_REPORT_H

#include "measure/report_options.h"

enum { REPORT_FORMAT = 1 };

/* Makes a report. STATUS_FAILED, after it was written, when a sum is not the known one. */
Status report_make(const ReportOptions *options, Error *error);

#endif
