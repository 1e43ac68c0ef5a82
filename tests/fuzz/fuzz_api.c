/*
 * Calls of libfusion, as bytes say: any function, with any arguments that its contract allows a caller to pass, good or bad, on a daemon that is played
 * (tests/fake_daemon.h), on one thread and a second one; with allocations that fail, requests that are refused or not answered, waits that are given
 * up or run out of time, and a daemon that goes away.
 *
 * What is refused says so in a sentence. The daemon never sees anything that it would have to refuse as nonsense. When everything is released the daemon has
 * nothing left, and a closed context leaves no memory, nor a callback that was not called.
 *
 * api.py writes a case for each function that is called by its arguments' types alone; those that are about lives stand here.
 */
#define FUSION_NO_PLACES
#include "fuzz.h"

#include <sanitizer/common_interface_defs.h>

#include "client/fusion.h"

#include "tests/fake_daemon.h"

enum {
	ARRAYS = 12, LIST = 16, FUTURES = 4, CAPTURES = 3, BUFFERS = 16,
	/* Of an array that is kept, and of one that may be at all. */
	BYTES_KEPT = 1 << 14,
	CALLS = 120,
	SCOPES = 3,
	/* The daemon that is played never uses memory again, so it is started anew from here on. */
	ARENAS_USED = 60,
	TIMEOUT_MS = 20,
	SETTLE_ROUNDS = 30000, SETTLE_US = 1000,
};

struct recorded {
	fusion_capture *capture;
	int inputs, outputs;
};

/* What a thread has. */
struct pool {
	fusion_array *array[ARRAYS];
	bool mapped[ARRAYS];
	fusion_future *future[FUTURES];
	void *memory[FUTURES];
	struct recorded capture[CAPTURES];
	unsigned scopes, no_grads, checkpoints;
	int recording;           /* inputs of what is recorded; below 0: nothing */
};

static fusion_context *context;
static struct fusion_token last_token;
static atomic_bool short_of_memory, gave_up;
static atomic_int asked_left, callbacks_due;
static _Thread_local struct pool *mine;
static _Thread_local bool had_null;
static _Thread_local int allocations_left = -1;
static _Thread_local const char *calling = "";

/* ---- allocations that fail: of the thread that calls, and within a call ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fails(void) {
	if (allocations_left < 0)
		return false;
	if (allocations_left)
		return !--allocations_left && false;
	atomic_store(&short_of_memory, true);
	if (getenv("FUZZ_CALLS"))
		__sanitizer_print_stack_trace();
	return true;
}

void *__wrap_malloc(size_t size) {
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
	return fails() ? NULL : __real_realloc(old, size);
}

static void *memory_of(size_t size) {
	void *memory = __real_malloc(size ? size : 1);

	if (!memory)
		abort();
	memset(memory, 7, size);
	return memory;
}

/* ---- arguments ---- */

static fusion_array *pick(struct fuzz_bytes *b) {
	fusion_array *a = mine->array[fuzz_byte(b) % ARRAYS];

	had_null |= !a;
	return a;
}

/* For questions that take no NULL. */
static fusion_array *pick_live(struct fuzz_bytes *b) {
	unsigned at = fuzz_byte(b);

	for (unsigned i = 0; i < ARRAYS; i++)
		if (mine->array[(at + i) % ARRAYS])
			return mine->array[(at + i) % ARRAYS];
	return NULL;
}

static fusion_array *const *picks(struct fuzz_bytes *b) {
	static _Thread_local fusion_array *list[5][LIST];
	static _Thread_local unsigned turn;
	fusion_array **l = list[turn++ % 5];

	for (unsigned i = 0; i < LIST; i++)
		l[i] = i < 4 ? pick(b) : NULL;
	return l;
}

static _Thread_local fusion_array *made_places[2 * LIST];
static _Thread_local unsigned places_used;

static fusion_array **places(void) {
	fusion_array **p = made_places + places_used;

	/* Those of fusion_unique() are of one array each, others may be of some. */
	places_used = places_used + 4 <= LIST ? places_used + 4 : places_used;
	return p;
}

static int few(struct fuzz_bytes *b) {
	return (int)fuzz_below(b, 6) - 1;
}

static int axis(struct fuzz_bytes *b) {
	return (int)(int8_t)fuzz_byte(b) % 10;
}

