/*
 * The client's end of the door: one packet out, one packet in.
 *
 * The connection stays open while the session lives: the daemon takes its end as the end of the
 * session. One thread at a time calls at it, between door_begin() and door_end().
 *
 * Who waits here gives the context's lock up meanwhile, so whatever is read before a call is looked at again after it. It may be asked to stop
 * (waiting.h), its time may be over, or the context be closed: then the call is given up. Its answer comes all the same, before that of the next call, which
 * waits for it first: an arena that was made is what the next one that asks for an arena gets, and who asks to go on with another engine takes the
 * answer to that question, which is not asked twice.
 *
 * The door of a daemon on another machine is the first frame each way of a connection that carries the op stream from
 * then on (protocol/remote.h).
 */
#pragma once

#include <pthread.h>
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

/* An arena that the door made for a call that had been given up. */
struct door_late {
	int fd;                      /* -1: none */
	uint64_t arena, bytes;
};

struct door {
	/* Who else has it: the lock of who calls, and what is told when a call has ended (of the monotonic clock). NULL: nobody, while it is opened. */
	pthread_mutex_t *lock;
	pthread_cond_t *left;
	bool busy;                   /* a thread is between door_begin() and door_end() */
	bool stopped;                /* nobody is to wait here any more */
	unsigned owed;               /* the message whose call was given up, and which is not answered; 0: none */
	struct door_late late;
	bool returned;               /* the daemon is another one, and has not said yet how to go on */
	struct fault word;           /* the last one; code 0: none was heard */
	int fd;                      /* -1: not connected */
	int ring, bell;              /* -1: the session has no ring */
	bool asks_ring;              /* HELLO did, and so does who goes on with another engine, of whichever daemon */
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
/* Nobody is inside a call any more. */
void door_leave(struct door *d);
/* Waits until no other thread is at the door. 0, or why not: FAULT_CANCELLED, FAULT_CONNECT, FAULT_STATE where it is stopped. */
int door_begin(struct door *d, struct fault *f) FAULT_MUST_USE;
void door_end(struct door *d);
/* Who waits at it leaves, now and from now on ... */
void door_stop(struct door *d);
/* ... and has left. */
void door_await(struct door *d);
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
bool door_last_word(struct door *d, struct fault *f);
/*
 * The daemon of a session with FEATURE_RETURN was started again: connects to it by the same path, as soon as it is there. door_resume() is next. FAULT_LOST
 * where it has not got the session, FAULT_CONNECT where none comes.
 */
int door_return(struct door *d, const char *path, struct fault *f) FAULT_MUST_USE;
/* In the child of a fork(): the descriptors alone. */
void door_forget(struct door *d);

/*
 * A new arena whose layout we decide, of at least these bytes, unless it is one that somebody else has asked for and given up; the caller owns *fdp.
 */
int door_arena_new(struct door *d, uint64_t bytes, uint32_t *arenap, uint64_t *bytesp, int *fdp,
	struct fault *f) FAULT_MUST_USE;
/* The descriptor and size of an arena that the engine made for this session. */
int door_arena_get(
	struct door *d, uint32_t arena, uint64_t *bytesp, int *fdp, struct fault *f) FAULT_MUST_USE;

/* ---- for door.c: door_wait.c ---- */

/*
 * Until `events` come, or the time (of the monotonic clock in microseconds; 0: there is none) is over: 0, -ETIMEDOUT, -errno, or why the call is given up.
 * No events: it sleeps till then.
 */
int door_sleep(struct door *d, short events, uint64_t until_us, struct fault *f) FAULT_MUST_USE;
/* When a wait that begins now is over. */
uint64_t door_deadline(const struct door *d);
int door_refuse_late(const struct door *d, struct fault *f);
