/*
 * Sockets of clients are closed here.
 *
 * A descriptor that a client has sent lies in our socket until it is received or the socket is closed, and is then closed by whoever
 * does that: a connection with unsent data and SO_LINGER holds him up for as long as its sender likes. The kernel refuses such
 * packets where it can (SO_PASSRIGHTS, Linux 6.16). Where it cannot, what comes is looked at before it is received, and a socket
 * with a descriptor in it is closed by a thread of its own. Until then it counts among its user's connections.
 */
#pragma once

#include <sys/types.h>

struct supervisor;
struct user;

/* No descriptor can be sent to the socket from now on, where the kernel has that. */
void closer_refuse_descriptors(int fd);
/*
 * As recv() without waiting: bytes, 0 at the end, or -errno. -EPROTO: descriptors lie in what comes next, which stays there;
 * -EMSGSIZE: a packet was longer.
 */
ssize_t closer_receive(int fd, void *bytes, size_t size);
/*
 * Closes a client's socket; what lies unread goes, as it would reach the other side as an error before our last answer. The connection
 * is given back to the user (NULL: it counts as nobody's) now or when it is closed. Never waits.
 */
void closer_take(struct supervisor *s, int fd, struct user *user);
