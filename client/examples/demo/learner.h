/*
 * One process of the demonstration: the example `digits`, started with --json, and what it says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	/* The longest line is the last one, with the counters of the session. */
	LEARNER_LINE = 16384,
	LEARNER_WORDS = 256,
	LEARNER_HASH = 17,
};

/* What a learner reports at its end. */
struct outcome {
	double accuracy;
	double seconds;       /* from connecting to the end */
	double epoch_ms;      /* median of the epochs */
	double train_seconds; /* what all epochs take at that; the rest is nearly all building of kernels */
	char weights[LEARNER_HASH]; /* hash of the trained weights' bits */
	/* The daemon's counters of its session. */
	double operations, kernels, kernels_unfused, bytes_not_moved, buffers_eliminated;
};

struct learner {
	pid_t pid; /* 0: not running */
	int fd;    /* what it prints; -1 at its end */
	int seed;
	int epoch, epochs;
	double loss;
	bool finished; /* the outcome is there */
	struct outcome outcome;
	char words[LEARNER_WORDS]; /* the last thing it said that was no report: why it failed */
	char line[LEARNER_LINE];
	size_t used;
};

struct learner_options {
	const char *program, *socket;
	int epochs;
	bool fusion;
};

/* 0, or a negative errno. The process gets SIGKILL when its parent ends. */
int learner_start(struct learner *l, int seed, const struct learner_options *o);
/* Reads what it has said; call when fd is readable. At its end fd is closed and becomes -1. */
void learner_listen(struct learner *l);
/* Waits for its end; kills it first if it still runs. True if it finished and ended well. */
bool learner_end(struct learner *l);
