/*
 * Holds the thread that plans large graphs in the midst of one. For tests that include test_serve_engine.h.
 */
#pragma once

#include <string.h>

#include "daemon/plan/planner.h"
#include "daemon/serve/planning.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed, inside;
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false };

static void pass_gate(struct planner *p, const char *pass) {
	if (p->nodes < PLANNING_NODES || strcmp(pass, "resolve") != 0)
		return;
	pthread_mutex_lock(&gate.lock);
	gate.inside = true;
	while (gate.closed)
		pthread_cond_wait(&gate.changed, &gate.lock);
	gate.inside = false;
	pthread_mutex_unlock(&gate.lock);
}

/* Before there is an engine. */
static void gate_build(void) {
	planner_meddle = pass_gate;
}

static void gate_close(void) {
	pthread_mutex_lock(&gate.lock);
	gate.closed = true;
	pthread_mutex_unlock(&gate.lock);
}

static void gate_open(void) {
	pthread_mutex_lock(&gate.lock);
	gate.closed = false;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

static bool gate_has_somebody(uint64_t what) {
	bool inside;

	(void)what;
	pthread_mutex_lock(&gate.lock);
	inside = gate.inside;
	pthread_mutex_unlock(&gate.lock);
	return inside;
}

/* The thread may be at a job of before, behind which only the engine gives it another one. */
static void gate_await(void) {
	engine_turn_until(gate_has_somebody, 0);
}

static bool is_planning(uint64_t session) {
	struct session *s;

	HASH_FIND(hh, engine.server->sessions, &session, sizeof session, s);
	return s && s->planning;
}
