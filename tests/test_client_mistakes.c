/*
 * A mistake with every argument of every function of the library: of a wrong rank, shape, type, axis, count or choice, NULL, of another context, of a
 * closed one (tests/handle_calls.sh makes the calls from the installed headers and the table tests/mistakes.txt). Each is refused with its code, in one
 * sentence that names function, argument and the caller's line, and the context goes on. Handles that are none: test_client_handles.c.
 */
#include "client/fusion.h"

#include <ctype.h>
#include <math.h>

#include "client/record.h"
#include "protocol/op.h"
#include "tests/fake_context.h"
#include "tests/good_arguments.h"

/* Of tests/mistakes.txt. */
#define ARRAYS(...) ((fusion_array *[]){ __VA_ARGS__ })
#define AXES(...) ((int[]){ __VA_ARGS__ })
#define SIZES(...) ((int64_t[]){ __VA_ARGS__ })

/* Arrays of tests/mistakes.txt: element type, rank, extents. */
#define MADE(X) \
	X(s, F32, 0, 1) \
	X(v2, F32, 1, 2) \
	X(v3, F32, 1, 3) \
	X(m23, F32, 2, 2, 3) \
	X(m34, F32, 2, 3, 4) \
	X(i2, I64, 1, 2) \
	X(i23, I64, 2, 2, 3) \
	X(b23, BOOL, 2, 2, 3) \
	X(image, F32, 4, 1, 2, 4, 4) \
	X(kernel, F32, 4, 2, 2, 3, 3) \
	X(conved, F32, 4, 1, 2, 4, 4) \
	X(r8, F32, 8, 1, 1, 1, 1, 1, 1, 1, 1)
#define X(name, ...) static fusion_array *name;
MADE(X)
#undef X

static struct {
	fusion_context *context;
	fusion_array *other, *closed;
	uint64_t reserved[32];
} wrong;

#define CALL(kind, name, argument, call)
#define NAME(name)
#define WRONG(number, code, sole, name, argument, call) \
	static void wrong_##number(void) {        \
		(void)(call);                     \
	}
#include "handle_calls.h"
#undef WRONG

static const struct mistake {
	int code;
	int line;
	bool sole;                   /* the array of the call is its only handle */
	const char *name, *argument, *call;
	void (*make)(void);
} mistakes[] = {
#define WRONG(number, code, sole, name, argument, call) { FUSION_E_##code, __LINE__, sole, #name, #argument, #call, wrong_##number },
#include "handle_calls.h"
};

enum {
	MISTAKES = sizeof mistakes / sizeof *mistakes,
	NAME_TEXT = 64,
};

static fusion_context *opened(void) {
	fusion_context *c = NULL;

	ck_assert_msg(!fusion_open(&c, &(struct fusion_options){ .socket = fake.door }), "%s", fusion_error());
	return c;
}

/* The daemon that is played here serves the context that was opened last. */
static void setup(void) {
	fake_start();
	wrong.context = opened();
	wrong.closed = fusion_full(wrong.context, FUSION_F32, 2, SIZES(2, 3), 1);
	fusion_close(wrong.context);
	wrong.context = opened();
	wrong.other = fusion_full(wrong.context, FUSION_F32, 2, SIZES(2, 3), 1);
	memset(wrong.reserved, 0xff, sizeof wrong.reserved);
	context = opened();
	good_arguments();
#define X(name, type, rank, ...) name = fusion_full(context, FUSION_##type, rank, SIZES(__VA_ARGS__), 1);
	MADE(X)
#undef X
	ck_assert(!fusion_watch(good.array));
}

static void teardown(void) {
	fusion_error_clear();
	fusion_release(wrong.closed);
	fusion_release(wrong.other);
#define X(name, ...) fusion_release(name);
	MADE(X)
#undef X
	fusion_capture_free(good.capture);
	fusion_release(good.array);
	fusion_release(good.step);
	close_context();
	fusion_close(wrong.context);
}

static bool has_word(const char *text, const char *word) {
	size_t size = strlen(word);

	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		if ((at == text || !isalnum(at[-1])) && !isalnum(at[size]))
			return true;
	return false;
}

/* How sentences call arguments that are called otherwise in the header. */
static const struct {
	const char *argument, *word;
} words[] = {
	{ "dtype", "element type" }, { "dims", "extent" }, { "axes", "axis" }, { "axis_count", "axes" }, { "options", "structure" }, { "attributes", "structure" },
	{ "operand", "argument a" }, { "count", "operand" }, { "text", "column" }, { "y", "output 0" }, { "name", "a function of its own" },
	{ "options", "size" }, { "options", "element type" }, { "options", "operands" }, { "source", "does not broadcast" }, { "first", "array 1" }, { "second", "array 2" }, { "results", "array 0" },
};

static bool names_argument(const struct mistake *m, const char *text) {
	/* The shape of the only array; two arrays that do not go together, of which either is the wrong one. */
	if ((m->sole && strchr(text, '[')) || strstr(text, "is of another context"))
		return true;
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(words[i].argument, m->argument) && has_word(text, words[i].word))
			return true;
	return has_word(text, m->argument);
}

