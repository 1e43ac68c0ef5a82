/* The limit of descriptors. See descriptors.h. */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

int descriptors_fault(struct fault *f, const char *what) {
	struct rlimit limit = { 0, 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	return fault_set(f, FAULT_LIMIT,
		"the daemon has no descriptor left for %s: its process %jd may have %ju; LimitNOFILE= in its unit or ulimit -n where it is "
		"started says how many, prlimit --nofile changes that while it runs",
		what, (intmax_t)getpid(), (uintmax_t)limit.rlim_cur);
}

bool descriptors_short(int error) {
	return error == -EMFILE || error == -ENFILE;
}

/* Any descriptor does. */
static int open_one(void) {
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool descriptors_left(unsigned count) {
	int fd[DESCRIPTORS_PROBED];
	unsigned n = 0;

	while (n < count && n < DESCRIPTORS_PROBED && (fd[n] = open_one()) >= 0)
		n++;
	for (unsigned i = 0; i < n; i++)
		close(fd[i]);
	return n == count;
}

int descriptors_raise(int *fdp) {
	int fd = *fdp >= DESCRIPTORS_OWN ? *fdp : fcntl(*fdp, F_DUPFD_CLOEXEC, DESCRIPTORS_OWN);

	/* EINVAL: all numbers from there on are above the limit. */
	if (fd < 0)
		return -EMFILE;
	if (fd != *fdp)
		close(*fdp);
	*fdp = fd;
	return 0;
}

void reserve_take(struct reserve *r) {
	for (unsigned i = 0; i < PACKET_PAIR; i++)
		if (r->fd[i] < 0)
			r->fd[i] = open_one();
}

void reserve_give(struct reserve *r) {
	for (unsigned i = 0; i < PACKET_PAIR; i++) {
		if (r->fd[i] >= 0)
			close(r->fd[i]);
		r->fd[i] = -1;
	}
}
