/* Bars and tables. See screen.h for the contract. */
#include "screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
	COLUMNS = 80,
	/* What a line of progress takes beside its bar. */
	BESIDE_BAR = 46,
	BAR_LEAST = 10,
	BAR_MOST = 34,
	NUMBER_TEXT = 32,
	THIRDS = 3,
};

#define BOLD "\033[1m"
#define DIM "\033[2m"
#define GREEN "\033[1;32m"
#define RED "\033[1;31m"
#define PLAIN "\033[0m"

static const char *style(const struct screen *s, const char *sequence) {
	return s->colour ? sequence : "";
}

static int columns(void) {
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return COLUMNS;
	return size.ws_col;
}

void screen_open(struct screen *s) {
	const char *kind = getenv("TERM");
	int wide = columns();

	setlocale(LC_CTYPE, "");
	*s = (struct screen){ .bar = wide - BESIDE_BAR };
	s->terminal = isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0 && s->bar >= BAR_LEAST;
	s->colour = s->terminal && !getenv("NO_COLOR");
	s->blocks = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (s->bar > BAR_MOST)
		s->bar = BAR_MOST;
}

void screen_close(const struct screen *s) {
	if (s->terminal)
		fputs("\033[?25h", stdout);
	fflush(stdout);
}

void screen_heading(const struct screen *s, const char *format, ...) {
	va_list ap;

	fputs(style(s, BOLD), stdout);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("%s\n", style(s, PLAIN));
	fflush(stdout);
}

/* ---- progress ---- */

static double now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double done(const struct learner *l) {
	return l->finished ? 1 : (double)l->epoch / l->epochs;
}

static void draw_bar(const struct screen *s, double part) {
	int filled = (int)(part * s->bar + 0.5);

	fputs(style(s, GREEN), stdout);
	for (int i = 0; i < filled; i++)
		fputs(s->blocks ? "\u2588" : "#", stdout);
	printf("%s%s", style(s, PLAIN), style(s, DIM));
	for (int i = filled; i < s->bar; i++)
		fputs(s->blocks ? "\u2591" : ".", stdout);
	fputs(style(s, PLAIN), stdout);
}

static void draw_learner(const struct screen *s, const struct learner *l) {
	printf("\033[K client %d  ", l->seed);
	draw_bar(s, done(l));
	printf(" %3.0f %%  ", 100 * done(l));
	if (l->fd < 0 && !l->finished)
		fputs("failed\n", stdout);
	else if (l->epoch)
		printf("epoch %2d/%d  loss %.4f\n", l->epoch, l->epochs, l->loss);
	else
		printf("building kernels %2.0f s\n", now() - s->started);
}

static double least_done(const struct learner *learner, int count) {
	double least = 1;

	for (int i = 0; i < count; i++)
		if (done(&learner[i]) < least)
			least = done(&learner[i]);
	return least;
}

/* Where there is no terminal: one line each time all learners have passed another third. */
static void tell_progress(struct screen *s, const struct learner *learner, int count) {
	int third = (int)(least_done(learner, count) * THIRDS + 1e-9);

	if (third <= s->told)
		return;
	s->told = third;
	for (int i = 0; i < count; i++)
		printf(" client %d  epoch %d of %d  loss %.4f\n", learner[i].seed, learner[i].epoch,
			learner[i].epochs, learner[i].loss);
	fflush(stdout);
}

void screen_progress(struct screen *s, const struct learner *learner, int count) {
	if (!s->terminal) {
		tell_progress(s, learner, count);
		return;
	}
	if (s->drawn) {
		printf("\033[%dA\r", s->drawn);
	} else {
		fputs("\033[?25l", stdout);
		s->started = now();
	}
	for (int i = 0; i < count; i++)
		draw_learner(s, &learner[i]);
	s->drawn = count;
	fflush(stdout);
}

void screen_progress_end(struct screen *s) {
	s->drawn = 0;
	s->told = 0;
	screen_close(s);
}

/* ---- tables ---- */