/* call() is told by the name of the operation that it calls, add_scalar() and scalar_add() as add(). */
static bool names_function(const struct mistake *m, const char *text, const char **restp) {
	const char *name = m->name, *end = strstr(m->name, "_scalar");
	size_t size;

	if (!strcmp(name, "call"))
		name = strstr(m->call, "\"add\"") ? "add" : "softmax";
	if (!strncmp(text, "call: ", 6))
		name = "call";
	if (!strncmp(name, "scalar_", 7))
		name += 7;
	size = end && !end[7] ? (size_t)(end - name) : strlen(name);
	*restp = text + size;
	return !strncmp(text, name, size) && strchr(": ,", **restp);
}

/* What is wrong with what is said, or NULL. */
static const char *wrong_with(const struct mistake *m) {
	const char *text = fusion_error(), *rest;
	char where[NAME_TEXT];

	snprintf(where, sizeof where, "handle_calls.h:%d)", m->line);
	if (fusion_error_code() != m->code)
		return "code";
	if (!names_function(m, text, &rest))
		return "function";
	if (!names_argument(m, rest))
		return "argument";
	if (!strstr(text, where) || text + strlen(text) != strstr(text, where) + strlen(where))
		return "line";
	return strchr(text, '\n') || strstr(text, ". ") ? "sentence" : NULL;
}

/* capture_end() has something to end. */
static void make(const struct mistake *m) {
	bool records = !strcmp(m->name, "capture_end");

	if (records)
		ck_assert(!fusion_capture_begin(context, 0, NULL));
	fusion_error_clear();
	m->make();
}

static void expect_told(const struct mistake *m) {
	const char *why = wrong_with(m);

	ck_assert_msg(!why, "the %s is not told: fusion_%s should be refused with %s, a sentence that names function, argument and line: %s \"%s\"", why,
		m->call + strlen("fusion_"), fusion_code_name(m->code), fusion_code_name(fusion_error_code()), fusion_error());
}

START_TEST(every_mistake_is_told) {
	float back[ELEMENTS];

	for (unsigned i = 0; i < MISTAKES; i++) {
		ck_assert(!fusion_scope_begin(context));
		make(&mistakes[i]);
		expect_told(&mistakes[i]);
		fusion_error_clear();
		ck_assert(!fusion_scope_end(context));
	}
	ck_assert_msg(!fusion_read(good.array, back, sizeof back), "%s", fusion_error());
	ck_assert(back[0] == 1);
}
END_TEST

/* Of elementwise operations: element types that they do not take, and shapes that do not broadcast. */
static fusion_array *apply(const struct op_info *o, fusion_array *a, fusion_array *b) {
	int op = op_find(o->name);

	switch (o->arity) {
	case 1:
		return record_unary((unsigned)op, a);
	case 2:
		return record_binary((unsigned)op, a, b);
	default:
		return record_ternary((unsigned)op, op == OP_where ? b23 : a, a, b);
	}
}

static void expect_refused(const struct op_info *o, fusion_array *a, fusion_array *b, int code, const char *part) {
	fusion_here("here.c", 1);
	fusion_error_clear();
	ck_assert_msg(!apply(o, a, b), "%s", o->name);
	ck_assert_msg(fusion_error_code() == code && strstr(fusion_error(), part) && strstr(fusion_error(), " (at here.c:1)"), "%s: %s", o->name, fusion_error());
	ck_assert_msg(!strncmp(fusion_error(), o->name, strlen(o->name)), "%s: %s", o->name, fusion_error());
	fusion_error_clear();
}

START_TEST(elementwise_operations_tell_of_types_and_shapes) {
	static const enum fusion_dtype kinds[] = { [DTYPE_KIND_BOOL] = FUSION_BOOL, [DTYPE_KIND_SINT] = FUSION_I32, [DTYPE_KIND_UINT] = FUSION_U32,
		[DTYPE_KIND_REAL] = FUSION_F32 };
	unsigned types = 0;

	ck_assert(!fusion_scope_begin(context));
	for (unsigned op = 0; op < OP_COUNT; op++) {
		const struct op_info *o = op_info(op);

		if (!o || !op_is_elementwise(o))
			continue;
		if (o->arity > 1)
			expect_refused(o, m23, m34, o->types == OP_TYPES_INT || o->types == OP_TYPES_BITS ? FUSION_E_DTYPE : FUSION_E_SHAPE, "f32[");
		for (unsigned kind = 0; kind <= DTYPE_KIND_REAL; kind++) {
			fusion_array *a = fusion_full(context, kinds[kind], 2, SIZES(2, 3), 1);

			if (op_types_take(o->types, (enum dtype_kind)kind))
				continue;
			expect_refused(o, a, a, FUSION_E_DTYPE, "argument ");
			types++;
		}
	}
	ck_assert_uint_gt(types, 0);
	ck_assert(!fusion_scope_end(context));
}
END_TEST

int main(void) {
	Suite *suite = suite_create("client_mistakes");
	TCase *tcase = tcase_create("mistakes");

	tcase_set_timeout(tcase, TEST_TIMEOUT_SECONDS);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, every_mistake_is_told);
	tcase_add_test(tcase, elementwise_operations_tell_of_types_and_shapes);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
