/*
 * msgpack, written and read with suspicion. See wire.h for the contract.
 *
 * msgpack-c allocates what an array's header claims and recurses as deep as the bytes say, so
 * nothing reaches it before scan() has walked the raw bytes with a fixed stack and found every
 * count covered by bytes. The scan also counts the values, so that the unpacked frame takes one
 * allocation of the right size.
 */
#include "wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- writing ----------------------------------------------------------------------------- */

static void note(struct wire_writer *w, int r) {
	if (r)
		w->failed = true;
}

/* Beyond what is small it is doubled from here on. */
enum { WIRE_ROOM = 8192 };

static int grow(struct wire_buffer *b, size_t more) {
	size_t room = b->room == WIRE_SMALL ? WIRE_ROOM : b->room;
	char *data;

	while (room - b->size < more) {
		if (room > SIZE_MAX / 2)
			return -1;
		room *= 2;
	}
	data = realloc(b->data == b->small ? NULL : b->data, room);
	if (!data)
		return -1;
	if (b->data == b->small)
		memcpy(data, b->small, b->size);
	b->data = data;
	b->room = room;
	return 0;
}

/* As msgpack's packers call it. */
static int append(void *user, const char *bytes, size_t size) {
	struct wire_buffer *b = user;

	if (!size)
		return 0;
	if (b->room - b->size < size && grow(b, size))
		return -1;
	memcpy(b->data + b->size, bytes, size);
	b->size += size;
	return 0;
}

void wire_writer_init(struct wire_writer *w) {
	w->buffer.size = 0;
	w->buffer.room = WIRE_SMALL;
	w->buffer.data = w->buffer.small;
	msgpack_packer_init(&w->packer, &w->buffer, append);
	w->failed = false;
}

void wire_writer_clear(struct wire_writer *w) {
	w->buffer.size = 0;
	w->failed = false;
}

void wire_writer_free(struct wire_writer *w) {
	if (w->buffer.data != w->buffer.small)
		free(w->buffer.data);
	wire_writer_init(w);
}

void wire_put_array(struct wire_writer *w, uint32_t count) {
	note(w, msgpack_pack_array(&w->packer, count));
}

void wire_put_map(struct wire_writer *w, uint32_t count) {
	note(w, msgpack_pack_map(&w->packer, count));
}

void wire_put_uint(struct wire_writer *w, uint64_t value) {
	note(w, msgpack_pack_uint64(&w->packer, value));
}

void wire_put_int(struct wire_writer *w, int64_t value) {
	note(w, msgpack_pack_int64(&w->packer, value));
}

void wire_put_bool(struct wire_writer *w, bool value) {
	note(w, value ? msgpack_pack_true(&w->packer) : msgpack_pack_false(&w->packer));
}

void wire_put_text(struct wire_writer *w, const char *text) {
	size_t size = strlen(text);

	note(w, msgpack_pack_str(&w->packer, size));
	note(w, msgpack_pack_str_body(&w->packer, text, size));
}

void wire_put_bin(struct wire_writer *w, const void *bytes, size_t size) {
	note(w, msgpack_pack_bin(&w->packer, size));
	note(w, msgpack_pack_bin_body(&w->packer, bytes, size));
}

void wire_put_raw(struct wire_writer *w, const void *bytes, size_t size) {
	if (size)
		note(w, append(&w->buffer, bytes, size));
}

void wire_put_fault(struct wire_writer *w, const struct fault *f) {
	wire_put_array(w, 3);
	wire_put_uint(w, 0);
	wire_put_int(w, f->code);
	wire_put_text(w, f->text);
}

int wire_finish(const struct wire_writer *w) {
	return w->failed ? -ENOMEM : 0;
}

/* --- scanning ---------------------------------------------------------------------------- */

/* What a msgpack value begins with: its first byte, the width of its count, and what it counts. */
enum scan_kind {
	SCAN_BAD,   /* extension types and the byte that is never used */
	SCAN_FIXED, /* `bytes` of payload */
	SCAN_BYTES, /* a count of `bytes` bytes, then as many bytes of payload */
	SCAN_ARRAY, /* a count of `bytes` bytes, then as many values */
	SCAN_MAP,   /* a count of `bytes` bytes, then as many pairs */
};

struct scan_head {
	uint8_t kind;
	uint8_t bytes;
};

