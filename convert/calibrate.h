/* Which inputs of each matrix matter: the model runs over a text, and the mean square of each
 * input of every matrix is taken.
 *
 * A weight's error e changes an output by e * x, so over the text its square costs e^2 mean(x^2):
 * what a quantizer does best to minimize when it knows mean(x^2), as GPTQ, AWQ and llama.cpp's
 * importance matrices do in their ways.
 *
 * The same text gives the same bits on any number of threads and any instruction set. */
#ifndef FORMATS_CALIBRATE_H
#define FORMATS_CALIBRATE_H

#include "convert/convert.h"
#include "model.h"

/* Runs `file` over the text, in windows of 512 tokens that each begin as a text does. `done`
 * counts tokens in options->progress. */
Status calibrate(Calibration **out, const ModelFile *file, const InputFile *text,
                 const ConvertOptions *options, Error *error);
/* The same for a source that is open and parsed, by way of a lossless conversion into *fd (an
 * empty file, taken over: -1 afterwards). */
Status calibrate_source(Calibration **out, const Source *source, const InputFile *text, int *fd,
                        const ConvertOptions *options, Error *error);
void calibration_free(Calibration *calibration);

/* The importance of each input of the matrix that is the file's tensor number `tensor`, or of
 * the same of the source: [cols, rounded up to a multiple of 64], around 1 and then zeros. The
 * fewer tokens reached the matrix, the nearer to 1 (an expert may see few, or none): NULL when
 * nothing is known. */
const float *calibration_importance(const Calibration *calibration, size_t tensor);

#endif
