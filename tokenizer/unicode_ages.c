/* From Unicode's DerivedAge.txt, up to version 14.0. A range may span code points that are still
 * unassigned, or new ones that no normalization changes; ranges of only such are left out. */
#include "tokenizer/unicode_ages.h"

#include <stddef.h>

typedef struct CodeRange {
    uint32_t first, last;
} CodeRange;

static const CodeRange in_9_0[] = {
    {0x8D4, 0x8E2},     {0x1DFB, 0x1DFB},   {0xA8C5, 0xA8C5},
    {0x1123E, 0x1123E}, {0x11435, 0x11446}, {0x11C2F, 0x11CB6},
    {0x1E000, 0x1E02A}, {0x1E944, 0x1E94A}, {0x1F23B, 0x1F23B},
};

static const CodeRange after_9_0[] = {
    {0x7FD, 0x7FD},     {0x890, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},
    {0xD00, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},
    {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},
    {0xA8FF, 0xA8FF},   {0xAB69, 0xAB69},   {0x10781, 0x107BA}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10F85}, {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x11145, 0x11146},
    {0x111CE, 0x111CF}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x1182C, 0x1183A},
    {0x11930, 0x11A99}, {0x11D31, 0x11EF6}, {0x13430, 0x13438}, {0x16F4F, 0x16F4F},
    {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E130, 0x1E2EF},
    {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

static bool in_ranges(const CodeRange *ranges, size_t n, uint32_t code) {
    size_t low = 0;
    while (n > 0) { /* the last range that begins at or before `code` */
        size_t half = n / 2;
        if (ranges[low + half].first <= code) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low > 0 && code <= ranges[low - 1].last;
}

bool unicode_newer_than_8(uint32_t code) {
    return unicode_newer_than_9(code) || in_ranges(in_9_0, sizeof in_9_0 / sizeof *in_9_0, code);
}

bool unicode_newer_than_9(uint32_t code) {
    return code >= 0x7FD && in_ranges(after_9_0, sizeof after_9_0 / sizeof *after_9_0, code);
}
