/*
 * A program that uses libfusion, and a model of it in plain C: integers in vectors and matrices, computed by operations that are
 * drawn. What it reads must be what the model says, whatever happens meanwhile; an error must be one that something explains.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/fusion.h"
#include "client/transport.h"
#include "sim.h"

/* nng has threads that the simulation does not see: who gets no ring, since a call failed, gets no session. */
__typeof__(transport_dial) __wrap_transport_dial; /* NOLINT(bugprone-reserved-identifier): the linker's name */

int __wrap_transport_dial(const char *url, unsigned slots, const struct transport_events *events, struct transport **transportp, struct fault *f) {
	(void)slots;
	(void)events;
	(void)transportp;
	return fault_set(f, FAULT_CONNECT, "nobody listens at %s in a simulation", url);
}

enum {
	ARRAYS = 12,
	ROWS = 6,
	COLUMNS = 8,
	CAPTURES = 2,
	TRIES = 100,
	TRY_US = 100 * 1000,
	THINK_US = 50 * 1000,
};

struct model {
	fusion_array *array;
	int rank;
	int64_t dims[2];
	int64_t *value;
	bool vague;                  /* written by something of which it is not known whether it was done */
	bool there;                  /* it is known to have had its value */
	unsigned errors;             /* that there had been when it was made */
};

/* Of one input and one array that nobody else has: -(input OP array). */
struct recorded {
	fusion_capture *capture;
	unsigned op;
	int64_t dims[2];
	int64_t value[ROWS * COLUMNS];
};

static struct {
	fusion_context *context;
	const char *socket;
	unsigned number, steps;
	struct model array[ARRAYS];
	unsigned arrays;
	struct recorded recorded[CAPTURES];
	uint64_t troubles;           /* when it was last known that all was well */
	unsigned reads, errors;
	bool over;                   /* the session is gone */
} the;

static int64_t elements(const struct model *m) {
	int64_t n = 1;

	for (int d = 0; d < m->rank; d++)
		n *= m->dims[d];
	return n;
}

static void drop(unsigned i) {
	fusion_release(the.array[i].array);
	free(the.array[i].value);
	the.array[i] = the.array[--the.arrays];
}

/* ---- errors ---- */

static bool may_follow_an_end(int code) {
	return code == FUSION_E_CONNECT || code == FUSION_E_LOST || code == FUSION_E_REPEATABLE || code == FUSION_E_UNKNOWN || code == FUSION_E_AGAIN ||
		code == FUSION_E_STATE || code == FUSION_E_QUARANTINE || code == FUSION_E_MEMORY || code == FUSION_E_DEVICE || code == FUSION_E_LIMIT ||
		code == FUSION_E_BUILD;
}

/* A frame that found no memory to be read in named nothing, so what follows it names what is not there. */
static bool may_follow_a_call(int code) {
	return code == FUSION_E_HANDLE || code == FUSION_E_ARGUMENT || code == FUSION_E_INTERNAL;
}

/* Is it an error that may be? */
static void judge(const char *what) {
	int code = fusion_error_code();

	the.errors++;
	the.over |= code == FUSION_E_CONNECT;
	sim_note("client %u: %s: %s: %s", the.number, what, fusion_code_name(code), fusion_error());
	if (sim_troubles() == the.troubles)
		sim_wrong("client %u, to which nothing happened, was refused %s: %s: %s", the.number, what, fusion_code_name(code), fusion_error());
	if (!may_follow_an_end(code) && !(sim_calls_failed() && may_follow_a_call(code)))
		sim_wrong("client %u was refused %s: %s: %s", the.number, what, fusion_code_name(code), fusion_error());
}

/* ---- operations ---- */

static struct model *model_new(int rank, const int64_t *dims) {
	struct model *m;

	if (the.arrays == ARRAYS)
		drop((unsigned)sim_random(ARRAYS));
	m = &the.array[the.arrays];
	*m = (struct model){ .rank = rank };
	for (int d = 0; d < rank; d++)
		m->dims[d] = dims[d];
	m->value = malloc((size_t)(elements(m) ? elements(m) : 1) * sizeof *m->value);
	return m->value ? m : NULL;
}

static bool accept(struct model *m, const char *what) {
	if (!m->array) {
		free(m->value);
		judge(what);
		return false;
	}
	m->errors = the.errors;
	the.arrays++;
	return true;
}

