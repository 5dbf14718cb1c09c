#include "modes/open/conversion_options.h"

#define FIELD(name) offsetof(ConversionOptions, name)

static const ConversionOptions unset;

static const OptionRow rows[] = {
    HEADING_ROW("Conversion: formats other than model.bin are converted once, before use"),
    TEXT_ROW(USUAL, 0, "type", "TYPE", FIELD(type),
             "f32 f16 bf16 bf16_act q8 q6 q5 q4m q4 q3 q2 auto"),
    TEXT_ROW(RARE, 'z', "tokenizer", "FILE", FIELD(tokenizer),
             "instead of the model's; .tiktoken: --split-pattern"),
    TEXT_ROW(RARE, 0, "split-pattern", "REGEX", FIELD(split_pattern), NULL),
    TEXT_ROW(RARE, 0, "family", "FILE", FIELD(family),
             "defines a new model_type; --families lists all"),
    {OPTION_TEXT, 0, "families", "NAME", FIELD(families), 0, 0, NULL, RARE, ""},
    TEXT_ROW(RARE, 0, "cache-dir", "DIR", FIELD(cache_dir),
             "cached conversions; none: off [~/.cache/verbatim]"),
    TEXT_ROW(RARE, 0, "cache-limit", "SIZE", FIELD(cache_limit), NULL),
    FLAG_ROW(USUAL, 0, "list", FIELD(list), "the models here; --cache-list, --cache-limit SIZE"),
    FLAG_ROW(RARE, 0, "cache-list", FIELD(cache_list), NULL),
    {OPTION_TEXT, 0, "cache-clear", "NAME", FIELD(cache_clear), 0, 0,
     "delete one conversion; without NAME all", RARE, ""},
    END_ROW,
};
const ModeOptions conversion_option_table = {rows, &unset, sizeof unset};

const ConversionOptions *conversion_options(const Options *options) {
    return options_of(options, &unset);
}

ConversionOptions *conversion_options_to_set(Options *options) {
    return options_to_set(options, &unset);
}
