/*
 * Errors of the command line as JSON, and the limit of time; see usage.h.
 *
 * Errors of a command line are written to standard error, and end the process. So with --json that stream is memory until the
 * command has ended; what it holds where that failed and has told nothing is the sentence.
 */
#include "usage.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "control.h"

enum {
	LIMIT_TEXT = 160,
};

static struct {
	FILE *stream;                /* the true standard error */
	char *text;
	size_t size;
} held;

static struct {
	char sentence[LIMIT_TEXT], json[2 * LIMIT_TEXT];
} late;

/* The first line, without the program's name. */
static void print_error(const char *code, const char *text) {
	static const char name[] = "fusionctl: ";
	cJSON *json = control_json("fusionctl.error/1"), *error = cJSON_AddObjectToObject(json, "error");
	char sentence[512];

	text += strncmp(text, name, sizeof name - 1) ? 0 : sizeof name - 1;
	snprintf(sentence, sizeof sentence, "%.*s", (int)strcspn(text, "\n"), text);
	cJSON_AddStringToObject(error, "code", code);
	cJSON_AddStringToObject(error, "sentence", sentence);
	control_print_json(json);
}

static void let_out(int status) {
	if (!held.stream)
		return;
	fflush(stderr);
	fwrite(held.text, 1, held.size, held.stream);
	fflush(held.stream);
	if (status && !control_answered())
		print_error(status == FUSIONCTL_USAGE ? "USAGE" : "INTERNAL", held.size ? held.text : "the command failed");
	fclose(stderr);
	stderr = held.stream;
	held.stream = NULL;
	free(held.text);
	fflush(stdout);
}

static void at_end(int status, void *unused) {
	(void)unused;
	let_out(status);
}

void usage_begin(int argc, char **argv) {
	bool json = false;
	FILE *memory;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		json |= !strcmp(argv[i], "--json");
	memory = json ? open_memstream(&held.text, &held.size) : NULL;
	if (!memory)
		return;
	held.stream = stderr;
	stderr = memory;
	on_exit(at_end, NULL);
}

/* ---- time ---- */

static void on_limit(int signal) {
	ssize_t ignored = write(STDERR_FILENO, late.sentence, strlen(late.sentence));

	(void)signal;
	if (*late.json)
		ignored = write(STDOUT_FILENO, late.json, strlen(late.json));
	(void)ignored;
	_exit(EX_TEMPFAIL);
}

void limit_begin(double seconds, bool json) {
	struct itimerval t = { .it_value = { .tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)(fmod(seconds, 1) * 1e6) } };

	if (!(seconds > 0))
		return;
	snprintf(late.sentence, sizeof late.sentence, "fusionctl: nothing was answered within %g s; fusionctl status tells how the engine is\n", seconds);
	if (json)
		snprintf(late.json, sizeof late.json, "{\"schema\":\"fusionctl.error/1\",\"error\":{\"code\":\"TIMEOUT\","
			"\"sentence\":\"nothing was answered within %g s\"}}\n", seconds);
	signal(SIGALRM, on_limit);
	setitimer(ITIMER_REAL, &t, NULL);
}
