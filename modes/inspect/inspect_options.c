#include "modes/inspect/inspect_options.h"

#define FIELD(name) offsetof(InspectOptions, name)

static const InspectOptions unset;

static const OptionRow rows[] = {
    HEADING_ROW("Instead of generating text"),
    {OPTION_WORD, 0, "info", "usual|all", FIELD(info), 0, 0,
     "what is set (--info all: all); --layers: formulas", USUAL, "usual"},
    FLAG_ROW(RARE, 0, "layers", FIELD(layers), NULL),
    FLAG_ROW(USUAL, 0, "verify", FIELD(verify), "check the model file: checksums and weights"),
    FLAG_ROW(USUAL, 0, "tokenize", FIELD(tokenize),
             "token ids of -i, -f or stdin; --detokenize --render"),
    FLAG_ROW(RARE, 0, "bug-report", FIELD(bug_report), NULL),
    FLAG_ROW(RARE, 0, "detokenize", FIELD(detokenize), NULL),
    FLAG_ROW(RARE, 0, "render", FIELD(render), NULL),
    TEXT_ROW(USUAL, 0, "eval", "FILE", FIELD(eval),
             "perplexity of a text; --limit N: its first tokens"),
    UINT_ROW(RARE, 0, "limit", FIELD(limit), 2, 1e12, NULL),
    TEXT_ROW(RARE, 0, "eval-tasks", "FILE", FIELD(eval_tasks),
             "accuracy on multiple-choice questions, JSON lines"),
    TEXT_ROW(RARE, 0, "against", "MODEL", FIELD(against),
             "compare with it (--why): --eval, --eval-tasks or -i"),
    FLAG_ROW(RARE, 0, "why", FIELD(why), NULL),
    HEADING_ROW("Seeing inside (docs/seeing-inside.md)"),
    TEXT_ROW(RARE, 0, "attention", "OUT", FIELD(attention),
             "attention: .svg .html .json - L.HEAD scores ranks"),
    CHOICE_ROW(RARE, 0, "score", "no|table|json", FIELD(score), NULL,
               "each token's log-probability [no]"),
    UINT_ROW(RARE, 0, "trace", FIELD(trace), 1, 1000,
             "how tokens are chosen: the N likeliest, the draw"),
    TEXT_ROW(RARE, 0, "positions", "OUT", FIELD(positions),
             "the positional encoding: .svg table; --no-cache"),
    UINT_ROW(RARE, 0, "layer", FIELD(layer), 0, 1e6,
             "draw activations at token --position P; -o OUT.svg"),
    UINT_ROW(RARE, 0, "position", FIELD(position), 0, 1e9, NULL),
    FLAG_ROW(RARE, 0, "no-cache", FIELD(no_cache), NULL),
    END_ROW,
};
const ModeOptions inspect_option_table = {rows, &unset, sizeof unset};

static const OptionRow shape_test_rows[] = {
    TEXT_ROW(RARE, 0, "shape-test", "FILE", FIELD(shape_test), "check each line against the shape"),
    END_ROW,
};
const ModeOptions inspect_shape_test_option = {shape_test_rows, &unset, sizeof unset};

const InspectOptions *inspect_options(const Options *options) {
    return options_of(options, &unset);
}

InspectOptions *inspect_options_to_set(Options *options) {
    return options_to_set(options, &unset);
}
