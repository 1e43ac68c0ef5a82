/* What the commands share; see control.h. */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "client/json.h"

cJSON *control_json(const char *schema) {
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "schema", schema);
	return json;
}

static bool answered;

bool control_answered(void) {
	return answered;
}

void control_print_json(cJSON *json) {
	char *text = cJSON_PrintUnformatted(json);

	if (text)
		puts(text);
	answered |= text != NULL;
	free(text);
	cJSON_Delete(json);
}

void control_print_field(const struct control *c, const char *name, const char *value) {
	char schema[64];
	cJSON *json;

	if (!c->json)
		return;
	snprintf(schema, sizeof schema, "fusionctl.%s/1", c->command);
	json = control_json(schema);
	cJSON_AddStringToObject(json, name, value);
	control_print_json(json);
}

void control_print_answer(const struct control *c, const char *text) {
	answered = true;
	printf("{\"schema\":\"fusionctl.%s/1\"", c->command);
	if (*text != '{')
		printf(",\"%s\":%s}\n", c->command, text);
	else
		printf("%s%s\n", text[1] == '}' ? "" : ",", text + 1);
}

int control_write(const char *path, const char *text, int code, struct fault *f) {
	FILE *out = strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
	bool failed = !out;

	if (out)
		failed = fputs(text, out) < 0;
	if (out && out != stdout)
		failed |= fclose(out) != 0;
	return failed ? fault_set(f, code, "%s cannot be written: %s", path, strerror(errno)) : 0;
}

static void print_json_error(const char *code, const char *sentence) {
	cJSON *json = control_json("fusionctl.error/1");
	cJSON *error = cJSON_AddObjectToObject(json, "error");

	cJSON_AddStringToObject(error, "code", code);
	cJSON_AddStringToObject(error, "sentence", sentence);
	control_print_json(json);
}

/* What is wrong: the words of the caller, the rights, the daemon, or the machine. */
static const int exits[FAULT_COUNT] = {
	[FAULT_ARGUMENT] = EX_DATAERR,
	[FAULT_SHAPE] = EX_DATAERR,
	[FAULT_DTYPE] = EX_DATAERR,
	[FAULT_RANK] = EX_DATAERR,
	[FAULT_OVERFLOW] = EX_DATAERR,
	[FAULT_HANDLE] = EX_DATAERR,
	[FAULT_OPERATION] = EX_DATAERR,
	[FAULT_ARITY] = EX_DATAERR,
	[FAULT_NONFINITE] = EX_DATAERR,
	[FAULT_STATE] = EX_DATAERR,
	[FAULT_SYNTAX] = EX_DATAERR,
	[FAULT_MEMORY] = EX_OSERR,
	[FAULT_PROTOCOL] = EX_PROTOCOL,
	[FAULT_VERSION] = EX_PROTOCOL,
	[FAULT_LIMIT] = EX_TEMPFAIL,
	[FAULT_LOST] = EX_TEMPFAIL,
	[FAULT_TIMEOUT] = EX_TEMPFAIL,
	[FAULT_CANCELLED] = EX_TEMPFAIL,
	[FAULT_CONNECT] = EX_UNAVAILABLE,
	[FAULT_TOKEN] = EX_NOPERM,
	[FAULT_PERMISSION] = EX_NOPERM,
	[FAULT_FILE] = EX_NOINPUT,
};

int control_exit(int r) {
	if (r < 0)
		return EX_OSERR;
	return r < FAULT_COUNT && exits[r] ? exits[r] : EX_SOFTWARE;
}

int control_fail(const struct control *c, int r, const struct fault *f) {
	const char *sentence = r > 0 ? f->text : strerror(-r);

	fflush(stdout);
	fprintf(stderr, "fusionctl: %s\n", sentence);
	if (c->json)
		print_json_error(r > 0 ? fault_name(r) : "INTERNAL", sentence);
	return control_exit(r);
}

int control_open(const struct control *c, fusion_context **contextp, struct fault *f) {
	struct fusion_options options = {
		.socket = c->socket,
		.fusion = c->unfused ? FUSION_OFF : FUSION_DEFAULT,
		.timeout_ms = FUSIONCTL_TIMEOUT_MS,
		/* The most: a file is one graph, which is told of whole. */
		.batch_ops = UINT32_MAX,
	};

	return fusion_open(contextp, &options) ? text_library_fault(f) : 0;
}

int control_open_engine(const struct control *c, unsigned engine, fusion_context **contextp, struct fault *f) {
	char number[16];
	struct fusion_options options = { .socket = c->socket, .timeout_ms = FUSIONCTL_TIMEOUT_MS, .device = number };

	snprintf(number, sizeof number, "%u", engine);
	return fusion_open(contextp, &options) ? text_library_fault(f) : 0;
}

