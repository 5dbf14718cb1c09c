/* --check FILE of a conversation that --session or /save has kept: each answer that says how it was
 * made is given once more and compared with what stands in the file. */
#ifndef CHECK_SESSION_H
#define CHECK_SESSION_H

#include "session/mode.h"

extern const Mode check_session_mode;

#endif
