#include "readers.h"
Status huggingface_open(Source *source, Error *error) {
    (void)source, (void)error;
    return STATUS_OK;
}
Status huggingface_parse(Source *source, Error *error) {
    return error_set(error, "%s: directories are not read yet", source->path);
}
