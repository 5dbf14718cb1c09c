/* Panels of rows that are read as float32 and rounded to the type, or quantized; and the rows of
 * vectors, which stay float32. */
#ifndef CONVERT_PANELS_ROUNDED_H
#define CONVERT_PANELS_ROUNDED_H

#include "convert/panel_maker.h"

/* Who makes tensors of this type of rows of float32. */
const PanelMaker *panels_rounded(TensorType type);

#endif
