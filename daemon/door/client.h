/*
 * One connection of the door, and the session that it may hold. client.c has connections and their packets, session.c begins
 * sessions, requests.c answers what clients ask, wishes.c does what engines want for them.
 */
#pragma once

#include "protocol/hash.h"
#include "protocol/message.h"
#include "protocol/shm.h"
#include "daemon/door/supervisor.h"

enum {
	CLIENT_NAME = 128,
	/* Longest packet a client may send: a greeting with its options. */
	CLIENT_PACKET = 8192,
	/* Settings one greeting may bring. */
	CLIENT_OPTIONS = 64,
};

struct shared_arena;
struct making;

struct client_arena {
	uint32_t id;                     /* 0: unused */
	bool engine;                     /* the engine lays it out */
	bool writable;                   /* what its descriptor may be for */
	int fd;
	uint64_t bytes;
	struct shared_arena *shared;     /* whose memory it is, or NULL */
};

/* Where a session is with regard to its engine. */
enum client_attachment {
	CLIENT_ATTACHED,
	CLIENT_ADRIFT,                   /* its engine is gone */
	CLIENT_ATTACHING,                /* another one was told of it, and restores it */
	CLIENT_RESUMED,                  /* it has; the client is still to hear */
};

/* Descriptors; -1 where there is none. */
struct client_ring {
	int memory, client, engine;
};

struct client {
	struct client *previous, *next;
	struct supervisor *supervisor;
	struct engine *engine;           /* that serves its session */
	int fd;
	struct loop_source *source;
	struct user *user;
	uid_t uid;
	pid_t pid;
	uint64_t deadline_us;            /* to say something; 0: it has */
	gid_t *group;                    /* of its process, when it connected */
	size_t groups;
	bool admin;                      /* of the group door.admins */
	bool hello;                      /* holds a session */
	struct child_packet *farewell;   /* room for the packet that tells the engine of its end */
	bool closing;                    /* answered for the last time */
	/* A request that waits for the engine; no others are read meanwhile. */
	unsigned char *stalled;
	size_t stalled_size;
	struct making *making;           /* the arena that this request asks for; NULL: none */

	bool resumes;                    /* it can go on with another engine */
	enum client_attachment attachment;
	bool away;                       /* a daemon before this one had its client, who has not returned */
	bool returns;                    /* the daemon ends, and the next one has the session */
	int record;                      /* of the session, for the next daemon; -1: none. store.c */
	unsigned ends;                   /* engines that ended while they read its requests */
	struct client_ring ring;         /* memory: of the session's, to tell of the engine's end; client: until the client was given it */
	uint64_t accepted, completed;    /* what RESUMED said */
	bool whole;
	bool read;                       /* an engine ended while it read a request of its, which may be what ended it */
	bool repeats;                    /* the client has what was not begun, and repeats it */

	uint64_t session;
	UT_hash_handle hh;
	unsigned char secret[LIMIT_SECRET_BYTES];
	char name[CLIENT_NAME];
	char peer[CLIENT_NAME];          /* on another machine, as the gateway says; empty: on this one */
	uint64_t bytes;                  /* of arenas */
	uint32_t arenas, last_arena, shared;
	struct client_arena arena[LIMIT_ARENAS];
};

/* Ends the connection, and with it the session. */
void client_close(struct client *c);
/* Its packets are read from now on. 0 or -errno. */
int client_listen(struct client *c) FAULT_MUST_USE;
/* Reads on, where the packet that waited for the engine can be answered now. */
void client_go_on(struct client *c);

/* An answer, with a descriptor or -1, or with two: 0 or -errno, where the client must go. */
int client_answer(struct client *c, const struct wire_writer *w, int fd) FAULT_MUST_USE;
int client_answer_pair(struct client *c, const struct wire_writer *w, const int fd[PACKET_PAIR]) FAULT_MUST_USE;
int client_answer_fault(struct client *c, const struct fault *f) FAULT_MUST_USE;
/* The answer to a request that has none. */
int client_answer_nothing(struct client *c, uint32_t id) FAULT_MUST_USE;

/*
 * Answers a packet whose message is read: 0, a fault to be told, -EAGAIN where it must wait for the engine, or another -errno
 * where the client must go.
 */
typedef int client_packet(struct client *c, struct wire_cursor *body, struct fault *f);

/* ---- session.c ---- */

client_packet client_hello, client_resume;
/* Which version is spoken with a client that speaks these; FAULT_VERSION where there is none. */
int client_agree(struct message_versions theirs, uint64_t *versionp, struct fault *f) FAULT_MUST_USE;
/* It said RESUME, its engine is well, and it has waited: it is told, or waits on. */
void client_refuse_waiting(struct client *c);
void client_session_end(struct client *c);
/* 0, or the fault that HELLO comes first. */
int client_need_session(const struct client *c, struct fault *f) FAULT_MUST_USE;

/* ---- requests.c ---- */

client_packet client_asks_set, client_asks_users; /* rights.c, users.c */
client_packet client_asks_arena, client_asks_for_arena, client_asks_status, client_asks_kill, client_asks_origins,
	client_asks_quarantine;
/* 0, or FAULT_PERMISSION: only administrators may do `what`. */
int client_needs_rights(const struct client *c, const char *what, struct fault *f) FAULT_MUST_USE;

