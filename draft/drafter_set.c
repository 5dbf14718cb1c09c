#include "draft/drafter_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

/* Of an account, in tokens' times. */
static const double FIRST_BALANCE = 0.5, BALANCE_A_TOKEN = 0.005, MOST_BALANCE = 8.0;

/* Weights of one more draft in a text's share of right ones and in that of all texts, and of one
 * more time that a drafter takes; the share from which on another member goes on behind a draft. */
static const double TEXT_WEIGHT = 0.1, RECORD_WEIGHT = 0.03, STEP_WEIGHT = 0.1, LIKELY_RIGHT = 0.8;

/* The least that a draft's row is taken to cost, in tokens' times: where the machine slowed down
 * between two measurements, a row seems to cost nothing. */
static const double LEAST_ROW = 0.02;

/* The share of right drafts at which a member must pay, or it does not begin to read a text. */
static const double BEST_SHARE = 0.9;

/* Drafts at a time of a member that seems not to pay; after so many passes with drafts one without
 * any shows what it takes. */
enum { PROBE = 1, PASSES_BETWEEN = 64 };

/* Right drafts, and no wrong one, after which a trusted member drafts as much as it can. */
enum { PROVEN = 64 };

typedef struct Member {
    Drafter *drafter;
    DraftRecord *record;
    double right_share; /* in this text */
    size_t n;           /* tokens that it proposed last */
    bool begun;         /* it has seen this text */
} Member;

typedef struct DrafterSet {
    Drafter drafter;
    Member members[DRAFTER_SET_MOST];
    size_t n_members;
    size_t segments[DRAFTER_SET_MOST]; /* members in the order of their parts of the last draft */
    size_t n_segments, n_drafts;
    size_t n_passes;                  /* since the last one without drafts */
    double second;                    /* that one token of plain decoding takes; 0: not known yet */
    double rows_cost[DRAFTS_MAX + 1]; /* of m drafts, in tokens' times, without the drafters' own */
    TokenRule *rule;                  /* what cuts the drafts; NULL: nothing */
    int32_t *text;                    /* the text with the drafts behind it */
    size_t capacity;
} DrafterSet;

DraftRecord draft_record(const char *name, double right_share) {
    return (DraftRecord){.name = name,
                         .right_share = right_share,
                         .balance = FIRST_BALANCE,
                         .most_balance = MOST_BALANCE};
}

static void limit(DraftRecord *record) {
    if (record->balance > record->most_balance) record->balance = record->most_balance;
}

/* Finds what the rows of drafts cost in a pass where each text has as many. */
static void find_costs(DrafterSet *set, size_t most) {
    const PassCosts *costs = set->drafter.costs;
    size_t n = costs->n_texts > 0 ? costs->n_texts : 1;
    double plain = pass_costs_seconds(costs, n);
    set->second = plain / (double)n;
    for (size_t m = 1; m <= most && plain > 0.0; m++) {
        double cost = pass_costs_seconds(costs, n * (1 + m)) / plain - 1.0;
        if (cost < LEAST_ROW * (double)m) cost = LEAST_ROW * (double)m;
        set->rows_cost[m] = cost > set->rows_cost[m - 1] ? cost : set->rows_cost[m - 1];
    }
}

/* What `right` right drafts cost in the pass after one in which the draft behind them was wrong. */
static double cost_again(const DrafterSet *set, size_t right) {
    return set->drafter.costs->runs_again ? set->rows_cost[right] : 0.0;
}

/* What proposing one token takes, in tokens' times; 0: it is not known. */
static double step_of(const DrafterSet *set, const DraftRecord *record) {
    return record->step_seconds > 0.0 ? record->step_seconds / set->second : record->step_guess;
}

/* How many drafts, at most `most`, promise the most tokens a second if this share of them is right,
 * and how many times as many as without drafts (*speed). */
static size_t prospect(const DrafterSet *set, const Member *member, double right_share, size_t most,
                       double *speed) {
    double tokens = 1.0, right = 1.0, step = step_of(set, member->record);
    double again = 0.0; /* that a draft which is not wholly right costs in the next pass */
    size_t best = 0;
    *speed = 1.0;
    for (size_t m = 1; m <= most; m++) {
        again += right * (1.0 - right_share) * cost_again(set, m - 1);
        right *= right_share;
        tokens += right;
        double faster = tokens / (1.0 + set->rows_cost[m] + again + (double)m * step);
        if (faster <= *speed) continue;
        *speed = faster;
        best = m;
    }
    return best;
}