/* In the place of another where there are too many. */
static void keep(const struct model *m, const char *what) {
	if (the.arrays == ARRAYS)
		drop((unsigned)sim_random(ARRAYS));
	the.array[the.arrays] = *m;
	accept(&the.array[the.arrays], what);
}

static int64_t word(void) {
	return (int64_t)(sim_random(UINT64_MAX) ^ (uint64_t)the.number << 56);
}

static void upload(void) {
	int64_t dims[2] = { 1 + (int64_t)sim_random(ROWS), 1 + (int64_t)sim_random(COLUMNS) };
	struct model *m = model_new(2, dims);

	if (!m)
		return;
	for (int64_t i = 0; i < elements(m); i++)
		m->value[i] = word();
	m->array = fusion_from(the.context, FUSION_I64, 2, m->dims, m->value);
	accept(m, "an upload");
}

static void fill(void) {
	int64_t dims[2] = { 1 + (int64_t)sim_random(ROWS), 1 + (int64_t)sim_random(COLUMNS) }, v = word();
	struct model *m = model_new(2, dims);

	if (!m)
		return;
	for (int64_t i = 0; i < elements(m); i++)
		m->value[i] = v;
	m->array = fusion_full_int(the.context, FUSION_I64, 2, m->dims, v);
	accept(m, "a fill");
}

static int64_t at(const struct model *m, int64_t row, int64_t column) {
	return m->value[(m->dims[0] == 1 ? 0 : row) * m->dims[1] + (m->dims[1] == 1 ? 0 : column)];
}

static bool meets(const struct model *a, const struct model *b) {
	for (int d = 0; d < 2; d++)
		if (a->dims[d] != b->dims[d] && a->dims[d] != 1 && b->dims[d] != 1)
			return false;
	return true;
}

static int64_t combine(unsigned op, int64_t x, int64_t y) {
	switch (op) {
	case 0: return (int64_t)((uint64_t)x + (uint64_t)y);
	case 1: return (int64_t)((uint64_t)x - (uint64_t)y);
	case 2: return (int64_t)((uint64_t)x * (uint64_t)y);
	case 3: return x > y ? x : y;
	case 4: return x < y ? x : y;
	case 5: return x ^ y;
	default: return x & y;
	}
}

static fusion_array *(*const binaries[])(fusion_array *, fusion_array *) = { fusion_add, fusion_sub, fusion_mul, fusion_maximum, fusion_minimum,
	fusion_bitwise_xor, fusion_bitwise_and };

enum { BINARIES = sizeof binaries / sizeof *binaries };

static void binary(void) {
	const struct model a = the.array[sim_random(the.arrays)], b = the.array[sim_random(the.arrays)];
	unsigned op = (unsigned)sim_random(BINARIES);
	int64_t dims[2];
	struct model c = { .rank = 2 };

	if (!meets(&a, &b))
		return;
	for (int d = 0; d < 2; d++)
		c.dims[d] = dims[d] = a.dims[d] == 1 ? b.dims[d] : a.dims[d];
	c.vague = a.vague || b.vague;
	c.value = malloc((size_t)elements(&c) * sizeof *c.value);
	if (!c.value)
		return;
	for (int64_t i = 0; i < dims[0]; i++)
		for (int64_t j = 0; j < dims[1]; j++)
			c.value[i * dims[1] + j] = combine(op, at(&a, i, j), at(&b, i, j));
	c.array = binaries[op](a.array, b.array);
	keep(&c, "an operation");
}

static void unary(void) {
	const struct model a = the.array[sim_random(the.arrays)];
	struct model c = { .rank = 2, .dims = { a.dims[0], a.dims[1] }, .vague = a.vague };
	unsigned what = (unsigned)sim_random(4);
	int axis = (int)sim_random(2);

	if (what == 1)
		c = (struct model){ .rank = 2, .dims = { a.dims[1], a.dims[0] }, .vague = a.vague };
	if (what == 2)
		c.dims[axis] = 1;
	c.value = calloc((size_t)elements(&a), sizeof *c.value);
	if (!c.value)
		return;
	for (int64_t i = 0; i < a.dims[0]; i++)
		for (int64_t j = 0; j < a.dims[1]; j++) {
			uint64_t x = (uint64_t)at(&a, i, j);

			if (what == 0)
				c.value[i * a.dims[1] + j] = (int64_t)(0 - x);
			else if (what == 1)
				c.value[j * a.dims[0] + i] = (int64_t)x;
			else if (what == 2)
				c.value[axis ? i : j] = (int64_t)((uint64_t)c.value[axis ? i : j] + x);
			else
				c.value[(a.dims[0] - 1 - i) * a.dims[1] + j] = (int64_t)x;
		}
	c.array = what == 0 ? fusion_neg(a.array) : what == 1 ? fusion_transpose(a.array) : what == 2 ? fusion_sum(a.array, 1, &axis, true) :
		fusion_flip(a.array, 1, &(int){ 0 });
	keep(&c, "an operation");
}

