/* A page while it is being read (family_page.c): its tables as they grow, and words of the present
 * line. For family_page.c and page_tensors.c alone. */
#ifndef FORMATS_FAMILY_PAGE_READER_H
#define FORMATS_FAMILY_PAGE_READER_H

#include "formats/family/family.h"
#include "formats/family/page_text.h"

enum { SETS = 32, KEYS = 96, FIXED = 32, BIASES = 8, STEPS = 32, TENSORS = 192, GGUFS = 4 };

/* Fields and tensors of config.json, or of one architecture of GGUF files. */
typedef struct PagePart {
    Preset set[SETS + 1];
    TensorRule tensors[TENSORS + 1];
    bool is_inherited[TENSORS + 1]; /* the tensor, of the page that this one is like */
    size_t n_set, n_tensors;
    size_t next; /* where a tensor goes that replaces none; 0: after the last one of a layer */
} PagePart;

typedef struct PageGguf {
    PagePart part;
    GgufKey keys[KEYS + 1];
    Step steps[STEPS + 1];
    size_t n_keys, n_steps;
} PageGguf;

typedef struct FamilyPage {
    Family family;
    PagePart main;
    ConfigRule keys[KEYS + 1];
    FixedKey fixed[FIXED + 1];
    BiasRule biases[BIASES + 1];
    Step steps[STEPS + 1];
    size_t n_keys, n_fixed, n_biases, n_steps;
    /* How many of them, at their table's beginning, are another page's. */
    size_t old_keys, old_biases, old_steps;
    PageGguf parts[GGUFS];
    GgufFamily gguf[GGUFS + 1];
    size_t n_gguf;
    PagePool pool;
} FamilyPage;

typedef struct PageReader {
    FamilyPage *page;
    PageText *text;
    PageGguf *gguf;     /* whose lines are being read; NULL: config.json's lines are */
    TensorRule section; /* of_kind, where and where_not of the tensors being read */
    const char *at;     /* stands for "@" in the names of a group */
} PageReader;

/* *kept = a copy that lives as long as the page. */
Status page_reader_keep(PageReader *r, const char *text, const char **kept);

/* Takes the next word; `what` is what the error says is missing. */
Status page_reader_kept(PageReader *r, const char *what, const char **kept);

/* Refuses a further word. */
Status page_reader_end(PageReader *r);

/* Takes the next word if it is the expected one. */
bool page_reader_is(PageReader *r, const char *expected);

/* The error of a table that is full. */
Status page_reader_full(PageReader *r, const char *what, int most);

#endif
