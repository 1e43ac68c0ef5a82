/*
 * The symbolic device: daemon/device.h without OpenCL. Kernels of elementwise and reduced integers are run from their description
 * (daemon/plan/kernel.h), element by element, at some moment between their launch and their completion; so what reads memory that
 * was given to somebody else too soon gets it wrong here, too. Integers wrap, so a value is as good as a hash of how it came to be.
 *
 * Every operand is checked: it lies within a mapping, and all of a task are of one session.
 *
 * Builds take as long as is drawn, or fail where a kernel has several operations; one of a single operation is always built.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/loop.h"
#include "daemon/device/device.h"
#include "daemon/serve/server.h"
#include "protocol/range.h"
#include "sim.h"
#include "tests/transport_memory.h"

enum {
	DEVICE_ENTRIES = 256,
	DEVICE_UNITS = 2,
	DEVICE_POOL = 16 << 20,
	/* What a launch takes, at most; one that is late, at least and at most. */
	LAUNCH_NS = 50 * 1000,
	LATE_NS = 20 * 1000 * 1000,
	BUILD_NS = 2 * 1000 * 1000,
	BUILD_LATE_NS = 400 * 1000 * 1000,
};

enum entry_kind { ENTRY_LAUNCH, ENTRY_MARK, ENTRY_COPY };

struct entry {
	struct entry *next;
	enum entry_kind kind;
	struct program *program;
	uint32_t tasks;
	uint64_t *records;
	void *to;
	const void *from;
	uint64_t bytes;
	void (*done)(void *user, int error);
	void *user;
};

struct program {
	struct program *next, *next_finished;
	struct device *device;
	struct kernel *kernel;
	enum program_state state, outcome;
	bool later;
	struct builds *builds;
};

struct device {
	struct device_config config;
	struct traits traits;
	bool flat;
	struct program *programs, *finished;
	struct builds *builds;
	uint32_t building;
	struct entry *first, *last, *passed;     /* the queue; marks that were passed and not told of */
	uint32_t entries, pending;
	bool busy;
	uint64_t ended_ns;
	uint64_t still_ns;
	struct device_counters counters;
	char *pool;
	struct range *range;
};

/* Clients of this machine come by rings; nng has threads that the simulation does not see. */
int __wrap_transport_nng_new(const char *url, unsigned mode, struct transport_connections most, struct transport **transportp);

int __wrap_transport_nng_new(const char *url, unsigned mode, struct transport_connections most, struct transport **transportp) {
	(void)url;
	(void)mode;
	(void)most;
	return transport_memory_new(transportp);
}

/* ---- opening ---- */

