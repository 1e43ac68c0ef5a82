/*
 * Numbers of the messages in messages.def, and what the first message of a session agrees on.
 */
#pragma once

#include <stdint.h>

#include "fault.h"

struct wire_cursor;

enum message_request {
#define REQUEST(id, name, doc) REQUEST_##name = id,
#include "messages.def"
};

enum message_door {
#define DOOR(id, name, doc) DOOR_##name = id,
#include "messages.def"
};

enum message_control {
#define CONTROL(id, name, doc) CONTROL_##name = id,
#include "messages.def"
};

enum {
	MESSAGE_FAULT = 0,        /* reply: [0, code, sentence] */
	/* Versions that this release speaks, from the oldest; both sides use the newest that both speak, and features tell the rest apart. */
	PROTOCOL_OLDEST = 1,
	PROTOCOL_VERSION = 1,
	SUBMIT_URGENT = 1 << 0,   /* flag: do not hold in the window */
	SUBMIT_REPEATED = 1 << 1, /* the library says it again to the engine after the one that had not begun it */
	SUBMIT_ALL = SUBMIT_URGENT | SUBMIT_REPEATED,
	SHARE_READ = 1 << 0,      /* rights of a token */
	SHARE_WRITE = 1 << 1,
	KERNELS_SOURCE = 1,
	KERNELS_OWN_SOURCE = 2,
	EXPLAIN_SOURCE = 1 << 0,
	EXPLAIN_UNFUSED = 1 << 1,
	EXPLAIN_NODES = 1 << 2,
	EXPLAIN_OPPORTUNITIES = 1 << 3,
	EXPLAIN_BUILD = 1 << 4,
	EXPLAIN_OWN_SOURCE = 1 << 5,
	EXPLAIN_ALL = (1 << 6) - 1,
};

/* An option of the greeting that is no setting: a part of the name or the number of the device that is wanted. */
#define DOOR_OPTION_DEVICE "device"

/* Of CONTROL_ORDER. */
enum order_kind { ORDER_SETTING, ORDER_PATTERN, ORDER_FORGET };

/* Who lays out an arena: `owner` of CONTROL_ARENA. */
enum arena_owner {
	ARENA_OF_CLIENT,
	ARENA_OF_ENGINE,
	ARENA_SHARED,
	ARENA_HELD,
	ARENA_OWNERS,
};

/* Bits of `features`. */
enum {
#define FEATURE(bit, name, what) FEATURE_##name = 1 << (bit),
#include "features.def"
	/* Those that every side of this release has. RESUME, RETURN and REPEAT are not of clients on other machines, and either side may have no ring to offer. */
	FEATURES_ALL = FEATURE_REPLAY | FEATURE_EXPLAIN | FEATURE_OPERATIONS | FEATURE_PATTERNS,
};

/* "PATTERNS (fusion patterns of programs)", of one bit. */
const char *message_feature(uint64_t feature);

/* Versions of the protocol, from the oldest to the newest. */
struct message_versions {
	uint64_t oldest, newest;
};
enum { VERSIONS_TEXT = 64 };

/* The newest that both speak; 0: there is none. */
uint64_t message_agree(struct message_versions a, struct message_versions b);
/* "version 1", or "versions 1 to 3"; returns text. */
const char *message_versions_text(struct message_versions v, char text[static VERSIONS_TEXT]);
/* What HELLO begins with: a version, or a list of the oldest and the newest. */
int message_get_versions(struct wire_cursor *c, struct message_versions *v, struct fault *f) FAULT_MUST_USE;

/* What HELLO's answer says of operations: bit i % 8 of byte i / 8 is set where the daemon has operation i of ops.def. */
enum { MESSAGE_OPERATIONS = 32 };
void message_operations(uint8_t bits[static MESSAGE_OPERATIONS]);

/* The code and sentence of a refusal, as the other side told it; a code of 0 says nothing and is taken as INTERNAL. */
int message_get_fault(struct wire_cursor *c, struct fault *toldp, struct fault *f) FAULT_MUST_USE;
/* The number that an answer of the door's begins with; what it refused is the fault. */
int message_get_reply(struct wire_cursor *c, unsigned message, struct fault *f) FAULT_MUST_USE;
