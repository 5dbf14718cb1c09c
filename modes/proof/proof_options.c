#include "modes/proof/proof_options.h"

#define FIELD(name) offsetof(ProofOptions, name)

static const ProofOptions unset;

static const OptionRow check_rows[] = {
    TEXT_ROW(RARE, 0, "check", "FILE", FIELD(check), "compare the answers with those in FILE"),
    END_ROW,
};
const ModeOptions proof_check_option = {check_rows, &unset, sizeof unset};

static const OptionRow rows[] = {
    HEADING_ROW("Receipts (docs/receipts.md)"),
    TEXT_ROW(RARE, 0, "receipt", "FILE", FIELD(receipt),
             "record what is needed to reproduce the answers"),
    TEXT_ROW(RARE, 0, "replay", "RECEIPT", FIELD(replay), "compute them again and compare"),
    TEXT_ROW(RARE, 0, "receipt-key", "FILE", FIELD(receipt_key),
             "key to store prompts as keyed hashes, not as text"),
    FLAG_ROW(RARE, 0, "quiet", FIELD(quiet), "with --check, --replay: print only differences"),
    END_ROW,
};
const ModeOptions proof_option_table = {rows, &unset, sizeof unset};

const ProofOptions *proof_options(const Options *options) {
    return options_of(options, &unset);
}

ProofOptions *proof_options_to_set(Options *options) {
    return options_to_set(options, &unset);
}