/* 12345678 as 12,345,678. */
static const char *grouped(double number, char text[static NUMBER_TEXT]) {
	char digits[NUMBER_TEXT];
	int length = snprintf(digits, sizeof digits, "%.0f", number);
	int used = 0;

	for (int i = 0; i < length && used < NUMBER_TEXT - 2; i++) {
		if (i && (length - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = digits[i];
	}
	text[used] = '\0';
	return text;
}

static const char *bytes(double number, char text[static NUMBER_TEXT]) {
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t u = 0;

	while (number >= 1024 && u + 1 < sizeof unit / sizeof *unit) {
		number /= 1024;
		u++;
	}
	snprintf(text, NUMBER_TEXT, "%.1f %s", number, unit[u]);
	return text;
}

static double reduction(const struct outcome *o) {
	return 100 * (1 - o->kernels / o->kernels_unfused);
}

static double build_seconds(const struct outcome *o) {
	return o->seconds - o->train_seconds;
}

static void outcome_add(struct outcome *all, const struct outcome *o) {
	all->accuracy += o->accuracy;
	all->operations += o->operations;
	all->kernels += o->kernels;
	all->kernels_unfused += o->kernels_unfused;
	all->bytes_not_moved += o->bytes_not_moved;
	all->buffers_eliminated += o->buffers_eliminated;
	all->seconds += o->seconds;
	all->train_seconds += o->train_seconds;
	all->epoch_ms += o->epoch_ms;
}

/* Sums of counts; means of accuracies and of times, as they ran side by side. */
static struct outcome outcome_total(const struct outcome *o, int count) {
	struct outcome all = { .accuracy = 0 };

	for (int i = 0; i < count; i++)
		outcome_add(&all, &o[i]);
	all.accuracy /= count;
	all.seconds /= count;
	all.train_seconds /= count;
	all.epoch_ms /= count;
	return all;
}

static void row_name(int i, int count, char name[static NUMBER_TEXT]) {
	snprintf(name, NUMBER_TEXT, "%s", "all");
	if (i < count)
		snprintf(name, NUMBER_TEXT, "%d", i + 1);
}

static void fused_row(const char *name, const struct outcome *o) {
	char operations[NUMBER_TEXT], kernels[NUMBER_TEXT], moved[NUMBER_TEXT], buffers[NUMBER_TEXT];

	printf("%6s %7.2f%% %10s %8s %8.1f%% %9s %10s %5.1f %5.1f\n", name, 100 * o->accuracy,
		grouped(o->operations, operations), grouped(o->kernels, kernels), reduction(o),
		bytes(o->bytes_not_moved, moved), grouped(o->buffers_eliminated, buffers), build_seconds(o),
		o->train_seconds);
}

void screen_fused(const struct screen *s, const struct outcome *fused, int count) {
	struct outcome all = outcome_total(fused, count);
	char name[NUMBER_TEXT];

	printf("%s\n", style(s, BOLD));
	printf("%6s %8s %10s %8s %9s %9s %10s %11s\n", "client", "accuracy", "operations", "kernels",
		"reduction", "bytes not", "buffers", "seconds of");
	printf("%6s %8s %10s %8s %9s %9s %10s %5s %5s%s\n", "", "", "sent", "launched", "", "moved",
		"eliminated", "build", "train", style(s, PLAIN));
	for (int i = 0; i <= count; i++) {
		row_name(i, count, name);
		fused_row(name, i < count ? &fused[i] : &all);
	}
	putchar('\n');
	fflush(stdout);
}

static void unfused_row(
	const char *name, const struct outcome *fused, const struct outcome *unfused, bool same) {
	char operations[NUMBER_TEXT], kernels[NUMBER_TEXT];

	printf("%6s %7.2f%% %10s %8s %5.1f %5.1f %8.1f %8.1f %7.2fx %9s\n", name, 100 * unfused->accuracy,
		grouped(unfused->operations, operations), grouped(unfused->kernels, kernels),
		build_seconds(unfused), unfused->train_seconds, unfused->epoch_ms, fused->epoch_ms,
		unfused->epoch_ms / fused->epoch_ms, same ? "same bits" : "DIFFERENT");
}

static bool same_weights(const struct outcome *a, const struct outcome *b) {
	return !strcmp(a->weights, b->weights);
}

void screen_unfused(
	const struct screen *s, const struct outcome *fused, const struct outcome *unfused, int count) {
	struct outcome all = outcome_total(unfused, count), all_fused = outcome_total(fused, count);
	bool same = true;
	char name[NUMBER_TEXT];

	printf("%s\n", style(s, BOLD));
	printf("%6s %8s %10s %8s %11s %17s %8s %9s\n", "client", "accuracy", "operations", "kernels",
		"seconds of", "ms an epoch", "", "trained");
	printf("%6s %8s %10s %8s %5s %5s %8s %8s %8s %9s%s\n", "", "", "sent", "launched", "build", "train",
		"off", "on", "slower", "weights", style(s, PLAIN));
	for (int i = 0; i < count; i++) {
		bool bits = same_weights(&fused[i], &unfused[i]);

		row_name(i, count, name);
		unfused_row(name, &fused[i], &unfused[i], bits);
		same = same && bits;
	}
	row_name(count, count, name);
	unfused_row(name, &all_fused, &all, same);
	putchar('\n');
	fflush(stdout);
}

void screen_verdict(const struct screen *s, bool good, const char *format, ...) {
	va_list ap;

	fputs(style(s, good ? GREEN : RED), stdout);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("%s\n", style(s, PLAIN));
	fflush(stdout);
}