static int64_t whole(struct fuzz_bytes *b) {
	static const int64_t odd[] = { INT64_MIN, INT64_MAX, -1, 1 << 20, INT32_MAX, (int64_t)1 << 40, INT64_MIN + 1, INT32_MIN };
	unsigned n = fuzz_byte(b);

	return n < 248 ? (int64_t)(n % 6) : odd[n - 248];
}

static double real(struct fuzz_bytes *b) {
	uint64_t bits;
	unsigned n = fuzz_byte(b);
	double d;

	if (n < 250)
		return (double)(n % 9) / 2 - 1;
	bits = fuzz_whole(b, 8);
	memcpy(&d, &bits, sizeof d);
	return d;
}

static const int64_t *extents(struct fuzz_bytes *b) {
	static _Thread_local int64_t list[4][LIST];
	static _Thread_local unsigned turn;
	int64_t *l = list[turn++ % 4];

	for (unsigned i = 0; i < LIST; i++)
		l[i] = i < 4 ? whole(b) : 1;
	return l;
}

static const int *axes(struct fuzz_bytes *b) {
	static _Thread_local int list[LIST];

	for (unsigned i = 0; i < LIST; i++)
		list[i] = i < 3 ? axis(b) : (int)i;
	return list;
}

static const char *word(struct fuzz_bytes *b) {
	static const char *const words[] = { "softmax", "swish3(x)", "x * sigmoid(3 * x)", "fusion.enabled", "1", "add", "exp", "twice(x)", "x + x", "soft", "swish3", "twice",
		"", "fusion.pattern.linear", "off", "((((((((", "x", "fusion.debug", "layer_norm", "nothing", "a b\n\x01", "sum(x)", "topk" };
	unsigned n = fuzz_byte(b);

	return words[n % (sizeof words / sizeof *words)];
}

static const char *const *words(struct fuzz_bytes *b) {
	static _Thread_local const char *list[LIST];

	if (fuzz_byte(b) & 1)
		return NULL;
	for (unsigned i = 0; i < LIST; i++)
		list[i] = i < 3 ? word(b) : "0";
	return list;
}

static const struct fusion_attributes *attributes(struct fuzz_bytes *b) {
	static _Thread_local struct fusion_attributes a;

	if (fuzz_byte(b) & 1)
		return NULL;
	a = (struct fusion_attributes){ .axis_count = few(b), .axes = axes(b), .keepdims = fuzz_byte(b) & 1, .dtype = (enum fusion_dtype)fuzz_below(b, FUSION_F64 + 2),
		.correction = real(b), .eps = real(b), .scale = real(b), .groups = whole(b), .classes = whole(b), .diagonal = whole(b), .causal = fuzz_byte(b) & 1,
		.rank = few(b), .dims = extents(b), .window = extents(b), .dilation = extents(b), .stride = extents(b) };
	a.reserved[0] = fuzz_byte(b) > 250;
	return &a;
}

static const struct fusion_sgd_options *sgd_options(struct fuzz_bytes *b) {
	static _Thread_local struct fusion_sgd_options o;

	o = (struct fusion_sgd_options){ real(b), real(b), real(b), { fuzz_byte(b) > 250 } };
	return &o;
}

/* Of which one is always wrong: nobody here serves a second session, which is what it measures in. */
static const struct fusion_benchmark_options *benchmark_options(struct fuzz_bytes *b) {
	static _Thread_local struct fusion_benchmark_options o;

	o = (struct fusion_benchmark_options){ .size = whole(b), .seconds = real(b), .operands = -1 - fuzz_byte(b), .reserved = { fuzz_byte(b) > 250 } };
	return &o;
}

static const struct fusion_adam_options *adam_options(struct fuzz_bytes *b) {
	static _Thread_local struct fusion_adam_options o;

	o = (struct fusion_adam_options){ real(b), real(b), real(b), real(b), real(b), { fuzz_byte(b) > 250 } };
	return &o;
}

static _Thread_local char *text_made;
static char **text_place(void) {
	return &text_made;
}

static uint64_t *number_place(void) {
	static _Thread_local uint64_t number;

	return &number;
}

static struct fusion_token *token_place(void) {
	return &last_token;
}

static const struct fusion_token *token(struct fuzz_bytes *b) {
	static _Thread_local struct fusion_token odd;

	if (fuzz_byte(b) & 3)
		return &last_token;
	odd.bytes[0] = fuzz_byte(b);
	return &odd;
}

/* ---- results ---- */

