/*
 * Shared memory and packets with descriptors.
 *
 * An arena is a memfd: allocated in full (a hole would be a SIGBUS later), sealed against
 * shrinking, growing and further seals, mode 0600. Its last LIMIT_ARENA_SLACK bytes are never used.
 * A packet is one SOCK_SEQPACKET message with at most one descriptor (SCM_RIGHTS, close-on-exec).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fault.h"

/* Creates an arena; 0 and *fdp, or -errno (-ENOSPC, -ENOMEM where memory is short). */
int shm_create(const char *name, uint64_t bytes, int *fdp) FAULT_MUST_USE;
/*
 * The same in two steps, since clearing memory is what takes long: of what was prepared becomes an arena of as many bytes or fewer, at once. The
 * descriptor stays the caller's.
 */
int shm_prepare(const char *name, uint64_t bytes, int *fdp) FAULT_MUST_USE;
/* The first step in two: without memory, at once; and the memory, piece by piece, until `stop` (NULL: never) is set: -ECANCELED. */
int shm_empty(const char *name, int *fdp) FAULT_MUST_USE;
int shm_fill(int fd, uint64_t bytes, const atomic_bool *stop) FAULT_MUST_USE;
/* Bytes the machine could still hand out; UINT64_MAX where it does not say. */
uint64_t shm_available(void);
int shm_finish(int fd, uint64_t bytes) FAULT_MUST_USE;
/* Checks that fd is a sealed memfd of exactly these bytes: 0, or -EINVAL. */
int shm_check(int fd, uint64_t bytes) FAULT_MUST_USE;
/*
 * What lies in it may be opened anew by its owner alone, and for reading alone (mode 0400): who gets a
 * descriptor of shm_reader() cannot make one that writes. 0 or -errno.
 */
int shm_share(int fd) FAULT_MUST_USE;
/* Another descriptor of the same memory that can only be read: it, or -errno. */
int shm_reader(int fd) FAULT_MUST_USE;
/*
 * Maps it shared, readable and, where the descriptor is, writable; at address where it is not NULL (MAP_FIXED), else where
 * large pages can serve it.
 */
int shm_map(int fd, uint64_t bytes, void *address, void **basep) FAULT_MUST_USE;

/* Sends one packet; fd may be -1. 0 or -errno. flags as for sendmsg. */
int packet_send(int socket, const void *bytes, size_t size, int fd, int flags) FAULT_MUST_USE;
/*
 * Receives one packet of at most size bytes. Returns its length, 0 at the end of the stream, or
 * -errno (-EMSGSIZE for a longer one; -ENOMEM, or with MSG_DONTWAIT -EAGAIN and some milliseconds later, where the system has no memory
 * for it: then it stays). *fdp is -1 or a descriptor the caller owns; descriptors
 * beyond the first are closed.
 */
ssize_t packet_receive(int socket, void *bytes, size_t size, int *fdp, int flags) FAULT_MUST_USE;

/* The same with up to PACKET_PAIR descriptors; those not used are -1, and the last. With MSG_DONTWAIT -ENOMEM at once. */
enum { PACKET_PAIR = 2 };
int packet_send_pair(int socket, const void *bytes, size_t size, const int fd[PACKET_PAIR], int flags) FAULT_MUST_USE;
ssize_t packet_receive_pair(int socket, void *bytes, size_t size, int fd[PACKET_PAIR], int flags) FAULT_MUST_USE;
