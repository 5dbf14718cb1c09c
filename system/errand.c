#include "system/errand.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/descriptor.h"
#include "system/helper_process.h"
#include "system/replace_file.h"

enum { FINISH = 'f', DROP = 'd' };

/* The reply: a byte for the Status, then the text of the Error until the end. */
static void reply(int to, Status status, const Error *error) {
    char byte = (char)status;
    descriptor_write(to, &byte, 1);
    if (status != STATUS_OK) descriptor_write(to, error->text, strlen(error->text));
}

static void serve(const ErrandJob *job, int from, int to) {
    const int kept[] = {job->descriptors[0], job->descriptors[1], from, to};
    const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE};
    setsid(); /* what kills the program's whole group should leave it to clean up */
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    descriptors_close_except(0, kept, sizeof kept / sizeof *kept);
    char word = DROP;
    ssize_t n;
    while ((n = read(from, &word, 1)) < 0 && errno == EINTR) {
    }
    Error error = {"the process that names files heard nothing"};
    Status status = n == 1 && word == FINISH ? job->finish(job->context, &error) : STATUS_FAILED;
    if (status != STATUS_OK) job->drop(job->context);
    reply(to, status, &error);
}

Status errand_start(Errand *errand, const ErrandJob *job, Error *error) {
    HelperProcess helper;
    *errand = (Errand){0};
    if (helper_process_start(&helper, "names files", error) != STATUS_OK) return STATUS_FAILED;
    if (helper.process == 0) {
        serve(job, helper.from, helper.to);
        _exit(0);
    }
    *errand = (Errand){helper.process, helper.to, helper.from};
    return STATUS_OK;
}

/* Gives the word and waits for the end of the reply, which is then in text[size]; the number of its
 * bytes. */
static size_t tell(Errand *errand, char word, char *text, size_t size) {
    size_t length = 0;
    /* Another process that was started later may hold this pipe open: closing alone says nothing.
     */
    descriptor_write(errand->to, &word, 1);
    close(errand->to);
    for (ssize_t n = 1; n != 0 && length < size;) {
        n = read(errand->from, text + length, size - length);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) length += (size_t)n;
    }
    struct pollfd end = {.fd = errand->from}; /* POLLHUP: the process has ended */
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    close(errand->from);
    waitpid(errand->process, NULL, 0); /* refused, and not needed, in the sandbox */
    *errand = (Errand){0};
    return length;
}

Status errand_finish(Errand *errand, Error *error) {
    char text[sizeof error->text + 1];
    if (errand->process == 0) return STATUS_OK;
    size_t length = tell(errand, FINISH, text, sizeof text - 1);
    if (length == 0) return error_set(error, "the process that names files has ended");
    text[length] = '\0';
    return text[0] == STATUS_OK ? STATUS_OK : error_set(error, "%s", text + 1);
}

void errand_drop(Errand *errand) {
    char text[2];
    if (errand->process != 0) tell(errand, DROP, text, sizeof text);
}

/* ---- Renaming ---- */

typedef struct Names {
    char *temporary;
    const char *path;
} Names;

static Status finish_rename(void *context, Error *error) {
    Names *names = context;
    return replace_file_rename(&names->temporary, names->path, error);
}

static void drop_rename(void *context) {
    Names *names = context;
    replace_file_discard(&names->temporary);
}

Status errand_start_rename(Errand *errand, const char *temporary, const char *path, Error *error) {
    Names names = {strdup(temporary), path};
    if (!names.temporary) return error_set(error, "%s: no memory for its name", path);
    const ErrandJob job = {finish_rename, drop_rename, &names, {-1, -1}};
    Status status = errand_start(errand, &job, error);
    free(names.temporary);
    return status;
}
