/*
 * What the commands of fusionctl share.
 *
 * A command prints its result to standard output and returns one of the exit codes; its errors are
 * one sentence on standard error (with --json also an object on standard output).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sysexits.h>

#include <cjson/cJSON.h>

#include "client/fusionctl/text_record.h"
#include "protocol/fault.h"

/* Documented in fusionctl(1). An error of a request has the code of control_exit(). */
enum control_exit {
	FUSIONCTL_OK = EX_OK,
	FUSIONCTL_USAGE = EX_USAGE,
	FUSIONCTL_FAILED = EX_SOFTWARE,
	FUSIONCTL_NO_DAEMON = EX_UNAVAILABLE,
	FUSIONCTL_NO_ENGINE = EX_TEMPFAIL, /* status: the daemon answers, its engine is not ready */
};

enum {
	/* As many graphs as one call of cache warm takes, and its own word. */
	CONTROL_WORDS = 257,
	/* An administrator's program gives up rather than hang; a first build takes a second. */
	FUSIONCTL_TIMEOUT_MS = 60000,
};

struct control {
	const char *socket; /* NULL: as libfusion finds it */
	const char *word[CONTROL_WORDS]; /* after the command; NULL where there are no more */
	const char *command; /* its name */
	bool json;
	bool source, whole_source; /* explain, kernels: text of kernels; with the library's functions */
	bool unfused;         /* with fusion off */
	bool all;             /* run */
	bool last;            /* explain, graph, opportunities, report: of the session that ran last */
	uint64_t session;     /* ... of this one; 0: of none */
	bool once;            /* top: one screen */
	const char *size;     /* cache prune: to how much */
	const char *dot, *svg; /* graph: files to write */
	const char *root;     /* doctor: the tree that is looked at */
	const char *kind;     /* monitor: of these events alone, separated by commas */
	const char *sort;     /* clients, top: by which column */
	double seconds;       /* monitor, trace: for so long; 0: until it is interrupted */
	const char *since;    /* users: from when on; NULL: ever */
	bool origin;          /* config: with where each value comes from */
};

/* The graphs of a session are wanted, not one of a file. */
static inline bool control_recent(const struct control *c) {
	return c->last || c->session;
}

typedef int control_command(const struct control *c);
control_command status_command;
control_command stats_command;
control_command bench_command;
control_command can_fuse_command;
control_command cache_command;
control_command clients_command;
control_command config_command;
control_command doctor_command;
control_command operations_command;
control_command patterns_command;
control_command explain_command;
control_command opportunities_command;
control_command graph_command;
control_command info_command;
control_command kernels_command;
control_command kill_command;
control_command latency_command;
control_command monitor_command;
control_command quarantine_command;
control_command report_command;
control_command run_command;
control_command top_command;
control_command trace_command;
control_command tune_command;
control_command users_command;

/* cache warm: the graphs of word[1] and on. */
int warm_graphs(const struct control *c);

/* The exit code of an error: a fault's code, or a negative errno. */
int control_exit(int r);
/* With --json, the answer of a command that is one field, its name and value. */
void control_print_field(const struct control *c, const char *name, const char *value);
/* r is a code that f holds, or a negative errno: says so, and returns the exit code. */
int control_fail(const struct control *c, int r, const struct fault *f);

/* A session with the daemon. */
int control_open(const struct control *c, fusion_context **contextp, struct fault *f) FAULT_MUST_USE;

/* JSON that the daemon answered, to be deleted; text: NULL where the library failed. *jsonp is NULL on failure. */
int control_parse(const char *text, cJSON **jsonp, struct fault *f) FAULT_MUST_USE;
/* The same printed: as it is with --json, else by `print`. */
int control_show(const struct control *c, const char *text, void (*print)(const cJSON *json),
		 struct fault *f) FAULT_MUST_USE;

/*
 * The text graph c->word[0] recorded over a new session: output[0 .. (*textp)->outputs) are to be
 * released. All three are left NULL on failure.
 */
struct control_graph {
	struct text *text;
	fusion_context *context;
	fusion_array **input, **output;   /* input: by statement, as text_record_again() has them */
};
int control_graph_open(const struct control *c, struct control_graph *g, struct fault *f) FAULT_MUST_USE;
/* The same of a text that was read: it is g's now, also on failure. */
int control_graph_record_text(const struct control *c, struct text *t, struct control_graph *g, struct fault *f) FAULT_MUST_USE;
void control_graph_close(struct control_graph *g);
/* Lets go of the outputs; records them once more, from the same inputs. */
void control_graph_release(struct control_graph *g);
int control_graph_record(struct control_graph *g, struct fault *f) FAULT_MUST_USE;

/*
 * The daemon's explanation, JSON, to be freed: of the text graph, or where control_recent() says so of the
 * last graphs of a session. what: FUSION_EXPLAIN_.
 */
int control_explain(const struct control *c, unsigned what, char **textp, struct fault *f) FAULT_MUST_USE;

/* An answer of fusionctl's own: an object that begins with its schema, "fusionctl.NAME/VERSION". */
cJSON *control_json(const char *schema);
/* One line of standard output; frees it. */
void control_print_json(cJSON *json);
/* Has anything been printed so? With --json each command prints something, once; main() tells an error where one ended without. */
bool control_answered(void);
/* The same of an answer of the daemon's: a list becomes a field with the command's name. */
void control_print_answer(const struct control *c, const char *text);

/* Writes a file, at "-" to standard output. 0, or the code of an error where it cannot be written. */
int control_write(const char *path, const char *text, int code, struct fault *f) FAULT_MUST_USE;

/* Where the daemon is asked: what was given, else $FUSION_SOCKET, else the system's socket. May be a URL. */
const char *control_socket_path(const char *given);
/* A question to the door, which needs no session and no engine. about: a session, 0: none. */
struct control_question {
	unsigned message;            /* enum message_door */
	uint64_t about;              /* 0: none */
	const char *text[2];         /* NULL: none */
	int *fdp;                    /* the descriptor that comes with the answer, -1: none came; NULL: none is wanted */
};
/* jsonp: NULL where the answer is nothing. Else JSON, to be freed. */
int control_ask_door(const char *socket, const struct control_question *q, char **jsonp, struct fault *f) FAULT_MUST_USE;
/* A session with one engine, by its number. */
int control_open_engine(const struct control *c, unsigned engine, fusion_context **contextp, struct fault *f) FAULT_MUST_USE;
/* One engine after the other, of those that are ready: `each` gets a session with it. Ends at what is not 0. */
int control_each_engine(const struct control *c, int (*each)(void *user, unsigned engine, fusion_context *context, struct fault *f),
	void *user, struct fault *f) FAULT_MUST_USE;
/* What a question of fusion_inspect() is answered, to be deleted. */
int control_inspect(fusion_context *context, enum fusion_inspection what, uint64_t first, uint64_t second, cJSON **jsonp,
	struct fault *f) FAULT_MUST_USE;
/* The daemon's answer to STATUS, JSON, to be freed. It needs no session and no engine. */
int control_ask_status(const char *socket, char **jsonp, struct fault *f) FAULT_MUST_USE;
/* What the daemon's user did with the cache folder, JSON, to be freed: stat, prune (to size, unless that is NULL), verify or check. */
int control_ask_cache(const char *socket, const char *action, const char *size, char **jsonp, struct fault *f) FAULT_MUST_USE;
/* The graphs that are suspected of having ended engines, or none of them any more, JSON, to be freed. */
int control_ask_quarantine(const char *socket, bool clears, char **jsonp, struct fault *f) FAULT_MUST_USE;
