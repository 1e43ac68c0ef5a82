/*
 * What a connection's process may not, whoever runs in it: reach files by name, make sockets, run programs, reach other processes. See gateway.h.
 *
 * It runs as the daemon does, as whom the control socket lets everything through: so it must not connect to it. A list of what is refused, not of what is let
 * through: what C libraries, threads and allocators call differs from release to release. Of what is left most works on descriptors that are open
 * and on the process itself; what this does not keep from anybody stands in docs/gateway.md. What is refused fails with EPERM; another
 * architecture's calls end the process. A name that this libseccomp does not know is one that its kernels did not have.
 */
#include "gateway.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <seccomp.h>

#define NAMES(name, ...) static const char *const name[] = { __VA_ARGS__ }

NAMES(refused,
	/* files by name */
	"open", "openat", "openat2", "creat", "open_by_handle_at", "name_to_handle_at", "mkdir", "mkdirat", "rmdir", "mknod", "mknodat", "link",
	"linkat", "symlink", "symlinkat", "unlink", "unlinkat", "rename", "renameat", "renameat2", "truncate", "truncate64", "chmod", "fchmodat",
	"fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "utimensat", "utimensat_time64", "futimesat", "setxattr", "lsetxattr",
	"setxattrat", "removexattr", "lremovexattr", "removexattrat", "chdir", "fchdir", "chroot", "pivot_root", "mount", "umount", "umount2",
	"mount_setattr", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick", "swapon", "swapoff", "quotactl",
	"quotactl_fd", "acct", "inotify_init", "inotify_init1", "fanotify_init",
	/* programs and other processes */
	"execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp",
	"pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64",
	"setpriority", "ioprio_set", "sched_setscheduler", "sched_setattr", "sched_setparam", "sched_setaffinity", "migrate_pages", "move_pages",
	/* sockets, and memory that has a name */
	"bind", "listen", "accept", "accept4", "socketpair", "memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "semget", "semctl",
	"semop", "semtimedop", "semtimedop_time64", "msgget", "msgctl", "msgsnd", "msgrcv", "mq_open", "mq_unlink", "ipc",
	/* the kernel's wider doors */
	"unshare", "setns", "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "userfaultfd", "perf_event_open", "keyctl",
	"add_key", "request_key", "personality", "modify_ldt", "iopl", "ioperm", "kexec_load", "kexec_file_load", "init_module", "finit_module",
	"delete_module", "syslog", "reboot", "sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
	"vhangup", "lookup_dcookie", "landlock_create_ruleset");

/* By these a client without a ring reaches its engine (fusion.transport=nng). */
NAMES(refused_with_a_ring, "connect", "socket", "sendmmsg");

static int refuse(scmp_filter_ctx filter, const char *const *name, size_t count) {
	int r = 0;

	for (size_t i = 0; !r && i < count; i++) {
		int call = seccomp_syscall_resolve_name(name[i]);

		/* Negative: unknown, or a call that this architecture does not have by itself. */
		if (call >= 0)
			r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
	}
	return r;
}

#define REFUSE(filter, names) refuse(filter, names, sizeof(names) / sizeof *(names))

/* Threads, but no processes. What clone3 is asked for stands in memory, where no filter looks: C libraries take clone where it is missing. */
static int refuse_processes(scmp_filter_ctx filter) {
#ifdef __s390__
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
#else
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
#endif

	return r ? r : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int load(scmp_filter_ctx filter, bool nng) {
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	/* The kernel's own errno; a tree in place of a list, for each call of the process passes here. */
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_API_SYSRAWRC, 1);
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!r)
		r = REFUSE(filter, refused);
	if (!r)
		r = refuse_processes(filter);
	if (!r && !nng)
		r = REFUSE(filter, refused_with_a_ring);
	return r ? r : seccomp_load(filter);
}

int confine(bool nng) {
	scmp_filter_ctx filter;
	int r;

	if (prctl(PR_SET_DUMPABLE, 0))
		return -errno;
	filter = seccomp_init(SCMP_ACT_ALLOW);
	if (!filter)
		return -ENOMEM;
	r = load(filter, nng);
	seccomp_release(filter);
	/* A kernel without it leaves what it can: the user is the clerk's to say anyway. */
	return r == -EINVAL || r == -ENOSYS ? 0 : r;
}
