/*
 * Numbers of the messages in messages.def, and what the first message of a session agrees on.
 */
#pragma once

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
	PROTOCOL_VERSION = 1,     /* both sides must have the same; features tell the rest apart */
	SUBMIT_URGENT = 1 << 0,   /* flag: do not hold in the window */
	SHARE_READ = 1 << 0,      /* rights of a token */
	SHARE_WRITE = 1 << 1,
	EXPLAIN_SOURCE = 1 << 0,
	EXPLAIN_UNFUSED = 1 << 1,
	EXPLAIN_NODES = 1 << 2,
	EXPLAIN_OPPORTUNITIES = 1 << 3,
	EXPLAIN_BUILD = 1 << 4,
	EXPLAIN_ALL = (1 << 5) - 1,
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

/* Bits of `features`; each side offers what it has, both use what both have. */
enum {
	FEATURE_REPLAY = 1 << 0,
	FEATURE_EXPLAIN = 1 << 1,
	FEATURE_OPERATIONS = 1 << 2,
	FEATURE_PATTERNS = 1 << 4,
	FEATURES_ALL = FEATURE_REPLAY | FEATURE_EXPLAIN | FEATURE_OPERATIONS | FEATURE_PATTERNS,
	/* The session outlives the engine: DOOR_RESUME. Not of clients on other machines, so it is not among all. */
	FEATURE_RESUME = 1 << 5,
	/* It outlives the daemon, too, which its service manager starts again: DOOR_RETURN. */
	FEATURE_RETURN = 1 << 6,
	/* A ring in shared memory, see ring.h. Either side may have none to offer, so it is not among all. */
	FEATURE_RING = 1 << 3,
};

/* The code and sentence of a refusal, as the other side told it; a code of 0 says nothing and is taken as INTERNAL. */
int message_get_fault(struct wire_cursor *c, struct fault *toldp, struct fault *f) FAULT_MUST_USE;
/* The number that an answer of the door's begins with; what it refused is the fault. */
int message_get_reply(struct wire_cursor *c, unsigned message, struct fault *f) FAULT_MUST_USE;