int device_open(const struct device_config *c, struct device **devicep, struct fault *f) {
	struct device *d = calloc(1, sizeof *d);

	if (!d)
		return -ENOMEM;
	d->config = *c;
	d->flat = !c->discrete;
	d->traits = (struct traits){ .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .exact_division = true, .local_size = 64,
		.local_bytes = 1 << 15, .units = DEVICE_UNITS, .pools = 1, .kernel_operands = 24, .kernel_values = 128 };
	d->traits.rates = *rates_typical(STRATEGY_CPU);
	d->traits.rates.measured = true;
	d->still_ns = loop_now_ns();
	if (!d->flat) {
		d->pool = mmap(NULL, DEVICE_POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (d->pool == MAP_FAILED || range_new(DEVICE_POOL - LIMIT_ARENA_SLACK, &d->range)) {
			if (d->pool != MAP_FAILED)
				munmap(d->pool, DEVICE_POOL);
			free(d);
			return fault_set(f, FAULT_DEVICE, "the device has no memory");
		}
	}
	*devicep = d;
	return 0;
}

int device_count(const struct device_config *c, unsigned *countp, struct fault *f) {
	(void)c;
	(void)f;
	*countp = 1;
	return 0;
}

int device_look(const struct device_config *c, struct str *text, struct fault *f) {
	(void)c;
	(void)f;
	str_append(text, "simulated\tsimulated\t1\t1");
	return 0;
}

static void builds_done(struct program *p) {
	if (p->builds) {
		p->builds->later -= p->later;
		p->builds->unfinished--;
	}
	p->later = false;
	p->builds = builds_unref(p->builds);
}

static void entry_free(struct entry *e) {
	free(e->records);
	free(e);
}

struct device *device_close(struct device *d) {
	struct program *p;
	struct entry *e;

	if (!d)
		return NULL;
	if (device_finish(d))
		return NULL;
	while ((p = d->programs)) {
		d->programs = p->next;
		sim_forget(p);
		builds_done(p);
		free(p->kernel);
		free(p);
	}
	while ((e = d->first)) {
		d->first = e->next;
		entry_free(e);
	}
	if (d->pool) {
		munmap(d->pool, DEVICE_POOL);
		range_free_all(d->range);
	}
	sim_forget(d);
	free(d);
	return NULL;
}

const struct traits *device_traits(const struct device *d) {
	return &d->traits;
}

const char *device_name(const struct device *d) {
	(void)d;
	return "simulated";
}

const char *device_driver(const struct device *d) {
	(void)d;
	return "sim 1";
}

bool device_flat(const struct device *d) {
	return d->flat;
}

bool device_exact(const struct device *d) {
	(void)d;
	return true;
}

bool device_measuring(const struct device *d) {
	(void)d;
	return false;
}

void device_rates_text(const struct device *d, struct str *text) {
	(void)d;
	str_append(text, "as fast as is drawn");
}

const char *device_notes(const struct device *d) {
	(void)d;
	return "";
}

void device_worker(struct device *d, bool idle, int error, int socket, int process) {
	(void)d;
	(void)idle;
	(void)error;
	(void)socket;
	(void)process;
	sim_wrong("the symbolic device has asked for no worker");
}

int device_work(const struct device_config *c, int socket, bool idle, uint64_t bytes, struct fault *f) {
	(void)c;
	(void)socket;
	(void)idle;
	(void)bytes;
	return fault_set(f, FAULT_DEVICE, "no workers");
}

/* ---- programs ---- */

struct builds *builds_new(void) {
	struct builds *b = calloc(1, sizeof *b);

	if (b)
		b->references = 1;
	return b;
}

struct builds *builds_unref(struct builds *b) {
	if (b && !--b->references)
		free(b);
	return NULL;
}

void device_builds_for(struct device *d, struct builds *b) {
	d->builds = b;
}

static void built(void *user) {
	struct program *p = user;
	struct device *d = p->device;

	p->next_finished = d->finished;
	d->finished = p;
	d->config.wake(d->config.user);
}

/* Copies do not count. */
static unsigned operations(const struct kernel *k) {
	unsigned n = k->root != KERNEL_MAP && k->root != KERNEL_ROWS;

	for (unsigned v = 0; v < k->values; v++)
		n += (k->value[v].kind == KERNEL_OP && k->value[v].op != OP_copy) || k->value[v].kind == KERNEL_REDUCED;
	return n;
}

static struct program *find(struct device *d, const struct kernel *k) {
	struct program *p = d->programs;

	while (p && !kernel_equal(p->kernel, k))
		p = p->next;
	return p;
}

struct program *device_find_program(struct device *d, const struct kernel *k) {
	return find(d, k);
}

static int ask(struct device *d, const struct kernel *k, bool later, struct program **programp) {
	struct program *p = find(d, k);

	*programp = p;
	if (p) {
		device_want(d, p, !later);
		return 0;
	}
	p = calloc(1, sizeof *p);
	if (p)
		p->kernel = kernel_dup(k);
	if (!p || !p->kernel) {
		free(p);
		return -ENOMEM;
	}
	p->device = d;
	p->next = d->programs;
	d->programs = p;
	p->outcome = operations(k) > 1 && sim_happens(SIM_build_fails) ? PROGRAM_FAILED : PROGRAM_READY;
	if (p->outcome == PROGRAM_FAILED) {
		sim_note("a kernel of root %s, %u values, will not be built", kernel_root_name(k), k->values);
		for (unsigned v = 0; v < k->values; v++)
			sim_note("  value %u kind %u %s dtype %s", v, k->value[v].kind, k->value[v].kind == KERNEL_OP || k->value[v].kind == KERNEL_REDUCED ? op_info(k->value[v].op)->name : "",
				dtype_info(k->value[v].dtype)->name);
	}
	p->builds = d->builds;
	p->later = later;
	if (p->builds) {
		p->builds->references++;
		p->builds->unfinished++;
		p->builds->later += later;
		p->builds->asked++;
	}
	d->building++;
	sim_after(1000 + sim_random(sim_happens(SIM_build_late) ? BUILD_LATE_NS : BUILD_NS), built, p);
	*programp = p;
	return 0;
}

int device_program(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, false, programp);
}

