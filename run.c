/* The `run` program, told by its steps: read the command line, choose a mode, open what is named,
 * give up rights, parse, let the mode answer, close.
 *
 *     run [MODEL] [options]          docs/command-line.md
 *
 * How a prompt becomes text is told by decoder.c, from its first line to its last, and the forward
 * pass is model_forward in model.c. What is opened and closed here lies in modes/open/opened.c; the
 * modes and their options are listed by modes/modes.c, beginning with that of one text.
 */
#include <jansson.h>
#include <stdio.h>

#include "base/mapped.h"
#include "json/json_memory.h"
#include "modes/modes.h"
#include "modes/open/opened.h"
#include "ports/cluster/cluster.h"
#include "session/drafting.h"
#include "session/output_names.h"
#include "system/stack.h"
#include "system/standard_streams.h"
#include "system/stop_signals.h"
#include "system/terminal.h"

/* Reads the options and chooses the mode that they ask for. */
static Status read_command_line(Options *options, const Mode **mode, int argc, char **argv,
                                Error *error) {
    Status status = options_parse(options, &modes_options, argc, argv, error);
    if (status == STATUS_OK) status = drafting_check(options, error);
    if (status == STATUS_OK) status = mode_choose(modes, options, mode, error);
    if (status == STATUS_OK) status = output_names_check(options, error);
    return status;
}

/* Before anything reads JSON or a mapped file, and while files can be opened. */
static void guard_process(void) {
    mapped_watch();
    json_memory_guard();
    json_object_seed(0); /* from /dev/urandom, which the sandbox closes */
}

static Status answer(Opened *opened, Error *error) {
    Status status = opened_begin_answer(opened, error);
    if (status == STATUS_OK) status = opened->mode->run(opened->state, &opened->session, error);
    return opened_end_answer(opened, status, error);
}

static Status run(Options *options, const Mode *mode, Cluster *cluster,
                  volatile sig_atomic_t *interrupted, Error *error) {
    Opened opened;
    opened_init(&opened, options, mode, interrupted);
    opened.ranks = (Ranks){cluster_exchange(cluster), cluster_leads(cluster)};
    opened.session.cluster = cluster;
    opened.session.replay_kinds = modes_replay;
    if (mode->traits & MODE_WITHOUT_MODEL) return mode->run(NULL, &opened.session, error);
    Status status = opened_files(&opened, error);
    if (status == STATUS_OK) status = opened_give_up_rights(&opened, error);
    if (status == STATUS_OK) status = opened_parse(&opened, error);
    status = cluster_begin(cluster, &opened.session, status, error);
    if (status == STATUS_OK) status = answer(&opened, error);
    opened_close(&opened);
    return status;
}

/* Not inlined: its variables would be on the stack before main has looked at the limit. */
__attribute__((noinline)) static int start(int argc, char **argv) {
    Options options = {0};
    Error error = {.text = ""};
    const Mode *mode = NULL;
    Cluster *cluster = NULL;
    bool follows = true;
    Status status = cluster_join(&cluster, &argc, &argv, &follows, &error);
    if (!follows) {
        cluster_leave(cluster, &error);
        return STATUS_OK;
    }
    if (!cluster) standard_streams_only(argv); /* the descriptors of a cluster stay open */
    if (status == STATUS_OK) status = standard_streams_fill(&error);
    if (status == STATUS_OK) status = read_command_line(&options, &mode, argc, argv, &error);
    if (status == STATUS_OK) status = cluster_adapt(cluster, &options, &mode, &error);
    volatile sig_atomic_t *interrupted = stop_signals_catch(options.mode == TEXT_CHAT);
    guard_process();
    if (status == STATUS_OK) status = run(&options, mode, cluster, interrupted, &error);
    bool leads = cluster_leads(cluster);
    cluster_leave(cluster, &error);
    if (!leads) return STATUS_OK; /* rank 0 says how it ended */
    if (status == STATUS_INTERRUPTED)
        terminal_say("interrupted");
    else if (status != STATUS_OK)
        terminal_say("%s", error.text);
    options_free(&options);
    return stop_signals_exit_status(status);
}

int main(int argc, char **argv) {
    return stack_suffices() ? start(argc, argv) : STATUS_FAILED;
}