/* First bytes 0xc0 to 0xdf; below and above them the count, if any, stands in the byte itself. */
static const struct scan_head heads[32] = {
	[0xc0 - 0xc0] = { SCAN_FIXED, 0 }, /* nil */
	[0xc2 - 0xc0] = { SCAN_FIXED, 0 }, /* false */
	[0xc3 - 0xc0] = { SCAN_FIXED, 0 }, /* true */
	[0xc4 - 0xc0] = { SCAN_BYTES, 1 }, /* bin */
	[0xc5 - 0xc0] = { SCAN_BYTES, 2 },
	[0xc6 - 0xc0] = { SCAN_BYTES, 4 },
	[0xca - 0xc0] = { SCAN_FIXED, 4 }, /* float */
	[0xcb - 0xc0] = { SCAN_FIXED, 8 },
	[0xcc - 0xc0] = { SCAN_FIXED, 1 }, /* uint */
	[0xcd - 0xc0] = { SCAN_FIXED, 2 },
	[0xce - 0xc0] = { SCAN_FIXED, 4 },
	[0xcf - 0xc0] = { SCAN_FIXED, 8 },
	[0xd0 - 0xc0] = { SCAN_FIXED, 1 }, /* int */
	[0xd1 - 0xc0] = { SCAN_FIXED, 2 },
	[0xd2 - 0xc0] = { SCAN_FIXED, 4 },
	[0xd3 - 0xc0] = { SCAN_FIXED, 8 },
	[0xd9 - 0xc0] = { SCAN_BYTES, 1 }, /* str */
	[0xda - 0xc0] = { SCAN_BYTES, 2 },
	[0xdb - 0xc0] = { SCAN_BYTES, 4 },
	[0xdc - 0xc0] = { SCAN_ARRAY, 2 },
	[0xdd - 0xc0] = { SCAN_ARRAY, 4 },
	[0xde - 0xc0] = { SCAN_MAP, 2 },
	[0xdf - 0xc0] = { SCAN_MAP, 4 },
};

struct scan {
	const uint8_t *next;
	const uint8_t *end;
	uint64_t values; /* met, or claimed by the headers met */
	unsigned depth;
	uint32_t open[LIMIT_WIRE_DEPTH]; /* values still to come at each depth */
};

static int refuse(struct fault *f, const char *why) {
	return fault_set(f, FAULT_PROTOCOL, "the message %s", why);
}

static size_t scan_left(const struct scan *s) {
	return (size_t)(s->end - s->next);
}

static int scan_skip(struct scan *s, uint64_t bytes, struct fault *f) {
	if (bytes > scan_left(s))
		return refuse(f, "ends in the middle of a value");
	s->next += bytes;
	return 0;
}

static int scan_count(struct scan *s, unsigned bytes, uint64_t *countp, struct fault *f) {
	const uint8_t *p = s->next;
	int r = scan_skip(s, bytes, f);

	if (r)
		return r;
	*countp = 0;
	while (p < s->next)
		*countp = *countp << 8 | *p++;
	return 0;
}

/* Enters an array or map of `count` values. */
static int scan_enter(struct scan *s, uint64_t count, struct fault *f) {
	s->values += count;
	if (count > scan_left(s))
		return refuse(f, "claims more values than it has bytes");
	if (s->values > LIMIT_WIRE_VALUES)
		return refuse(f, "has too many values");
	if (s->depth == LIMIT_WIRE_DEPTH)
		return refuse(f, "nests too deeply");
	s->open[s->depth++] = (uint32_t)count;
	return 0;
}

/* A value that begins with a byte between 0xc0 and 0xdf. */
static int scan_long(struct scan *s, struct scan_head head, struct fault *f) {
	uint64_t count;
	int r;

	if (head.kind == SCAN_BAD)
		return refuse(f, "has a value of a type that the protocol does not use");
	if (head.kind == SCAN_FIXED)
		return scan_skip(s, head.bytes, f);
	r = scan_count(s, head.bytes, &count, f);
	if (r)
		return r;
	if (head.kind == SCAN_BYTES)
		return scan_skip(s, count, f);
	return scan_enter(s, head.kind == SCAN_MAP ? 2 * count : count, f);
}

static int scan_value(struct scan *s, struct fault *f) {
	uint8_t first;

	if (s->next == s->end)
		return refuse(f, "ends too early");
	first = *s->next++;
	if (first < 0x80 || first >= 0xe0) /* small integers */
		return 0;
	if (first < 0x90)
		return scan_enter(s, 2 * (uint64_t)(first & 0xf), f);
	if (first < 0xa0)
		return scan_enter(s, first & 0xfU, f);
	if (first < 0xc0)
		return scan_skip(s, first & 0x1fU, f);
	return scan_long(s, heads[first - 0xc0], f);
}

/* Walks one whole value and leaves how many values it holds. */
static int scan_frame(struct scan *s, struct fault *f) {
	int r = scan_value(s, f);

	while (!r && s->depth) {
		if (s->open[s->depth - 1] == 0) {
			s->depth--;
			continue;
		}
		s->open[s->depth - 1]--;
		r = scan_value(s, f);
	}
	if (!r && s->next != s->end)
		return refuse(f, "has bytes after its end");
	return r;
}

