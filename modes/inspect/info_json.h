/* --info --json: what --info prints, as one JSON object for programs. */
#ifndef INFO_JSON_H
#define INFO_JSON_H

#include "session/session.h"

Status info_json_run(Session *session, Error *error);

#endif
