/*
 * A deterministic simulation of the whole daemon: supervisor, engines and clients in one process and one thread, driven by one
 * generator of random numbers, in virtual time.
 *
 * What runs is what is installed: the objects of daemon/, client/ and protocol/ are linked into three shared objects (supervisor.so,
 * engine.so, client.so), of which each actor loads a copy of its own, so that each has its own static state. Replaced are
 *
 *   the clock       clock_gettime(), time() and every wait: time passes by steps of the scheduler, and jumps where nobody can run
 *   the scheduler   threads, and forked processes, are fibers; a fiber gives way where it calls the system (calls.c); who is next is
 *                   drawn
 *   processes       fork(), execv(), waitpid(), kill(), signalfd(): an actor ends as a process does: its descriptors are closed, its mappings
 *                   unmapped, its memory freed, its parent told
 *   the device      daemon/device: a symbolic one (device.c), which runs kernels element by element from the plan's own description
 *
 * Descriptors are the kernel's own - sockets, eventfds, epoll, sealed memory behave as they do - but each has an owner, and no call waits
 * in the kernel.
 *
 * Everything that is drawn comes from the seed, so a seed repeats exactly: every step is mixed into a hash of the history, which
 * two runs have in common; some seeds are run twice for that.
 *
 * Checked are: what a client reads is what a model of it in plain C computes; an error is one that the faults of this run explain; every
 * kernel touches memory of one session alone, within its mappings; nobody waits for ever; whoever ended cleanly has given back
 * every descriptor, mapping and byte; no process ends by itself but by what was done to it.
 *
 * With --points nothing is drawn but turns: one program (script.c) does each kind of request once, and each of the calls of the supervisor, the engine
 * or the client fails, in order: once, and from then on (points.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))

/* What may happen to whom; how often it did is told at the end. */
#define SIM_FAULTS(X)                                                                                                  \
	X(engine_ends) X(engine_hangs) X(supervisor_ends) X(supervisor_stops) X(client_ends) X(client_freezes)          \
	X(build_late) X(build_fails) X(completion_late) X(no_memory) X(no_descriptor) X(no_shared_memory) X(no_mapping) \
	X(clock_jumps) X(interrupted) X(no_socket)

enum sim_fault {
#define X(name) SIM_##name,
	SIM_FAULTS(X)
#undef X
	SIM_FAULT_KINDS
};

SIM_API const char *sim_fault_name(enum sim_fault what);
/* From the seed: below `below`, which is above 0. */
SIM_API uint64_t sim_random(uint64_t below);
SIM_API uint64_t sim_now_ns(void);
/* A place where another actor may come in, or this one may end. */
SIM_API void sim_point(const char *name, uint64_t detail);
/* Calls back so much later, as the actor that asks, unless that has ended. The user is a block of the actor's memory. */
SIM_API void sim_after(uint64_t ns, void (*call)(void *user), void *user);
/* What has not been called back of this user's is not; before that memory is freed. */
SIM_API void sim_forget(const void *user);
/* Into the history. */
SIM_API void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The simulated program is wrong: the run ends. */
SIM_API void sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Does this happen now? Once in so many calls, while there is something left of what may go wrong. */
SIM_API bool sim_happens(enum sim_fault what);
/* Are kernels run? Else it is looked at what they touch, of those kinds whose operands say so (tests/fuzz/fuzz_session.c). */
SIM_API bool sim_computes(void);
/* How much has gone wrong so far that may have hurt this actor: ends of engines and supervisors, faults in calls. */
SIM_API uint64_t sim_troubles(void);
/* Has a call failed in this run? */
SIM_API bool sim_calls_failed(void);
/* Do values lie where they outlive an engine, and has no call failed? */
SIM_API bool sim_keeps(void);
/* The client of whose memory the address is part: its number from 1 on; 0: nobody's, the engine's own; -1: no mapping holds `bytes`. */
SIM_API int sim_owner(uint64_t address, uint64_t bytes);

/* A program of its own, in client.so: script NUMBER SOCKET TIMEOUT_MS. See script.c. */
int script_main(int argc, char **argv);

/* What each shared object exports. */
typedef int sim_entry_function(int argc, char **argv);