/* --- reading ----------------------------------------------------------------------------- */

/* What stays: a batch of a hundred operations; more is given back with its reader. */
enum { WIRE_MEMORY_BYTES = 16 << 10 };

/* The zone aligns each array to 8 bytes; its objects are multiples of that. */
static msgpack_zone *zone_for(struct wire_reader *r, struct wire_memory *m, size_t values) {
	size_t chunk = values * sizeof(msgpack_object);

	if (!m || m->taken || chunk > WIRE_MEMORY_BYTES)
		return msgpack_zone_new(chunk ? chunk : sizeof(msgpack_object));
	if (!m->zone)
		m->zone = msgpack_zone_new(WIRE_MEMORY_BYTES);
	if (!m->zone)
		return NULL;
	m->taken = true;
	r->memory = m;
	return m->zone;
}

static int unpack(struct wire_reader *r, struct wire_memory *m, const char *bytes, size_t size, size_t values,
	struct fault *f) {
	msgpack_unpack_return result;
	size_t end = 0;

	r->zone = zone_for(r, m, values);
	if (!r->zone)
		return -ENOMEM;
	result = msgpack_unpack(bytes, size, &end, r->zone, &r->root);
	if (result == MSGPACK_UNPACK_SUCCESS && r->root.type == MSGPACK_OBJECT_ARRAY)
		return 0;
	wire_close(r);
	return result == MSGPACK_UNPACK_NOMEM_ERROR ? -ENOMEM : refuse(f, "is no array");
}

int wire_open(struct wire_reader *r, const void *bytes, size_t size, struct fault *f) {
	return wire_open_in(r, NULL, bytes, size, f);
}

int wire_open_in(struct wire_reader *r, struct wire_memory *m, const void *bytes, size_t size, struct fault *f) {
	struct scan s = { .next = bytes, .end = (const uint8_t *)bytes + size };
	int code;

	r->zone = NULL;
	r->memory = NULL;
	if (size > LIMIT_FRAME_BYTES)
		return refuse(f, "is too long");
	code = scan_frame(&s, f);
	if (code)
		return code;
	return unpack(r, m, bytes, size, s.values, f);
}

void wire_close(struct wire_reader *r) {
	if (r->memory) {
		msgpack_zone_clear(r->zone);
		r->memory->taken = false;
	} else if (r->zone) {
		msgpack_zone_free(r->zone);
	}
	r->memory = NULL;
	r->zone = NULL;
}

void wire_memory_free(struct wire_memory *m) {
	if (m->zone)
		msgpack_zone_free(m->zone);
	*m = (struct wire_memory){ .zone = NULL };
}

struct wire_cursor wire_root(const struct wire_reader *r) {
	return (struct wire_cursor){ .next = r->root.via.array.ptr, .left = r->root.via.array.size };
}

static const char *kind_name(const msgpack_object *o) {
	switch (o->type) {
	case MSGPACK_OBJECT_NIL:
		return "nothing";
	case MSGPACK_OBJECT_BOOLEAN:
		return "a truth value";
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		return "an integer";
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		return "a floating-point number";
	case MSGPACK_OBJECT_STR:
		return "a text";
	case MSGPACK_OBJECT_ARRAY:
		return "an array";
	case MSGPACK_OBJECT_MAP:
		return "a map";
	case MSGPACK_OBJECT_BIN:
		return "bytes";
	default:
		return "an unknown type";
	}
}

static int refuse_missing(const char *field, struct fault *f) {
	return fault_set(f, FAULT_PROTOCOL, "field %s is missing", field);
}

static int refuse_kind(const char *field, const char *wanted, const msgpack_object *o, struct fault *f) {
	return fault_set(f, FAULT_PROTOCOL, "field %s is %s instead of %s", field, kind_name(o), wanted);
}

static void advance(struct wire_cursor *c) {
	c->next++;
	c->left--;
}