int device_program_later(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, true, programp);
}

int device_program_trial(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, true, programp);
}

int device_program_spare(struct device *d, const struct kernel *k, struct program **programp) {
	return ask(d, k, true, programp);
}

void device_want(struct device *d, struct program *p, bool waits) {
	(void)d;
	if (!waits || p->state != PROGRAM_BUILDING)
		return;
	if (p->builds)
		p->builds->later -= p->later;
	p->later = false;
}

/* What is asked for here is built in its time, whoever has gone. */
bool device_forgo(struct device *d, struct program *p) {
	(void)d;
	(void)p;
	return false;
}

void device_insist(struct program *p) {
	(void)p;
}

bool device_forgone(const struct device *d, const struct program *p) {
	(void)d;
	(void)p;
	return false;
}

bool device_program_known(struct device *d, const struct kernel *k) {
	(void)d;
	(void)k;
	return false;
}

enum program_state program_state(const struct program *p) {
	return p->state;
}

/* A build fails of its program alone. */
int device_program_lacks(struct program *p, struct fault *f) {
	(void)p;
	(void)f;
	return 0;
}

const char *program_log(const struct program *p) {
	return p->state == PROGRAM_FAILED ? "the simulation lets it fail" : "";
}

const char *program_source(struct program *p) {
	(void)p;
	return NULL;
}

const struct kernel *program_kernel(const struct program *p) {
	return p->kernel;
}

struct program_story program_story(const struct program *p) {
	return (struct program_story){ .state = p->state, .why = "it is simulated" };
}

uint64_t program_build_us(const struct program *p) {
	(void)p;
	return 0;
}

uint32_t device_building(const struct device *d) {
	return d->building;
}

uint32_t device_wanted(const struct device *d) {
	return d->building;
}

uint32_t device_spare(struct device *d) {
	(void)d;
	return 0;
}

void device_each_build(struct device *d, void (*tell)(void *user, const struct device_build *b), void *user) {
	for (struct program *p = d->programs; p; p = p->next)
		if (p->state == PROGRAM_BUILDING)
			tell(user, &(struct device_build){ .kernel = p->kernel, .begun = true });
}

void device_each_program(struct device *d, void (*tell)(void *user, struct program *p), void *user) {
	for (struct program *p = d->programs; p; p = p->next)
		tell(user, p);
}

static uint32_t collect(struct device *d) {
	uint32_t n = 0;

	for (struct program *p; (p = d->finished); n++) {
		d->finished = p->next_finished;
		p->state = p->outcome;
		builds_done(p);
		d->building--;
		d->counters.builds++;
		d->counters.build_failures += p->state == PROGRAM_FAILED;
		if (d->config.ready && p->state == PROGRAM_READY && p->kernel->root != KERNEL_INTERPRETER)
			d->config.ready(d->config.ready_user, p->kernel);
	}
	return n;
}

/* ---- memory ---- */

int device_map(struct device *d, int fd, uint64_t bytes, uint64_t *addressp, void **hostp) {
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p;

	if (!d->flat || !bytes)
		return -EINVAL;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	*addressp = (uintptr_t)p;
	*hostp = p;
	return 0;
}

void device_unmap(struct device *d, uint64_t address, uint64_t bytes) {
	(void)d;
	munmap((void *)(uintptr_t)address, bytes);
}

