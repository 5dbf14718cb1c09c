/* How long a forward pass of so many rows takes on this machine, measured while a text is decoded.
 *
 * A pass reads all weights whatever its rows, so a second row costs little where memory is slow,
 * and as much as the first where the model fits in a cache. Drafters decide by these times how many
 * tokens to propose (drafter_set.h). Time therefore changes the speed of decoding, never the text.
 */
#ifndef PASS_COSTS_H
#define PASS_COSTS_H

#include <stdbool.h>
#include <stddef.h>

enum { PASS_COSTS_ROWS = 64 }; /* passes of more rows are not told apart from prompts */

/* Zero-initialize and set row_share. */
typedef struct PassCosts {
    double row_share; /* time of a further row as a share of a pass of one row: a first guess */
    size_t n_texts;   /* texts decoded side by side in the next pass; 0 counts as 1 */
    bool runs_again;  /* right drafts before a wrong one are rows of the next pass too: the model's
                         layers have states */
    double seconds[PASS_COSTS_ROWS + 1]; /* of a pass of k rows, a low average; 0: not measured */
} PassCosts;

/* Takes in a pass of n rows, none of them of a prompt. */
void pass_costs_add(PassCosts *costs, size_t n, double seconds);

/* The seconds that a pass of n > 0 rows takes while nothing else delays it, growing with n; 0:
 * nothing is measured. Between two numbers of rows that were measured it lies on a straight line.
 */
double pass_costs_seconds(const PassCosts *costs, size_t n);

#endif
