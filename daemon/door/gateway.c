/* The life of the gateway; see gateway.h. */
#include "supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"

enum {
	/* One that ended is started again after this. */
	GATEWAY_RESTART_US = 1000 * 1000,
	GATEWAY_PEER_TEXT = 128,
};

static void on_ready(void *user) {
	struct supervisor *s = user;

	s->gateway.was_ready = true;
	log_info("clients of other machines connect to %s", s->gateway.child.device);
}

/* [uid, peer, groups] and a connection. */
static int on_remote(struct supervisor *s, struct wire_cursor *body, struct fault *f) {
	struct child *c = &s->gateway.child;
	char peer[GATEWAY_PEER_TEXT];
	gid_t group[LIMIT_GROUPS];
	struct wire_cursor groups;
	const char *text;
	uint64_t uid, id;
	size_t size, count = 0;
	int fd = c->passed;
	int r = wire_get_uint(body, "uid", UINT32_MAX, &uid, f);

	if (!r)
		r = wire_get_text(body, "peer", LIMIT_SENTENCE, &text, &size, f);
	if (!r)
		r = wire_get_array(body, "groups", LIMIT_GROUPS, &groups, f);
	while (!r && groups.left) {
		r = wire_get_uint(&groups, "group", UINT32_MAX, &id, f);
		group[count++] = (gid_t)id;
	}
	if (!r && fd < 0)
		r = fault_set(f, FAULT_PROTOCOL, "the gateway sent no connection");
	if (r)
		return r;
	snprintf(peer, sizeof peer, "%.*s", (int)size, text);
	c->passed = -1;
	client_accept_remote(s, fd, &(struct rule_subject){ (uid_t)uid, group, count }, peer);
	return 0;
}

static int on_packet(void *user, uint64_t id, struct wire_cursor *body, struct fault *f) {
	struct supervisor *s = user;

	if (id == CONTROL_CERTIFICATE)
		return wire_get_uint(body, "until", INT64_MAX, &s->gateway.certificate_until, f);
	if (id == CONTROL_REMOTE_REFUSED) {
		s->gateway.refused++;
		return 0;
	}
	if (id != CONTROL_REMOTE)
		return fault_set(f, FAULT_PROTOCOL, "the gateway has no message %llu", (unsigned long long)id);
	return on_remote(user, body, f);
}

static void on_writable(void *user) {
	(void)user;
}

void gateway_open(struct supervisor *s) {
	const struct child_callbacks callbacks = { on_ready, on_packet, on_writable, s };

	child_init(&s->gateway.child, &child_gateway, s->loop, s->folder, 0, &callbacks);
}

void gateway_start(struct supervisor *s) {
	struct gateway *g = &s->gateway;
	struct fault f;
	int r;

	g->restart_us = 0;
	if (!*s->config.remote_listen || s->stopping)
		return;
	r = child_start(&g->child, &s->config, s->source, &f);
	if (!r)
		return;
	log_error("the gateway cannot be started: %s", r > 0 ? f.text : strerror(-r));
	if (g->was_ready)
		g->restart_us = loop_now() + GATEWAY_RESTART_US;
	else
		supervisor_stop(s, config_exit(r));
}

void gateway_stop(struct supervisor *s) {
	s->gateway.restart_us = 0;
	child_stop(&s->gateway.child, s->config.engine_stop_us);
}

static void ended(struct supervisor *s, const char *why) {
	struct gateway *g = &s->gateway;

	if (s->stopping) {
		engines_end(s);
		return;
	}
	log_error("%s", why);
	if (g->was_ready)
		g->restart_us = loop_now() + GATEWAY_RESTART_US;
	else
		supervisor_stop(s, config_exit(g->child.failure.code));
}

void gateway_reap(struct supervisor *s) {
	struct str why = { 0 };

	if (child_reap(&s->gateway.child, &why))
		ended(s, str_text(&why));
	str_free(&why);
}

void gateway_reload(struct supervisor *s) {
	struct wire_writer w;
	int r;

	if (s->gateway.child.state == CHILD_NONE)
		return;
	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_RELOAD);
	r = child_queue(&s->gateway.child, &w, -1);
	if (r && r != -EPIPE)
		log_error("the gateway was not told to reload: %s", strerror(-r));
	wire_writer_free(&w);
}

uint64_t gateway_tick(struct supervisor *s, uint64_t now) {
	struct gateway *g = &s->gateway;
	uint64_t due = UINT64_MAX;

	child_tick(&g->child, now);
	if (g->restart_us && now >= g->restart_us)
		gateway_start(s);
	due = loop_sooner(due, g->restart_us);
	return loop_sooner(due, g->child.deadline_us);
}

bool gateway_gone(const struct gateway *g) {
	return g->child.state == CHILD_NONE;
}

const char *gateway_text(const struct gateway *g) {
	return g->child.state == CHILD_READY ? g->child.device : "";
}
