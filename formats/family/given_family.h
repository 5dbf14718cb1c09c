/* A family that no program knows: the page that --family names, or for an own_transformer the file
 * verbatim.family in its directory. No other directory brings a family with it, and no page
 * redefines one of the program. */
#ifndef FORMATS_FAMILY_GIVEN_FAMILY_H
#define FORMATS_FAMILY_GIVEN_FAMILY_H

#include "formats/family/family.h"

#define GIVEN_FAMILY_FILE "verbatim.family"

/* Opens the file for a source that is open; NULL: none. A model.bin cannot have one. */
Status given_family_open(Source *source, const char *path, Error *error);

/* *family = what the user's page says, NULL where there is none. The page is read once; that it was
 * used is kept with the source: its digest in the metadata, and a note. */
Status given_family_read(Source *source, const Family **family, Error *error);

/* *family = what the file in the source's directory says; NULL: there is no such file. */
Status given_family_of_directory(Source *source, const Family **family, Error *error);

#endif
