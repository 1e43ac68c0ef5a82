/* See elsewhere.h. */
#include "elsewhere.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

static int keep_text(const char *text, char **copyp) {
	*copyp = text ? strdup(text) : NULL;
	return text && !*copyp ? -ENOMEM : 0;
}

int elsewhere_of(const struct fusion_context *c, struct elsewhere *e) {
	const struct fusion_options *o = &c->options;
	int r;

	e->number = c->door.number;
	e->devices = c->door.devices;
	e->timeout_ms = o->timeout_ms;
	r = keep_text(o->socket, &e->socket);
	if (!r)
		r = keep_text(o->name, &e->name);
	if (!r)
		r = keep_text(o->authority, &e->authority);
	if (!r)
		r = keep_text(o->certificate, &e->certificate);
	return r ? r : keep_text(o->key, &e->key);
}

void elsewhere_free(struct elsewhere *e) {
	free(e->socket);
	free(e->name);
	free(e->authority);
	free(e->certificate);
	free(e->key);
}

int elsewhere_open(const struct elsewhere *e, uint64_t engine, fusion_context **contextp) {
	char number[24];
	const struct fusion_options o = { .socket = e->socket, .name = e->name, .timeout_ms = e->timeout_ms, .authority = e->authority,
		.certificate = e->certificate, .key = e->key, .device = number };

	snprintf(number, sizeof number, "%" PRIu64, engine);
	return fusion_open(contextp, &o);
}
