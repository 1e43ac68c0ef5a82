/*
 * What the engine does, event by event, for who watches: fusionctl monitor and trace.
 *
 * Off, an event costs the look at trace_on. On, the newest TRACE_EVENTS are kept, whoever reads them; nothing waits for a
 * reader. It belongs to the engine's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"

enum trace_kind {
	TRACE_REQUEST,               /* a message of a client was handled; numbers: message, bytes */
	TRACE_WINDOW,                /* operations gathered until they were handed on; operations; text: why then */
	TRACE_PLAN,                  /* a graph was planned or looked up; operations, kernels; text: found or made */
	TRACE_BUILD,                 /* a program came to be; microseconds of its compiler */
	TRACE_LAUNCH,                /* a kernel was handed to the driver; tasks, operations; text: these */
	TRACE_RUN,                   /* a graph from its submission until it had passed; operations, kernels */
	TRACE_COPY,                  /* memory was copied; bytes; text: the direction */
	TRACE_DEVICE,                /* a launch, while the device was at it; tasks, operations; text: what kernel, and these */
	TRACE_KINDS,
};

enum {
	/* Some tenths of a second of the busiest daemon; a reader comes ten times a second. 5 MiB. */
	TRACE_EVENTS = 1 << 15,
	/* Names of operations; the rest of a longer list is counted. */
	TRACE_TEXT = 104,
};

struct trace_event {
	uint64_t begin_ns, end_ns;   /* by loop_now_ns() */
	uint64_t session;            /* 0: nobody's */
	uint64_t number[2];
	uint32_t uid;                /* of the session */
	uint8_t kind;
	char text[TRACE_TEXT];
};

/* Read by anybody, written here alone. */
extern bool trace_on;

/* 0 or -ENOMEM; already on: 0. */
int trace_start(void) FAULT_MUST_USE;
void trace_stop(void);

/* Where they come from, for those that know no user: sessions are told when they begin to act. */
struct trace_source {
	uint64_t session;
	uint32_t uid;
};

/* Only while trace_on. The text may be empty. */
struct trace_event *trace_add(enum trace_kind kind, const struct trace_source *who, uint64_t begin_ns, uint64_t end_ns);
/* One more word of an event's text; false where there is no room for more. */
bool trace_word(struct trace_event *e, const char *word);

/* How many there were ever. */
uint64_t trace_count(void);
/* Event i of them, or NULL where it was overwritten. */
const struct trace_event *trace_at(uint64_t i);
const char *trace_kind_name(enum trace_kind kind);
