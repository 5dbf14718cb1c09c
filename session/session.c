#include "session/session.h"

#include <stdio.h>

#include "system/terminal.h"

ModelOptions session_model_options(const Session *session) {
    return (ModelOptions){.isa = session->isa,
                          .n_threads = session->n_threads,
                          .context = (uint32_t)session->options->context,
                          .max_rows = (uint32_t)session->options->chunk};
}

KvType session_kv_type(const Model *model, KvChoice choice) {
    static const KvType types[] = {[KV_CHOICE_F32] = KV_F32,
                                   [KV_CHOICE_F16] = KV_F16,
                                   [KV_CHOICE_BF16] = KV_BF16,
                                   [KV_CHOICE_Q8] = KV_Q8};
    return choice == KV_CHOICE_AUTO ? model_kv_type(model) : types[choice];
}

void session_progress(const Session *session, const char *what, uint64_t done, uint64_t total) {
    if (!session->shows_progress) return;
    terminal_code(stderr, TERMINAL_CLEAR_LINE);
    if (total > 0) {
        terminal_print(stderr, "%s ", what);
        terminal_bar(stderr, 30, done, total);
        terminal_print(stderr, " %.0f%%", 100.0 * (double)done / (double)total);
    }
    fflush(stderr);
}
