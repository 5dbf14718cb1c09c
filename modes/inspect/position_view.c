#include "modes/inspect/position_view.h"

#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "modes/inspect/position_picture.h"
#include "modes/inspect/position_text.h"

Status position_view_run(Session *session, Error *error) {
    PositionCode code;
    Sheet out = {0};
    if (position_code_of(&code, session, error) != STATUS_OK) return STATUS_FAILED;
    if (strcmp(inspect_options(session->options)->positions, "table") == 0) {
        position_text_write(&code, &out);
    } else {
        position_picture_write(&code, session->overridden, &out);
    }
    Status status = out.failed ? error_set(error, "no memory for the picture")
                               : output_write(session->output, out.bytes, out.length, error);
    sheet_free(&out);
    return status;
}
