/* Messages between the processes ("ranks") of a cluster, over MPI. The only module that knows MPI.
 *
 * All ranks make the same calls in the same order. A wait gives the processor to others after a
 * while, so that ranks may be more than processors. There is no status: a call that fails, because
 * another rank has died, ends all ranks with one line. A rank that others wait for is named after a
 * minute, and ends all after ten; the environment's VERBATIM_RANK_TIMEOUT has other seconds than
 * 600. Only the thread that opened the wire may use it. */
#ifndef CLUSTER_WIRE_H
#define CLUSTER_WIRE_H

#include <stddef.h>

#include "base/status.h"

typedef struct Wire Wire;

/* Joins the other ranks, makes all connections that the calls below need, and lets go of the
 * program that started the ranks (starter.h). MPI may take words of its own out of argv. */
Status wire_open(Wire **out, int *argc, char ***argv, Error *error);
/* Leaves; all ranks must. */
void wire_close(Wire *wire);

/* True where a connection to the program that started the ranks stays open, because this MPI cannot
 * do without it: no sandbox holds then. */
bool wire_is_tied(const Wire *wire);

size_t wire_rank(const Wire *wire);
size_t wire_ranks(const Wire *wire);
/* "rank 2 (its machine's name)", for errors. */
const char *wire_name(const Wire *wire);

/* What this rank has exchanged since wire_open: broadcasts and gathers, the bytes that the others
 * sent it in them, and the seconds until they were there, which include waiting for slower ranks.
 */
typedef struct WireTraffic {
    double exchanges, bytes, seconds;
} WireTraffic;
WireTraffic wire_traffic(const Wire *wire);

/* whole[firsts[r]] and the counts[r] - 1 numbers after it become rank r's numbers, on all ranks;
 * `own` are this rank's, or NULL: they stand in their place already. */
void wire_gather(Wire *wire, const float *own, float *whole, const int *counts, const int *firsts);

/* all[r][bytes] = own[bytes] of rank r. Waits as long as it takes: ranks may be opening files. */
void wire_gather_bytes(Wire *wire, const void *own, size_t bytes, void *all);

/* Rank 0 gives data[bytes] to all others, which wait for it as long as it takes. */
void wire_broadcast(Wire *wire, void *data, size_t bytes);

/* Says why on stderr and ends all ranks. */
_Noreturn void wire_fail(Wire *wire, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
