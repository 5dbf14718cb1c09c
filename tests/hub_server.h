/* A server on this machine that speaks the interface of the Hugging Face hub, for the tests of
 * ./get. It serves the directories ROOT/ORG/NAME and misbehaves as a model's NAME says:
 *
 *     cut      each answer ends after a third of the file
 *     mute     each answer ends before the first byte
 *     wrong    the last byte of each file is another
 *     whole    ranges are not answered; the whole file comes
 *     gated    asks for the token "hf_secret", and refuses to be told it by the files' host
 *     busy     answers 503 to the first question
 *     short    each file is a third shorter than the list says
 *     portal   each file is a page of 20 bytes, as of a hotel's network
 *     stump    ranges are not answered, and each answer ends in the middle
 *     crumbs   each answer has one byte
 *     endless  each file goes on after its listed size, up to 200 MiB
 *     flood    the list of files goes on so
 *     nested   the list of files is 80,000 lists in each other
 *     round    each page of the list names a next one
 *     glob     the address of the list's second page has a range in it that curl would expand
 *     later    answers 429, then 503 to questions for a file, and asks to wait for a second
 *     never    answers 503 to each question for a file
 *     tomorrow answers 503 to each question for a file, and asks to wait for a day
 *     long     its revision has 41 digits
 *     closed   answers 429 to every question, and asks to wait for a day
 *     ftp      leads to the files by another protocol
 *     planted  lists names that a stranger would like to have written
 *     spelled  sums are written as "sha256:" and in upper case
 *     size-*   of config.json the list has no size: 1000.0 (float), 008 (octal), 2^63 (huge) */
#ifndef HUB_SERVER_H
#define HUB_SERVER_H

#include <sys/types.h>

/* The revision that each of its models has, and the sum that git has for a file of "{}\n", which is
 * the only kind of file that it lists with git's sum; of all others it gives the SHA-256. */
#define HUB_REVISION "00000000000000000000000000000000000000aa"
#define HUB_EMPTY_OBJECT "0967ef424bce6791893e9a57bb952f80fd536e93"

typedef struct HubServer {
    pid_t process;
    char address[32]; /* http://127.0.0.1:PORT */
} HubServer;

/* Starts a server in a process of its own; end it with hub_server_stop. `log` is a file to which it
 * writes a line for each file that it was asked for: ORG/NAME/FILE, a space, the first byte. The
 * file LOG.connections gets a line for each connection. */
HubServer hub_server_start(const char *root, const char *log);
void hub_server_stop(HubServer *server);

#endif
