/* Compares the records of two trees (tests/print_same.c), for scripts/same-as.
 *
 *     print_differences [--all] LABEL RECORDS LABEL RECORDS
 *
 * RECORDS are files or FIFOs; both are read at the same pace. Every difference is a line that says
 * where it is: input and conversion, then the tensor and byte, the field with both values, or the
 * row and logit. Of differences of one sort three are printed, and of the others the inputs' names
 * alone; --all prints every one. Exit status 1 when something differs. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/modelfile.h"

enum { EXAMPLES = 3 };

typedef struct Record {
    char kind[16], name[128], place[128];
    size_t width, n;
    char *bytes; /* with a NUL after them */
} Record;

/* The records of one input; the last one is its "end". */
typedef struct Group {
    Record *records;
    size_t n, capacity;
} Group;

/* The differences of one sort. */
typedef struct Sort {
    char key[96];
    size_t n;
    char *more; /* the inputs of those that are not printed */
    size_t more_bytes;
} Sort;

typedef struct Comparison {
    const char *label[2];
    bool all;
    size_t n_inputs, n_records, n_differences;
    Sort *sorts;
    size_t n_sorts;
} Comparison;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "print_differences: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- Reading ---- */

static Record *add_record(Group *group) {
    if (group->n == group->capacity) {
        group->capacity = group->capacity ? 2 * group->capacity : 64;
        group->records = realloc(group->records, group->capacity * sizeof *group->records);
        if (!group->records) fail("no memory");
    }
    return &group->records[group->n++];
}

/* Returns false at the end of the file. */
static bool read_group(FILE *file, const char *label, Group *group) {
    char line[512];
    for (group->n = 0; fgets(line, sizeof line, file);) {
        Record *r = add_record(group);
        if (sscanf(line, "%15s %127s %127s %zu %zu", r->kind, r->name, r->place, &r->width,
                   &r->n) != 5)
            fail(label);
        r->bytes = malloc(r->n + 1);
        if (!r->bytes || fread(r->bytes, 1, r->n, file) != r->n) fail(label);
        r->bytes[r->n] = '\0';
        if (strcmp(r->kind, "end") == 0) return true;
    }
    if (group->n) { /* the program crashed */
        printf("%s: the records end within %s\n", label, group->records[0].name);
        exit(1);
    }
    return false;
}

static void free_records(Group *group) {
    for (size_t i = 0; i < group->n; i++) free(group->records[i].bytes);
}

/* ---- Reporting ---- */

static Sort *find_sort(Comparison *c, const char *key) {
    for (size_t i = 0; i < c->n_sorts; i++)
        if (strcmp(c->sorts[i].key, key) == 0) return &c->sorts[i];
    c->sorts = realloc(c->sorts, (c->n_sorts + 1) * sizeof *c->sorts);
    if (!c->sorts) fail("no memory");
    Sort *sort = &c->sorts[c->n_sorts++];
    *sort = (Sort){.n = 0};
    snprintf(sort->key, sizeof sort->key, "%s", key);
    return sort;
}

/* Appends the input's name unless it is the last one. */
static void add_name(Sort *sort, const char *name) {
    size_t n = strlen(name);
    if (sort->more && sort->more_bytes >= n && strcmp(sort->more + sort->more_bytes - n, name) == 0)
        return;
    sort->more = realloc(sort->more, sort->more_bytes + n + 2);
    if (!sort->more) fail("no memory");
    sort->more_bytes += (size_t)sprintf(sort->more + sort->more_bytes, " %s", name);
}