int device_take(struct device *d, uint64_t bytes, uint64_t *addressp) {
	return d->flat ? -EINVAL : range_take(d->range, bytes, addressp);
}

void device_give(struct device *d, uint64_t address, uint64_t bytes) {
	if (range_give(d->range, address, bytes))
		sim_wrong("memory of the device is given back that was not taken");
}

uint64_t device_room(const struct device *d) {
	return d->flat ? UINT64_MAX : DEVICE_POOL - LIMIT_ARENA_SLACK;
}

void device_pin(struct device *d, void *host, uint64_t bytes, uint64_t *addressp) {
	(void)d;
	(void)host;
	(void)bytes;
	*addressp = 0;
}

void device_unpin(struct device *d, const void *host) {
	(void)d;
	(void)host;
}

static char *at(const struct device *d, uint64_t address) {
	return d->flat ? (char *)(uintptr_t)address : d->pool + address;
}

/* ---- kernels ---- */

struct task {
	const struct device *device;
	const struct kernel *kernel;
	const uint64_t *record;
	int64_t dims[KERNEL_RANK];
};

static int64_t stride(const struct task *t, unsigned operand, unsigned d) {
	return (int64_t)t->record[kernel_word_operand(t->kernel, operand) + 1 + d];
}

/* Whether operand o steps along the reduced dims: not what is stored or read behind the root. */
static int64_t place(const struct task *t, unsigned operand, const int64_t *index) {
	int64_t n = 0;

	for (unsigned d = 0; d < t->kernel->rank; d++)
		n += index[d] * stride(t, operand, d);
	return n;
}

static int64_t load(unsigned dtype, const char *p) {
	int64_t v = 0;

	switch (dtype) {
	case DTYPE_i64:
		memcpy(&v, p, 8);
		return v;
	case DTYPE_bool:
	case DTYPE_u8:
		return (unsigned char)*p;
	default:
		sim_wrong("the symbolic device has no %s", dtype_info(dtype)->name);
	}
}

static void store(unsigned dtype, char *p, int64_t v) {
	if (dtype == DTYPE_i64)
		memcpy(p, &v, 8);
	else if (dtype == DTYPE_bool || dtype == DTYPE_u8)
		*p = (char)v;
	else
		sim_wrong("the symbolic device has no %s", dtype_info(dtype)->name);
}

static int64_t operation(unsigned op, const int64_t *a) {
	uint64_t x = (uint64_t)a[0], y = (uint64_t)a[1];

	switch (op) {
	case OP_add: return (int64_t)(x + y);
	case OP_sub: return (int64_t)(x - y);
	case OP_mul: return (int64_t)(x * y);
	case OP_neg: return (int64_t)(0 - x);
	case OP_square: return (int64_t)(x * x);
	case OP_maximum: return a[0] > a[1] ? a[0] : a[1];
	case OP_minimum: return a[0] < a[1] ? a[0] : a[1];
	case OP_bitwise_and: return a[0] & a[1];
	case OP_bitwise_or: return a[0] | a[1];
	case OP_bitwise_xor: return a[0] ^ a[1];
	case OP_bitwise_not: return ~a[0];
	case OP_lt: return a[0] < a[1];
	case OP_le: return a[0] <= a[1];
	case OP_gt: return a[0] > a[1];
	case OP_ge: return a[0] >= a[1];
	case OP_eq: return a[0] == a[1];
	case OP_ne: return a[0] != a[1];
	case OP_where: return a[0] ? a[1] : a[2];
	case OP_copy:
	case OP_cast: return a[0];
	default:
		sim_wrong("the symbolic device has no %s", op_info(op)->name);
	}
}

static int64_t reduced(unsigned op, int64_t a, int64_t b, bool first) {
	if (first)
		return b;
	switch (op) {
	case OP_reduce_sum: return (int64_t)((uint64_t)a + (uint64_t)b);
	case OP_reduce_max: return a > b ? a : b;
	case OP_reduce_min: return a < b ? a : b;
	default:
		sim_wrong("the symbolic device has no %s", op_info(op)->name);
	}
}

