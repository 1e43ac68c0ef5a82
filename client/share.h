/* For the rest of the library: a value that an export or an import named, once its answer came, and nobody wants it any more. */
#pragma once

#include <stdbool.h>

struct answer;
struct fusion_context;
struct value;

/* Takes over the reference. Where it was refused the handle is free again, else it is released. */
void share_answered(struct fusion_context *c, struct value *v, const struct answer *a, bool exported);
