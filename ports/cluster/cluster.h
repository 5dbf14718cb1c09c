/* Several processes, started by MPI, that compute one model together (`make mpi`).
 *
 * Rank 0 is the program: it reads the command line, prompts and files, samples, and writes. The
 * others follow it: they open the same model, keep their parts of its caches, and run the rows of
 * each model_forward of rank 0. In a build without MPI, and where one rank runs alone, there is no
 * cluster: NULL, with which all functions do nothing. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "session/mode.h"

typedef struct Cluster Cluster;

#ifdef VERBATIM_MPI
#define WITH_MPI(declaration, absent) declaration;
#else
#define WITH_MPI(declaration, absent)                                                              \
    static inline declaration {                                                                    \
        absent                                                                                     \
    }
#endif

/* Called first by main. Closes what the parent left open, and joins the other ranks. Those that
 * follow wait until rank 0 opens a model; *follows is false where it never does: then this process
 * has nothing to do but to leave. */
WITH_MPI(Status cluster_join(Cluster **out, int *argc, char ***argv, bool *follows, Error *error),
         (void)argc;
         (void)argv; (void)error; *out = NULL; *follows = true; return STATUS_OK;)

/* True for rank 0, which alone reads and writes for the user. */
WITH_MPI(bool cluster_leads(const Cluster *cluster), (void)cluster; return true;)

/* In a rank that follows: takes from the options what reads or writes, and replaces the mode. Fails
 * where the options ask for a sandbox that this MPI makes useless. */
WITH_MPI(Status cluster_adapt(Cluster *cluster, Options *options, const Mode **mode, Error *error),
         (void)cluster;
         (void)options; (void)mode; (void)error; return STATUS_OK;)

/* What model_open needs to divide a model. */
WITH_MPI(Exchange *cluster_exchange(Cluster *cluster), (void)cluster; return NULL;)

/* Called when the session's model is open, or could not be opened (`status`): compares the model,
 * the version and the options of all ranks. Fails on all ranks if one of them failed or differs;
 * rank 0's Error says which. */
WITH_MPI(Status cluster_begin(Cluster *cluster, Session *session, Status status, Error *error),
         (void)cluster;
         (void)session; (void)error; return status;)

/* Ends the ranks that follow, and leaves; after model_close. A rank that never came to
 * cluster_begin, because it does not understand what rank 0 does, ends all with its Error. */
WITH_MPI(void cluster_leave(Cluster *cluster, const Error *error), (void)cluster; (void)error;)

#endif
