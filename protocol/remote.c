/* Heads of frames between machines. See remote.h. */
#include "remote.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

/* What a kind can have. */
struct remote_rule {
	uint32_t least, most;            /* of size */
	bool slot;                       /* the name is one */
	uint64_t offset;                 /* at most */
};

static const struct remote_rule rules[REMOTE_KINDS] = {
	[REMOTE_DOOR] = { 1, REMOTE_DOOR_BYTES, true, 0 },
	[REMOTE_REQUEST] = { 1, LIMIT_FRAME_BYTES, true, LIMIT_ARRAY_BYTES },
	[REMOTE_ARENA] = { 0, 0, true, LIMIT_ARRAY_BYTES },
	[REMOTE_UPLOAD] = { 1, REMOTE_CHUNK_BYTES, false, LIMIT_ARRAY_BYTES },
	[REMOTE_REPLY] = { 1, LIMIT_FRAME_BYTES, true, 0 },
	[REMOTE_RESULT] = { 1, REMOTE_CHUNK_BYTES, true, LIMIT_ARRAY_BYTES },
};

static uint8_t *put32(uint8_t *p, uint32_t value) {
	value = htole32(value);
	memcpy(p, &value, sizeof value);
	return p + sizeof value;
}

static uint32_t get32(const uint8_t *p) {
	uint32_t value;

	memcpy(&value, p, sizeof value);
	return le32toh(value);
}

/* The word between name and offset is for what may come; it is 0. */
void remote_head_put(uint8_t bytes[static REMOTE_HEAD_BYTES], const struct remote_head *h) {
	uint64_t offset = htole64(h->offset);
	uint8_t *p = put32(bytes, h->kind);

	p = put32(p, h->size);
	p = put32(p, h->name);
	p = put32(p, 0);
	memcpy(p, &offset, sizeof offset);
}

int remote_head_get(const uint8_t bytes[static REMOTE_HEAD_BYTES], struct remote_head *h, struct fault *f) {
	const struct remote_rule *rule;

	*h = (struct remote_head){ .kind = get32(bytes), .size = get32(bytes + 4), .name = get32(bytes + 8) };
	memcpy(&h->offset, bytes + 16, sizeof h->offset);
	h->offset = le64toh(h->offset);
	if (!h->kind || h->kind >= REMOTE_KINDS || get32(bytes + 12))
		return fault_set(f, FAULT_PROTOCOL, "a frame of kind %u does not exist", h->kind);
	rule = &rules[h->kind];
	if (h->size < rule->least || h->size > rule->most || h->offset > rule->offset)
		return fault_set(f, FAULT_PROTOCOL, "a frame of kind %u has %u bytes at %llu", h->kind, h->size,
			(unsigned long long)h->offset);
	if (rule->slot && h->name >= LIMIT_UNANSWERED)
		return fault_set(f, FAULT_PROTOCOL, "a frame of kind %u is of slot %u", h->kind, h->name);
	return 0;
}
