#include "measure/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/machine.h"
#include "measure/report_beside.h"
#include "measure/report_machine.h"
#include "measure/report_speed.h"
#include "measure/report_sums.h"
#include "measure/report_text.h"
#include "system/output.h"
#include "system/terminal.h"

enum { DIGITS = 6 }; /* of a measured figure */

/* Tells a person who waits what is done now. */
static void say_step(int step, const char *what) {
    if (isatty(STDERR_FILENO)) terminal_line(stderr, "%d of 3: %s", step, what);
}

/* Computes the sums and adds them to the report; `sums` keeps how many are other ones. */
static Status add_sums(const ReportOptions *options, json_t *report, ReportSums *sums,
                       Error *error) {
    int n_threads = options->n_threads ? (int)options->n_threads : machine_cores();
    json_t *member = json_object();
    *sums = (ReportSums){.stories = json_array(), .logits = json_array()};
    json_object_set_new(member, "stories", sums->stories);
    json_object_set_new(member, "logits", sums->logits);
    json_object_set_new(report, "sums", member);
    say_step(1, "the sums of stories");
    Status status = report_stories(sums, n_threads, options->quick, options->interrupted, error);
    if (status != STATUS_OK) return status;
    say_step(2, "the sums of logits: each type of weights with each instruction set");
    status = report_logits(sums, options->quick, options->interrupted, error);
    json_object_set_new(member, "n_stories", json_integer((json_int_t)sums->n_stories));
    json_object_set_new(member, "n_logits", json_integer((json_int_t)sums->n_logits));
    json_object_set_new(member, "n_other", json_integer((json_int_t)sums->n_other));
    json_object_set_new(member, "equal", json_boolean(sums->n_other == 0));
    if (sums->n_other) json_object_set_new(member, "other", json_string(sums->other));
    return status;
}

/* Measures everything. */
static Status make_report(const ReportOptions *options, json_t *report, ReportSums *sums,
                          Error *error) {
    double start = clock_seconds();
    json_object_set_new(report, "report", json_string("verbatim"));
    json_object_set_new(report, "format", json_integer(REPORT_FORMAT));
    json_object_set_new(report, "quick", json_boolean(options->quick));
    json_object_set_new(report, "program", report_program());
    json_object_set_new(report, "machine", report_machine());
    Status status = add_sums(options, report, sums, error);
    if (status != STATUS_OK) return status;
    say_step(3, "speeds; nothing else should run meanwhile");
    status = report_speeds(options, report, error);
    json_object_set_new(report, "seconds", json_real(round(clock_seconds() - start)));
    return status;
}

/* Writes the text for people, then the JSON. */
static Status write_report(const ReportOptions *options, Output *output, const json_t *report,
                           Error *error) {
    bool apart = options->path && strcmp(options->path, "-") != 0;
    size_t flags = JSON_REAL_PRECISION(DIGITS) | (options->path ? JSON_INDENT(1) : JSON_COMPACT);
    char *text = json_dumps(report, flags);
    if (!text) return error_set(error, "no memory for the report");
    bool to_stdout = apart || !options->path;
    report_text_print(to_stdout ? stdout : stderr, report);
    Status status = fflush(stdout) == 0 || !to_stdout
                        ? STATUS_OK
                        : error_set(error, "stdout: cannot be written: %m");
    Status written = output_write(output, text, strlen(text), error);
    if (written == STATUS_OK) written = output_write(output, "\n", 1, error);
    if (written == STATUS_OK) written = output_finish(output, error);
    free(text);
    return written != STATUS_OK ? written : status;
}

/* Opens the file before the measurements, so that one that cannot be written fails at once. */
static Status open_output(const ReportOptions *options, Output *output, Error *error) {
    struct stat there;
    const char *path = options->path && strcmp(options->path, "-") != 0 ? options->path : NULL;
    if (path && stat(path, &there) == 0 && S_ISREG(there.st_mode))
        return error_set(error, "%s: is there already, and a report replaces no file", path);
    return output_open(output, path, error);
}

Status report_make(const ReportOptions *options, Error *error) {
    Output output = {.fd = -1};
    ReportSums sums = {0};
    json_t *report = json_object();
    Status status = STATUS_OK;
    for (size_t i = 0; i < options->beside->n && status == STATUS_OK; i++)
        status = report_beside_check(options->beside->items[i], error);
    if (status == STATUS_OK) status = open_output(options, &output, error);
    if (status == STATUS_OK) status = make_report(options, report, &sums, error);
    if (status == STATUS_OK) status = write_report(options, &output, report, error);
    output_close(&output);
    json_decref(report);
    if (status == STATUS_OK && sums.n_other)
        return error_set(error, "other sums than verbatim's: %s", sums.other);
    return status;
}
