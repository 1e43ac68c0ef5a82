/*
 * The client's end of the door: one packet out, one packet in.
 *
 * The connection stays open while the session lives: the daemon takes its end as the end of the
 * session. Calls on one door must not overlap (the context's lock sees to it).
 *
 * The door of a daemon on another machine is the first frame each way of a connection that carries the op stream from
 * then on (protocol/remote.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/limits.h"
#include "protocol/message.h"
#include "link.h"

enum {
	/* HELLO's reply is the longest packet: texts of the limits below. */
	DOOR_PACKET_BYTES = 4096,
	DOOR_URL_TEXT = 256,
	DOOR_DEVICE_TEXT = 256,
	DOOR_NAME_TEXT = 128,
	DOOR_RELEASE_TEXT = 32,
};

struct door {
	int fd;                      /* -1: not connected */
	unsigned owed;               /* answers that were not received: they come before the next one */
	int ring, bell;              /* -1: the session has no ring */
	struct link *link;           /* to a daemon on another machine; then there are no descriptors */
	struct link_files files;     /* for one by tls */
	uint32_t timeout_ms;         /* 0: wait forever */
	uint32_t return_ms;          /* how long a daemon that has ended may take to return; timeout_ms may be shorter */
	uint64_t session;
	uint64_t version;            /* of the protocol, that both speak */
	uint64_t features;           /* what both sides have */
	char release[DOOR_RELEASE_TEXT];     /* of the daemon */
	uint8_t operations[MESSAGE_OPERATIONS];      /* that the daemon has */
	uint8_t secret[LIMIT_SECRET_BYTES];
	char url[DOOR_URL_TEXT];     /* of the op stream */
	char device[DOOR_DEVICE_TEXT];
	uint64_t number, devices;    /* of the device, and how many the daemon has */
};

struct door_setting {
	const char *name, *value;
};

/*
 * Connects to a socket, or to another machine where the path is a URL, and says HELLO, asking for FEATURES_ALL and `more`. Settings are those of CONFIGURE. The door is
 * closed again on failure. One that is stopping, and is to be started again, is waited for as door_return() does.
 */
int door_enter(struct door *d, const char *path, const char *name, uint64_t more, unsigned count,
	const struct door_setting *settings, struct fault *f) FAULT_MUST_USE;
void door_leave(struct door *d);
/* 0, or FAULT_VERSION with the name of what the daemon does not have, `what` first: one feature, an operation. */
int door_need_feature(const struct door *d, uint64_t feature, const char *what, struct fault *f) FAULT_MUST_USE;
int door_need_operation(const struct door *d, unsigned op, const char *what, struct fault *f) FAULT_MUST_USE;
/* What the door says of a session whose engine was replaced; see DOOR_RESUME. */
struct door_resumed {
	uint64_t accepted, completed;
	bool repeat;                 /* what is above `accepted` may be asked for again without a word to the program */
	bool returned;               /* the daemon was another one, too */
};
/*
 * Waits until another engine has the session, and gets the descriptors of its ring in place of the old ones, of which nobody may make use any more. Settings are all
 * that hold.
 */
int door_resume(struct door *d, unsigned count, const struct door_setting *settings, struct door_resumed *resumed,
	struct fault *f) FAULT_MUST_USE;
/* Has the other end of it gone? */
bool door_ended(const struct door *d);
/* What a door of this machine said before it closed, where nobody had asked: why. False: nothing. */
bool door_last_word(const struct door *d, struct fault *f);
/*
 * The daemon of a session with FEATURE_RETURN was started again: connects to it by the same path, as soon as it is there. door_resume() is next. FAULT_LOST
 * where it has not got the session, FAULT_CONNECT where none comes.
 */
int door_return(struct door *d, const char *path, struct fault *f) FAULT_MUST_USE;
/* In the child of a fork(): the descriptors alone. */
void door_forget(struct door *d);

/* A new arena of at least these bytes whose layout we decide; the caller owns *fdp. */
int door_arena_new(struct door *d, uint64_t bytes, uint32_t *arenap, uint64_t *bytesp, int *fdp,
	struct fault *f) FAULT_MUST_USE;
/* The descriptor and size of an arena that the engine made for this session. */
int door_arena_get(
	struct door *d, uint32_t arena, uint64_t *bytesp, int *fdp, struct fault *f) FAULT_MUST_USE;
