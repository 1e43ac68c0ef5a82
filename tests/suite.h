/* The end of a test program's main: runs a suite and gives the exit code. CK_VERBOSITY says how much is printed. */
#pragma once

#include <check.h>
#include <stdlib.h>

/*
 * check writes down the place of each claim that holds, a system call each, to say where a program was when it crashed: in a loop of millions
 * that is most of a test's time. So many of a process are written down, then one in MARKS_APART.
 */
enum { MARKS_KEPT = 10000, MARKS_APART = 256 };

static inline void place_mark(const char *file, int line) {
	static _Thread_local unsigned marks;

	if (marks < MARKS_KEPT || marks % MARKS_APART == 0)
		_mark_point(file, line);
	marks++;
}
#define _mark_point(file, line) place_mark(file, line)

/* CK_NOFORK: all tests in this process, for threads that would not survive a fork. */
static inline int suite_run_as(Suite *suite, enum fork_status fork) {
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_set_fork_status(runner, fork);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Each test in a process of its own; CK_FORK=no in the environment: in this one. */
static inline int suite_run(Suite *suite) {
	return suite_run_as(suite, CK_FORK_GETENV);
}
