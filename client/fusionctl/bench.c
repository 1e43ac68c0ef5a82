/* fusionctl bench pattern NAME [SIZE|TYPE...]: what fusing gains in a pattern on this machine, measured now; see fusion_benchmark_pattern(). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "print.h"
#include "client/benchmark.h"
#include "client/json.h"
#include "protocol/dtype.h"

enum { BENCH_OPERANDS = LIMIT_OPERANDS };

/* ---- what is asked ---- */

static int wrong(struct fault *f, const char *word) {
	return fault_set(f, FAULT_SYNTAX, "what is '%s'? A size, an element type, or the types of all operands, such as f32[128,64]", word);
}

/* "f16" or "f32[128,64]"; *shapedp: it has a shape. */
static int read_type(const char *word, struct fusion_operand *o, bool *shapedp, struct fault *f) {
	size_t length = strcspn(word, "[");
	char name[16];
	const char *at = word + length;
	int dtype;

	snprintf(name, sizeof name, "%.*s", (int)length, word);
	dtype = dtype_find(name);
	*shapedp = *at;
	if (dtype < 0 || length >= sizeof name)
		return wrong(f, word);
	*o = (struct fusion_operand){ .dtype = (enum fusion_dtype)dtype };
	if (!strcmp(at, "[]") || !*at)
		return 0;
	do {
		char *end;

		errno = 0;
		if (o->rank == FUSION_MAX_RANK)
			return wrong(f, word);
		o->dims[o->rank++] = strtoll(at + 1, &end, 10);
		if (errno || end == at + 1)
			return wrong(f, word);
		at = end;
	} while (*at == ',');
	return strcmp(at, "]") != 0 ? wrong(f, word) : 0;
}

/* One size, or one element type, of all operands; or the types of each. */
struct asked {
	struct fusion_benchmark_options options;
	struct fusion_operand operand[BENCH_OPERANDS];
	const char *size, *dtype;            /* the words that said so; NULL: none */
};

static int read_size(const char *word, struct asked *a, struct fault *f) {
	char *end;

	if (a->size)
		return fault_set(f, FAULT_SYNTAX, "the size is %s or %s, not both", a->size, word);
	errno = 0;
	a->options.size = strtoll(word, &end, 10);
	if (errno || *end || a->options.size < 1 || a->options.size > BENCHMARK_SIZE_MOST)
		return fault_set(f, FAULT_SYNTAX, "the size is %s, not a number from 1 to %d", word, BENCHMARK_SIZE_MOST);
	a->size = word;
	return 0;
}

/* To the library the element type bool is that none was given, and no built-in pattern takes it. */
static int take_dtype(const char *word, const struct fusion_operand *one, struct asked *a, struct fault *f) {
	if (a->dtype)
		return fault_set(f, FAULT_SYNTAX, "the element type is %s or %s, not both", a->dtype, word);
	if (one->dtype == FUSION_BOOL)
		return fault_set(f, FAULT_SYNTAX, "bool is no element type of all operands: where one is bool, give the types of each");
	a->options.dtype = one->dtype;
	a->dtype = word;
	return 0;
}

static int read_word(const char *word, struct asked *a, struct fault *f) {
	struct fusion_operand one = { 0 };
	bool shaped = false;
	int r;

	if (*word && strspn(word, "-0123456789") == strlen(word))
		return read_size(word, a, f);
	r = read_type(word, &one, &shaped, f);
	if (r)
		return r;
	if (!shaped)
		return take_dtype(word, &one, a, f);
	if (a->options.operands == BENCH_OPERANDS)
		return fault_set(f, FAULT_SYNTAX, "no pattern has more than %d operands", BENCH_OPERANDS);
	a->operand[a->options.operands++] = one;
	return 0;
}

static int read_words(const struct control *c, struct asked *a, struct fault *f) {
	int r = 0;

	for (unsigned i = 2; !r && c->word[i]; i++)
		r = read_word(c->word[i], a, f);
	if (!r && a->options.operands && (a->size || a->dtype))
		r = fault_set(f, FAULT_SYNTAX, "where the types of operands are given, nothing else is wanted");
	a->options.operand = a->operand;
	a->options.seconds = c->seconds;
	return r;
}

/* ---- the answer ---- */

static void print_clock(const cJSON *clock, const char *name) {
	char a[PRINT_TEXT], b[PRINT_TEXT], line[PRINT_TEXT];
	static const char *const forms[][3] = { { "fused", "fused_us", "fused_median_us" }, { "unfused", "unfused_us", "unfused_median_us" } };

	if (!clock)
		return;
	for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
		snprintf(line, sizeof line, "%s, %s", forms[i][0], name);
		print_line(line, "%s, median %s", print_seconds(json_number(clock, forms[i][1]) / 1e6, a), print_seconds(json_number(clock, forms[i][2]) / 1e6, b));
	}
	snprintf(line, sizeof line, "speedup, %s", name);
	print_line(line, "%.2f, median %.2f, of %s", json_number(clock, "speedup"), json_number(clock, "median_speedup"),
		print_counted(json_number(clock, "rounds"), "round", a));
}

static void print_result(const cJSON *json) {
	char a[PRINT_TEXT], b[PRINT_TEXT];
	const cJSON *one;

	printf("%s: %s", json_text(json, "pattern"), json_text(json, "text"));
	if (json_number(json, "copies") > 1)
		printf(", %.0f of them", json_number(json, "copies"));
	putchar('\n');
	cJSON_ArrayForEach(one, json_item(json, "operands")) {
		print_line(json_text(one, "name"), "%s", json_text(one, "type"));
	}
	print_line("kernels", "%s; without fusion %s", print_count(json_number(json, "kernels"), a), print_count(json_number(json, "unfused_kernels"), b));
	if (json_item(json, "launches"))
		print_line("launches a run", "%s; without fusion %s", print_count(json_number(json, "launches"), a),
			print_count(json_number(json, "unfused_launches"), b));
	if (!json_number(json, "kernels_of_pattern"))
		printf("none of the kernels is of this pattern: the planner does not make it here\n");
	print_clock(json_item(json, "device"), "device");
	print_clock(json_item(json, "wall"), "wall");
	print_line("results", cJSON_IsTrue(json_item(json, "same_bits")) ? "the same bits" : "other bits");
}

/* ---- the command ---- */

int bench_command(const struct control *c) {
	struct asked asked = { 0 };
	fusion_context *context = NULL;
	char *text = NULL;
	struct fault f;
	int r = read_words(c, &asked, &f);

	if (r) {
		fprintf(stderr, "fusionctl: %s\n", f.text);
		return FUSIONCTL_USAGE;
	}
	r = control_open(c, &context, &f);
	if (!r) {
		text = fusion_benchmark_pattern(context, c->word[1], &asked.options);
		r = control_show(c, text, print_result, &f);
	}
	free(text);
	fusion_close(context);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
