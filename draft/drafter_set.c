#include "draft/drafter_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

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
    size_t n_passes; /* since the last one without drafts */
    DraftPrices prices;
    TokenRule *rule; /* what cuts the drafts; NULL: nothing */
    int32_t *text;   /* the text with the drafts after it */
    size_t capacity;
} DrafterSet;

static size_t unread_of(const Member *member, const int32_t *text, size_t n) {
    Drafter *drafter = member->drafter;
    return drafter->unread ? drafter->unread(drafter, text, n) : 0;
}

/* Whether the member, which has not begun with the text, could not pay even at its best. A trusted
 * member that is mostly right always begins: its few first drafts are cheap even where a row costs
 * as much as a token, and they measure anew what a row costs, which another process may have
 * distorted. */
static bool is_hopeless(const DrafterSet *set, const Member *member, size_t most) {
    double speed;
    if (member->drafter->trust > 0 && member->record->right_share >= DRAFT_BEST_SHARE) return false;
    if (most > member->drafter->most) most = member->drafter->most;
    return !member->begun && draft_price_step(&set->prices, member->record) > 0.0 &&
           draft_prospect(&set->prices, member->record, DRAFT_BEST_SHARE, most, &speed) == 0;
}

/* The most drafts, at most `most`, that the member's account can pay if they are all wrong, besides
 * what it has to read. How long it takes to propose may not be known before the first time, so that
 * is no more than a probe. */
static size_t affordable(const DrafterSet *set, const Member *member, size_t most, double reading) {
    double step = draft_price_step(&set->prices, member->record),
           behind = set->prices.rows[set->n_drafts];
    if (step <= 0.0 && most > DRAFT_PROBE && !member->drafter->first) most = DRAFT_PROBE;
    while (most > 0 &&
           set->prices.rows[set->n_drafts + most] - behind + (double)most * step + reading >
               member->record->balance)
        most--;
    return most;
}

/* How many drafts a member is trusted with, at most `most`: all, when no text has shown it wrong.
 */
static size_t trusted(const Member *member, size_t most) {
    const DraftRecord *record = member->record;
    bool proven = record->right >= DRAFT_PROVEN && record->right == record->tested;
    size_t trust = proven ? DRAFTS_MAX : member->drafter->trust;
    return trust < most ? trust : most;
}

/* Sorts the members by the tokens a second that their drafts promise, the best first: order[i] is
 * the index of the i-th. A drafter that asks to be `first` comes before all others. */
