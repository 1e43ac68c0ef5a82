/*
 * Packets of protocol buffers, as https://perfetto.dev/docs/reference/trace-packet-proto has them; see perfetto.h.
 *
 * What is written are three messages without a choice in them, so their fields are put as they are, a number each below, rather than by
 * a generator and its library. A field is its number and kind, then a number of seven bits a byte, or a length and that many bytes.
 */
#include "perfetto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

enum wire { WIRE_NUMBER = 0, WIRE_EIGHT_BYTES = 1, WIRE_BYTES = 2 };

/* Fields of the messages, by the names of the description. */
enum {
	TRACE_PACKET = 1,

	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,        /* trusted_packet_sequence_id */
	PACKET_TRACK_EVENT = 11,
	PACKET_TRACK_DESCRIPTOR = 60,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_PARENT = 5,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,

	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_CATEGORY = 22,
	EVENT_NAME = 23,
	ANNOTATION_DOUBLE = 5,
	ANNOTATION_TEXT = 6,
	ANNOTATION_NAME = 10,
};

enum { EVENT_SLICE_BEGIN = 1, EVENT_SLICE_END = 2 };

enum {
	/* All packets are of one writer. */
	SEQUENCE = 1,
	/* Processes are tracks 1, 2, ... by their numbers, which are below this; their tracks come behind. */
	FIRST_TRACK = 2000000000,
};

/* One of those that a name has, side by side. */
struct lane {
	uint64_t process, uuid, busy_ns;       /* busy_ns: the end of its newest slice */
	const char *track;                     /* a constant of the caller's */
};

struct perfetto {
	FILE *out;
	struct lane *lane;
	unsigned lanes;
	msgpack_sbuffer packet, message, inner;
};

int perfetto_new(FILE *out, struct perfetto **perfettop) {
	struct perfetto *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->out = out;
	msgpack_sbuffer_init(&p->packet);
	msgpack_sbuffer_init(&p->message);
	msgpack_sbuffer_init(&p->inner);
	*perfettop = p;
	return 0;
}

struct perfetto *perfetto_free(struct perfetto *p) {
	if (!p)
		return NULL;
	msgpack_sbuffer_destroy(&p->packet);
	msgpack_sbuffer_destroy(&p->message);
	msgpack_sbuffer_destroy(&p->inner);
	free(p->lane);
	free(p);
	return NULL;
}

/* ---- fields ---- */

static void put_varint(msgpack_sbuffer *to, uint64_t number) {
	do {
		char byte = (char)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));

		msgpack_sbuffer_write(to, &byte, 1);
		number >>= 7;
	} while (number);
}

static void put_field(msgpack_sbuffer *to, unsigned field, enum wire kind) {
	put_varint(to, (uint64_t)field << 3 | kind);
}

static void put_number(msgpack_sbuffer *to, unsigned field, uint64_t number) {
	put_field(to, field, WIRE_NUMBER);
	put_varint(to, number);
}

/* Eight bytes, the lowest first. */
static void put_double(msgpack_sbuffer *to, unsigned field, double value) {
	uint64_t bits;
	char byte[8];

	memcpy(&bits, &value, sizeof bits);
	for (unsigned i = 0; i < sizeof byte; i++)
		byte[i] = (char)(bits >> 8 * i);
	put_field(to, field, WIRE_EIGHT_BYTES);
	msgpack_sbuffer_write(to, byte, sizeof byte);
}

static void put_bytes(msgpack_sbuffer *to, unsigned field, const void *bytes, size_t size) {
	put_field(to, field, WIRE_BYTES);
	put_varint(to, size);
	msgpack_sbuffer_write(to, bytes, size);
}

static void put_text(msgpack_sbuffer *to, unsigned field, const char *text) {
	put_bytes(to, field, text, strlen(text));
}

/* The message as a field of another one; it is empty then. */
static void put_message(msgpack_sbuffer *to, unsigned field, msgpack_sbuffer *message) {
	put_bytes(to, field, message->data, message->size);
	msgpack_sbuffer_clear(message);
}

/* p->packet, as one of the file. */
static void write_packet(struct perfetto *p) {
	put_number(&p->packet, PACKET_SEQUENCE, SEQUENCE);
	put_message(&p->message, TRACE_PACKET, &p->packet);
	fwrite(p->message.data, 1, p->message.size, p->out);
	msgpack_sbuffer_clear(&p->message);
}

/* ---- tracks ---- */

void perfetto_process(struct perfetto *p, uint64_t process, const char *name) {
	put_number(&p->inner, PROCESS_PID, process);
	put_text(&p->inner, PROCESS_NAME, name);
	put_number(&p->message, TRACK_UUID, process);
	put_message(&p->message, TRACK_PROCESS, &p->inner);
	put_message(&p->packet, PACKET_TRACK_DESCRIPTOR, &p->message);
	write_packet(p);
}

static void describe_lane(struct perfetto *p, const struct lane *l) {
	put_number(&p->message, TRACK_UUID, l->uuid);
	put_text(&p->message, TRACK_NAME, l->track);
	put_number(&p->message, TRACK_PARENT, l->process);
	put_message(&p->packet, PACKET_TRACK_DESCRIPTOR, &p->message);
	write_packet(p);
}

/* One in which the slice disturbs no other; NULL: out of memory. */
static struct lane *find_lane(struct perfetto *p, const struct perfetto_slice *s) {
	struct lane *more;

	for (unsigned i = 0; i < p->lanes; i++) {
		struct lane *l = &p->lane[i];

		if (l->process == s->process && l->busy_ns <= s->begin_ns && !strcmp(l->track, s->track))
			return l;
	}
	more = realloc(p->lane, (p->lanes + 1) * sizeof *p->lane);
	if (!more)
		return NULL;
	p->lane = more;
	more += p->lanes++;
	*more = (struct lane){ .process = s->process, .uuid = (uint64_t)FIRST_TRACK + p->lanes, .track = s->track };
	describe_lane(p, more);
	return more;
}

/* ---- slices ---- */

static void put_argument(struct perfetto *p, const cJSON *argument) {
	put_text(&p->inner, ANNOTATION_NAME, argument->string);
	if (cJSON_IsString(argument))
		put_text(&p->inner, ANNOTATION_TEXT, argument->valuestring);
	else
		put_double(&p->inner, ANNOTATION_DOUBLE, argument->valuedouble);
	put_message(&p->message, EVENT_ANNOTATION, &p->inner);
}

/* p->message holds what the event has besides. */
static void put_event(struct perfetto *p, unsigned type, const struct lane *l, uint64_t ns) {
	put_number(&p->message, EVENT_TYPE, type);
	put_number(&p->message, EVENT_TRACK, l->uuid);
	put_number(&p->packet, PACKET_TIMESTAMP, ns);
	put_message(&p->packet, PACKET_TRACK_EVENT, &p->message);
	write_packet(p);
}

int perfetto_slice(struct perfetto *p, const struct perfetto_slice *s) {
	struct lane *l = find_lane(p, s);
	const cJSON *argument;

	if (!l)
		return -ENOMEM;
	put_text(&p->message, EVENT_CATEGORY, s->track);
	put_text(&p->message, EVENT_NAME, s->name);
	cJSON_ArrayForEach(argument, s->arguments) put_argument(p, argument);
	put_event(p, EVENT_SLICE_BEGIN, l, s->begin_ns);
	put_event(p, EVENT_SLICE_END, l, s->end_ns);
	l->busy_ns = s->end_ns;
	return 0;
}
