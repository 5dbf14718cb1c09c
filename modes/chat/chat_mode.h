/* -m chat: its options and its entry in the table of modes. */
#ifndef CHAT_MODE_H
#define CHAT_MODE_H

#include "session/mode.h"

extern const Mode chat_mode;

#endif
