/* A transport in memory: one thread, nothing is sent anywhere. Every frame and its answer are kept until the end. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/transport.h"

struct memory_request {
	struct transport_request request;
	struct memory_request *previous;
	uint32_t number, place;          /* the answer's, among all of them */
	unsigned char *frame, *answer;
	size_t answer_size;
};

struct memory_transport {
	struct transport base;
	struct memory_request *last;
	uint32_t count, answers;
};

static inline int memory_start(struct transport *t) {
	(void)t;
	return 0;
}

static inline unsigned char *memory_copy(const void *bytes, size_t size) {
	unsigned char *p = malloc(size + 1);

	if (p && size)
		memcpy(p, bytes, size);
	return p;
}

/* The frame is freed, so that a sanitizer sees who uses it after its answer. */
static inline void memory_reply(struct transport *t, struct transport_request *r, const void *bytes, size_t size) {
	struct memory_request *m = (struct memory_request *)r;

	m->place = ((struct memory_transport *)t)->answers++;
	free(m->answer);                 /* a second answer replaces the first, which a test would notice */
	m->answer = memory_copy(bytes, size);
	m->answer_size = size;
	free(m->frame);
	m->frame = NULL;
}

static inline void memory_drop(struct transport *t, struct transport_request *r) {
	struct memory_request *m = (struct memory_request *)r;

	(void)t;
	free(m->frame);
	m->frame = NULL;
}

static inline void memory_close(struct transport *t) {
	struct memory_transport *m = (struct memory_transport *)t;

	while (m->last) {
		struct memory_request *r = m->last;

		m->last = r->previous;
		free(r->frame);
		free(r->answer);
		free(r);
	}
	free(m);
}

/* 0 or -ENOMEM. */
static inline int transport_memory_new(struct transport **transportp) {
	static const struct transport_functions functions = { .start = memory_start, .reply = memory_reply, .drop = memory_drop, .close = memory_close };
	struct memory_transport *m = calloc(1, sizeof *m);

	if (!m)
		return -ENOMEM;
	m->base.functions = &functions;
	*transportp = &m->base;
	return 0;
}

/* Delivers a copy of a frame; returns its number, from 0. */
static inline uint32_t transport_memory_send(struct transport *t, const void *bytes, size_t size) {
	struct memory_transport *m = (struct memory_transport *)t;
	struct memory_request *r = calloc(1, sizeof *r);

	if (!r)
		return UINT32_MAX;
	r->frame = memory_copy(bytes, size);
	r->number = m->count++;
	r->previous = m->last;
	r->request.transport = t;
	r->request.bytes = r->frame;
	r->request.size = size;
	m->last = r;
	t->receive(t->user, &r->request);
	return r->number;
}

static inline const struct memory_request *memory_find(const struct transport *t, uint32_t number) {
	const struct memory_transport *m = (const struct memory_transport *)t;
	const struct memory_request *r = m->last;

	while (r && r->number != number)
		r = r->previous;
	return r && r->answer ? r : NULL;
}

/* The answer to a frame, or NULL while there is none. Valid until the transport is closed. */
static inline const void *transport_memory_answer(const struct transport *t, uint32_t number, size_t *sizep) {
	const struct memory_request *r = memory_find(t, number);

	if (!r)
		return NULL;
	*sizep = r->answer_size;
	return r->answer;
}

/* Were both answered, the first one sooner? */
static inline bool transport_memory_in_order(const struct transport *t, uint32_t first, uint32_t second) {
	const struct memory_request *a = memory_find(t, first), *b = memory_find(t, second);

	return a && b && a->place < b->place;
}
