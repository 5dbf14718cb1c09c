#include "modes/inspect/work.h"

#include "core/config_fields.h"

Work work_of(const Config *config) {
    Work work = {.token = config_work(config, 1, 1), .layers = config_work(config, 1, 0)};
    work.grows = config->stack == STACK_PLAIN;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const HeadShape heads = config_heads(config, l);
        work.grows = work.grows && config->layer_kind[l] == LAYER_ATTENTION &&
                     config->window[l] == 0 && config->chunk[l] == 0;
        if (config->layer_kind[l] == LAYER_ATTENTION)
            work.per_position += (double)heads.n_heads * (heads.head_dim + heads.value_dim);
    }
    work.equal = work.per_position > 0.0 ? work.layers / work.per_position : 0.0;
    return work;
}
