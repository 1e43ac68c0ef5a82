/* How answers begin. See message.h. */
#include "message.h"

#include "wire.h"

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