static int64_t value_at(const struct task *t, unsigned v, const int64_t *index, const int64_t *value) {
	const struct kernel *k = t->kernel;
	const struct kernel_value *n = &k->value[v];
	int64_t arg[KERNEL_ARGS] = { 0 };

	for (unsigned i = 0; i < kernel_value_args(n) && i < KERNEL_ARGS; i++)
		arg[i] = value[n->arg[i]];
	switch (n->kind) {
	case KERNEL_LOAD:
		return load(n->dtype, at(t->device, t->record[kernel_word_operand(k, n->index)]) +
			place(t, n->index, index) * dtype_info(n->dtype)->bytes);
	case KERNEL_SCALAR:
		return (int64_t)t->record[kernel_word_scalar(k, n->index)];
	case KERNEL_IOTA:
		return (int64_t)t->record[kernel_word_operand(k, n->index)] + place(t, n->index, index);
	case KERNEL_OP:
		return operation(n->op, arg);
	default:
		sim_wrong("the symbolic device has no values of kind %u", n->kind);
	}
}

static bool next_index(const int64_t *dims, unsigned begin, unsigned end, int64_t *index) {
	for (unsigned d = end; d-- > begin;) {
		if (++index[d] < dims[d])
			return true;
		index[d] = 0;
	}
	return false;
}

static void store_outputs(const struct task *t, const int64_t *index, const int64_t *value, unsigned from, unsigned end) {
	const struct kernel *k = t->kernel;

	for (unsigned o = 0; o < k->operands; o++) {
		const struct kernel_operand *x = &k->operand[o];

		if (x->output && x->value >= from && x->value < end)
			store(x->dtype, at(t->device, t->record[kernel_word_operand(k, o)]) + place(t, o, index) * dtype_info(x->dtype)->bytes,
				value[x->value]);
	}
}

static void run_map(const struct task *t) {
	int64_t index[KERNEL_RANK] = { 0 }, value[KERNEL_VALUES];

	do {
		for (unsigned v = 0; v < t->kernel->values; v++)
			value[v] = value_at(t, v, index, value);
		store_outputs(t, index, value, 0, t->kernel->values);
	} while (next_index(t->dims, 0, t->kernel->rank, index));
}

static void run_reduce(const struct task *t) {
	const struct kernel *k = t->kernel;
	int64_t index[KERNEL_RANK] = { 0 }, value[KERNEL_VALUES];

	if (k->block_dim != 0xff)
		sim_wrong("the symbolic device reduces no blocks");
	do {
		int64_t sum = 0;
		bool first = true;

		do {
			for (unsigned v = 0; v < k->root_value; v++)
				value[v] = value_at(t, v, index, value);
			store_outputs(t, index, value, 0, k->root_value);
			sum = reduced(k->op, sum, value[k->reduced_value], first);
			first = false;
		} while (next_index(t->dims, k->kept, k->rank, index));
		value[k->root_value] = sum;
		for (unsigned v = k->root_value + 1u; v < k->values; v++)
			value[v] = value_at(t, v, index, value);
		store_outputs(t, index, value, k->root_value, k->values);
	} while (next_index(t->dims, 0, k->kept, index));
}

/* Values of a row in the order of the list; a reduced one walks the row for what it is made of. */
static void row_values(const struct task *t, int64_t *index, int64_t *value, unsigned end) {
	for (unsigned v = 0; v < end; v++)
		if (t->kernel->value[v].kind != KERNEL_REDUCED)
			value[v] = value_at(t, v, index, value);
}

static void run_rows(const struct task *t) {
	const struct kernel *k = t->kernel;
	int64_t index[KERNEL_RANK] = { 0 }, value[KERNEL_VALUES];

	do {
		for (unsigned v = 0; v < k->values; v++) {
			const struct kernel_value *n = &k->value[v];
			bool first = true;
			int64_t sum = 0;

			if (n->kind != KERNEL_REDUCED)
				continue;
			do {
				row_values(t, index, value, v);
				sum = reduced(n->op, sum, value[n->arg[0]], first);
				first = false;
			} while (next_index(t->dims, k->kept, k->rank, index));
			value[v] = sum;
		}
		do {
			row_values(t, index, value, k->values);
			store_outputs(t, index, value, 0, k->values);
		} while (next_index(t->dims, k->kept, k->rank, index));
	} while (next_index(t->dims, 0, k->kept, index));
}

