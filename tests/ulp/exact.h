/*
 * The functions of kernels/ that are exact or rounded once: arithmetic of integers and floats, comparisons,
 * conversions between all registers, the 16-bit formats, and memory access.
 */
#pragma once

#include "device.h"

/* Compares programs of one lane and of `lanes` with the references; counts passed and failed claims. */
void exact_run(struct device *d, int lanes, int *passedp, int *failedp);
