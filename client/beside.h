/*
 * Who waits for the engine again and again does so beside it: on the same processor.
 *
 * Where one client alone asks, waits and asks again, it and the engine never run at the same time. The system still wakes each of
 * them on a processor that is idle, which is another one than where the waker runs: a processor has to be woken by an interrupt, and all
 * that both touch moves from one cache to another. On a virtual machine that is most of a small request. So the client says where
 * it is, an engine that serves nobody else comes there (daemon/serve/follow.h) and says so; the thread that waits is then bound to the
 * processor where it falls asleep, so that it wakes there. When it has woken it may run where it could before, and nothing of the
 * caller's runs bound.
 *
 * It does not pay where the processor has other work: who is bound waits for that. Whoever finds that much of its waiting is that of
 * long rounds lets the system choose again for a while. Nor where the client has something to do while the engine works; a client that
 * asks more often than that before it waits (releases may go by themselves before a request) says no place.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/binding.h"
#include "protocol/ring.h"

struct beside {
	struct ring_place *place;
	atomic_uint asked;                   /* wakes of the engine since somebody waited */
	_Atomic uint64_t asked_us;           /* when the last of them was, where the engine follows; 0: not in this round */
	/* of who waits; one thread at a time */
	uint64_t waited_us, late_us;         /* in all, and in rounds that took long */
	_Atomic uint64_t apart_us;           /* until then no place is said */
};

void beside_init(struct beside *b, struct ring_place *place);
/* Before the engine is woken. */
void beside_asks(struct beside *b);
/* Somebody begins to wait for an answer. */
void beside_waits(struct beside *b);
/* Around sleeping. `binding` is zero. */
void beside_sleeps(struct beside *b, struct binding *binding);
void beside_woke(struct beside *b, struct binding *binding);
/* Of a round, from asking to waking. One that is told of twice, because its sleeper was woken for something else, counts twice. */
void beside_counts(struct beside *b, uint64_t round_us, uint64_t now);