/* Within one mapping, and of nobody but one session. */
static void check_operands(const struct task *t) {
	const struct kernel *k = t->kernel;
	int whose = 0;

	for (unsigned o = 0; o < k->operands; o++) {
		uint64_t begin = t->record[kernel_word_operand(k, o)], bytes = dtype_info(k->operand[o].dtype)->bytes;
		int64_t low = 0, high = 0;
		int owner;

		if (k->operand[o].iota)
			continue;
		for (unsigned d = 0; d < k->rank; d++) {
			int64_t end = (t->dims[d] - 1) * stride(t, o, d);

			*(end < 0 ? &low : &high) += end;
		}
		begin = (uintptr_t)at(t->device, begin) + (uint64_t)(low * (int64_t)bytes);
		owner = sim_owner(begin, (uint64_t)(high - low + 1) * bytes);
		if (owner < 0)
			sim_wrong("a kernel %s %llu bytes that are no mapping's", k->operand[o].output ? "writes" : "reads",
				(unsigned long long)((uint64_t)(high - low + 1) * bytes));
		if (owner && whose && owner != whose)
			sim_wrong("one task has memory of clients %d and %d", whose, owner);
		if (owner)
			whose = owner;
	}
}

static void run_task(const struct device *d, const struct kernel *k, const uint64_t *record) {
	struct task t = { .device = d, .kernel = k, .record = record };

	for (unsigned i = 0; i < k->rank; i++) {
		t.dims[i] = (int64_t)record[kernel_word_dim(i)];
		if (!t.dims[i])
			return;
	}
	if (sim_computes() || k->root == KERNEL_MAP || k->root == KERNEL_REDUCE || k->root == KERNEL_ROWS)
		check_operands(&t);
	if (!sim_computes())
		return;
	if (k->root == KERNEL_MAP)
		run_map(&t);
	else if (k->root == KERNEL_REDUCE)
		run_reduce(&t);
	else if (k->root == KERNEL_ROWS)
		run_rows(&t);
	else
		sim_wrong("the symbolic device has no kernels of %s", kernel_root_name(k));
}

/* ---- the queue ---- */

static void advance(void *user);

static void schedule(struct device *d) {
	if (d->busy || !d->first)
		return;
	d->busy = true;
	sim_after(500 + sim_random(sim_happens(SIM_completion_late) ? LATE_NS : d->first->kind == ENTRY_MARK ? 2000 : LAUNCH_NS), advance, d);
}

static void perform(struct device *d, const struct entry *e) {
	if (e->kind == ENTRY_COPY)
		memcpy(e->to, e->from, e->bytes);
	for (uint32_t i = 0; e->kind == ENTRY_LAUNCH && i < e->tasks; i++)
		run_task(d, e->program->kernel, e->records + (size_t)i * kernel_record_words(e->program->kernel));
}

static void pass(struct device *d) {
	struct entry *e = d->first, **end = &d->passed;

	d->first = e->next;
	if (!d->first)
		d->last = NULL;
	d->entries--;
	perform(d, e);
	if (e->kind != ENTRY_MARK) {
		entry_free(e);
		return;
	}
	d->ended_ns = sim_now_ns();
	e->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = e;
}

static void advance(void *user) {
	struct device *d = user;
	bool mark;

	d->busy = false;
	if (!d->first)
		return;
	mark = d->first->kind == ENTRY_MARK;
	pass(d);
	schedule(d);
	if (mark)
		d->config.wake(d->config.user);
}

static int append(struct device *d, const struct entry *from) {
	struct entry *e = malloc(sizeof *e);

	if (!e)
		return -ENOMEM;
	*e = *from;
	e->next = NULL;
	if (d->last)
		d->last->next = e;
	else
		d->first = e;
	d->last = e;
	d->entries++;
	d->still_ns = loop_now_ns();
	schedule(d);
	return 0;
}

