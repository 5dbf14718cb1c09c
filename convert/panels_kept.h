/* Panels that take over what the source holds, without rounding: panels of a model.bin, numbers of
 * 16 or 32 bits, codes and scales of quantized blocks. */
#ifndef CONVERT_PANELS_KEPT_H
#define CONVERT_PANELS_KEPT_H

#include "convert/panel_maker.h"

/* The maker that converts the source's tensor to a matrix of this type without rounding; NULL:
 * impossible. */
const PanelMaker *panels_kept(const SourceTensor *tensor, TensorType type);

#endif
