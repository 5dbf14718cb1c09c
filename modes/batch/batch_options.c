#include "modes/batch/batch_options.h"

#define FIELD(name) offsetof(BatchOptions, name)

static const BatchOptions unset;

static const OptionRow rows[] = {
    FLAG_ROW(RARE, 0, "batch-text", FIELD(batch_text),
             "each line is a prompt; --csv, --csv-id: a table"),
    FLAG_ROW(RARE, 0, "csv", FIELD(csv), NULL),
    TEXT_ROW(RARE, 0, "csv-id", "COLUMN", FIELD(csv_id), NULL),
    FLAG_ROW(RARE, 0, "ordered", FIELD(ordered), "results in the order of the lines"),
    TEXT_ROW(RARE, 0, "shard", "I/N", FIELD(shard), "only part I of N of FILE; or slurm, mpi"),
    {OPTION_FLAG, 0, "merge", "PARTS...", FIELD(merge), 0, 0,
     "join the results of all parts of --batch FILE", RARE, NULL},
    FLAG_ROW(USUAL, 0, "resume", FIELD(resume), "continue the results in -o FILE"),
    FLAG_ROW(RARE, 0, "retry-failed", FIELD(retry_failed),
             "with --resume: retry lines that failed"),
    FLAG_ROW(RARE, 0, "strict", FIELD(strict),
             "stop at the first line that fails; --live, --logits"),
    FLAG_ROW(RARE, 0, "live", FIELD(live), NULL),
    TEXT_ROW(RARE, 0, "logits", "FILE", FIELD(logits), NULL),
    TEXT_ROW(RARE, 0, "kv-memory", "SIZE", FIELD(kv_memory),
             "KV cache size, like 4G [half of the free memory]"),
    UINT_ROW(RARE, 0, "max-concurrent", FIELD(max_concurrent), 1, 65536,
             "sequences decoded at once [>= 64, 32 a thread]"),
    END_ROW,
};
const ModeOptions batch_option_table = {rows, &unset, sizeof unset};

bool batch_takes_words(const Options *options) {
    return batch_options(options)->merge;
}

const BatchOptions *batch_options(const Options *options) {
    return options_of(options, &unset);
}

BatchOptions *batch_options_to_set(Options *options) {
    return options_to_set(options, &unset);
}
