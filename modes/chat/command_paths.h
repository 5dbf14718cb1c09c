/* The names of files as people type them after /save and /load. */
#ifndef COMMAND_PATHS_H
#define COMMAND_PATHS_H

/* The path that `typed` names: without the quotes around it, '...' or "..." (the closing quote may
 * be missing), and, where no single quote begins it, with $HOME for a leading ~ or ~/. Blanks need
 * no quotes. malloc'ed; NULL: no memory. */
char *command_path(const char *typed);

#endif
