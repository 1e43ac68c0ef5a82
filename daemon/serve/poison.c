/* Shared faults; see poison.h. */
#include "poison.h"

#include <stdlib.h>

struct poison *poison_new(const struct fault *f, uint64_t seq, int64_t node) {
	struct poison *p = malloc(sizeof *p);

	if (!p)
		return NULL;
	p->references = 1;
	p->seq = seq;
	p->node = node;
	p->fault = *f;
	return p;
}

struct poison *poison_ref(struct poison *p) {
	p->references++;
	return p;
}

struct poison *poison_unref(struct poison *p) {
	if (p && --p->references == 0)
		free(p);
	return NULL;
}
