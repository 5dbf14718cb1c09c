/* What drafts cost and what they gain: the cost model by which a DrafterSet decides who drafts and
 * how much, and all of its constants.
 *
 * Everything is counted in tokens' times: 1 is the time of one token of plain decoding, as measured
 * in this text (pass_costs.h). A draft of m tokens, each right with probability p after right ones,
 * gives 1 + p + ... + p^m tokens and costs a pass of 1 + m rows and m steps of its drafter. What is
 * not measured yet is guessed, so that a first draft can be weighed; a guess lasts for one draft.
 */
#ifndef DRAFT_ECONOMICS_H
#define DRAFT_ECONOMICS_H

#include "draft/drafter.h"

/* ---- Risk: what drafters may lose ---- */

/* Granted without having been earned: to all kinds together at first, to a kind whose tokens are
 * seldom wrong before its first draft, and to a record with each text. It pays one short draft. */
#define DRAFT_GRANT 0.5

/* Granted to all kinds together with each token, and so the most by which drafters that are always
 * wrong slow a long text down: half a percent, less than two runs of a text differ. */
#define DRAFT_RATE 0.005

/* What one account holds at most: so much loses a drafter that was right for long and is wrong from
 * now on. The account of a record belongs to all texts of a batch at once. */
#define DRAFT_MOST_BALANCE 8.0
#define DRAFT_RECORDED_BALANCE (DRAFT_MOST_BALANCE * PASS_COSTS_ROWS)

/* The part of what a drafter gained in a text that reading more of it may cost: the text keeps the
 * other half. */
#define DRAFT_READING_OF_GAIN 0.5

/* ---- Experience ---- */

/* Weights of one more draft in a text's share of right ones, and of one more step's time; and of a
 * draft in the share of all texts, which should outlast one text. */
#define DRAFT_WEIGHT 0.1
#define DRAFT_RECORD_WEIGHT 0.03

/* A drafter that would not pay even if it were nearly always right does not begin with a text.
 * Another member goes on after drafts that are as likely to be
 * right as DRAFT_LIKELY. */
#define DRAFT_BEST_SHARE 0.9
#define DRAFT_LIKELY 0.8

enum {
    DRAFT_PROBE = 1,           /* drafts at a time of a member that seems not to pay */
    DRAFT_PASSES_BETWEEN = 64, /* passes with drafts before one without shows what it takes */
    DRAFT_PROVEN = 64,         /* right drafts, none wrong, that make a member fully trusted */
    DRAFT_FIRST_WINDOW = 8,    /* tokens of a text with which a drafter that reads begins */
    DRAFT_FEW_UNREAD = 4       /* tokens that take no longer to read than one */
};

/* ---- Guesses until something is measured ---- */

/* A further row of a pass as a share of a pass of one row, where the weights are read from memory;
 * and where they are not, or where a row has experts of its own. Reading a token is a row of the
 * drafter's model. */
#define DRAFT_ROW_GUESS 0.05
#define DRAFT_ROW_GUESS_ALONE 0.4

/* The least that a row is taken to cost even when measured: where the machine slowed down between
 * two measurements, a row seems to cost nothing. */
#define DRAFT_LEAST_ROW 0.02

/* ---- The model ---- */

/* One kind of drafter over all texts. Made by draft_record; everything but name, right_share and
 * most_balance begins with 0. */
typedef struct DraftRecord {
    const char *name;
    size_t drafted, right; /* tokens */
    size_t
        tested; /* drafts that were compared: the right ones, and the first wrong one after them */
    double seconds;      /* spent on proposing */
    double gained;       /* seconds that decoding was faster by (or slower, if negative) */
    double right_share;  /* probability that a draft is right after right ones, smoothed */
    double step_seconds; /* of proposing one token, smoothed */
    double read_seconds; /* of reading one token of a text, smoothed */
    double balance;      /* the account, in tokens' times */
    double granted;      /* what it got without having earned it */
    double most_balance; /* the account's upper limit */
    double step_guess;   /* of step_seconds, in tokens' times, while it is 0; 0: unknown */
} DraftRecord;

/* A record of no experience; `right_share` is the first guess. */
DraftRecord draft_record(const char *name, double right_share);

/* Prices of the next pass. */
typedef struct DraftPrices {
    double second;               /* seconds for one token of plain decoding; 0: not known yet */
    double rows[DRAFTS_MAX + 1]; /* of m drafts, in tokens' times, without the drafters' own */
    bool runs_again;             /* right drafts before a wrong one cost rows of the next pass */
} DraftPrices;

/* Takes the prices of up to `most` drafts from what passes took so far. */
void draft_prices_update(DraftPrices *prices, const PassCosts *costs, size_t most);

/* What `right` right drafts cost in the pass after one in which the draft after them was wrong. */
double draft_price_again(const DraftPrices *prices, size_t right);

/* What proposing one token takes, in tokens' times; 0: it is not known. */
double draft_price_step(const DraftPrices *prices, const DraftRecord *record);

/* What reading so many tokens takes beyond the first step, in tokens' times. */
double draft_price_reading(const DraftPrices *prices, const DraftRecord *record, size_t unread);

/* How many drafts, at most `most`, promise the most tokens a second if this share of them is right,
 * and how many times as many as without drafts (*speed). */
size_t draft_prospect(const DraftPrices *prices, const DraftRecord *record, double right_share,
                      size_t most, double *speed);

/* Adds something to an account, which keeps at most most_balance. */
void draft_record_earn(DraftRecord *record, double amount);

/* Updates a moving average with a measured time; the first one becomes the average. */
void draft_smooth(double *average, double value);

#endif
