#include "ports/cluster/rank.h"

#include <stdlib.h>

struct Rank {
    Exchange exchange; /* first: the model knows it alone */
    Wire *wire;
    Leader *leader;
    Shares *shares;
    Config *config; /* of the divided model */
    Divided divided;
    bool floats;
    size_t begun; /* passes */
};

static Status divide(Exchange *exchange, Model *model, Error *error) {
    Rank *rank = (Rank *)exchange;
    if (rank->shares) return error_set(error, "a rank divides one model");
    Status status = shares_new(&rank->shares, rank->wire, error);
    if (status != STATUS_OK) return status;
    return divide_model(model, rank->shares, rank->floats, &rank->config, &rank->divided, error);
}

static void rank_begin(Exchange *exchange, const ForwardPass *pass, bool fits) {
    Rank *rank = (Rank *)exchange;
    rank->begun++;
    if (rank->leader) leader_pass(rank->leader, pass, fits);
}

Status rank_new(Rank **out, Wire *wire, Error *error) {
    Rank *rank = calloc(1, sizeof *rank);
    if (!rank) return error_set(error, "no memory for a rank");
    rank->exchange.divide = divide;
    rank->exchange.begin = rank_begin;
    rank->wire = wire;
    if (wire_rank(wire) == 0) {
        Status status = leader_new(&rank->leader, wire, error);
        if (status != STATUS_OK) {
            free(rank);
            return status;
        }
        rank->exchange.mirror = leader_mirror(rank->leader);
    }
    *out = rank;
    return STATUS_OK;
}

void rank_free(Rank *rank) {
    if (!rank) return;
    leader_free(rank->leader);
    shares_free(rank->shares);
    free(rank->config);
    free(rank);
}

void rank_send_floats(Rank *rank) {
    rank->floats = true;
}
Exchange *rank_exchange(Rank *rank) {
    return &rank->exchange;
}
Leader *rank_leader(Rank *rank) {
    return rank->leader;
}
const Divided *rank_divided(const Rank *rank) {
    return &rank->divided;
}
const size_t *rank_begun(const Rank *rank) {
    return &rank->begun;
}
Observed *rank_observed(Rank *rank) {
    return shares_observed(rank->shares);
}