/* ---- who may do what: rights.c ---- */

/* Its groups: those that the process at the other end of the socket had when it connected, as its uid is; or those of who is elsewhere. */
void rights_groups(struct client *c, int fd, const struct rule_subject *remote);
bool rights_member(const struct client *c, gid_t group);
/* What holds for its user is what holds for its groups; the engines are told where that changes. */
void rights_identify(struct client *c);
/* May its user begin sessions? 0 or FAULT_PERMISSION, with who may. */
int rights_admit(const struct client *c, struct fault *f) FAULT_MUST_USE;
/* Tells an engine what holds for a user besides the general configuration. 0 or -errno. */
int rights_tell(struct engine *e, const struct user *user) FAULT_MUST_USE;

/* The account of its user: a fault of this code was the answer. */
void rights_refused(struct supervisor *s, uid_t uid, int code);

/* ---- sessions of a daemon before this one: away.c ---- */

/* A session of that number and user, with its engine gone and its client away. It is entered next. 0, a fault, or -ENOMEM. */
int client_again(struct supervisor *s, uint64_t session, uid_t uid, pid_t pid, struct engine *e, struct client **clientp, struct fault *f) FAULT_MUST_USE;
/* Its secret and name are known. */
void client_again_enter(struct client *c);
/* Does the next daemon have its session? */
bool client_comes_back(const struct client *c);
/* The daemon is stopping: AGAIN where a service manager is there to start it again, else CONNECT. */
int client_says_again(const struct client *c, struct fault *f) FAULT_MUST_USE;
/* RETURN: the connection becomes that of a session that is away. */
client_packet client_return;

/* May it see and change what is not its own? Root, the user of the daemon and administrators may, on this machine. */
bool client_governs(const struct client *c);
/* The beginning of a control packet about the session, with so many fields to follow. */
void client_tell_begin(const struct client *c, struct wire_writer *w, enum message_control message, uint32_t fields);
/* Queues it: 0 or -errno. */
int client_tell_end(struct client *c, struct wire_writer *w) FAULT_MUST_USE;

/* ---- the ring of a session: ring.c ---- */

/* 0, also where it has none: not wanted, switched off, or no memory; -EMFILE: there is no descriptor for a session. */
int client_ring_new(const struct client *c, uint64_t features, struct client_ring *r);
void client_ring_drop(struct client_ring *r);
/* The engine is gone: tells whoever sleeps there. */
int client_ring_end(const struct client_ring *r) FAULT_MUST_USE;

/* ---- arenas of a session: arena.c ---- */

/*
 * Makes an arena, charges session and user, and tells the engine; *arenap is it. 0, a fault, or -EAGAIN: with *makingp it is being made (arenas.h);
 * without, the engine does not read, and nothing has changed.
 */
int client_arena_new(struct client *c, uint64_t bytes, enum arena_owner owner, struct making **makingp, struct client_arena **arenap,
	struct fault *f) FAULT_MUST_USE;
/* The same once that has ended, which it is told of by being handled again, or, where an engine wants it, by this. */
int client_arena_made(struct client *c, struct making *m, struct client_arena **arenap, struct fault *f) FAULT_MUST_USE;
void client_want_made(struct making *m);
/*
 * The session holds the memory of an array that another one has exported, and is charged for it like that one. Where it
 * holds it already, that may become writable. 0, or a fault.
 */
int client_arena_hold(struct client *c, uint64_t id, bool writable, struct fault *f) FAULT_MUST_USE;
/* Tells another engine of the session's arenas, and of those it holds with others. 0 or -errno. */
int client_arenas_tell(struct client *c) FAULT_MUST_USE;
struct client_arena *client_arena_find(struct client *c, uint64_t id);
/* Gives the memory back at once, also what a client has mapped; of a shared array, when nobody holds it any more. */
void client_arena_drop(struct client *c, struct client_arena *a);
void client_arenas_drop(struct client *c);
/* It is the session's no more: its descriptor, and the charge with it, are the caller's; -1: others hold it. */
int client_arena_take(struct client *c, struct client_arena *a);
/* It has this arena in that place already, of which the user is charged only now; takes over its descriptor. 0 or a fault. */
int client_arena_again(struct client *c, unsigned place, const struct client_arena *a, struct fault *f) FAULT_MUST_USE;

/* ---- arenas of shared arrays: shared.c ---- */

/* Memory that several sessions hold, and the supervisor owns. */
struct shared_arena {
	uint32_t id, holders;
	int fd;
	uint64_t bytes;
	UT_hash_handle hh;
};

/* Takes over fd; one holder. NULL: out of memory. */
struct shared_arena *shared_arena_new(struct supervisor *s, int fd, uint64_t bytes);
struct shared_arena *shared_arena_find(struct supervisor *s, uint64_t id);
/* One that there was under this number; takes over fd. One holder. NULL: out of memory. */
struct shared_arena *shared_arena_again(struct supervisor *s, uint32_t id, int fd, uint64_t bytes);
/* Of the last holder: its descriptor, which is the caller's; else -1. */
int shared_arena_drop(struct supervisor *s, struct shared_arena *a);
/* The next daemon keeps it. */
void shared_arena_hand_on(struct supervisor *s, struct shared_arena *a);