static void copy_into(void) {
	struct model *to = &the.array[sim_random(the.arrays)];
	const struct model *from = &the.array[sim_random(the.arrays)];

	if (to == from || to->dims[0] != from->dims[0] || to->dims[1] != from->dims[1])
		return;
	memcpy(to->value, from->value, (size_t)elements(to) * sizeof *to->value);
	to->vague |= from->vague;
	to->there = false;
	to->errors = the.errors;
	if (fusion_copy_into(to->array, from->array)) {
		judge("a copy");
		drop((unsigned)(to - the.array));
	}
}

/* ---- recorded graphs ---- */

static void forget_recorded(struct recorded *r) {
	fusion_capture_free(r->capture);
	r->capture = NULL;
}

static fusion_capture *record_graph(const struct recorded *r, fusion_array *input, fusion_array *hidden) {
	fusion_array *y, *z;
	fusion_capture *capture;

	if (fusion_capture_begin(the.context, 1, &input))
		return NULL;
	y = binaries[r->op](input, hidden);
	z = y ? fusion_neg(y) : NULL;
	capture = z ? fusion_capture_end(the.context, 1, &z) : NULL;
	if (!z)
		fusion_capture_abort(the.context);
	fusion_release(y);
	fusion_release(z);
	return capture;
}

static void record(void) {
	struct recorded *r = &the.recorded[sim_random(CAPTURES)];
	const struct model *a = &the.array[sim_random(the.arrays)];
	fusion_array *hidden;

	if (elements(a) > ROWS * COLUMNS)
		return;
	forget_recorded(r);
	r->op = (unsigned)sim_random(BINARIES);
	memcpy(r->dims, a->dims, sizeof r->dims);
	for (int64_t i = 0; i < elements(a); i++)
		r->value[i] = word();
	hidden = fusion_from(the.context, FUSION_I64, 2, r->dims, r->value);
	r->capture = hidden ? record_graph(r, a->array, hidden) : NULL;
	if (!r->capture)
		judge("a recording");
	fusion_release(hidden);
}

/* Often in the place of what it was computed from, so that each result depends on all before it. */
static void replay(void) {
	struct recorded *r = &the.recorded[sim_random(CAPTURES)];
	unsigned i = (unsigned)sim_random(the.arrays);
	const struct model a = the.array[i];
	struct model c = { .rank = 2, .dims = { a.dims[0], a.dims[1] }, .vague = a.vague };

	if (!r->capture || a.dims[0] != r->dims[0] || a.dims[1] != r->dims[1])
		return;
	c.value = malloc((size_t)elements(&a) * sizeof *c.value);
	if (!c.value)
		return;
	for (int64_t k = 0; k < elements(&a); k++)
		c.value[k] = (int64_t)(0 - (uint64_t)combine(r->op, a.value[k], r->value[k]));
	if (fusion_replay(r->capture, &a.array, &c.array))
		c.array = NULL;
	if (sim_random(2))
		drop(i);
	keep(&c, "a replay");
}

/* ---- reading ---- */

static void compare(const struct model *m, const int64_t *got) {
	if (m->vague)
		return;
	for (int64_t i = 0; i < elements(m); i++)
		if (got[i] != m->value[i])
			sim_wrong("client %u reads element %lld of %lld as %llx, and it is %llx", the.number, (long long)i, (long long)elements(m),
				(unsigned long long)got[i], (unsigned long long)m->value[i]);
}

