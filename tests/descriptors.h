/* How many descriptors a process has open: what was given back is counted. */
#pragma once

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* The counts of one process are for comparing with each other: the two entries of every folder, and the look itself, are among them. */
static inline int open_descriptors(pid_t pid) {
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