static void check_error(int code) {
	claim(code > 0, "%s: the code %d", calling, code);
	claim(fusion_error_code() == code, "%s gave %s, and the last error is %s: %s", calling, fusion_code_name(code), fusion_code_name(fusion_error_code()), fusion_error());
	claim(*fusion_error(), "%s: an error without a sentence", calling);
}

/* Begins a call: nothing has failed, allocations may. */
#define BEGIN(name) begin(name, b)

static void begin(const char *name, struct fuzz_bytes *b) {
	unsigned n = fuzz_byte(b);

	if (getenv("FUZZ_CALLS"))
		fprintf(stderr, "%s%s\n", name, n >= 240 ? " (short of memory)" : "");
	calling = name;
	allocations_left = n >= 240 ? (int)(n - 240) : -1;
}

static void end(void) {
	allocations_left = -1;
	if (getenv("FUZZ_CALLS") && fusion_error_code())
		fprintf(stderr, "\t%s\n", fusion_error());
}

static void keep(fusion_array *a) {
	static _Thread_local unsigned turn;

	if (!a)
		return;
	if (fusion_bytes(a) > BYTES_KEPT) {
		if (!mine->scopes)
			fusion_release(a);
		return;
	}
	if (mine->scopes)
		fusion_keep(a);
	for (unsigned i = 0; i < ARRAYS; i++, turn++)
		if (!mine->mapped[turn % ARRAYS])
			break;
	fusion_release(mine->mapped[turn % ARRAYS] ? a : mine->array[turn % ARRAYS]);
	if (!mine->mapped[turn % ARRAYS])
		mine->array[turn++ % ARRAYS] = a;
}

static void made(fusion_array *a) {
	end();
	if (!a && !had_null)
		check_error(fusion_error_code());
	keep(a);
}

static void ended(int code) {
	end();
	if (code)
		check_error(code);
	for (unsigned i = 0; i < 2 * LIST; i++) {
		fusion_array *a = made_places[i];

		claim(!a || !code, "%s failed, and left an array in place %u", calling, i);
		made_places[i] = NULL;
		keep(a);
	}
}

static void said(char *text) {
	end();
	if (!text)
		check_error(fusion_error_code());
	free(text);
}

#include "fuzz_api.h"

/* ---- calls about lives ---- */

static void call_from(struct fuzz_bytes *b) {
	enum fusion_dtype dtype = (enum fusion_dtype)fuzz_below(b, FUSION_F64 + 1);
	int rank = (int)fuzz_below(b, 5);
	int64_t dims[4] = { 1, 1, 1, 1 }, elements = 1;
	void *data;

	for (int d = 0; d < rank; d++)
		elements *= dims[d] = (int64_t)fuzz_below(b, 5);
	data = memory_of((size_t)elements * 8);
	if (dtype == FUSION_BOOL)
		memset(data, 1, (size_t)elements);
	BEGIN("fusion_from");
	made(fusion_from(context, dtype, rank, dims, data));
	free(data);
}

static void touch(char *memory, size_t bytes, bool write) {
	volatile char seen;

	claim(memory || !bytes, "%s: no memory", calling);
	if (write && bytes)
		memset(memory, 0, bytes);
	for (size_t i = 0; i < bytes; i++)
		seen = memory[i];
	(void)seen;
}

static void call_create(struct fuzz_bytes *b) {
	int64_t dims[2] = { (int64_t)fuzz_below(b, 5), (int64_t)fuzz_below(b, 5) };
	unsigned at = fuzz_below(b, ARRAYS);
	void *memory;
	fusion_array *a;

	BEGIN("fusion_create");
	a = fusion_create(context, FUSION_F32, 2, dims, &memory);
	end();
	if (!a) {
		check_error(fusion_error_code());
		return;
	}
	touch(memory, fusion_bytes(a), true);
	if (mine->scopes)
		fusion_keep(a);
	if (mine->mapped[at])
		ended(fusion_unmap(mine->array[at]));
	fusion_release(mine->array[at]);
	mine->array[at] = a;
	mine->mapped[at] = true;
}

static void call_map(struct fuzz_bytes *b) {
	unsigned at = fuzz_below(b, ARRAYS);
	enum fusion_map_mode mode = (enum fusion_map_mode)fuzz_below(b, 5);
	fusion_array *a = mine->array[at];
	void *memory;
	int code;

	if (mine->mapped[at] || !a)
		return;
	BEGIN("fusion_map");
	code = fusion_map(a, mode, &memory);
	ended(code);
	mine->mapped[at] = !code;
	if (!code)
		touch(memory, fusion_bytes(a), mode == FUSION_MAP_WRITE);
}

