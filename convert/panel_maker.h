/* Who makes the panels of a tensor, and what they work with: the rows of the plan (plan.h).
 *
 * A PanelMaker is a way to make panels: panels_kept.h has those that take numbers, codes or panels
 * of the source over as they are, panels_rounded.h those that read the rows as float32 and round
 * them to the type. Makers change nothing but their thread's PanelWork and the losses. */
#ifndef CONVERT_PANEL_MAKER_H
#define CONVERT_PANEL_MAKER_H

#include "formats/containers/source_floats.h"
#include "kernels/superblocks.h"

struct ConvertLosses;
struct TensorPlan;

/* Sizes of working memory, in elements: what the largest panel needs. */
typedef struct PanelSizes {
    size_t floats, codes, groups, stored;
} PanelSizes;

/* A thread's working memory. */
typedef struct PanelWork {
    float *floats;                /* [PANEL_ROWS][padded cols], and a row more */
    uint8_t *codes;               /* [PANEL_ROWS][padded cols] */
    uint16_t *scales;             /* [PANEL_ROWS][groups], and as many minima */
    uint8_t *subs;                /* [PANEL_ROWS][groups], and as many sub-minima */
    uint8_t *stored;              /* [PANEL_ROWS] rows of the source's blocks */
    struct ConvertLosses *losses; /* of all threads */
} PanelWork;

typedef struct PanelMaker {
    /* Raises the sizes to what a panel of the tensor needs. */
    void (*size)(const struct TensorPlan *tensor, PanelSizes *most);
    /* Makes panel[panel_bytes] of the tensor's rows from `first` on; rows that it does not have are
     * zeros. The Error names the source, the tensor and the row. */
    Status (*make)(const struct TensorPlan *tensor, size_t first, PanelWork *work, uint8_t *panel,
                   Error *error);
} PanelMaker;

/* How one tensor of the source is converted. */
typedef struct TensorPlan {
    const Source *source;
    const SourceTensor *from; /* where its rows lie */
    SourceReading reading; /* who reads them as float32, and what joins, reorders or changes them */
    TensorType type;
    const PanelMaker *maker; /* NULL: an earlier tensor's data is its own, too (from->shares) */
    size_t panel_rows;       /* PANEL_ROWS; of a vector as many as are read at once */
    size_t panel_bytes;      /* the last one of a vector may be shorter */
    const float
        *importance;  /* of its inputs (calibrate.h), [padded cols]; NULL: all matter alike */
    bool is_measured; /* the type holds it approximately, and the losses say how well */
} TensorPlan;

/* Raises *size to what is needed, if that is more. */
void panel_raise_size(size_t *size, size_t needed);

/* Allocates a thread's working memory of these sizes. False: memory is short; panel_work_free frees
 * what there is. */
bool panel_work_new(PanelWork *work, const PanelSizes *sizes, struct ConvertLosses *losses);
void panel_work_free(PanelWork *work);

/* How many of the panel's rows from `first` on the tensor has. */
size_t panel_rows(const TensorPlan *tensor, size_t first);

/* The parts of row r of a type of superblocks.h, with so many columns and groups, in `work`. */
SuperblockCodes panel_superblock_row(const PanelWork *work, size_t cols, size_t groups, size_t r);

/* Refuses a row that holds `what` ("weight", "scale") that is not finite. As the source's errors
 * do, the Error names the source. */
Status panel_not_finite(const TensorPlan *tensor, size_t row, const char *what, Error *error);

/* Reads rows [first, first + n) as float32 into x[n][cols] and refuses what is not finite. */
Status panel_read_floats(const TensorPlan *tensor, size_t first, size_t n, const char *what,
                         float *x, Error *error);

#endif
