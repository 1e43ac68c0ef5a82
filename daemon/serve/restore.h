/*
 * What a catalogue says is held against these before it is believed: it was written by a process that died. See restore.c.
 */
#pragma once

#include <stdbool.h>

#include "protocol/shape.h"

/* Does every element of the view lie in so many bytes? */
bool view_fits(const struct tensor_type *t, const struct view *v, uint64_t bytes);
bool type_is_sound(const struct tensor_type *t);