static void call_unmap(struct fuzz_bytes *b) {
	unsigned at = fuzz_below(b, ARRAYS);
	int code;

	if (!mine->array[at])
		return;
	BEGIN("fusion_unmap");
	code = fusion_unmap(mine->array[at]);
	ended(code);
	if (!code)
		mine->mapped[at] = false;
}

static void call_read(struct fuzz_bytes *b) {
	fusion_array *a = pick_live(b);
	size_t bytes = a ? fusion_bytes(a) + (fuzz_byte(b) > 240) : 0;
	void *memory = memory_of(bytes);

	BEGIN("fusion_read");
	if (a)
		ended(fusion_read(a, memory, bytes));
	free(memory);
}

static void called(void *user, int code) {
	claim(!code || *fusion_error(), "a callback's error without a sentence");
	free(user);
	atomic_fetch_sub(&callbacks_due, 1);
}

static void call_read_callback(struct fuzz_bytes *b) {
	fusion_array *a = pick_live(b);
	void *memory;
	int code;

	if (!a)
		return;
	memory = memory_of(fusion_bytes(a));
	atomic_fetch_add(&callbacks_due, 1);
	BEGIN("fusion_read_callback");
	code = fusion_read_callback(a, memory, fusion_bytes(a), called, memory);
	ended(code);
	if (code) {
		atomic_fetch_sub(&callbacks_due, 1);
		free(memory);
	}
}

static void call_read_begin(struct fuzz_bytes *b) {
	fusion_array *a = pick_live(b);
	unsigned at = fuzz_below(b, FUTURES);

	if (!a || mine->future[at])
		return;
	mine->memory[at] = memory_of(fusion_bytes(a));
	BEGIN("fusion_read_begin");
	mine->future[at] = fusion_read_begin(a, mine->memory[at], fusion_bytes(a));
	end();
	if (!mine->future[at]) {
		check_error(fusion_error_code());
		free(mine->memory[at]);
		return;
	}
	claim(fusion_future_fd(mine->future[at]) >= 0, "a future without a descriptor");
}

static void finish(unsigned at) {
	if (!mine->future[at])
		return;
	ended(fusion_future_finish(mine->future[at]));
	mine->future[at] = NULL;
	free(mine->memory[at]);
}

static void call_future_finish(struct fuzz_bytes *b) {
	unsigned at = fuzz_below(b, FUTURES);

	BEGIN("fusion_future_finish");
	finish(at);
}

static void call_release(struct fuzz_bytes *b) {
	unsigned at = fuzz_below(b, ARRAYS);
	fusion_array *a = mine->array[at];

	BEGIN("fusion_release");
	mine->array[at] = NULL;
	mine->mapped[at] = false;
	fusion_release(a);
	end();
}

static void call_retain(struct fuzz_bytes *b) {
	fusion_array *a = pick_live(b);

	if (a && fusion_bytes(a) <= BYTES_KEPT && fuzz_byte(b) & 1)
		keep(fusion_retain(a));
}

static void call_scope_begin(struct fuzz_bytes *b) {
	int code;

	if (mine->scopes == SCOPES)
		return;
	BEGIN("fusion_scope_begin");
	code = fusion_scope_begin(context);
	ended(code);
	mine->scopes += !code;
}

static void call_scope_end(struct fuzz_bytes *b) {
	int code;

	BEGIN("fusion_scope_end");
	code = fusion_scope_end(context);
	ended(code);
	claim(!code == !!mine->scopes, "fusion_scope_end: %d of %u scopes", code, mine->scopes);
	mine->scopes -= !code;
}

static void call_capture_begin(struct fuzz_bytes *b) {
	int inputs = (int)fuzz_below(b, 4), code;
	fusion_array *const *list = picks(b);

	BEGIN("fusion_capture_begin");
	code = fusion_capture_begin(context, inputs, list);
	ended(code);
	if (!code)
		mine->recording = inputs;
}

static void call_capture_end(struct fuzz_bytes *b) {
	int outputs = (int)fuzz_below(b, 4);
	unsigned at = fuzz_below(b, CAPTURES);
	fusion_array *const *list = picks(b);
	struct recorded made_of = { NULL, mine->recording, outputs };

	BEGIN("fusion_capture_end");
	made_of.capture = fusion_capture_end(context, outputs, list);
	end();
	mine->recording = -1;
	if (!made_of.capture) {
		check_error(fusion_error_code());
		return;
	}
	fusion_capture_free(mine->capture[at].capture);
	mine->capture[at] = made_of;
}

