/*
 * Records a text graph through libfusion's public functions, which check types and shapes.
 */
#pragma once

#define FUSION_NO_PLACES
#include "client/fusion.h"
#include "client/fusionctl/text.h"

/*
 * Leaves the outputs' arrays, not run yet, in output[0 .. t->outputs), each with a reference for the
 * caller; other arrays are released, so that the daemon need not keep them. On failure all are
 * released: FAULT_SYNTAX with the place of a literal, or the library's error with the file and line
 * of the statement.
 */
int text_record(
	const struct text *t, fusion_context *c, fusion_array **output, struct fault *f) FAULT_MUST_USE;

/*
 * The same for who records one text several times: inputs are made the first time, and kept in input[0 .. t->statements), NULL before, with
 * a reference each for the caller.
 */
int text_record_again(const struct text *t, fusion_context *c, fusion_array **input, fusion_array **output, struct fault *f) FAULT_MUST_USE;

/* The library's last error of this thread as a fault; returns its code. */
int text_library_fault(struct fault *f);
