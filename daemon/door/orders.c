/* Orders of administrators that outlive an engine; see orders.h. */
#include "orders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "protocol/message.h"
#include "protocol/pattern.h"
#include "daemon/door/supervisor.h"

enum {
	/* Far above what there are settings and common patterns: an engine that goes on and on is broken. */
	ORDERS_MOST = 1024,
	ORDER_NAME = 1024,
	ORDER_TEXT = 8192,
};

/* The switch of a pattern is a setting of this name. */
#define SWITCH "fusion.pattern."

struct order {
	struct order *prev, *next;
	enum order_kind kind;
	char *name;                  /* a setting's, or a pattern's signature: NAME(OPERANDS) */
	char *text;                  /* the value, or the definition */
};

static void order_free(struct order *o) {
	if (!o)
		return;
	free(o->name);
	free(o->text);
	free(o);
}

static void drop(struct engine *e, struct order *o) {
	DL_DELETE(e->orders, o);
	order_free(o);
}

static size_t name_length(const char *name) {
	return strcspn(name, "(");
}

static bool same_name(const char *a, const char *b) {
	return name_length(a) == name_length(b) && !strncmp(a, b, name_length(a));
}

/* What o says again, or takes back. */
static bool replaces(const struct order *o, const struct order *old) {
	if (old->kind == ORDER_PATTERN)
		return o->kind != ORDER_SETTING && same_name(o->name, old->name);
	if (o->kind == ORDER_SETTING)
		return !strcmp(o->name, old->name);
	return o->kind == ORDER_FORGET && !strncmp(old->name, SWITCH, strlen(SWITCH)) && same_name(o->name, old->name + strlen(SWITCH));
}

static void take(struct engine *e, struct order *o) {
	struct order *old, *next;
	unsigned count = 0;

	DL_FOREACH_SAFE(e->orders, old, next) {
		count++;
		if (replaces(o, old))
			drop(e, old);
	}
	if (o->kind == ORDER_FORGET || count >= ORDERS_MOST)
		order_free(o);
	else
		DL_APPEND(e->orders, o);
}

static int get_text(struct wire_cursor *body, const char *field, size_t most, char **textp, struct fault *f) {
	const char *text;
	size_t size;
	int r = wire_get_text(body, field, most, &text, &size, f);

	if (r)
		return r;
	*textp = strndup(text, size);
	return *textp ? 0 : -ENOMEM;
}

int orders_note(struct engine *e, struct wire_cursor *body, struct fault *f) {
	struct order *o = calloc(1, sizeof *o);
	uint64_t kind = 0;
	int r = o ? wire_get_uint(body, "kind", ORDER_FORGET, &kind, f) : -ENOMEM;

	if (!r)
		r = get_text(body, "name", ORDER_NAME, &o->name, f);
	if (!r)
		r = get_text(body, "text", ORDER_TEXT, &o->text, f);
	if (r) {
		order_free(o);
		return r;
	}
	o->kind = (enum order_kind)kind;
	take(e, o);
	return 0;
}

static void tell(struct engine *e, const struct order *o) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 4);
	wire_put_uint(&w, CONTROL_ORDER);
	wire_put_uint(&w, o->kind);
	wire_put_text(&w, o->name);
	wire_put_text(&w, o->text);
	r = child_queue(&e->child, &w, -1);
	wire_writer_free(&w);
	if (r && r != -EPIPE)
		log_error("engine %u was not told that %s is %s: %s", e->number, o->name, o->text, strerror(-r));
}

int orders_add(struct engine *e, enum order_kind kind, const char *name, const char *text) {
	struct order *o = calloc(1, sizeof *o);

	if (o) {
		o->kind = kind;
		o->name = strdup(name);
		o->text = strdup(text);
	}
	if (!o || !o->name || !o->text) {
		order_free(o);
		return -ENOMEM;
	}
	if (e->child.state == CHILD_READY)
		tell(e, o);
	take(e, o);
	return 0;
}

void orders_tell(struct engine *e) {
	const struct order *o;

	DL_FOREACH(e->orders, o)
		tell(e, o);
}

/* No file has them. */
static bool is_own_switch(const char *name) {
	return !strncmp(name, SWITCH, strlen(SWITCH)) && !pattern_find(name + strlen(SWITCH));
}

void orders_forget_settings(struct engine *e) {
	struct order *o, *next;

	DL_FOREACH_SAFE(e->orders, o, next) {
		if (o->kind == ORDER_SETTING && !is_own_switch(o->name))
			drop(e, o);
	}
}

void orders_free(struct engine *e) {
	while (e->orders)
		drop(e, e->orders);
}