static void call_capture_abort(struct fuzz_bytes *b) {
	BEGIN("fusion_capture_abort");
	ended(fusion_capture_abort(context));
	mine->recording = -1;
}

static void call_replay(struct fuzz_bytes *b) {
	struct recorded *r = &mine->capture[fuzz_below(b, CAPTURES)];
	fusion_array *const *list = picks(b);

	if (!r->capture)
		return;
	BEGIN("fusion_replay");
	ended(fusion_replay(r->capture, list, made_places));
}

static void call_explain_capture(struct fuzz_bytes *b) {
	struct recorded *r = &mine->capture[fuzz_below(b, CAPTURES)];
	unsigned what = fuzz_byte(b);

	if (!r->capture)
		return;
	BEGIN("fusion_explain_capture");
	said(fusion_explain_capture(r->capture, what));
}

static void call_capture_free(struct fuzz_bytes *b) {
	struct recorded *r = &mine->capture[fuzz_below(b, CAPTURES)];

	BEGIN("fusion_capture_free");
	fusion_capture_free(r->capture);
	end();
	r->capture = NULL;
}

static void call_import(struct fuzz_bytes *b) {
	const struct fusion_token *t = token(b);

	BEGIN("fusion_import");
	made(fusion_import(context, t));
}

static void call_here(struct fuzz_bytes *b) {
	static const char *const files[] = { "a.c", "a/very/long/name/of/a/file/that/no/program/has.c", "", NULL };

	fusion_here(files[fuzz_below(b, 4)], (int)fuzz_whole(b, 4));
	if (fuzz_byte(b) & 1)
		fusion_at(files[fuzz_below(b, 4)], (int)fuzz_whole(b, 4));
	else
		fusion_at(NULL, 0);
	if (!fuzz_byte(b))
		fusion_refuse((int)fuzz_whole(b, 4), NULL);
}

/* ---- the daemon's doing ---- */

static bool asked(void) {
	return atomic_fetch_sub(&asked_left, 1) <= 0;
}

/* One thread at a time has what all give up while they sleep. */
static pthread_mutex_t given_up = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *until) {
	if (!until)
		return &given_up;
	pthread_mutex_lock(until);
	pthread_mutex_unlock(until);
	return NULL;
}

/* While nobody gives up the daemon answers. */
static void give_up(unsigned after, bool on) {
	atomic_store(&asked_left, (int)after);
	atomic_store(&gave_up, true);
	if (!on)
		fake_let_go();
	fusion_on_wait(on ? asked : NULL);
	fusion_on_sleep(after % 2 ? sleeper : NULL);
}

static void call_on_wait(struct fuzz_bytes *b) {
	give_up(fuzz_below(b, 4), fuzz_byte(b) & 1);
}

static void make_trouble(struct fuzz_bytes *b) {
	unsigned what = fuzz_below(b, 8), op = fuzz_below(b, OP_COUNT);

	switch (what) {
	case 0:
		give_up(fuzz_below(b, 4), true);
		fake_hold(1 + fuzz_below(b, 4));
		break;
	case 1: fake_let_go(); break;
	case 2: case 3:
		pthread_mutex_lock(&fake.lock);
		fake.refuse_op = what == 2 ? (uint16_t)op : FAKE_NONE;
		fake.fault_op = what == 3 ? (uint16_t)op : FAKE_NONE;
		pthread_mutex_unlock(&fake.lock);
		break;
	case 4: case 5:
		pthread_mutex_lock(&fake.lock);
		fake.refuse_arenas = what == 4;
		pthread_mutex_unlock(&fake.lock);
		break;
	case 6:
		if (fuzz_byte(b) < 16) {
			fake_goes();
		}
		break;
	default: break;
	}
}

static void (*const own_calls[])(struct fuzz_bytes *b) = { call_from, call_from, call_from, call_create, call_map, call_map, call_unmap, call_read, call_read, call_read_callback,
	call_read_begin, call_future_finish, call_release, call_retain, call_scope_begin, call_scope_end, call_capture_begin, call_capture_end, call_capture_abort, call_replay,
	call_replay, call_explain_capture, call_capture_free, call_import, call_here, call_on_wait, make_trouble };

enum { OWN_CALLS = sizeof own_calls / sizeof *own_calls };