int wire_get_uint(struct wire_cursor *c, const char *field, uint64_t max, uint64_t *valuep, struct fault *f) {
	if (!c->left)
		return refuse_missing(field, f);
	if (c->next->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
		return refuse_kind(field, "an unsigned number", c->next, f);
	if (c->next->via.u64 > max)
		return fault_set(f, FAULT_PROTOCOL, "field %s is %" PRIu64 ", more than %" PRIu64, field,
			c->next->via.u64, max);
	*valuep = c->next->via.u64;
	advance(c);
	return 0;
}

static int refuse_range(const char *field, int64_t min, int64_t max, struct fault *f) {
	return fault_set(
		f, FAULT_PROTOCOL, "field %s is not between %" PRId64 " and %" PRId64, field, min, max);
}

int wire_get_int(struct wire_cursor *c, const char *field, int64_t min, int64_t max, int64_t *valuep,
	struct fault *f) {
	bool positive;

	if (!c->left)
		return refuse_missing(field, f);
	positive = c->next->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
	if (!positive && c->next->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
		return refuse_kind(field, "an integer", c->next, f);
	if (positive && c->next->via.u64 > INT64_MAX)
		return refuse_range(field, min, max, f);
	if (c->next->via.i64 < min || c->next->via.i64 > max)
		return refuse_range(field, min, max, f);
	*valuep = c->next->via.i64;
	advance(c);
	return 0;
}

int wire_get_bool(struct wire_cursor *c, const char *field, bool *valuep, struct fault *f) {
	if (!c->left)
		return refuse_missing(field, f);
	if (c->next->type != MSGPACK_OBJECT_BOOLEAN)
		return refuse_kind(field, "a truth value", c->next, f);
	*valuep = c->next->via.boolean;
	advance(c);
	return 0;
}

int wire_get_text(struct wire_cursor *c, const char *field, size_t max, const char **textp, size_t *sizep,
	struct fault *f) {
	const msgpack_object_str *text;

	if (!c->left)
		return refuse_missing(field, f);
	if (c->next->type != MSGPACK_OBJECT_STR)
		return refuse_kind(field, "a text", c->next, f);
	text = &c->next->via.str;
	if (text->size > max)
		return fault_set(
			f, FAULT_PROTOCOL, "field %s has %u bytes, more than %zu", field, text->size, max);
	if (text->size && memchr(text->ptr, 0, text->size))
		return fault_set(f, FAULT_PROTOCOL, "field %s contains a zero byte", field);
	/* Of no bytes msgpack names no place. */
	*textp = text->size ? text->ptr : "";
	*sizep = text->size;
	advance(c);
	return 0;
}

int wire_copy_text(struct wire_cursor *c, const char *field, char *text, size_t room, struct fault *f) {
	const char *bytes;
	size_t size;
	int r = wire_get_text(c, field, room - 1, &bytes, &size, f);

	if (r)
		return r;
	memcpy(text, bytes, size); /* NOLINT(clang-analyzer-core.CallAndMessage): wire_get_text() set it */
	text[size] = '\0';
	return 0;
}

int wire_get_bin(
	struct wire_cursor *c, const char *field, size_t size, const void **bytesp, struct fault *f) {
	const msgpack_object_bin *bin;

	if (!c->left)
		return refuse_missing(field, f);
	if (c->next->type != MSGPACK_OBJECT_BIN)
		return refuse_kind(field, "bytes", c->next, f);
	bin = &c->next->via.bin;
	if (bin->size != size)
		return fault_set(
			f, FAULT_PROTOCOL, "field %s has %u bytes instead of %zu", field, bin->size, size);
	*bytesp = bin->ptr;
	advance(c);
	return 0;
}

static int refuse_count(const char *field, uint32_t count, uint32_t max, struct fault *f) {
	return fault_set(f, FAULT_PROTOCOL, "field %s has %u entries, more than %u", field, count, max);
}

int wire_get_array(struct wire_cursor *c, const char *field, uint32_t max, struct wire_cursor *insidep,
	struct fault *f) {
	if (!c->left)
		return refuse_missing(field, f);
	if (c->next->type != MSGPACK_OBJECT_ARRAY)
		return refuse_kind(field, "an array", c->next, f);
	if (c->next->via.array.size > max)
		return refuse_count(field, c->next->via.array.size, max, f);
	insidep->next = c->next->via.array.ptr;
	insidep->left = c->next->via.array.size;
	advance(c);
	return 0;
}

int wire_get_map(struct wire_cursor *c, const char *field, uint32_t max, struct wire_cursor *insidep,
	struct fault *f) {
	if (!c->left)
		return refuse_missing(field, f);
	if (c->next->type != MSGPACK_OBJECT_MAP)
		return refuse_kind(field, "a map", c->next, f);
	if (c->next->via.map.size > max)
		return refuse_count(field, c->next->via.map.size, max, f);
	/* A pair is two objects side by side, so that one cursor walks keys and values alike. */
	_Static_assert(sizeof(msgpack_object_kv) == 2 * sizeof(msgpack_object), "pairs have padding");
	insidep->next = c->next->via.map.size ? &c->next->via.map.ptr->key : NULL;
	insidep->left = 2 * c->next->via.map.size;
	advance(c);
	return 0;
}

int wire_get_end(struct wire_cursor *c, const char *what, struct fault *f) {
	if (!c->left)
		return 0;
	return fault_set(f, FAULT_PROTOCOL, "%s has %u values too many", what, c->left);
}
