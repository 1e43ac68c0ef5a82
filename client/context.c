/*
 * Contexts: opening, closing, locking, and what fork() does to them.
 *
 * nng does not survive fork(): opening or closing anything of it in the child aborts. So a child
 * of a process that has opened a context never touches one again: a handler of fork() sets a flag
 * that every entry looks at, and closes the child's copies of the doors, so that the daemon sees
 * the end of the session when the parent ends.
 */
#include "context.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "autostart.h"
#include "sent.h"
#include "capture.h"
#include "debug.h"
#include "define.h"
#include "flush.h"
#include "handle.h"
#include "pattern.h"
#include "record.h"
#include "resume.h"
#include "rule.h"
#include "tape.h"
#include "undo.h"
#include "waiting.h"
#include "protocol/variable.h"
#include "protocol/dtype.h"
#include "protocol/message.h"

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fusion_context *contexts; /* open ones, for the handler of fork() */
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static int handler_error;
static volatile sig_atomic_t forked; /* this process is a child; written in the handler alone */

/* --- fork() ------------------------------------------------------------------------------ */

static void before_fork(void) {
	pthread_mutex_lock(&contexts_lock);
	object_before_fork();
	error_before_fork();
}

static void after_fork_parent(void) {
	error_after_fork();
	object_after_fork();
	pthread_mutex_unlock(&contexts_lock);
}

static void after_fork_child(void) {
	if (contexts)
		forked = 1;
	for (struct fusion_context *c = contexts; c; c = c->next)
		door_forget(&c->door);
	error_after_fork();
	object_after_fork();
	pthread_mutex_unlock(&contexts_lock);
}

