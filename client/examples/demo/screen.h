/*
 * What the demonstration shows: progress bars, tables and a verdict, in 80 columns. On a terminal
 * the bars move in place; elsewhere a line is printed now and then.
 */
#pragma once

#include <stdbool.h>

#include "learner.h"

struct screen {
	bool terminal;  /* wide enough to redraw lines */
	bool colour;    /* $NO_COLOR is not set */
	bool blocks;    /* the locale has block characters */
	int bar;        /* width of a bar */
	int drawn;      /* lines of bars that stand above the cursor */
	double started; /* when the first of these was drawn, in seconds */
	int told;       /* thirds of the work already told where there is no terminal */
};

void screen_open(struct screen *s);
/* Shows the cursor again. */
void screen_close(const struct screen *s);

void screen_heading(const struct screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Draws the bars of all learners, over those drawn before. */
void screen_progress(struct screen *s, const struct learner *learner, int count);
/* The bars stay as they are; the next ones start below. */
void screen_progress_end(struct screen *s);

/* Accuracy, and what the daemon did with fusion on. */
void screen_fused(const struct screen *s, const struct outcome *fused, int count);
/* The same work with fusion off beside it. */
void screen_unfused(
	const struct screen *s, const struct outcome *fused, const struct outcome *unfused, int count);
/* A sentence in green or red. */
void screen_verdict(const struct screen *s, bool good, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
