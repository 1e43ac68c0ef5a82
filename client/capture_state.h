/* What the files of recorded graphs share: capture.c records them, replay.c runs them, recorded.c answers questions about them. */
#pragma once

#include <pthread.h>

#include "capture.h"
#include "object.h"

struct capture_input {
	struct fusion_array *array; /* hidden inputs: used by the graph; NULL for those replay is given */
	struct value *symbol;       /* while recording */
	struct tensor_type type;
};

struct fusion_capture {
	struct object object;
	/* What is behind this begins as zeros. */
	struct fusion_context *context;
	uint32_t references;       /* the program's, and calls under way */
	pthread_t owner;
	uint64_t serial; /* which marks its values and arrays */
	uint32_t id;     /* number in the daemon */
	unsigned given;  /* inputs that replay is given; the first ones */
	unsigned inputs, room;
	struct capture_input *input;
	struct value_list recorded;
	unsigned outputs;
	struct tensor_type *output;
	struct capture_text *definition; /* NULL: there was no memory for it */
	bool ending;               /* its thread is in capture_end, and gives the lock up there */
};

/* Its definition, for another engine; NULL: it cannot be told. */
struct capture_text *capture_again(const struct fusion_capture *p);
/* Releases what a capture refers to; the daemon's side is the caller's business. */
void capture_destroy(struct fusion_capture *p);
/* What EXPLAIN and DEFINE have in common: the types of the inputs; the operations that are marked. */
void capture_put_types(const struct fusion_capture *p, struct wire_writer *w);
void capture_put_marked(const struct fusion_capture *p, struct wire_writer *w, uint32_t operations);
/* Takes the marks away: who asked how the graph would run has left some. */
void capture_unmark(struct fusion_capture *p);
