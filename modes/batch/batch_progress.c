#include "modes/batch/batch_progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kvcache/kvcache_sizes.h"
#include "session/drafting.h"
#include "system/disk_reads.h"
#include "system/peak_memory.h"
#include "system/terminal.h"

/* Estimates that the remaining lines take as long as this run's lines did on average. */
static void write_time_left(const BatchProgress *p, double elapsed, char text[40]) {
    size_t by_now = p->n_done - p->n_before;
    text[0] = '\0';
    if (p->total <= p->n_done || by_now == 0) return;
    double seconds = elapsed / (double)by_now * (double)(p->total - p->n_done);
    if (seconds < 3600.0) {
        snprintf(text, 40, ", %d:%02d left", (int)seconds / 60, (int)seconds % 60);
    } else {
        snprintf(text, 40, ", %.1f h left", seconds / 3600.0);
    }
}

/* A line that reached the margin would go on below, and could not be drawn over: the bar becomes
 * shorter, or the line is cut. */
static void show_line(const BatchProgress *p, const char *text) {
    enum { SHORTEST = 5, LONGEST = 20, AROUND = 3 /* brackets and a space */ };
    int columns = (int)terminal_columns(STDERR_FILENO), length = (int)strlen(text);
    int room = columns ? columns - 1 : 1000, bar = room - length - AROUND;
    terminal_code(stderr, TERMINAL_CLEAR_LINE);
    if (p->total && bar >= SHORTEST) {
        terminal_bar(stderr, bar < LONGEST ? bar : LONGEST, p->n_done, p->total);
        terminal_print(stderr, " ");
    }
    terminal_print(stderr, "%.*s", room, text);
    fflush(stderr);
}

void batch_progress_show(BatchProgress *p, bool last) {
    if (!p->session->shows_progress || p->on_results) return;
    double now = clock_seconds(), elapsed = now - p->start;
    if (!last && now - p->shown < 0.1) return;
    p->shown = now;
    if (last) {
        terminal_code(stderr, TERMINAL_CLEAR_LINE);
        return;
    }
    EngineStats stats = engine_stats(p->engine);
    char of[32] = " done", failed[32] = "", left[40], text[256];
    if (p->total) snprintf(of, sizeof of, " of %zu", p->total);
    if (p->n_failed) snprintf(failed, sizeof failed, ", %zu failed", p->n_failed);
    write_time_left(p, elapsed, left);
    snprintf(text, sizeof text, "%zu%s%s%s, tokens/s: %.0f prefill, %.0f decode", p->n_done, of,
             failed, left, (double)stats.prompt_rows / fmax(elapsed, 1e-3),
             (double)stats.decode_rows / fmax(elapsed, 1e-3));
    show_line(p, text);
}

void batch_progress_stats(const BatchProgress *p, size_t kv_bytes, const char *fingerprint) {
    EngineStats s = engine_stats(p->engine);
    double seconds = fmax(clock_seconds() - p->start, 1e-9);
    terminal_print(stderr, "lines:   %zu answered, %zu by an earlier run, %zu failed\n",
                   p->n_done - p->n_before, p->n_before, p->n_failed);
    terminal_print(stderr, "time:    %.3f s, %.1f lines/s\n", seconds,
                   (double)(p->n_done - p->n_before) / seconds);
    terminal_print(stderr, "prefill: %zu tokens computed, %zu shared, %.1f tokens/s\n",
                   s.prompt_rows, s.shared_rows, (double)s.prompt_rows / seconds);
    terminal_print(stderr, "decode:  %zu tokens, %.1f tokens/s\n", p->n_generated,
                   (double)p->n_generated / seconds);
    terminal_print(
        stderr, "batch:   %zu texts at once at most, %zu passes, %zu times a text was set aside\n",
        s.most_tasks, s.passes, s.set_aside);
    drafting_print(stderr, p->session->drafting);
    terminal_print(stderr,
                   "memory:  %.1f MiB at most, %.1f MiB of them KV cache (allowed: %.1f MiB)\n",
                   peak_memory_mib(p->session->peak_memory_fd), (double)s.most_bytes / (1 << 20),
                   (double)kv_bytes / (1 << 20));
    disk_reads_print(0.0, s.passes, "pass");
    if (kvcache_forgets(kvcache_shape(engine_cache(p->engine))))
        terminal_print(
            stderr, "cache:   %.1f MiB at most for texts, %.1f MiB at most for snapshots\n",
            (double)s.most_text_bytes / (1 << 20), (double)s.most_snapshot_bytes / (1 << 20));
    terminal_print(stderr, "sandbox: %s\n", sandbox_text(&p->session->sandbox));
    terminal_print(stderr, "model:   %s\n", fingerprint);
}