/* The most drafts, at most `most`, that the member's account can pay if they are all wrong. How
 * long it takes to propose is not known before the first time, so that is no more than a probe. */
static size_t affordable(const DrafterSet *set, const Member *member, size_t most) {
    double step = step_of(set, member->record), behind = set->rows_cost[set->n_drafts];
    if (step <= 0.0 && most > PROBE && !member->drafter->first) most = PROBE;
    while (most > 0 && set->rows_cost[set->n_drafts + most] - behind + (double)most * step >
                           member->record->balance)
        most--;
    return most;
}

/* How many drafts a member is trusted with, at most `most`: all, when no text has shown it wrong.
 */
static size_t trusted(const Member *member, size_t most) {
    const DraftRecord *record = member->record;
    bool proven = record->right >= PROVEN && record->right == record->tested;
    size_t trust = proven ? DRAFTS_MAX : member->drafter->trust;
    return trust < most ? trust : most;
}

/* The members in the order of their prospects, the best first. */
static void sort(const DrafterSet *set, size_t most, size_t order[DRAFTER_SET_MOST]) {
    double speeds[DRAFTER_SET_MOST];
    for (size_t i = 0; i < set->n_members; i++) {
        double speed;
        prospect(set, &set->members[i], set->members[i].right_share, most, &speed);
        if (set->members[i].drafter->first) speed = INFINITY;
        size_t at = i;
        for (; at > 0 && speeds[at - 1] < speed; at--) {
            speeds[at] = speeds[at - 1];
            order[at] = order[at - 1];
        }
        speeds[at] = speed;
        order[at] = i;
    }
}

/* Lets one member go on behind the text and its n_drafts drafts; returns how many it added. */
static size_t ask(DrafterSet *set, Member *member, size_t n, size_t most) {
    DraftRecord *record = member->record;
    double speed;
    if (member->drafter->first && set->n_drafts > 0) return 0;
    if (most > member->drafter->most) most = member->drafter->most;
    bool known = step_of(set, record) > 0.0;
    if (!member->begun && known && prospect(set, member, BEST_SHARE, most, &speed) == 0) return 0;
    size_t m = prospect(set, member, member->right_share, most, &speed);
    if (m == 0) m = most < PROBE ? most : PROBE;
    m = member->drafter->trust ? trusted(member, most) : affordable(set, member, m);
    if (m == 0) return 0;
    double start = clock_seconds();
    size_t n_text = n + set->n_drafts;
    m = member->drafter->propose(member->drafter, set->text, n_text, set->text + n_text, m);
    double seconds = clock_seconds() - start;
    record->seconds += seconds;
    record->gained -= seconds;
    bool begins = !member->begun, reads_prompt = begins && set->drafter.costs->n_texts <= 1;
    member->begun = true;
    if (!reads_prompt) record->balance -= seconds / set->second;
    if (!begins) {
        double step = seconds / (double)(m > 0 ? m : 1);
        double weight = record->step_seconds > 0.0 ? STEP_WEIGHT : 1.0;
        record->step_seconds += weight * (step - record->step_seconds);
    }
    if (m > 0 && set->rule) {
        size_t allowed = set->rule->allowed_ahead(set->rule, set->text + n, set->n_drafts + m);
        m = allowed > set->n_drafts ? allowed - set->n_drafts : 0;
    }
    if (m == 0) return 0;
    record->drafted += m;
    return m;
}

static void earn_a_little(DrafterSet *set) {
    for (size_t i = 0; i < set->n_members; i++) {
        DraftRecord *record = set->members[i].record;
        record->balance += BALANCE_A_TOKEN / (double)set->n_members;
        limit(record);
    }
}

/* The part of the cost of the last draft's rows that one member's tokens have. */
static double cost_of(const DrafterSet *set, const Member *member) {
    return set->rows_cost[set->n_drafts] * (double)member->n / (double)set->n_drafts;
}

/* The rows of a draft are booked at once, so that texts that decode side by side do not spend the
 * same balance; what was right is booked by learn. */
