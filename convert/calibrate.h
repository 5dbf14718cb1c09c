/* Calibration: finds out which inputs of each matrix matter, by running the model over a text and
 * taking the mean square of each input of every matrix.
 *
 * An error e of a weight changes an output by e * x, so over the text its square costs e^2
 * mean(x^2). A quantizer that knows mean(x^2) can minimize that cost, as GPTQ, AWQ and llama.cpp's
 * importance matrices do in their ways.
 *
 * The same text gives the same bits on any number of threads and any instruction set. */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include "convert/text_windows.h"
#include "model.h"

typedef struct Calibration Calibration;

/* Runs the model `file` over the text (text_windows.h). `done` counts tokens in options->progress.
 * Free with calibration_free. */
Status calibrate(Calibration **out, const ModelFile *file, const InputFile *text,
                 const ConvertOptions *options, Error *error);
/* Like calibrate, for a parsed source: converts it losslessly into *fd (an empty file, of which it
 * takes ownership: -1 afterwards) and runs the result. */
Status calibrate_source(Calibration **out, const Source *source, const InputFile *text, int *fd,
                        const ConvertOptions *options, Error *error);
/* The parts of calibrate_source. calibrate_lossless leaves the lossless conversion open in
 * *file, which the caller closes. */
Status calibrate_lossless(const Source *source, const InputFile *text, int *fd,
                          const ConvertOptions *options, ModelFile **file, Error *error);
Status calibrate_windows(Calibration **out, const ModelFile *file, const TextWindows *windows,
                         const ConvertOptions *options, Error *error);
void calibration_free(Calibration *calibration);

/* The importance of each input of tensor number `tensor` of the file (or the source): [cols],
 * around 1, then zeros up to a multiple of 64. The fewer tokens reached the matrix (an expert may
 * see few), the nearer to 1; NULL: not a matrix, or no token reached it. */
const float *calibration_importance(const Calibration *calibration, size_t tensor);

/* calibration_importance in the form of ConvertOptions.importance; `context` is the Calibration. */
const float *calibration_importance_of(size_t tensor, void *context);

#endif