static void call(struct fuzz_bytes *b) {
	unsigned number = fuzz_byte(b);

	had_null = false;
	places_used = 0;
	memset(made_places, 0, sizeof made_places);
	fusion_error_clear();
	if (number < 128) {
		own_calls[number % OWN_CALLS](b);
	} else if (pick_live(b)) {
		api_call((number << 8 | fuzz_byte(b)) % API_CALLS, b);
	}
	end();
	free(text_made);
	text_made = NULL;
}

/* ---- a thread's calls ---- */

struct part {
	struct fuzz_bytes in;
	struct pool pool;
};

static void pool_end(void) {
	fusion_capture_abort(context);
	while (mine->scopes && !fusion_scope_end(context))
		mine->scopes--;
	while (!fusion_no_grad_end()) {}
	while (!fusion_checkpoint_end()) {}
	for (unsigned i = 0; i < FUTURES; i++)
		finish(i);
	for (unsigned i = 0; i < CAPTURES; i++)
		fusion_capture_free(mine->capture[i].capture);
	for (unsigned i = 0; i < ARRAYS; i++)
		fusion_release(mine->array[i]);
}

static void *run(void *user) {
	struct part *p = user;

	mine = &p->pool;
	mine->recording = -1;
	for (unsigned i = 0; i < CALLS && fuzz_left(&p->in); i++)
		call(&p->in);
	fake_let_go();
	calling = "the end";
	pool_end();
	return NULL;
}

/* ---- one session ---- */

static void fresh_daemon(void) {
	static bool started;

	/* What was given up may come to the daemon after its session has ended, and would be counted for the next one. */
	if (started && fake.arenas < ARENAS_USED && fake.engine_arenas < ARENAS_USED && !atomic_load(&fake.gone) && !atomic_load(&gave_up))
		return;
	if (started)
		fake_stop();
	fake_start();
	started = true;
}

/* Everything is released: so the daemon has nothing, once it was told. */
static void check_settled(void) {
	for (unsigned i = 0; i < SETTLE_ROUNDS; i++) {
		bool live;

		char *asked_for;

		/* Answers that were given up are read by whoever waits for another one. */
		asked_for = fusion_stats(context, false);
		free(asked_for);
		if (!asked_for || fusion_flush(context) || fusion_sync(context)) {
			claim(*fusion_error(), "an error without a sentence");
			/* An answer that there was no memory to read ends the session. */
			if (atomic_load(&short_of_memory) && fusion_error_code() == FUSION_E_CONNECT)
				return;
			fusion_error_clear();
		}
		pthread_mutex_lock(&fake.lock);
		live = fake.live;
		pthread_mutex_unlock(&fake.lock);
		if (!live && !atomic_load(&callbacks_due))
			return;
		usleep(SETTLE_US);
	}
	claim(!fake.live, "%u arrays are left at the daemon", fake.live);
}

static void calm(void) {
	fusion_on_wait(NULL);
	fusion_on_sleep(NULL);
	fake_let_go();
	pthread_mutex_lock(&fake.lock);
	fake.refuse_op = fake.fault_op = FAKE_NONE;
	fake.fault_seq = 0;
	fake.refuse_arenas = false;
	pthread_mutex_unlock(&fake.lock);
}

void fuzz_one(struct fuzz_bytes *b) {
	struct fusion_options o = { .name = "fuzz" };
	static struct part first, second;
	unsigned how = fuzz_byte(b);
	pthread_t thread;

	fresh_daemon();
	calm();
	atomic_store(&short_of_memory, false);
	atomic_store(&gave_up, how & 4);
	o.socket = fake.door;
	o.debug = how & 1 ? FUSION_ON : FUSION_DEFAULT;
	o.batch_ops = how & 2 ? 3 : 0;
	o.timeout_ms = how & 4 ? TIMEOUT_MS : 0;
	if (fusion_open(&context, &o)) {
		/* On a machine that is busy its time may be over. */
		claim(o.timeout_ms, "%s", fusion_error());
		return;
	}
	memset(&first, 0, sizeof first);
	memset(&second, 0, sizeof second);
	if (how & 8)
		second.in = fuzz_take(b, fuzz_left(b) / 2);
	first.in = *b;
	if (how & 8)
		claim(!pthread_create(&thread, NULL, run, &second), "no thread");
	run(&first);
	if (how & 8)
		pthread_join(thread, NULL);
	calm();
	if (!atomic_load(&fake.gone))
		check_settled();
	claim(!*fake.problem, "the daemon would refuse: %s", fake.problem);
	fusion_close(context);
	claim(!atomic_load(&callbacks_due), "a callback was not called");
}
