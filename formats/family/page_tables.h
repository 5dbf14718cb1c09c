/* The names that a page may write (family_page.h) and what they stand for: shared by the reader and
 * the printer (family_print.h). docs/family-pages.md explains each. */
#ifndef FORMATS_FAMILY_PAGE_TABLES_H
#define FORMATS_FAMILY_PAGE_TABLES_H

#include "formats/family/family.h"

typedef enum MemberKind { MEMBER_FLAG, MEMBER_NUMBER, MEMBER_TEXT } MemberKind;

/* A member of a struct by its name on a page. */
typedef struct PageMember {
    const char *name;
    MemberKind kind; /* bool, double, const char * */
    size_t offset;
} PageMember;

/* Each ends with an entry without a name. */
extern const PageMember page_rope_members[];   /* of RopeKeys: `rope NAME VALUE` */
extern const PageMember page_family_flags[];   /* of Family: `with NAME` */
extern const PageMember page_gguf_flags[];     /* of GgufFamily: `with NAME` */
extern const PageMember page_tensor_members[]; /* of TensorRule: words after the shape */

/* Words after a tensor's shape that say one of several things. */
typedef struct PageChoice {
    const char *name;
    size_t offset; /* of the enum in TensorRule */
    unsigned value;
} PageChoice;

extern const PageChoice page_tensor_choices[];

/* The kinds of layers in the order of LayerKindNumber, then NULL: `layers of KIND`. */
extern const char *const page_kinds[];

/* False: no kind of layers has this name. */
bool page_kind(const char *name, uint32_t *kind);

/* The forms of tensors in the order of RuleForm, then NULL. */
extern const char *const page_forms[];

/* The forms of prediction layers in the order of PredictionForm, then NULL. */
extern const char *const page_predictions[];

/* Whether a tensor of the runner has this name, with "%u" for an expert or a head. */
bool page_is_tensor(const char *name, size_t bytes);

#endif
