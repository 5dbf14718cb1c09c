#include "modes/inspect/layer_view.h"

#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "modes/inspect/layer_numbers.h"
#include "modes/inspect/layer_picture.h"
#include "modes/inspect/layer_text.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = text ? strlen(text) : 0, m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

Status layer_view_run(Session *session, Error *error) {
    const Options *o = session->options;
    const InspectOptions *inspect = inspect_options(o);
    size_t position = options_given(o, &inspect->position) ? (size_t)inspect->position : SIZE_MAX;
    LayerTrace trace;
    Sheet out = {0};
    Status status = layer_trace_collect(&trace, session, (size_t)inspect->layer, position, error);
    if (status == STATUS_OK) {
        if (o->json_object || ends_with(o->output, ".json")) {
            layer_numbers_write(&trace, &out);
        } else if (ends_with(o->output, ".svg")) {
            layer_picture_write(&trace, &out);
        } else {
            layer_text_write(&trace, &out);
        }
        status = out.failed ? error_set(error, "no memory for what the layer holds")
                            : output_write(session->output, out.bytes, out.length, error);
    }
    sheet_free(&out);
    layer_trace_free(&trace);
    return status;
}
