#include "draft/economics.h"

DraftRecord draft_record(const char *name, double right_share) {
    return (DraftRecord){
        .name = name, .right_share = right_share, .most_balance = DRAFT_MOST_BALANCE};
}

void draft_record_earn(DraftRecord *record, double amount) {
    record->balance += amount;
    if (record->balance > record->most_balance) record->balance = record->most_balance;
}

void draft_smooth(double *average, double value) {
    *average += (*average > 0.0 ? DRAFT_WEIGHT : 1.0) * (value - *average);
}

/* Each text of the pass has as many drafts. */
void draft_prices_update(DraftPrices *prices, const PassCosts *costs, size_t most) {
    size_t n = costs->n_texts > 0 ? costs->n_texts : 1;
    double plain = pass_costs_seconds(costs, n);
    prices->runs_again = costs->runs_again;
    prices->second = plain / (double)n;
    for (size_t m = 1; m <= most && plain > 0.0; m++) {
        double cost = pass_costs_seconds(costs, n * (1 + m)) / plain - 1.0;
        if (cost < DRAFT_LEAST_ROW * (double)m) cost = DRAFT_LEAST_ROW * (double)m;
        prices->rows[m] = cost > prices->rows[m - 1] ? cost : prices->rows[m - 1];
    }
}

double draft_price_again(const DraftPrices *prices, size_t right) {
    return prices->runs_again ? prices->rows[right] : 0.0;
}

double draft_price_step(const DraftPrices *prices, const DraftRecord *record) {
    return record->step_seconds > 0.0 ? record->step_seconds / prices->second : record->step_guess;
}

double draft_price_reading(const DraftPrices *prices, const DraftRecord *record, size_t unread) {
    if (unread <= DRAFT_FEW_UNREAD) return 0.0;
    double token = record->read_seconds > 0.0 ? record->read_seconds / prices->second
                                              : DRAFT_ROW_GUESS * draft_price_step(prices, record);
    return token * (double)unread;
}

size_t draft_prospect(const DraftPrices *prices, const DraftRecord *record, double right_share,
                      size_t most, double *speed) {
    double tokens = 1.0, right = 1.0, step = draft_price_step(prices, record);
    double again = 0.0; /* cost in the next pass of a draft that is not wholly right */
    size_t best = 0;
    *speed = 1.0;
    for (size_t m = 1; m <= most; m++) {
        again += right * (1.0 - right_share) * draft_price_again(prices, m - 1);
        right *= right_share;
        tokens += right;
        double faster = tokens / (1.0 + prices->rows[m] + again + (double)m * step);
        if (faster <= *speed) continue;
        *speed = faster;
        best = m;
    }
    return best;
}
