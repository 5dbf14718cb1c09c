/* A directory with a small model, and a person who uses it at a terminal. */
#ifndef TESTS_CHAT_PERSON_H
#define TESTS_CHAT_PERSON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* ---- What the chat's tests begin with ---- */

/* A new directory, in which the chat also finds its history, and the model in it. */
typedef struct ChatHome {
    char *directory, *model;
} ChatHome;

extern ChatHome chat_home;

/* The setup and teardown of a group of tests: make and remove chat_home. */
int chat_home_make(void **state);
int chat_home_remove(void **state);

/* The path of `name` in the directory; malloc'ed. */
char *chat_inside(const char *name);

/* Fails the test when `line` is not in the file of a session. */
void chat_assert_said(const char *session, const char *line);

/* ---- A person at a terminal ---- */

typedef struct Person {
    pid_t process;
    int terminal;
    char screen[1 << 16]; /* everything that was written so far */
    size_t length, seen;  /* bytes on the screen; bytes that person_expect has passed */
} Person;

/* Starts a chat in a terminal of 80 x 24; `arguments` end in NULL. */
Person *person_sit_down(const char *const *arguments);
#define SIT_DOWN(...) person_sit_down((const char *const[]){__VA_ARGS__, NULL})

/* Reads what the program writes within so many milliseconds; false: nothing. */
bool person_read_more(Person *person, int milliseconds);

/* Waits until `text`, of which a blank may be the end of a line, appears after what was seen
 * before; fails the test when it does not. */
void person_expect(Person *person, const char *text);

/* Waits until the screen no longer changes: what is redrawn after a key that clears the line, and
 * how, varies. */
void person_wait_until_quiet(Person *person);

/* Types the text in pieces, and reads the screen between them: a terminal's queues are short. */
void person_type(Person *person, const char *text);

/* Whether the program has ended. */
bool person_ended(const Person *person);

/* Waits for the end of the program, frees the person and returns the program's exit status. */
int person_stand_up(Person *person);

/* The same after pressing Ctrl-D at the prompt until the program ends: a key is lost when it is
 * pressed while the terminal changes its mode. */
int person_leave(Person *person);

/* Counts the seconds that a test waits, without those in which the test itself was stopped (as on a
 * machine that is being measured). */
typedef struct Patience {
    time_t last;
    int seconds;
} Patience;

bool patience_ends(Patience *patience);

#endif
