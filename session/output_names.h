/* The files that a command line writes beside those that it reads: a result never replaces what the
 * same command reads, a model, a conversation, or the results of a batch; a receipt is replaced by
 * another receipt alone. */
#ifndef OUTPUT_NAMES_H
#define OUTPUT_NAMES_H

#include "session/options.h"

/* Looks at the files of -o, --receipt, --logits and pictures before anything is opened, once the
 * mode has checked its options (mode_choose). STATUS_USAGE and an Error that names the file and the
 * option which reads it. The file of --check may be that of -o, which accepts what is new. */
Status output_names_check(const Options *o, Error *error);

#endif
