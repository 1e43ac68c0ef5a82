/* The end of a test program's main: runs a suite and gives the exit code. CK_VERBOSITY says how much is printed. */
#pragma once

#include <check.h>
#include <stdlib.h>

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
