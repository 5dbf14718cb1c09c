#include "layers/final_states.h"

#include "forward_pass.h"

const float *final_states_of(const Model *model) {
    return model->normed;
}
