/* The settings of a run that its answers depend on, as JSON under the names of the options.
 *
 * The values are those in effect, so that neither what a model's files recommend nor a default of
 * this version has to be the same when the run is repeated. */
#ifndef PROOF_SETTINGS_H
#define PROOF_SETTINGS_H

#include <jansson.h>
#include <time.h>

#include "session/session.h"

/* How a text of the user's is written down: in full, or keyed. Returns a new reference. */
typedef json_t *(*SettingText)(const void *context, const char *text, size_t length);

/* A new object with the settings in effect; NULL: no memory. `clock` (NULL: nothing asks) is the
 * time that chat templates see. */
json_t *settings_make(const Session *session, const GenerationOptions *options,
                      const struct tm *clock, SettingText text, const void *context);

/* The settings that a chat may change from answer to answer: the sampler's, with the seed.
 */
json_t *settings_of_sampling(const GenerationOptions *options);
Status settings_read_sampling(const json_t *settings, GenerationOptions *options, Error *error);

/* The first digits of a SHA-256 of all other settings, --chat-template and the numeric revision:
 * what the answers of a chat have in common. */
enum { SETTINGS_COMMON_HEX = 17 };
Status settings_common(const Session *session, const GenerationOptions *options,
                       char digest[SETTINGS_COMMON_HEX], Error *error);

/* Sets the options that the command line did not give; texts are borrowed from `settings`. Fails
 * for a setting that this version does not know. */
Status settings_apply(const json_t *settings, Options *options, Error *error);

/* Reads "clock"; false: there is none. */
bool settings_clock(const json_t *settings, struct tm *clock);

/* Reads the shape of answers; its kind is SHAPE_NONE where there is none, or where its text is
 * recorded as a keyed digest only (receipt.h). */
Status settings_shape(const json_t *settings, ShapeSource *shape, Error *error);

#endif
