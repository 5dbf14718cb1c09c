/* A server on this machine that speaks the interface of the Hugging Face hub, for the tests of
 * ./get. It serves the directories ROOT/ORG/NAME and misbehaves as a model's NAME says:
 *
 *     cut      each answer ends after a third of the file
 *     mute     each answer ends before the first byte
 *     wrong    the last byte of each file is another
 *     whole    ranges are not answered; the whole file comes
 *     gated    asks for the token "hf_secret", and refuses to be told it by the files' host
 *     busy     answers 503 to the first question */
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
 * writes a line for each file that it was asked for: ORG/NAME/FILE, a space, the first byte. */
HubServer hub_server_start(const char *root, const char *log);
void hub_server_stop(HubServer *server);

#endif
