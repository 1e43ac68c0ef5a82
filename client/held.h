/* What a context holds at the daemon, for who asks for more memory than there is. */
#pragma once

#include "protocol/fault.h"

struct fusion_context;

/* To a sentence about memory: how many arrays are held, their bytes, and the lines that made the oldest of them. Others stay as they are. */
void held_append(const struct fusion_context *c, struct fault *f);
