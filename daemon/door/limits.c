/* Limits of the system. See limits.h. */
#include "limits.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/catalogue.h"
#include "daemon/base/descriptors.h"

#define MIB 1048576.0
#define GIB (UINT64_C(1) << 30)

/* What a process keeps for itself, and of a dozen sessions the connection, the memory of the ring and some arenas: fewer serve hardly anybody. */
#define LIMITS_FILES (UINT64_C(80) + DESCRIPTORS_OWN)
/* The engine reserves this much at least for pools of arrays (device/memory.c), maps the catalogue, and has its driver's code and stacks. */
#define LIMITS_ADDRESSES (8 * GIB + catalogue_bytes() + 2 * GIB)
/* The largest file of a session is its engine's catalogue, of which what is not used takes no memory. */
#define LIMITS_FILE catalogue_bytes()

void limits_umask(void) {
	umask(S_IRWXG | S_IRWXO);
}

/* False where there is enough; else what there is. */
static bool falls_short(__rlimit_resource_t which, uint64_t least, double *hasp) {
	struct rlimit limit;

	if (getrlimit(which, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= least)
		return false;
	*hasp = (double)limit.rlim_cur;
	return true;
}

int limits_file_fault(struct fault *f, uint64_t bytes) {
	struct rlimit limit = { 0, 0 };

	getrlimit(RLIMIT_FSIZE, &limit);
	return fault_set(f, FAULT_LIMIT,
		"the daemon's process %jd may have files of %ju bytes and no more, and %ju bytes of shared memory count as one: LimitFSIZE= in "
		"its unit or ulimit -f where it is started says how many, prlimit --fsize changes that while it runs",
		(intmax_t)getpid(), (uintmax_t)limit.rlim_cur, (uintmax_t)bytes);
}

int limits_check(struct fault *f) {
	double has;

	signal(SIGXFSZ, SIG_IGN);
	if (falls_short(RLIMIT_FSIZE, LIMITS_FILE, &has))
		return fault_set(f, FAULT_LIMIT,
			"a file may have %.3g MiB here; memory that is shared counts as files, of %.0f MiB at least: ulimit -f unlimited, or "
			"LimitFSIZE=infinity in the unit",
			has / MIB, (double)LIMITS_FILE / MIB);
	if (falls_short(RLIMIT_NOFILE, LIMITS_FILES, &has))
		return fault_set(f, FAULT_LIMIT,
			"%.0f descriptors may be open here, and %.0f are the least: ulimit -n 1048576, or LimitNOFILE=1048576 in the unit", has,
			(double)LIMITS_FILES);
	if (falls_short(RLIMIT_AS, LIMITS_ADDRESSES, &has))
		return fault_set(f, FAULT_LIMIT,
			"a process may have %.0f MiB of addresses here, and %.0f MiB are the least, of which most are reserved and not used: "
			"ulimit -v unlimited, or LimitAS=infinity in the unit",
			has / MIB, (double)LIMITS_ADDRESSES / MIB);
	return 0;
}