static void install_handler(void) {
	handler_error = pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

bool context_forked(void) {
	return forked;
}

int context_forked_fault(struct fault *f) {
	return fault_set(f, FAULT_FORKED,
		"this process was made by fork() from one that uses libfusion, which does not survive it: "
		"open contexts "
		"only in the child, or start the child with exec (in Python: the \"spawn\" method)");
}

/* --- the lock ---------------------------------------------------------------------------- */

/* Which context a name belongs to is known without its lock, and is looked at again with it. */
static struct object *lock_of(enum object_kind kind, const void *name) {
	struct object *o = object_find(kind, name);
	struct fusion_context *c = o ? atomic_load_explicit(&o->context, memory_order_acquire) : NULL;

	if (!c)
		return NULL;
	pthread_mutex_lock(&c->lock);
	if (object_is(o, name) && atomic_load_explicit(&o->context, memory_order_relaxed) == c) {
		c->references++;
		return o;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* What keeps a call from its context, which is locked, and left where there is something: the code of the error. */
static int refuse_call(struct fusion_context *c, const char *what, const char *argument) {
	int lost = c->stream.lost.code;
	char text[ARGUMENT_TEXT];
	struct fault f;

	if (!lost && (resume_due(c) || c->stream.resuming) && !waiting_in_callback()) {
		lost = resume(c, &f);
		error_report(lost, &f);
	} else if (c->closed) {
		error_report(context_refuse_closed_of(what, record_argument(what, argument, text), &f), &f);
	} else if (lost) {
		error_report(lost, &c->stream.lost);
	}
	if (lost)
		context_leave(c);
	return lost;
}

struct object *context_enter_of(enum object_kind kind, const void *name, const char *what, const char *argument) {
	struct fusion_context *c;
	struct object *o;
	char text[ARGUMENT_TEXT];
	struct fault f;

	if (error_sticky())
		return NULL;
	if (forked) {
		error_report(context_forked_fault(&f), &f);
		return NULL;
	}
	o = lock_of(kind, name);
	if (o) {
		c = atomic_load_explicit(&o->context, memory_order_relaxed);
		if (refuse_call(c, what, argument))
			return NULL;
		/* The lock may have been given up. */
		if (object_is(o, name))
			return o;
		context_leave(c);
	}
	object_report(kind, name, what, record_argument(what, argument, text));
	return NULL;
}

int context_enter(fusion_context *name, const char *what, struct fusion_context **cp) {
	struct object *o = context_enter_of(OBJECT_CONTEXT, name, what, "the context");

	*cp = (struct fusion_context *)o;
	return o ? 0 : fusion_error_code();
}

bool context_given(const fusion_context *name, const char *what) {
	return object_find(OBJECT_CONTEXT, name) || !object_report(OBJECT_CONTEXT, name, what, "the context");
}

struct object *context_lock(enum object_kind kind, const void *name, const char *what, const char *argument) {
	struct object *o = forked ? NULL : lock_of(kind, name);

	if (!o && !forked && name)
		object_report(kind, name, what, argument);
	return o;
}

static void free_text(const char *text) {
	free((char *)(uintptr_t)text);
}

static void options_free(struct fusion_options *o) {
	free_text(o->socket);
	free_text(o->name);
	free_text(o->authority);
	free_text(o->certificate);
	free_text(o->key);
}

static void context_free(struct fusion_context *c) {
	stream_free(c);
	arenas_free(&c->arenas);
	slots_free(c->slots);
	sent_free(c->sent);
	repeats_free(&c->repeats);
	slab_free(&c->values);
	object_give_batch(OBJECT_ARRAY, &c->spare_arrays, c->spare_arrays.count);
	slab_free(&c->attrs);
	slab_free(&c->tapes);
	c->rules = rules_free(c->rules);
	defined_free(c->definitions);
	own_patterns_free(c->patterns);
	options_free(&c->options);
	for (unsigned i = 0; i < c->settings; i++)
		free(c->setting[i]);
	object_give(OBJECT_CONTEXT, &c->object);
}

void context_leave(struct fusion_context *c) {
	undo_now(c);
	c->references--;
	context_unlock(c);
}

void context_unlock(struct fusion_context *c) {
	bool last = !c->references;

	pthread_mutex_unlock(&c->lock);
	if (last)
		context_free(c);
}

/* --- opening ----------------------------------------------------------------------------- */

static enum fusion_switch switch_of(enum fusion_switch given, const char *variable) {
	const char *value = given == FUSION_DEFAULT ? secure_getenv(variable) : NULL;

	if (!value || !*value)
		return given;
	return variable_switch(variable, true) ? FUSION_ON : FUSION_OFF;
}

static const char *first_text(const char *a, const char *b, const char *c) {
	return a && *a ? a : b && *b ? b : c;
}

enum {
	/*
	 * For a daemon that has ended: a service manager waits a second before it starts one that died, and gives one that is told to stop half a minute
	 * before it kills it; then another one opens its device. Who cannot wait so long says so, by timeout_ms or FUSION_RETURN_MS.
	 */
	RETURN_MS = 45 * 1000,
};

/* NULL stays NULL, or where there is no memory. */
static const char *copy_text(const char *text) {
	return text ? strdup(text) : NULL;
}

static void options_keep(struct fusion_options *to, const struct fusion_options *from) {
	*to = (struct fusion_options){ .timeout_ms = from->timeout_ms,
		.socket = copy_text(first_text(from->socket, secure_getenv("FUSION_SOCKET"), PLACE_SYSTEM)),
		.name = copy_text(first_text(from->name, program_invocation_short_name, "unnamed")),
		.authority = copy_text(first_text(from->authority, secure_getenv("FUSION_CA"), NULL)),
		.certificate = copy_text(first_text(from->certificate, secure_getenv("FUSION_CERT"), NULL)),
		.key = copy_text(first_text(from->key, secure_getenv("FUSION_KEY"), NULL)) };
}

/* Zeros but for what stays in its place. */
static struct fusion_context *context_take(void) {
	struct fusion_context *c = object_take(OBJECT_CONTEXT, sizeof *c);
	size_t begin = offsetof(struct fusion_context, references);

	if (!c)
		return NULL;
	memset((char *)c + begin, 0, sizeof *c - begin);
	if (!c->lock_ready && pthread_mutex_init(&c->lock, NULL)) {
		object_give(OBJECT_CONTEXT, &c->object);
		return NULL;
	}
	c->lock_ready = true;
	atomic_store_explicit(&c->object.context, c, memory_order_release);
	return c;
}

static struct fusion_context *context_new(const struct fusion_options *o) {
	struct fusion_context *c = context_take();
	uint32_t most = LIMIT_BATCH_OPS;

	if (!c)
		return NULL;
	c->references = 1;
	c->door.fd = c->door.ring = c->door.bell = c->door.late.fd = -1;
	c->door.timeout_ms = c->stream.timeout_ms = o->timeout_ms;
	c->door.return_ms = variable_number("FUSION_RETURN_MS", RETURN_MS);
	c->batch_ops = o->batch_ops ? o->batch_ops : BATCH_OPS_DEFAULT;
	if (c->batch_ops > most)
		c->batch_ops = most;
	c->debug = switch_of(o->debug, "FUSION_DEBUG") == FUSION_ON;
	c->slots = slots_new();
	c->sent = sent_new();
	repeats_init(&c->repeats);
	slab_init(&c->values, sizeof(struct value));
	slab_init(&c->attrs, sizeof(struct op_attr));
	slab_init(&c->tapes, sizeof(struct tape));
	options_keep(&c->options, o);
	if (c->slots && c->sent && c->options.socket && c->options.name)
		return c;
	options_free(&c->options);
	slots_free(c->slots);
	sent_free(c->sent);
	object_give(OBJECT_CONTEXT, &c->object);
	return NULL;
}

/* $FUSION_TRANSPORT is "nng" where the daemon's socket is to be used although it is on this machine. */
static bool ring_wanted(void) {
	const char *transport = secure_getenv("FUSION_TRANSPORT");

	return !transport || strcmp(transport, "nng") != 0;
}

/* Nobody looks after the session of a client on another machine but its connection. */
static uint64_t features_wanted(const struct fusion_context *c) {
	return (ring_wanted() ? FEATURE_RING : 0) | (link_is_url(c->options.socket) ? 0 : FEATURE_RESUME) |
	       (!link_is_url(c->options.socket) && c->repeats.limit ? FEATURE_REPEAT : 0);
}

/* The name, and behind its end the value. NULL: no memory. */
static char *setting_text(const char *name, const char *value) {
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		return NULL;
	text[strlen(name)] = 0;
	return text;
}

/* A name that is known already gets the new value. Where memory is short the next engine has the old one. */
void context_keep_setting(struct fusion_context *c, char *setting) {
	unsigned i = 0;

	while (setting && i < c->settings && strcmp(c->setting[i], setting) != 0)
		i++;
	if (!setting || i == SETTINGS_KEPT) {
		free(setting);
		return;
	}
	if (i < c->settings)
		free(c->setting[i]);
	else
		c->settings++;
	c->setting[i] = setting;
}

unsigned context_settings(const struct fusion_context *c, struct door_setting setting[static SETTINGS_KEPT]) {
	unsigned count = 0;

	for (unsigned i = 0; i < c->settings; i++)
		if (!pattern_is_switch(c->setting[i]))
			setting[count++] = (struct door_setting){ c->setting[i], c->setting[i] + strlen(c->setting[i]) + 1 };
	return count;
}

/* fusion.debug runs operations singly, so that the one to blame is known. */
static int door_hello(struct fusion_context *c, const struct fusion_options *o, struct fault *f) {
	enum fusion_switch fuse = c->debug ? FUSION_OFF : switch_of(o->fusion, "FUSION_ENABLED");
	const char *device = first_text(o->device, secure_getenv("FUSION_DEVICE"), "");
	struct door_setting setting[2];
	unsigned settings = 0;

	c->door.files = (struct link_files){ .authority = c->options.authority, .certificate = c->options.certificate,
		.key = c->options.key };
	if (fuse != FUSION_DEFAULT) {
		setting[settings++] = (struct door_setting){ "fusion.enabled", fuse == FUSION_ON ? "1" : "0" };
		context_keep_setting(c, setting_text("fusion.enabled", fuse == FUSION_ON ? "1" : "0"));
	}
	if (*device)
		setting[settings++] = (struct door_setting){ DOOR_OPTION_DEVICE, device };
	return door_enter(&c->door, c->options.socket, c->options.name, features_wanted(c), settings, setting, f);
}

static void contexts_add(struct fusion_context *c) {
	pthread_mutex_lock(&contexts_lock);
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&contexts_lock);
}

static void contexts_remove(struct fusion_context *c) {
	struct fusion_context **link = &contexts;

	pthread_mutex_lock(&contexts_lock);
	while (*link && *link != c)
		link = &(*link)->next;
	if (*link)
		*link = c->next;
	pthread_mutex_unlock(&contexts_lock);
}

static int check_options(const struct fusion_options *o, struct fault *f) {
	if ((unsigned)o->fusion > FUSION_OFF || (unsigned)o->debug > FUSION_OFF)
		return fault_set(
			f, FAULT_ARGUMENT, "open: a switch of the options is none of enum fusion_switch");
	if (o->timeout_ms > INT32_MAX)
		return fault_set(f, FAULT_ARGUMENT, "open: timeout_ms is larger than %d", INT32_MAX);
	return 0;
}

static bool names_socket(const struct fusion_options *o) {
	const char *variable = secure_getenv("FUSION_SOCKET");

	return (o->socket && *o->socket) || (variable && *variable);
}

/* Goes in at the socket that was found. */
static int door_found(struct fusion_context *c, const struct fusion_options *o, int *keptp, struct fault *f) {
	char found[PLACE_PATH];
	int r = autostart_find(found, o->timeout_ms, keptp, f);

	if (r)
		return r;
	free_text(c->options.socket);
	c->options.socket = strdup(found);
	return c->options.socket ? door_hello(c, o, f) : -ENOMEM;
}

/* Where no socket is named: the system's daemon, or one's own; should that end just before one is in, one that cannot. */
static int door_find(struct fusion_context *c, const struct fusion_options *o, struct fault *f) {
	int r = door_found(c, o, NULL, f), kept;

	if (r != FAULT_CONNECT || !c->options.socket || place_answers(c->options.socket) ||
		!strcmp(c->options.socket, PLACE_SYSTEM))
		return r;
	r = door_found(c, o, &kept, f);
	if (kept >= 0)
		close(kept);
	return r;
}

static int context_connect(struct fusion_context *c, const struct fusion_options *o, struct fault *f) {
	int r = pthread_once(&handler_once, install_handler);

	if (r || handler_error)
		return -(r ? r : handler_error);
	contexts_add(c);
	r = names_socket(o) ? door_hello(c, o, f) : door_find(c, o, f);
	if (!r)
		r = stream_open(c, f);
	/* From now on others have it, too. */
	c->door.lock = &c->lock;
	c->door.left = &c->stream.changed;
	return r;
}

static void context_disconnect(struct fusion_context *c) {
	stream_close(c);
	contexts_remove(c);
	pthread_mutex_lock(&c->lock);
	door_await(&c->door);
	if (!c->door.link)
		arenas_keep_mapped(&c->arenas);
	door_leave(&c->door);
	pthread_mutex_unlock(&c->lock);
}

int fusion_open(fusion_context **contextp, const struct fusion_options *options) {
	static const struct fusion_options defaults;
	const struct fusion_options *o = options ? options : &defaults;
	struct fusion_context *c;
	struct fault f;
	int r;

	if (!contextp)
		return error_report(fault_set(&f, FAULT_ARGUMENT, "open: contextp is NULL"), &f);
	*contextp = NULL;
	if (forked)
		return error_report(context_forked_fault(&f), &f);
	r = error_reserved("open", o->reserved);
	if (r)
		return r;
	r = check_options(o, &f);
	if (!r)
		r = variables_check(&f);
	if (r)
		return error_report(r, &f);
	c = context_new(o);
	if (!c)
		return error_report(-ENOMEM, NULL);
	r = context_connect(c, o, &f);
	if (r) {
		context_disconnect(c);
		context_free(c);
		return error_report(r, &f);
	}
	*contextp = c->name = object_name(OBJECT_CONTEXT, &c->object);
	return 0;
}

int context_refuse_closed(struct fault *f) {
	return fault_set(f, FAULT_STATE, "the context was closed");
}

int context_refuse_closed_of(const char *what, const char *argument, struct fault *f) {
	return fault_set(f, FAULT_STATE, "%s: %s is of a context that was closed", what, argument);
}

void fusion_close(fusion_context *context) {
	struct object *o = context && !forked ? object_find(OBJECT_CONTEXT, context) : NULL;
	struct fusion_context *c = (struct fusion_context *)o;
	struct fault why;

	if (!context || forked)
		return;
	if (o && waiting_in_callback()) {
		error_report(fault_set(&why, FAULT_STATE,
				     "close: a callback of libfusion must not close its context"),
			&why);
		return;
	}
	/* Of several threads one closes: the reference of the name is its own. */
	if (!o || !object_end(o, context)) {
		object_report(OBJECT_CONTEXT, context, "close", "the context");
		return;
	}
	stream_leave(c);
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	door_stop(&c->door);
	context_refuse_closed(&why);
	stream_lose(c, &why);
	capture_close(c);
	pthread_mutex_unlock(&c->lock);
	context_disconnect(c);
	pthread_mutex_lock(&c->lock);
	c->references--;
	context_unlock(c);
}

/* --- questions --------------------------------------------------------------------------- */

const char *fusion_device(fusion_context *context) {
	const char *device;
	struct fusion_context *c;

	if (context_enter(context, "device", &c))
		return NULL;
	device = c->door.device;
	context_leave(c);
	return device; /* NOLINT(clang-analyzer-unix.Malloc): the caller's reference keeps it */
}

static int configure(fusion_context *context, const char *what, enum message_request kind, const char *name, const char *value) {
	struct fusion_context *c;
	struct request *q;
	struct answer a;
	struct wire_writer *w;
	struct fault f;
	int r = context_enter(context, what, &c);

	if (r)
		return r;
	if (!name || !value)
		r = fault_set(&f, FAULT_ARGUMENT, "%s: name or value is NULL", what);
	if (!r)
		r = stream_room_to_wait(c, &q, &f);
	if (!r) {
		w = stream_begin(c, q, kind, 2);
		wire_put_text(w, name);
		wire_put_text(w, value);
		q->setting = kind == REQUEST_CONFIGURE ? setting_text(name, value) : NULL;
		r = stream_send(c, q, &a, &f);
	}
	if (!r) {
		repeat_settings_changed(c);
		r = stream_wait(c, q, &a, &f);
	}
	context_leave(c);
	return error_report(r, &f);
}

int fusion_cancel(fusion_context *context) {
	struct request *q;
	struct answer a;
	struct fault f;
	struct fusion_context *c;
	int r = context_enter(context, "cancel", &c);

	if (r)
		return r;
	r = stream_room_to_wait(c, &q, &f);
	if (!r) {
		stream_begin(c, q, REQUEST_CANCEL, 0);
		repeat_forget(c);
		r = stream_send(c, q, &a, &f);
	}
	if (!r)
		r = stream_wait(c, q, &a, &f);
	context_leave(c);
	return error_report(r, &f);
}

/* fusion.debug is the library's own: operations are sent one by one from now on, which needs nothing of the daemon. */
static int configure_debug(fusion_context *context, const char *value) {
	struct fusion_context *c;
	struct fault f;
	uint64_t on;
	int r = context_enter(context, "configure", &c);

	if (r)
		return r;
	if (!value || !word_value(words_switch, value, &on))
		r = fault_set(&f, FAULT_ARGUMENT, "configure: fusion.debug is '%s', but wants yes or no", value ? value : "NULL");
	else
		c->debug = on;
	context_leave(c);
	return error_report(r, &f);
}

int fusion_configure(fusion_context *context, const char *name, const char *value) {
	if (name && !strcmp(name, DEBUG_SETTING))
		return configure_debug(context, value);
	return configure(context, "configure", REQUEST_CONFIGURE, name, value);
}

int fusion_configure_daemon(fusion_context *context, const char *name, const char *value) {
	return configure(context, "configure_daemon", REQUEST_SET, name, value);
}
