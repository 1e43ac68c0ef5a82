/* Shared faults; see poison.h. */
#include "poison.h"

#include <stdlib.h>

/* Nobody frees it: the first reference is its own. */
static struct poison out_of_memory = {
	.references = 1,
	.node = -1,
	.fault = { .code = FAULT_MEMORY, .text = "the daemon is out of memory" },
};

struct poison *poison_new(const struct fault *f, uint64_t seq, int64_t node) {
	struct poison *p = malloc(sizeof *p);

	if (!p)
		return poison_ref(&out_of_memory);
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
