/* Decimal numbers as expressions: their comparisons and multiples, digit by digit. */
#ifndef CONSTRAINT_REGEX_DECIMAL_H
#define CONSTRAINT_REGEX_DECIMAL_H

#include "constraint/regex.h"

/* digits[.digits] that compare with `decimal` ("12.5") as `compare` says. Matches more than
 * numbers: meet it with the syntax. */
Regex regex_bound(RegexArena *arena, const char *decimal, RegexCompare compare);
/* digits[.digits] that are a multiple of divisor / 10^scale, divisor > 0. The same holds. */
Regex regex_multiple(RegexArena *arena, uint32_t divisor, uint32_t scale);

/* The derivative of a node of kind RE_BOUND or RE_MULTIPLE. */
Regex regex_derive_decimal(RegexArena *arena, RegexNode node, unsigned char byte);

#endif