static int ask_engine(const struct control *c, const cJSON *engine,
	int (*each)(void *user, unsigned engine, fusion_context *context, struct fault *f), void *user, struct fault *f) {
	unsigned number = (unsigned)json_number(engine, "number");
	fusion_context *context = NULL;
	int r;

	if (strcmp(json_text(engine, "state"), "ready") != 0)
		return 0;
	r = control_open_engine(c, number, &context, f);
	if (!r)
		r = each(user, number, context, f);
	fusion_close(context);
	return r;
}

int control_each_engine(const struct control *c, int (*each)(void *user, unsigned engine, fusion_context *context, struct fault *f),
	void *user, struct fault *f) {
	cJSON *status = NULL;
	const cJSON *engine;
	char *text = NULL;
	int r = control_ask_status(c->socket, &text, f);

	if (!r)
		r = control_parse(text, &status, f);
	if (!r)
		cJSON_ArrayForEach(engine, json_item(status, "engines")) {
			r = ask_engine(c, engine, each, user, f);
			if (r)
				break;
		}
	cJSON_Delete(status);
	free(text);
	return r;
}

int control_inspect(fusion_context *context, enum fusion_inspection what, uint64_t first, uint64_t second, cJSON **jsonp,
	struct fault *f) {
	char *text = fusion_inspect(context, what, first, second);
	int r = control_parse(text, jsonp, f);

	free(text);
	return r;
}

int control_parse(const char *text, cJSON **jsonp, struct fault *f) {
	*jsonp = text ? cJSON_Parse(text) : NULL;
	if (!text)
		return text_library_fault(f);
	return *jsonp ? 0 : fault_set(f, FAULT_PROTOCOL, "the answer of the daemon is no JSON");
}

int control_show(const struct control *c, const char *text, void (*print)(const cJSON *json),
		 struct fault *f) {
	cJSON *json;
	int r = control_parse(text, &json, f);

	if (!r && c->json)
		control_print_answer(c, text);
	else if (!r)
		print(json);
	cJSON_Delete(json);
	return r;
}

void control_graph_release(struct control_graph *g) {
	for (unsigned i = 0; g->output && i < g->text->outputs; i++) {
		fusion_release(g->output[i]);
		g->output[i] = NULL;
	}
}

int control_graph_record(struct control_graph *g, struct fault *f) {
	return text_record_again(g->text, g->context, g->input, g->output, f);
}

/* Inputs are in place, as a program's are that calls something again and again. */
static int record_graph(struct control_graph *g, struct fault *f) {
	int r;

	g->input = calloc(g->text->statements + 1, sizeof(fusion_array *));
	g->output = calloc(g->text->outputs + 1, sizeof(fusion_array *));
	if (!g->input || !g->output)
		return -ENOMEM;
	r = control_graph_record(g, f);
	control_graph_release(g);
	if (!r && fusion_flush(g->context))
		r = text_library_fault(f);
	return r ? r : control_graph_record(g, f);
}

int control_graph_open(const struct control *c, struct control_graph *g, struct fault *f) {
	struct text *t;
	int r = text_load(c->word[0], &t, f);

	*g = (struct control_graph){ 0 };
	return r ? r : control_graph_record_text(c, t, g, f);
}

int control_graph_record_text(const struct control *c, struct text *t, struct control_graph *g, struct fault *f) {
	int r;

	*g = (struct control_graph){ .text = t };
	r = control_open(c, &g->context, f);
	if (!r)
		r = record_graph(g, f);
	if (r)
		control_graph_close(g);
	return r;
}

void control_graph_close(struct control_graph *g) {
	control_graph_release(g);
	for (unsigned i = 0; g->input && i < g->text->statements; i++)
		fusion_release(g->input[i]);
	free(g->input);
	free(g->output);
	fusion_close(g->context);
	text_free(g->text);
	*g = (struct control_graph){ 0 };
}

static int explain_file(const struct control *c, unsigned what, char **textp, struct fault *f) {
	struct control_graph g;
	int r = control_graph_open(c, &g, f);

	if (!r) {
		*textp = fusion_explain(g.context, (int)g.text->outputs, g.output, what);
		r = *textp ? 0 : text_library_fault(f);
	}
	control_graph_close(&g);
	return r;
}

static int explain_recent(const struct control *c, unsigned what, char **textp, struct fault *f) {
	fusion_context *context = NULL;
	int r = control_open(c, &context, f);

	if (!r) {
		*textp = fusion_recent(context, c->session, what);
		r = *textp ? 0 : text_library_fault(f);
	}
	fusion_close(context);
	return r;
}

int control_explain(const struct control *c, unsigned what, char **textp, struct fault *f) {
	return control_recent(c) ? explain_recent(c, what, textp, f) : explain_file(c, what, textp, f);
}
