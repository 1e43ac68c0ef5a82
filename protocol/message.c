/* How answers begin, and what HELLO agrees on. See message.h. */
#include "message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "op.h"
#include "wire.h"

_Static_assert(OP_COUNT <= 8 * MESSAGE_OPERATIONS, "each operation has a bit");

int message_get_fault(struct wire_cursor *c, struct fault *toldp, struct fault *f) {
	const char *sentence;
	uint64_t code;
	size_t size;
	int r = wire_get_uint(c, "code", INT32_MAX, &code, f);

	if (!r)
		r = wire_get_text(c, "sentence", LIMIT_SENTENCE, &sentence, &size, f);
	if (!r)
		fault_set(toldp, code ? (int)code : FAULT_INTERNAL, "%.*s", (int)size, sentence);
	return r;
}

int message_get_reply(struct wire_cursor *c, unsigned message, struct fault *f) {
	struct fault told;
	uint64_t id;
	int r = wire_get_uint(c, "reply", UINT32_MAX, &id, f);

	if (r || id == message)
		return r;
	if (id != MESSAGE_FAULT)
		return fault_set(f, FAULT_PROTOCOL, "the door answered message %u with message %u", message, (unsigned)id);
	r = message_get_fault(c, &told, f);
	return r ? r : fault_set(f, told.code, "%s", told.text);
}

/* ---- HELLO ---- */

const char *message_feature(uint64_t feature) {
	static const struct {
		uint64_t bit;
		const char *text;
	} features[] = {
#define FEATURE(bit, name, what) { UINT64_C(1) << (bit), #name " (" what ")" },
#include "features.def"
	};

	for (size_t i = 0; i < sizeof features / sizeof *features; i++)
		if (features[i].bit == feature)
			return features[i].text;
	return "unknown";
}

uint64_t message_agree(struct message_versions a, struct message_versions b) {
	uint64_t newest = a.newest < b.newest ? a.newest : b.newest;

	return newest >= a.oldest && newest >= b.oldest ? newest : 0;
}

const char *message_versions_text(struct message_versions v, char text[static VERSIONS_TEXT]) {
	if (v.oldest == v.newest)
		snprintf(text, VERSIONS_TEXT, "version %" PRIu64, v.newest);
	else
		snprintf(text, VERSIONS_TEXT, "versions %" PRIu64 " to %" PRIu64, v.oldest, v.newest);
	return text;
}

int message_get_versions(struct wire_cursor *c, struct message_versions *v, struct fault *f) {
	struct wire_cursor list;
	int r;

	if (!c->left || c->next->type != MSGPACK_OBJECT_ARRAY) {
		r = wire_get_uint(c, "version", UINT64_MAX, &v->newest, f);
		v->oldest = v->newest;
		return r;
	}
	r = wire_get_array(c, "versions", 2, &list, f);
	if (!r)
		r = wire_get_uint(&list, "oldest version", UINT64_MAX, &v->oldest, f);
	if (!r)
		r = wire_get_uint(&list, "newest version", UINT64_MAX, &v->newest, f);
	if (!r && v->oldest > v->newest)
		r = fault_set(f, FAULT_PROTOCOL, "the oldest version, %" PRIu64 ", is above the newest, %" PRIu64, v->oldest, v->newest);
	return r;
}

void message_operations(uint8_t bits[static MESSAGE_OPERATIONS]) {
	memset(bits, 0, MESSAGE_OPERATIONS);
	for (unsigned op = 0; op < OP_COUNT; op++)
		if (op_info(op))
			bits[op / 8] |= (uint8_t)(1 << op % 8);
}