/* What has a value has it still, whatever becomes of an engine. The question may have met the end of one half way. */
static bool is_lost(const struct model *m, int64_t *got) {
	if (!m->there || the.over || !sim_keeps())
		return false;
	return fusion_read(m->array, got, (size_t)elements(m) * sizeof *got) && fusion_error_code() != FUSION_E_CONNECT && sim_keeps();
}

static void read_one(unsigned i) {
	struct model *m = &the.array[i];
	int64_t got[ROWS * COLUMNS * ROWS * COLUMNS];

	if (fusion_read(m->array, got, (size_t)elements(m) * sizeof *got)) {
		judge("a read");
		if (is_lost(m, got))
			sim_wrong("client %u has lost an array that had its value: %s", the.number, fusion_error());
		drop(i);
		return;
	}
	the.reads++;
	m->there = true;
	compare(m, got);
}

/* It tells of whatever failed, unless something that failed before was told in its place. */
static void synchronise(void) {
	if (fusion_sync(the.context)) {
		judge("a sync");
		return;
	}
	for (unsigned i = 0; i < the.arrays; i++)
		the.array[i].there |= the.array[i].errors == the.errors;
	/* What was told is all that the daemon has done, until something else is asked. */
	if (sim_random(2))
		usleep((useconds_t)sim_random(THINK_US));
}

static void map_one(unsigned i) {
	struct model *m = &the.array[i];
	bool write = !sim_random(2);
	void *memory;

	if (fusion_map(m->array, write ? FUSION_MAP_WRITE : FUSION_MAP_READ, &memory)) {
		judge("a map");
		drop(i);
		return;
	}
	compare(m, memory);
	for (int64_t k = 0; write && k < elements(m); k++)
		((int64_t *)memory)[k] = m->value[k] = word();
	if (fusion_unmap(m->array)) {
		judge("an unmap");
		drop(i);
	}
}

/* ---- the program ---- */

static bool connect_to(void) {
	const struct fusion_options o = { .socket = the.socket, .name = "sim", .timeout_ms = 0 };

	the.over = false;
	for (unsigned i = 0; i < TRIES; i++) {
		if (!fusion_open(&the.context, &o))
			return true;
		judge("a session");
		the.over = false;
		usleep(TRY_US);
	}
	return false;
}

/* A session that is over is begun again, by a program that was told so. */
static void begin_again(void) {
	the.over = false;
	while (the.arrays)
		drop(the.arrays - 1);
	for (unsigned i = 0; i < CAPTURES; i++)
		forget_recorded(&the.recorded[i]);
	fusion_close(the.context);
	the.context = NULL;
	the.over = !connect_to();
}

static void step(void) {
	unsigned what = (unsigned)sim_random(20);

	if (!the.arrays || what == 0)
		upload();
	else if (what == 1)
		fill();
	else if (what < 7)
		binary();
	else if (what < 9)
		unary();
	else if (what == 9)
		copy_into();
	else if (what == 10)
		drop((unsigned)sim_random(the.arrays));
	else if (what == 11 && fusion_flush(the.context))
		judge("a flush");
	else if (what == 12 || what == 19)
		synchronise();
	else if (what == 13)
		map_one((unsigned)sim_random(the.arrays));
	else if (what == 14)
		record();
	else if (what < 18)
		replay();
	else
		read_one((unsigned)sim_random(the.arrays));
}

SIM_API sim_entry_function sim_entry;

/* client NUMBER SOCKET STEPS, or script.c's */
int sim_entry(int argc, char **argv) {
	if (argc != 4)
		return 2;
	if (!strcmp(argv[0], "script"))
		return script_main(argc, argv);
	memset(&the, 0, sizeof the);
	the.number = (unsigned)atoi(argv[1]);
	the.socket = argv[2];
	the.steps = (unsigned)atoi(argv[3]);
	if (!connect_to())
		return 3;
	for (unsigned i = 0; i < the.steps; i++) {
		if (the.over)
			begin_again();
		if (the.over)
			return 3;
		step();
	}
	while (the.arrays) {
		unsigned last = the.arrays;

		read_one(last - 1);
		if (the.arrays == last)
			drop(last - 1);
	}
	for (unsigned i = 0; i < CAPTURES; i++)
		forget_recorded(&the.recorded[i]);
	fusion_close(the.context);
	sim_note("client %u has read %u arrays, with %u errors", the.number, the.reads, the.errors);
	return 0;
}
