#include "core/prefill.h"

#include <stdlib.h>

Status prefill(Model *model, KvCache *cache, const Prefill *p, Error *error) {
    size_t most = p->max_rows ? p->max_rows : model_max_rows(model);
    int32_t start = kvcache_next(cache, p->sequence);
    Row *rows = calloc(size_min(p->n, most) + 1, sizeof *rows);
    Status status = rows ? STATUS_OK : error_set(error, "no memory for the rows of a prompt");
    for (size_t done = 0; status == STATUS_OK && done < p->n;) {
        PrefillChunk chunk = {.rows = rows, .total = p->n, .logits = p->logits};
        chunk.n = kvcache_call_rows(cache, p->sequence, p->n - done, most);
        for (size_t i = 0; i < chunk.n; i++, done++) {
            bool wants = p->wanted ? p->wanted[done] : done >= p->first_wanted;
            rows[i] = (Row){p->sequence, start + (int32_t)done, p->ids[done], wants};
            chunk.n_logits += wants;
        }
        chunk.done = done;
        status = model_forward(model, cache, rows, chunk.n, p->logits, error);
        if (status == STATUS_OK && p->after_chunk)
            status = p->after_chunk(p->context, &chunk, error);
        if (status == STATUS_OK && done < p->n && p->interrupted && *p->interrupted)
            status = STATUS_INTERRUPTED;
    }
    free(rows);
    return status;
}
