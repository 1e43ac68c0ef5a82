/* What holds for every command: errors of the command line are JSON, too, where that is asked for, and there is a limit of time. */
#pragma once

#include <stdbool.h>

enum {
	/* Above what a first build takes on a busy machine, and what a person waits. */
	FUSIONCTL_LIMIT_S = 60,
};

/* Before the command line is read: what is wrong with it is told as JSON, too, where --json stands in it. */
void usage_begin(int argc, char **argv);

/* Ends the program with EX_TEMPFAIL and a sentence where it has not ended by itself by then; 0: never. */
void limit_begin(double seconds, bool json);
