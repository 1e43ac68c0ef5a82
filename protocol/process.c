/* Processes of this machine; see process.h. */
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

bool process_ended(pid_t pid) {
	struct pollfd p = { .events = POLLIN };
	bool ended;

	if (pid <= 0)
		return false;
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return kill(pid, 0) < 0 && errno == ESRCH;
	ended = poll(&p, 1, 0) == 1;
	close(p.fd);
	return ended;
}