static size_t propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                      size_t most) {
    DrafterSet *set = (DrafterSet *)drafter;
    size_t order[DRAFTER_SET_MOST] = {0};
    set->n_segments = set->n_drafts = 0;
    earn_a_little(set);
    if (most > DRAFTS_MAX) most = DRAFTS_MAX;
    find_costs(set, most);
    bool plain = set->second <= 0.0 || set->n_passes == PASSES_BETWEEN;
    set->n_passes = plain ? 0 : set->n_passes + 1;
    if (plain) return 0; /* the first pass, too, is measured without drafts */
    if (!array_reserve(&set->text, &set->capacity, n + most, sizeof *set->text)) return 0;
    memcpy(set->text, text, n * sizeof *text);
    sort(set, most, order);
    for (size_t i = 0; i < set->n_members && set->n_drafts < most; i++) {
        Member *member = &set->members[order[i]];
        member->n = ask(set, member, n, most - set->n_drafts);
        if (member->n == 0) continue;
        set->segments[set->n_segments++] = order[i];
        set->n_drafts += member->n;
        if (member->right_share < LIKELY_RIGHT) break;
    }
    for (size_t i = 0; i < set->n_segments; i++) {
        Member *member = &set->members[set->segments[i]];
        member->record->balance -= cost_of(set, member);
    }
    memcpy(drafts, set->text + n, set->n_drafts * sizeof *drafts);
    return set->n_drafts;
}

/* Counts the member's part of a draft, of which the text took `right` tokens; `again` is what they
 * cost in the next pass. */
static void count(DrafterSet *set, Member *member, size_t right, double again) {
    DraftRecord *record = member->record;
    size_t tested = right + (right < member->n);
    for (size_t i = 0; i < tested; i++) {
        double was = i < right ? 1.0 : 0.0;
        member->right_share += TEXT_WEIGHT * (was - member->right_share);
        record->right_share += RECORD_WEIGHT * (was - record->right_share);
    }
    record->right += right;
    record->tested += tested;
    record->balance += (double)right - again;
    record->gained += ((double)right - again - cost_of(set, member)) * set->second;
    limit(record);
    member->drafter->learn(member->drafter, member->n, right);
}

/* A part behind a wrong token was not tested: its rows count, its tokens teach nothing. */
static void learn(Drafter *drafter, size_t n, size_t accepted) {
    DrafterSet *set = (DrafterSet *)drafter;
    size_t begin = 0;
    double again = accepted < n ? cost_again(set, accepted) : 0.0;
    for (size_t i = 0; i < set->n_segments; i++) {
        Member *member = &set->members[set->segments[i]];
        size_t right = accepted > begin ? accepted - begin : 0;
        if (right > member->n) right = member->n;
        if (accepted >= begin) {
            count(set, member, right,
                  accepted > 0 ? again * (double)right / (double)accepted : 0.0);
        } else {
            member->record->gained -= cost_of(set, member) * set->second;
        }
        begin += member->n;
    }
    set->n_segments = 0;
}

/* Those that are not asked any more look as well: they may be asked again. */
static void ran(Drafter *drafter, const Row *rows, size_t first, size_t n) {
    DrafterSet *set = (DrafterSet *)drafter;
    for (size_t i = 0; i < set->n_members; i++) {
        Drafter *member = set->members[i].drafter;
        if (member->ran) member->ran(member, rows, first, n);
    }
}

static void set_free(Drafter *drafter) {
    DrafterSet *set = (DrafterSet *)drafter;
    for (size_t i = 0; i < set->n_members; i++) drafter_free(set->members[i].drafter);
    free(set->text);
    free(set);
}

void drafter_set_hold(Drafter *drafter, TokenRule *rule) {
    ((DrafterSet *)drafter)->rule = rule && rule->allowed_ahead ? rule : NULL;
}

Drafter *drafter_set_new(PassCosts *costs) {
    DrafterSet *set = calloc(1, sizeof *set);
    if (!set) return NULL;
    set->drafter = (Drafter){.propose = propose, .learn = learn, .free = set_free, .costs = costs};
    return &set->drafter;
}

void drafter_set_add(Drafter *drafter, Drafter *member, DraftRecord *record) {
    DrafterSet *set = (DrafterSet *)drafter;
    set->members[set->n_members++] =
        (Member){.drafter = member, .record = record, .right_share = record->right_share};
    if (member->ran) set->drafter.ran = ran;
    if (member->most > set->drafter.most) set->drafter.most = member->most;
}
