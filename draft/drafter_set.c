#include "draft/drafter_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

/* What all accounts together are granted at first and with each token, and what one account holds
 * at most; in tokens' times. */
static const double FIRST_GRANT = 0.5, RATE = 0.005, MOST_BALANCE = 8.0;

/* A drafter that reads begins with so many tokens at least; so many do not take longer than one;
 * the first guess of the time that a token takes, as a share of proposing one. */
enum { FIRST_WINDOW = 8, FEW_UNREAD = 4 };
static const double READ_SHARE = 0.05;

/* The part of what a drafter gained in a text that reading more of it may cost. */
static const double READING_OF_GAIN = 0.5;

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
    double gained;      /* by it in this text, in tokens' times */
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
    return (DraftRecord){.name = name, .right_share = right_share, .most_balance = MOST_BALANCE};
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

/* What reading so many tokens takes beyond the first step, in tokens' times. */
static double reading_of(const DrafterSet *set, const DraftRecord *record, size_t unread) {
    if (unread <= FEW_UNREAD) return 0.0;
    double token = record->read_seconds > 0.0 ? record->read_seconds / set->second
                                              : READ_SHARE * step_of(set, record);
    return token * (double)unread;
}

static size_t unread_of(const Member *member, const int32_t *text, size_t n) {
    Drafter *drafter = member->drafter;
    return drafter->unread ? drafter->unread(drafter, text, n) : 0;
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

/* Whether the member, which has not begun with the text, could not pay even at its best. A trusted
 * member that is mostly right always begins: its few first drafts are cheap even where a row costs
 * as much as a token, and they measure anew what a row costs, which another process may have
 * distorted. */
static bool is_hopeless(const DrafterSet *set, const Member *member, size_t most) {
    double speed;
    if (member->drafter->trust > 0 && member->record->right_share >= BEST_SHARE) return false;
    if (most > member->drafter->most) most = member->drafter->most;
    return !member->begun && step_of(set, member->record) > 0.0 &&
           prospect(set, member, BEST_SHARE, most, &speed) == 0;
}

/* The most drafts, at most `most`, that the member's account can pay if they are all wrong, besides
 * what it has to read. How long it takes to propose may not be known before the first time, so that
 * is no more than a probe. */
static size_t affordable(const DrafterSet *set, const Member *member, size_t most, double reading) {
    double step = step_of(set, member->record), behind = set->rows_cost[set->n_drafts];
    if (step <= 0.0 && most > PROBE && !member->drafter->first) most = PROBE;
    while (most > 0 &&
           set->rows_cost[set->n_drafts + most] - behind + (double)most * step + reading >
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

/* With how many of a text's n tokens the member begins: as many as its account pays besides a
 * draft of one token. */
static size_t first_window(const DrafterSet *set, const DraftRecord *record, size_t n) {
    double rest = record->balance - set->rows_cost[PROBE] - step_of(set, record);
    double token = reading_of(set, record, FIRST_WINDOW) / FIRST_WINDOW;
    rest -= token; /* it reads the text's first token as well */
    if (token <= 0.0 || rest >= token * (double)n) return n > FIRST_WINDOW ? n : FIRST_WINDOW;
    return rest > token * FIRST_WINDOW ? (size_t)(rest / token) : FIRST_WINDOW;
}

/* Lets a member that reads take in twice as many tokens of text[n], if it gained enough. */
static bool widen(const DrafterSet *set, const Member *member, size_t n) {
    Drafter *drafter = member->drafter;
    if (!drafter->unread || drafter->window >= n) return false;
    double reading = reading_of(set, member->record, 2 * drafter->window);
    if (reading > READING_OF_GAIN * member->gained) return false;
    drafter->window *= 2;
    return true;
}

static void smooth(double *average, double value) {
    *average += (*average > 0.0 ? STEP_WEIGHT : 1.0) * (value - *average);
}

/* Books the time in which a member read `unread` tokens and proposed m. Reading more of a text was
 * paid by what the member gained there. */
static void book_time(DrafterSet *set, Member *member, double seconds, size_t unread, size_t m,
                      bool widened) {
    DraftRecord *record = member->record;
    double steps = (double)(m > 0 ? m : 1), reading = 0.0;
    if (unread > FEW_UNREAD) {
        reading = seconds - steps * step_of(set, record) * set->second;
        if (reading < 0.0) reading = 0.0;
        if (reading > 0.0) smooth(&record->read_seconds, reading / (double)unread);
    } else if (member->begun) {
        smooth(&record->step_seconds, seconds / steps);
    }
    member->begun = true;
    member->gained -= seconds / set->second;
    record->balance -= (widened ? seconds - reading : seconds) / set->second;
    record->seconds += seconds;
    record->gained -= seconds;
}

/* Lets one member go on behind the text and its n_drafts drafts; returns how many it added. */
static size_t ask(DrafterSet *set, Member *member, size_t n, size_t most) {
    DraftRecord *record = member->record;
    Drafter *drafter = member->drafter;
    size_t n_text = n + set->n_drafts;
    double speed;
    if (drafter->first && set->n_drafts > 0) return 0;
    if (most > drafter->most) most = drafter->most;
    if (is_hopeless(set, member, most)) return 0;
    size_t m = prospect(set, member, member->right_share, most, &speed);
    if (m == 0) m = most < PROBE ? most : PROBE;
    if (!member->begun && drafter->unread) drafter->window = first_window(set, record, n_text);
    size_t unread = unread_of(member, set->text, n_text);
    m = drafter->trust ? trusted(member, most)
                       : affordable(set, member, m, reading_of(set, record, unread));
    if (m == 0) return 0;
    bool widened = widen(set, member, n_text);
    if (widened) unread = unread_of(member, set->text, n_text);
    double start = clock_seconds();
    m = drafter->propose(drafter, set->text, n_text, set->text + n_text, m);
    book_time(set, member, clock_seconds() - start, unread, m, widened);
    if (m > 0 && set->rule) {
        size_t allowed = set->rule->allowed_ahead(set->rule, set->text + n, set->n_drafts + m);
        m = allowed > set->n_drafts ? allowed - set->n_drafts : 0;
    }
    if (m == 0) return 0;
    record->drafted += m;
    return m;
}

/* What the member lacks to propose one token behind text[n]; -1: it will not propose any. */
static double need_of(const DrafterSet *set, const Member *member, const int32_t *text, size_t n,
                      size_t most) {
    const DraftRecord *record = member->record;
    if (is_hopeless(set, member, most)) return -1.0;
    double reading = reading_of(set, record, unread_of(member, text, n));
    double need = set->rows_cost[PROBE] + step_of(set, record) + reading - record->balance;
    return need > 0.0 ? need : 0.0;
}

static void give(DraftRecord *record, double amount) {
    record->granted += amount;
    record->balance += amount;
    limit(record);
}

/* Grants the members something for a token behind text[n]: first what each lacks, those that lack
 * least first, then equal parts of what is left. */
static void grant(DrafterSet *set, const int32_t *text, size_t n, size_t most) {
    double needs[DRAFTER_SET_MOST], amount = RATE, granted = 0.0;
    size_t n_asking = 0, left;
    for (size_t i = 0; i < set->n_members; i++) {
        needs[i] = need_of(set, &set->members[i], text, n, most);
        granted += set->members[i].record->granted;
        n_asking += needs[i] >= 0.0;
    }
    if (granted == 0.0) amount = FIRST_GRANT;
    left = n_asking;
    for (size_t round = 0; round < n_asking; round++) {
        size_t least = 0;
        for (size_t i = 1; i < set->n_members; i++)
            if (needs[i] >= 0.0 && (needs[least] < 0.0 || needs[i] < needs[least])) least = i;
        double share = amount / (double)left--;
        double part = needs[least] < share ? needs[least] : share;
        give(set->members[least].record, part);
        amount -= part;
        needs[least] = -1.0;
    }
    for (size_t i = 0; i < set->n_members && n_asking > 0 && amount > 0.0; i++)
        if (!is_hopeless(set, &set->members[i], most))
            give(set->members[i].record, amount / (double)n_asking);
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
    if (most > DRAFTS_MAX) most = DRAFTS_MAX;
    find_costs(set, most);
    if (set->second > 0.0) grant(set, text, n, most);
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
    member->gained += (double)right - again - cost_of(set, member);
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
            member->gained -= cost_of(set, member);
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
    if (member->unread) member->window = FIRST_WINDOW;
    if (member->ran) set->drafter.ran = ran;
    if (member->most > set->drafter.most) set->drafter.most = member->most;
}
