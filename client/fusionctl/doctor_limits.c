/*
 * fusionctl doctor: what the kernel allows the daemon: descriptors, locked memory, anonymous files. Of a daemon that runs its
 * limits are read, else the caller's are taken, and the unit's where there is one.
 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "print.h"
#include "client/json.h"

enum {
	/* A session takes its connection, its ring (3) and arenas; so many sessions are the least worth a daemon. */
	FILES_LEAST = 1024,
	/* Of each connection that door.connections allows, and of an arena of its session. */
	FILES_EACH = 2,
	/* What Linux gives by default since 5.16; drivers of GPUs lock the memory that they copy from. */
	MEMLOCK_BYTES = 8 << 20,
	/* An arena of a small session. */
	MEMFD_BYTES = 1 << 20,
	LINE = 256,
};

/* "1024", "infinity" or "unlimited". */
static rlim_t read_limit(const char *text) {
	char *end;
	rlim_t value = strtoull(text, &end, 10);

	if (end == text)
		return RLIM_INFINITY;
	value <<= *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	return value;
}

/* The hard limit of a process, by its title in /proc/PID/limits. */
static bool process_limit(double pid, const char *title, rlim_t *limitp) {
	char path[DOCTOR_NAME], line[LINE], hard[LINE];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%.0f/limits", pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof line, f))
		if (!strncmp(line, title, strlen(title)) && sscanf(line + strlen(title), "%*s %255s", hard) == 1) {
			*limitp = read_limit(hard);
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

/* *whosep: whose limit it is, for the sentence. The daemon raises soft limits itself. */
static rlim_t find_limit(const struct doctor *d, int which, const char *title, const char *line, const char **whosep) {
	char value[DOCTOR_NAME];
	struct rlimit own;
	rlim_t limit = RLIM_INFINITY;

	*whosep = "the running daemon";
	if (d->status && process_limit(json_number(d->status, "pid"), title, &limit))
		return limit;
	*whosep = "fusiond.service";
	if (d->subject.uid != geteuid() || *d->root) {
		if (doctor_unit_value(d, line, value))
			return read_limit(value);
	}
	*whosep = "a daemon started from here";
	return getrlimit(which, &own) ? RLIM_INFINITY : own.rlim_max;
}

void doctor_files(struct doctor *d) {
	const char *whose, *setting = doctor_setting(d, "door.connections");
	rlim_t limit = find_limit(d, RLIMIT_NOFILE, "Max open files", "LimitNOFILE", &whose);
	rlim_t wanted = FILES_EACH * (*setting ? strtoull(setting, NULL, 10) : 0);

	if (limit >= FILES_LEAST && limit >= wanted) {
		doctor_find(d, DOCTOR_OK, "%s may have enough descriptors", whose);
		return;
	}
	doctor_find(d, limit < FILES_LEAST ? DOCTOR_ERROR : DOCTOR_WARNING,
		"%s may have %ju descriptors; %ju are the least, and door.connections = %s takes up to %ju", whose, (uintmax_t)limit,
		(uintmax_t)FILES_LEAST, *setting ? setting : "?", (uintmax_t)wanted);
	doctor_mend(d, "systemctl edit fusiond    # [Service] LimitNOFILE=1048576; without systemd: ulimit -n 1048576");
}

void doctor_memlock(struct doctor *d) {
	const char *whose;
	rlim_t limit = find_limit(d, RLIMIT_MEMLOCK, "Max locked memory", "LimitMEMLOCK", &whose);
	char text[PRINT_TEXT];

	if (limit >= MEMLOCK_BYTES) {
		doctor_find(d, DOCTOR_OK, "%s may lock enough memory", whose);
		return;
	}
	doctor_find(d, DOCTOR_WARNING, "%s may lock %s of memory; drivers of GPUs copy slowly or fail below 8 MiB", whose,
		print_bytes((double)limit, text));
	doctor_mend(d, "systemctl edit fusiond    # [Service] LimitMEMLOCK=8M; without systemd: ulimit -l 8192");
}

/* What a session's memory goes through; 0 or -errno, and *stepp what was refused. */
static int try_memfd(const char **stepp) {
	int fd = memfd_create("fusionctl-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING), r = 0;

	*stepp = "memfd_create";
	if (fd < 0)
		return -errno;
	*stepp = "ftruncate";
	if (ftruncate(fd, MEMFD_BYTES))
		r = -errno;
	if (!r) {
		*stepp = "sealing";
		r = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ? -errno : 0;
	}
	close(fd);
	return r;
}

void doctor_memfd(struct doctor *d) {
	const char *step;
	int r;

	if (*d->root) {
		doctor_find(d, DOCTOR_OK, "not looked at: it is the kernel's that runs");
		return;
	}
	/* Beyond RLIMIT_FSIZE the kernel ends who does not ignore it. */
	signal(SIGXFSZ, SIG_IGN);
	r = try_memfd(&step);
	if (!r) {
		doctor_find(d, DOCTOR_OK, "anonymous memory can be shared");
		return;
	}
	doctor_find(d, DOCTOR_ERROR, "no memory can be shared with clients: %s is refused (%s)", step, strerror(-r));
	if (r == -EFBIG)
		doctor_mend(d, "systemctl edit fusiond    # [Service] LimitFSIZE=infinity; without systemd: ulimit -f unlimited");
	else if (r == -EACCES)
		doctor_mend(d, "sysctl vm.memfd_noexec=1");
	else if (r == -EMFILE || r == -ENFILE)
		doctor_mend(d, "ulimit -n 1048576");
	else
		doctor_mend(d, "systemctl edit fusiond    # [Service] SystemCallFilter=memfd_create; in a container: allow it in the seccomp profile");
}
