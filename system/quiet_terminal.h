/* A terminal that does not echo what is typed while a program writes: typed-ahead text would stand
 * in the middle of an answer, and would stand at the prompt once more when a line editor reads it.
 *
 * Ctrl-C and Ctrl-Z work as usual. A program that is stopped by Ctrl-Z leaves the terminal as it
 * was, because not every shell sets its own modes then. */
#ifndef QUIET_TERMINAL_H
#define QUIET_TERMINAL_H

/* Switches the echo of stdin's terminal off until quiet_terminal_end or the program's exit. Nothing
 * happens when stdin is not a terminal, echoes nothing already, or is used by another program now.
 */
void quiet_terminal_begin(void);
void quiet_terminal_end(void);

#endif