static void sort_members(const DrafterSet *set, size_t most, size_t order[DRAFTER_SET_MOST]) {
    double speeds[DRAFTER_SET_MOST];
    for (size_t i = 0; i < set->n_members; i++) {
        double speed;
        draft_prospect(&set->prices, set->members[i].record, set->members[i].right_share, most,
                       &speed);
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

/* How many of a text's n last tokens the member reads at first: as many as its balance pays for
 * beside a draft of one token. */
static size_t first_window(const DrafterSet *set, const DraftRecord *record, size_t n) {
    double rest =
        record->balance - set->prices.rows[DRAFT_PROBE] - draft_price_step(&set->prices, record);
    double token =
        draft_price_reading(&set->prices, record, DRAFT_FIRST_WINDOW) / DRAFT_FIRST_WINDOW;
    rest -= token; /* it reads the text's first token as well */
    if (token <= 0.0 || rest >= token * (double)n)
        return n > DRAFT_FIRST_WINDOW ? n : DRAFT_FIRST_WINDOW;
    return rest > token * DRAFT_FIRST_WINDOW ? (size_t)(rest / token) : DRAFT_FIRST_WINDOW;
}

/* Lets a member that reads take in twice as many tokens of text[n], if it gained enough. */
static bool widen(const DrafterSet *set, const Member *member, size_t n) {
    Drafter *drafter = member->drafter;
    if (!drafter->unread || drafter->window >= n) return false;
    double reading = draft_price_reading(&set->prices, member->record, 2 * drafter->window);
    if (reading > DRAFT_READING_OF_GAIN * member->gained) return false;
    drafter->window *= 2;
    return true;
}

/* Books the time in which a member read `unread` tokens and proposed m: takes it off what the
 * member gained, and smooths its prices, of a step or, where it had much to read, of a token read.
 * Reading does not count against its balance where the draft was `widened`: it was paid by what the
 * member gained there. */
static void book_time(DrafterSet *set, Member *member, double seconds, size_t unread, size_t m,
                      bool widened) {
    DraftRecord *record = member->record;
    double steps = (double)(m > 0 ? m : 1), reading = 0.0;
    if (unread > DRAFT_FEW_UNREAD) {
        reading = seconds - steps * draft_price_step(&set->prices, record) * set->prices.second;
        if (reading < 0.0) reading = 0.0;
        if (reading > 0.0) draft_smooth(&record->read_seconds, reading / (double)unread);
    } else if (member->begun) {
        draft_smooth(&record->step_seconds, seconds / steps);
    }
    member->begun = true;
    member->gained -= seconds / set->prices.second;
    record->balance -= (widened ? seconds - reading : seconds) / set->prices.second;
    record->seconds += seconds;
    record->gained -= seconds;
}

/* Lets one member draft further tokens after the text and the drafts so far; returns how many it
 * added. */
static size_t extend_drafts(DrafterSet *set, Member *member, size_t n, size_t most) {
    DraftRecord *record = member->record;
    Drafter *drafter = member->drafter;
    size_t n_text = n + set->n_drafts;
    double speed;
    if (drafter->first && set->n_drafts > 0) return 0;
    if (most > drafter->most) most = drafter->most;
    if (is_hopeless(set, member, most)) return 0;
    size_t m = draft_prospect(&set->prices, record, member->right_share, most, &speed);
    if (m == 0) m = most < DRAFT_PROBE ? most : DRAFT_PROBE;
    if (!member->begun && drafter->unread) drafter->window = first_window(set, record, n_text);
    size_t unread = unread_of(member, set->text, n_text);
    m = drafter->trust
            ? trusted(member, most)
            : affordable(set, member, m, draft_price_reading(&set->prices, record, unread));
    if (m == 0) return 0;
    bool widened = widen(set, member, n_text);
    if (widened) unread = unread_of(member, set->text, n_text);
    double start = clock_seconds();
    m = drafter->propose(drafter, set->text, n_text, set->text + n_text, m);
    book_time(set, member, clock_seconds() - start, unread, m, widened);
    if (m > 0 && set->rule) {
        size_t allowed = set->rule->allowed_drafts(set->rule, set->text + n, set->n_drafts + m);
        m = allowed > set->n_drafts ? allowed - set->n_drafts : 0;
    }
    if (m == 0) return 0;
    record->drafted += m;
    return m;
}

/* What the member lacks to propose one token after text[n]; -1: it will not propose any. */
static double need_of(const DrafterSet *set, const Member *member, const int32_t *text, size_t n,
                      size_t most) {
    const DraftRecord *record = member->record;
    if (is_hopeless(set, member, most)) return -1.0;
    double reading = draft_price_reading(&set->prices, record, unread_of(member, text, n));
    double need = set->prices.rows[DRAFT_PROBE] + draft_price_step(&set->prices, record) + reading -
                  record->balance;
    return need > 0.0 ? need : 0.0;
}

static void drafter_set_give(DraftRecord *record, double amount) {
    record->granted += amount;
    draft_record_earn(record, amount);
}

/* Grants the members something for a token after text[n]: first what each lacks, those that lack
 * least first, then equal parts of what is left. */
static void grant(DrafterSet *set, const int32_t *text, size_t n, size_t most) {
    double needs[DRAFTER_SET_MOST], amount = DRAFT_RATE, granted = 0.0;
    size_t n_asking = 0, left;
    for (size_t i = 0; i < set->n_members; i++) {
        needs[i] = need_of(set, &set->members[i], text, n, most);
        granted += set->members[i].record->granted;
        n_asking += needs[i] >= 0.0;
    }
    if (granted == 0.0) amount = DRAFT_GRANT;
    left = n_asking;
    for (size_t round = 0; round < n_asking; round++) {
        size_t least = 0;
        for (size_t i = 1; i < set->n_members; i++)
            if (needs[i] >= 0.0 && (needs[least] < 0.0 || needs[i] < needs[least])) least = i;
        double share = amount / (double)left--;
        double part = needs[least] < share ? needs[least] : share;
        drafter_set_give(set->members[least].record, part);
        amount -= part;
        needs[least] = -1.0;
    }
    for (size_t i = 0; i < set->n_members && n_asking > 0 && amount > 0.0; i++)
        if (!is_hopeless(set, &set->members[i], most))
            drafter_set_give(set->members[i].record, amount / (double)n_asking);
}

/* The part of the cost of the last draft's rows that one member's tokens have. */
static double cost_of(const DrafterSet *set, const Member *member) {
    return set->prices.rows[set->n_drafts] * (double)member->n / (double)set->n_drafts;
}

/* The rows of a draft are booked at once, so that texts that decode side by side do not spend the
 * same balance; what was right is booked by learn. */
static size_t drafter_set_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                                  size_t most) {
    DrafterSet *set = (DrafterSet *)drafter;
    size_t order[DRAFTER_SET_MOST] = {0};
    set->n_segments = set->n_drafts = 0;
    if (most > DRAFTS_MAX) most = DRAFTS_MAX;
    draft_prices_update(&set->prices, set->drafter.costs, most);
    if (set->prices.second > 0.0) grant(set, text, n, most);
    bool plain = set->prices.second <= 0.0 || set->n_passes == DRAFT_PASSES_BETWEEN;
    set->n_passes = plain ? 0 : set->n_passes + 1;
    if (plain) return 0; /* the first pass, too, is measured without drafts */
    if (!array_reserve(&set->text, &set->capacity, n + most, sizeof *set->text)) return 0;
    memcpy(set->text, text, n * sizeof *text);
    sort_members(set, most, order);
    for (size_t i = 0; i < set->n_members && set->n_drafts < most; i++) {
        Member *member = &set->members[order[i]];
        member->n = extend_drafts(set, member, n, most - set->n_drafts);
        if (member->n == 0) continue;
        set->segments[set->n_segments++] = order[i];
        set->n_drafts += member->n;
        if (member->right_share < DRAFT_LIKELY) break;
    }
    for (size_t i = 0; i < set->n_segments; i++) {
        Member *member = &set->members[set->segments[i]];
        member->record->balance -= cost_of(set, member);
    }
    memcpy(drafts, set->text + n, set->n_drafts * sizeof *drafts);
    return set->n_drafts;
}

/* Counts the member's part of a draft: `right` of its tokens were accepted, and `again` is what
 * they cost in the next pass. */
static void drafter_set_count(DrafterSet *set, Member *member, size_t right, double again) {
    DraftRecord *record = member->record;
    size_t tested = right + (right < member->n);
    for (size_t i = 0; i < tested; i++) {
        double was = i < right ? 1.0 : 0.0;
        member->right_share += DRAFT_WEIGHT * (was - member->right_share);
        record->right_share += DRAFT_RECORD_WEIGHT * (was - record->right_share);
    }
    record->right += right;
    record->tested += tested;
    draft_record_earn(record, (double)right - again);
    member->gained += (double)right - again - cost_of(set, member);
    record->gained += ((double)right - again - cost_of(set, member)) * set->prices.second;
    member->drafter->learn(member->drafter, member->n, right);
}

/* A part after a wrong token was not tested: its rows count, its tokens teach nothing. */
static void drafter_set_learn(Drafter *drafter, size_t n, size_t accepted) {
    DrafterSet *set = (DrafterSet *)drafter;
    size_t begin = 0;
    double again = accepted < n ? draft_price_again(&set->prices, accepted) : 0.0;
    for (size_t i = 0; i < set->n_segments; i++) {
        Member *member = &set->members[set->segments[i]];
        size_t right = accepted > begin ? accepted - begin : 0;
        if (right > member->n) right = member->n;
        if (accepted >= begin) {
            drafter_set_count(set, member, right,
                              accepted > 0 ? again * (double)right / (double)accepted : 0.0);
        } else {
            member->gained -= cost_of(set, member);
            member->record->gained -= cost_of(set, member) * set->prices.second;
        }
        begin += member->n;
    }
    set->n_segments = 0;
}

/* Shows the rows to all members, even those that are not asked at present: they may be asked again.
 */
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
    ((DrafterSet *)drafter)->rule = rule && rule->allowed_drafts ? rule : NULL;
}

Drafter *drafter_set_new(PassCosts *costs) {
    DrafterSet *set = calloc(1, sizeof *set);
    if (!set) return NULL;
    set->drafter = (Drafter){.propose = drafter_set_propose,
                             .learn = drafter_set_learn,
                             .free = set_free,
                             .costs = costs};
    return &set->drafter;
}

void drafter_set_add(Drafter *drafter, Drafter *member, DraftRecord *record) {
    DrafterSet *set = (DrafterSet *)drafter;
    set->members[set->n_members++] =
        (Member){.drafter = member, .record = record, .right_share = record->right_share};
    if (member->unread) member->window = DRAFT_FIRST_WINDOW;
    if (member->ran) set->drafter.ran = ran;
    if (member->most > set->drafter.most) set->drafter.most = member->most;
}