/* Reports a difference of the sort `key`, printed unless enough of them are. */
__attribute__((format(printf, 4, 5))) static void differs(Comparison *c, const char *key,
                                                          const Record *at, const char *format,
                                                          ...) {
    Sort *sort = find_sort(c, key);
    c->n_differences++;
    if (sort->n++ >= EXAMPLES && !c->all) {
        add_name(sort, at->name);
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    printf("%s, %s: ", at->name, at->place);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

/* ---- Logits ---- */

static size_t first_difference(const char *a, const char *b, size_t n) {
    size_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static void compare_logits(Comparison *c, const Record *a, const Record *b) {
    if (a->n != b->n || a->width != b->width) {
        differs(c, "logits", a, "%zu logits, of %s %zu", b->n / sizeof(float), c->label[0],
                a->n / sizeof(float));
        return;
    }
    size_t i = first_difference(a->bytes, b->bytes, a->n) / sizeof(float), n = 0;
    uint32_t bits[2];
    float values[2];
    for (size_t k = i; k < a->n / sizeof(float); k++)
        n += memcmp(a->bytes + 4 * k, b->bytes + 4 * k, 4) != 0;
    memcpy(&bits[0], a->bytes + 4 * i, 4), memcpy(&bits[1], b->bytes + 4 * i, 4);
    memcpy(&values[0], a->bytes + 4 * i, 4), memcpy(&values[1], b->bytes + 4 * i, 4);
    differs(c, "logits", a, "row %zu, logit %zu is %.9g (0x%08x), of %s %.9g (0x%08x); %zu differ",
            i / a->width, i % a->width, (double)values[1], bits[1], c->label[0], (double)values[0],
            bits[0], n);
}

/* ---- Lines "name: value" ---- */

/* The line of `text` that begins with name[n] and a colon; NULL: none has it. */
static const char *find_line(const char *text, const char *name, size_t n) {
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, name, n) == 0 && line[n] == ':') return line;
    return NULL;
}

/* Reports the lines of `from` that `to` lacks or, with `values`, has with other values. */
static void compare_lines(Comparison *c, const Record *from, const Record *to, const char *label,
                          bool values) {
    for (const char *line = from->bytes; *line;) {
        size_t n = strcspn(line, "\n"), name = strcspn(line, ":\n");
        const char *other = find_line(to->bytes, line, name);
        size_t n_other = other ? strcspn(other, "\n") : 0;
        char key[96];
        /* All tensors are of one sort, each field is one of its own. */
        snprintf(key, sizeof key, "%s %.*s", from->kind, (int)strcspn(line, " :\n"), line);
        if (!other) {
            differs(c, key, from, "only %s has \"%.*s\"", label, (int)n, line);
        } else if (values && (n != n_other || memcmp(line, other, n) != 0)) {
            differs(c, key, from, "%.*s, of %s%.*s", (int)n_other, other, label,
                    (int)(n - name - 1), line + name + 1);
        }
        line += n + (line[n] == '\n');
    }
}

/* ---- Converted files ---- */

static ModelFile *open_bytes(const Record *record) {
    Error error;
    ModelFile *file;
    int fd = memfd_create("model.bin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, record->bytes, record->n) != (ssize_t)record->n) fail("memory file");
    return modelfile_open(&file, record->name, fd, &error) == STATUS_OK ? file : NULL;
}

static size_t entry_bytes(const MetaEntry *entry) {
    return entry->count * (entry->type <= META_FLOAT ? 8 : 1);
}

static const MetaEntry *find_entry(const ModelFile *file, const MetaEntry *like) {
    const MetaEntry *entry;
    for (size_t i = 0; (entry = modelfile_meta(file, i)); i++)
        if (entry->key_bytes == like->key_bytes &&
            memcmp(entry->key, like->key, entry->key_bytes) == 0)
            return entry;
    return NULL;
}

/* Reports metadata of `from` that `to` lacks or, with `values`, has with another value. */
static size_t compare_metadata(Comparison *c, const Record *at, const ModelFile *from,
                               const ModelFile *to, const char *label, bool values) {
    const MetaEntry *entry, *other;
    size_t n = 0;
    for (size_t i = 0; (entry = modelfile_meta(from, i)); i++) {
        char key[96];
        snprintf(key, sizeof key, "metadata %.*s", (int)entry->key_bytes, entry->key);
        other = find_entry(to, entry);
        if (!other) {
            n++;
            differs(c, key, at, "model.bin: only %s has metadata %.*s", label,
                    (int)entry->key_bytes, entry->key);
        } else if (values && (entry->type != other->type || entry->count != other->count ||
                              memcmp(entry->values, other->values, entry_bytes(entry)) != 0)) {
            n++;
            differs(c, key, at, "model.bin: metadata %.*s differs", (int)entry->key_bytes,
                    entry->key);
        }
    }
    return n;
}

static size_t compare_tensors(Comparison *c, const Record *at, const ModelFile *a,
                              const ModelFile *b) {
    size_t n = 0;
    for (size_t i = 0; i < modelfile_n_tensors(a); i++) {
        const FileTensor *t = modelfile_tensor(a, i), *u = modelfile_find(b, t->name);
        if (!u) {
            n++;
            differs(c, "tensors", at, "model.bin: only %s has tensor %s", c->label[0], t->name);
        } else if (t->type != u->type || t->count != u->count || t->rows != u->rows ||
                   t->cols != u->cols || t->bytes != u->bytes) {
            n++;
            differs(c, "tensors", at, "model.bin: tensor %s has another type or shape", t->name);
        } else if (memcmp(modelfile_data(a, t), modelfile_data(b, u), t->bytes) != 0) {
            const char *x = modelfile_data(a, t), *y = modelfile_data(b, u);
            size_t k = first_difference(x, y, t->bytes);
            n++;
            differs(c, "bytes", at,
                    "model.bin: tensor %s, byte %zu of %llu is 0x%02x, of %s 0x%02x", t->name, k,
                    (unsigned long long)t->bytes, (unsigned char)y[k], c->label[0],
                    (unsigned char)x[k]);
        }
    }
    for (size_t i = 0; i < modelfile_n_tensors(b); i++) {
        const FileTensor *t = modelfile_tensor(b, i);
        if (modelfile_find(a, t->name)) continue;
        n++;
        differs(c, "tensors", at, "model.bin: only %s has tensor %s", c->label[1], t->name);
    }
    return n;
}

static void compare_files(Comparison *c, const Record *a, const Record *b) {
    ModelFile *x = open_bytes(a), *y = open_bytes(b);
    size_t n = 0;
    if (x && y) {
        n += compare_metadata(c, a, x, y, c->label[0], true);
        n += compare_metadata(c, a, y, x, c->label[1], false);
        n += compare_tensors(c, a, x, y);
    }
    if (n == 0)
        differs(c, "file", a, "model.bin, byte %zu of %zu (of %s: of %zu)",
                first_difference(a->bytes, b->bytes, a->n < b->n ? a->n : b->n), b->n, c->label[0],
                a->n);
    if (x) modelfile_close(x);
    if (y) modelfile_close(y);
}

/* ---- Groups ---- */

static void compare_records(Comparison *c, const Record *a, const Record *b) {
    c->n_records++;
    if (a->n == b->n && a->width == b->width && memcmp(a->bytes, b->bytes, a->n) == 0) return;
    if (strcmp(a->kind, "file") == 0) {
        compare_files(c, a, b);
    } else if (strcmp(a->kind, "logits") == 0) {
        compare_logits(c, a, b);
    } else if (strcmp(a->kind, "refused") == 0) {
        differs(c, "refused", a, "\"%s\", of %s \"%s\"", b->bytes, c->label[0], a->bytes);
    } else {
        compare_lines(c, a, b, c->label[0], true);
        compare_lines(c, b, a, c->label[1], false);
    }
}

static const Record *find_record(const Group *group, const Record *like, size_t guess) {
    for (size_t k = 0; k < group->n; k++) {
        const Record *r = &group->records[(guess + k) % group->n];
        if (strcmp(r->place, like->place) == 0 && strcmp(r->kind, like->kind) == 0) return r;
    }
    return NULL;
}

/* True when the group has an error message for the conversion that `place` belongs to. */
static bool is_refused(const Group *group, const char *place) {
    for (size_t i = 0; i < group->n; i++) {
        const Record *r = &group->records[i];
        if (r->n && strcmp(r->kind, "refused") == 0 && strlen(r->place) == strcspn(place, "/") &&
            strncmp(r->place, place, strlen(r->place)) == 0)
            return true;
    }
    return false;
}

/* Reports a record of one tree without its like in the other tree's group. */
static void only_one(Comparison *c, const Record *record, const Group *other, const char *label) {
    if (is_refused(other, record->place)) return; /* reported by its message */
    bool refused = strcmp(record->kind, "refused") == 0;
    char key[96];
    snprintf(key, sizeof key, "only %s", record->kind);
    differs(c, key, record, "only %s %s%s%s", label, refused ? "refuses it: " : "has ",
            refused ? record->bytes : record->kind, refused ? "" : " here");
}

static void compare_groups(Comparison *c, const Group *a, const Group *b) {
    if (strcmp(a->records[0].name, b->records[0].name) != 0) {
        printf("%s has %s where %s has %s\n", c->label[0], a->records[0].name, c->label[1],
               b->records[0].name);
        exit(1);
    }
    for (size_t i = 0; i < a->n; i++) {
        const Record *record = find_record(b, &a->records[i], i);
        if (record) {
            compare_records(c, &a->records[i], record);
        } else {
            only_one(c, &a->records[i], b, c->label[0]);
        }
    }
    for (size_t i = 0; i < b->n; i++)
        if (!find_record(a, &b->records[i], i)) only_one(c, &b->records[i], a, c->label[1]);
}

int main(int argc, char **argv) {
    bool all = argc == 6 && strcmp(argv[1], "--all") == 0;
    char **arguments = argv + 1 + all;
    if (argc - all != 5) {
        fprintf(stderr, "usage: print_differences [--all] LABEL RECORDS LABEL RECORDS\n");
        return 2;
    }
    Comparison c = {.label = {arguments[0], arguments[2]}, .all = all};
    FILE *a = fopen(arguments[1], "r"), *b = fopen(arguments[3], "r");
    if (!a || !b) fail(a ? arguments[3] : arguments[1]);
    Group x = {0}, y = {0};
    bool more[2];
    while (more[0] = read_group(a, c.label[0], &x), more[1] = read_group(b, c.label[1], &y),
           more[0] && more[1]) {
        compare_groups(&c, &x, &y);
        c.n_inputs++;
        free_records(&x), free_records(&y);
    }
    if (more[0] != more[1]) {
        printf("%s ends after %zu inputs\n", c.label[more[0] ? 1 : 0], c.n_inputs);
        c.n_differences++;
    }
    for (size_t i = 0; i < c.n_sorts; i++)
        if (c.sorts[i].more)
            printf("%s: %zu more, in%s\n", c.sorts[i].key, c.sorts[i].n - EXAMPLES,
                   c.sorts[i].more);
    printf("%zu inputs, %zu records, %zu differences\n", c.n_inputs, c.n_records, c.n_differences);
    return c.n_differences || c.n_inputs == 0 ? 1 : 0;
}