int device_launch(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items, uint32_t local) {
	struct entry e = { .kind = ENTRY_LAUNCH, .program = p, .tasks = tasks };
	size_t bytes = (size_t)tasks * kernel_record_words(p->kernel) * sizeof *records;

	(void)items;
	(void)local;
	sim_point("launch", tasks);
	if (p->state != PROGRAM_READY)
		sim_wrong("a program is launched that is not built");
	if (d->entries >= DEVICE_ENTRIES)
		return -EAGAIN;
	e.records = malloc(bytes);
	if (!e.records)
		return -EAGAIN;
	memcpy(e.records, records, bytes);
	d->counters.launches++;
	d->counters.tasks += tasks;
	if (append(d, &e)) {
		free(e.records);
		return -EAGAIN;
	}
	return 0;
}

int device_launch_words(struct device *d, struct program *p, const uint64_t *words, uint64_t count, uint32_t tasks, uint64_t items, uint32_t local) {
	(void)d;
	(void)p;
	(void)words;
	(void)count;
	(void)tasks;
	(void)items;
	(void)local;
	sim_wrong("the symbolic device runs no bytecode");
}

int device_launch_near(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items, uint32_t local) {
	(void)items;
	(void)local;
	sim_point("launch near", tasks);
	if (d->first || p->state != PROGRAM_READY)
		return -EAGAIN;
	for (uint32_t i = 0; i < tasks; i++)
		run_task(d, p->kernel, records + (size_t)i * kernel_record_words(p->kernel));
	d->counters.launches++;
	d->counters.launches_near++;
	return 0;
}

int device_launch_claimed(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items) {
	(void)d;
	(void)p;
	(void)records;
	(void)tasks;
	(void)items;
	return -EAGAIN;
}

unsigned device_helpers(const struct device *d) {
	(void)d;
	return 0;
}

int device_upload(struct device *d, uint64_t address, const void *host, uint64_t bytes) {
	return append(d, &(struct entry){ .kind = ENTRY_COPY, .to = at(d, address), .from = host, .bytes = bytes });
}

int device_download(struct device *d, void *host, uint64_t address, uint64_t bytes) {
	return append(d, &(struct entry){ .kind = ENTRY_COPY, .to = host, .from = at(d, address), .bytes = bytes });
}

int device_time(struct device *d, double *nsp) {
	(void)d;
	(void)nsp;
	return -EIO;
}

int device_timed(struct device *d, bool timed) {
	(void)d;
	return timed ? -EIO : 0;
}

struct stamp *device_stamp(struct device *d) {
	(void)d;
	return NULL;
}

int stamp_read(const struct stamp *s, struct stamp_times *to) {
	(void)s;
	(void)to;
	return -EIO;
}

struct stamp *stamp_free(struct stamp *s) {
	(void)s;
	return NULL;
}

int device_mark(struct device *d, void (*done)(void *user, int error), void *user) {
	int r;

	sim_point("mark", 0);
	r = append(d, &(struct entry){ .kind = ENTRY_MARK, .done = done, .user = user });
	d->pending += !r;
	return r;
}

int device_flush(struct device *d) {
	(void)d;
	return 0;
}

int device_finish(struct device *d) {
	while (d->first)
		pass(d);
	device_poll(d);
	return 0;
}

uint32_t device_poll(struct device *d) {
	struct entry *e;

	while ((e = d->passed)) {
		d->passed = e->next;
		d->pending--;
		e->done(e->user, 0);
		entry_free(e);
	}
	return collect(d);
}

bool device_quiet(struct device *d, int64_t ms) {
	return !d->first && !d->building && loop_now_ns() - d->still_ns > (uint64_t)ms * 1000000;
}

uint64_t device_ended_ns(const struct device *d) {
	return d->ended_ns;
}

uint32_t device_pending(const struct device *d) {
	return d->pending;
}

const struct device_counters *device_counters(const struct device *d) {
	return &d->counters;
}
