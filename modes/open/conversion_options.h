/* What options say of models in other formats and of their conversions. */
#ifndef CONVERSION_OPTIONS_H
#define CONVERSION_OPTIONS_H

#include "session/options.h"

typedef struct ConversionOptions {
    const char *tokenizer, *split_pattern;
    const char *family;    /* the page of a family that MODEL may be of */
    const char *families;  /* NULL: not asked; "": all */
    const char *type;      /* of the weights, where MODEL is converted first */
    const char *cache_dir; /* "none": conversions are made in memory */
    const char *cache_limit;
    bool list, cache_list;
    const char *cache_clear; /* the conversion to delete; "": all */
} ConversionOptions;

extern const ModeOptions conversion_option_table;

/* The ConversionOptions among the command line's options. */
const ConversionOptions *conversion_options(const Options *options);
ConversionOptions *conversion_options_to_set(Options *options);

#endif
