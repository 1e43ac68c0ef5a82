/*
 * libfusion: tensor operations on an accelerator that a daemon, fusiond, owns.
 *
 * Arrays are lazy. An operation is recorded and returns at once; it runs when a value is read,
 * mapped or waited for, when enough operations are recorded, or at fusion_flush(). Whether the
 * daemon fuses operations into one kernel never changes a bit of a result.
 *
 * Ownership: a function that returns a fusion_array returns a reference the caller releases with
 * fusion_release(), or that a scope releases (fusion_scope_begin). Operands are only read. Let go of
 * intermediate results before you read the last one: what is still held when operations run is
 * computed into memory of its own, what is not may never be.
 *
 * Handles: what these types point to is nothing; a pointer is the name of an array, a context, a capture or a future. One that was released,
 * closed, freed or finished, that is of another type, or that is garbage is refused by every function, for ever: FUSION_E_STATE, with the place where it was given
 * back, or FUSION_E_ARGUMENT. So are a second fusion_release() and a second fusion_close(), which do nothing else; as they return nothing,
 * fusion_error() tells.
 *
 * Errors: functions that return int give 0 (FUSION_OK) or a FUSION_E_ code; functions that return
 * a pointer give NULL. fusion_error() is then a full sentence that names the operation, the
 * argument, the shapes and the caller's file and line. Operations accept NULL operands (the result
 * of an earlier failure) and return NULL, leaving the first error in place, so that expressions
 * nest and are checked once. Errors the daemon finds later are reported by the next call that
 * waits for the array or the context.
 *
 * The daemon's engine may die, by a defect of the driver, say, and is replaced. The context goes on by itself: arrays whose values lie in
 * shared memory (all that were computed, on a CPU; those that were read, on a GPU) have them still. Operations that it had not begun
 * are run by the next one, within $FUSION_REPEAT_BYTES of messages (libfusion(3)). Others are not run again: their arrays fail, when they are next used, as
 *   FUSION_E_REPEATABLE  it was not begun, nor repeated: record the operations again; their operands are as they were
 *   FUSION_E_UNKNOWN     it was with the device or the planner then, and may be what ended the engine: recording it again may end the next one, too.
 *                        Also of a call other than an operation, which may have had its effect
 *   FUSION_E_LOST        it was computed, but lay on the device alone
 * with a sentence that names the operation and its line; fusion_sync() gives the first of these. Ask an array by fusion_wait().
 *
 * Threads: every function may be called from any thread; a context serialises its calls. The last
 * error is kept for each thread. After fork() the calls of a child whose parent had opened a context fail with FUSION_E_FORKED, fusion_open() too.
 */
#ifndef FUSION_H
#define FUSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FUSION_VERSION "0.1.0"
#define FUSION_API __attribute__((visibility("default")))
#define FUSION_MAX_RANK 8
/* Structures that a caller fills begin as zeros and end with so many words of them: members of later releases take their place. A word
 * that is not zero is refused, because it asks for something that this release does not have. */
#define FUSION_RESERVED 8

/* Names, see above: these types are defined nowhere; `struct fusion_array` and the like are the library's own. */
typedef struct fusion_context_name fusion_context;
typedef struct fusion_array_name fusion_array;
typedef struct fusion_capture_name fusion_capture;
typedef struct fusion_future_name fusion_future;

#include "fusion_types.h"    /* generated: enum fusion_dtype (FUSION_F32, ...), enum fusion_code (FUSION_E_SHAPE, ...) */

/* ---- errors ---- */

/* The calling thread's last error: its code, and one sentence ("" where there was none). */
FUSION_API int fusion_error_code(void);
FUSION_API const char *fusion_error(void);
FUSION_API void fusion_error_clear(void);
/* "SHAPE" for FUSION_E_SHAPE. */
FUSION_API const char *fusion_code_name(int code);

/* The caller's place, kept for each thread until it is set again; the macros at the end of this
 * file set it. The name is copied when it is first used. NULL: not known. */
FUSION_API void fusion_here(const char *file, int line);
/*
 * For functions that make several calls for their caller, and are given its place: until the same thread calls fusion_at(NULL, 0), calls are noted as if
 * they stood there, and fusion_here() does nothing. They nest, and the outermost holds.
 */
FUSION_API void fusion_at(const char *file, int line);
/*
 * For functions of one's own that refuse what they are given as those of this library do: the code (of FUSION_E_, else it is FUSION_E_ARGUMENT) and the
 * sentence become the thread's error, with the caller's place. Returns the code.
 */
FUSION_API int fusion_refuse(int code, const char *sentence);

/* ---- contexts ---- */

enum fusion_switch {
	FUSION_DEFAULT = 0,    /* as the daemon is configured */
	FUSION_ON = 1,
	FUSION_OFF = 2,
};

struct fusion_options {
	const char *socket;          /* the daemon's door, or tcp://HOST:PORT or tls+tcp://HOST:PORT of one on another machine;
	                              * NULL: $FUSION_SOCKET, then the system's, then a daemon of one's own, which is
	                              * started where the machine has none and $FUSION_AUTOSTART is not no */
	const char *name;            /* shown to the administrator; NULL: the program's name */
	enum fusion_switch fusion;   /* fuse operations; $FUSION_ENABLED (yes or no) where FUSION_DEFAULT */
	enum fusion_switch debug;    /* run operations singly and report the first NaN or infinity, and indices beyond their axes; $FUSION_DEBUG */
	uint32_t batch_ops;          /* send after this many recorded operations; 0: 1024 */
	uint32_t timeout_ms;         /* wait at most this long for the daemon; 0: forever. Where the next engine takes longer to come the session stays */
	const char *device;          /* where the daemon has several: a part of the name or the number of the one to use;
	                              * NULL: $FUSION_DEVICE, then the one with the fewest sessions */
	/* For tls, files of PEM: what signed the daemon's certificate, our own, its key. NULL: $FUSION_CA, $FUSION_CERT, $FUSION_KEY */
	const char *authority, *certificate, *key;
	uint64_t reserved[FUSION_RESERVED];
};

/* Connects. options may be NULL. */
FUSION_API int fusion_open(fusion_context **contextp, const struct fusion_options *options);
/*
 * Disconnects; arrays of the context stay valid to release and nothing else. What is mapped stays as it is until its array is
 * released, as memory of this process. NULL is allowed. Reads under way end with an error. Not from a callback.
 */
FUSION_API void fusion_close(fusion_context *context);
/* Name of the device, owned by the context. */
FUSION_API const char *fusion_device(fusion_context *context);
/* Changes a setting of this session, e.g. "fusion.enabled" to "0", "fusion.pattern.linear" to "off"; or "fusion.debug", as the option has it, from the next
 * operation on. */
FUSION_API int fusion_configure(fusion_context *context, const char *name, const char *value);
/* Changes it for new sessions, and those that have not changed it: for root, the daemon's user and its
 * administrators (door.admins). */
FUSION_API int fusion_configure_daemon(fusion_context *context, const char *name, const char *value);
/* JSON, to be freed by the caller: the settings of this session, or those new sessions begin with. */
FUSION_API char *fusion_settings(fusion_context *context, bool whole_daemon);

/* Sends what is recorded without waiting. */
FUSION_API int fusion_flush(fusion_context *context);
/* Sends, then waits until everything has run. */
FUSION_API int fusion_sync(fusion_context *context);
/*
 * What was sent and the device has not begun is not run: its arrays fail with FUSION_E_CANCELLED. Also from another
 * thread than those that wait for them.
 */
FUSION_API int fusion_cancel(fusion_context *context);

/* Asked by threads that wait for the daemon, for its socket or for another engine, some times a second, and when a signal comes: true ends the wait. */
typedef bool fusion_asked(void);
/*
 * For all contexts of the process; NULL, as at first: nobody is asked. A wait that ends so fails with FUSION_E_CANCELLED; what
 * was recorded and sent is as it was, and can be waited for again. The function may not call this library. Not asked by who sends
 * what the daemon does not yet take.
 */
FUSION_API void fusion_on_wait(fusion_asked *asked);
/*
 * Called by a thread before it sleeps for the daemon, with NULL, and, unless it returned that, with what it returned afterwards: so that whoever
 * holds a lock of its own, as an interpreter's, gives it up meanwhile. For all contexts of the process; NULL, as at first: nothing is called. The
 * first call may not wait, as threads may wait for who makes it, the second one may; neither may call this library. Not called
 * by who sends what the daemon does not yet take, as a full ring or socket: that thread has the context.
 */
typedef void *fusion_sleeper(void *given_up);
FUSION_API void fusion_on_sleep(fusion_sleeper *sleeper);

/* Arrays made between begin and end are released at end, except those given to fusion_keep(),
 * which become the caller's to release. Scopes nest and belong to the calling thread. What a scope still holds when
 * something is read is a result as well, and is stored: keep what is wanted, end the scope, then read. */
FUSION_API int fusion_scope_begin(fusion_context *context);
FUSION_API int fusion_scope_end(fusion_context *context);
FUSION_API fusion_array *fusion_keep(fusion_array *array);

/* ---- arrays ---- */

/* Copies row-major data of the given shape. */
FUSION_API fusion_array *fusion_from(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, const void *data);
/* A new array whose shared memory *memoryp the caller fills in place, without a copy; it takes
 * part in operations after fusion_unmap(). */
FUSION_API fusion_array *fusion_create(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, void **memoryp);
/* Every element is value; for integer types it must be one of the type's values. */
FUSION_API fusion_array *fusion_full(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, double value);
FUSION_API fusion_array *fusion_full_int(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, int64_t value);
/* A rank-0 array that broadcasts. */
FUSION_API fusion_array *fusion_scalar(fusion_context *context, enum fusion_dtype dtype, double value);
/* start + i * step for i below n. */
FUSION_API fusion_array *fusion_arange(fusion_context *context, enum fusion_dtype dtype, int64_t n, double start, double step);

/*
 * Random numbers by Philox 4x32-10: those of a seed are the same on every device and in every fusion,
 * whatever else is computed. Other draws want other seeds. See fusion-ops(7), philox.
 */
/*
 * In [0, 1): an integer of as many random bits as the floating-point type has digits, times 2^-digits: the highest 11 (f16), 8 (bf16) or 24 (f32)
 * of one word, or 27 and 26 of two (f64). Each multiple of 2^-digits is as likely as the others, and 1 never comes.
 */
FUSION_API fusion_array *fusion_random_uniform(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, uint64_t seed);
/* Of mean 0 and deviation 1, by Box and Muller. */
FUSION_API fusion_array *fusion_random_normal(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, uint64_t seed);
/* bool: true with this probability. */
FUSION_API fusion_array *fusion_random_bernoulli(fusion_context *context, int rank, const int64_t *dims, double probability, uint64_t seed);
/* Integers from low to below high. */
FUSION_API fusion_array *fusion_random_integers(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, int64_t low, int64_t high, uint64_t seed);
/* 0 with this probability, else a / (1 - probability). */
FUSION_API fusion_array *fusion_dropout(fusion_array *a, double probability, uint64_t seed);

FUSION_API fusion_array *fusion_retain(fusion_array *array);
FUSION_API void fusion_release(fusion_array *array);          /* NULL is allowed */

FUSION_API enum fusion_dtype fusion_dtype_of(const fusion_array *array);
FUSION_API int fusion_rank(const fusion_array *array);
FUSION_API const int64_t *fusion_dims(const fusion_array *array);
FUSION_API int64_t fusion_elements(const fusion_array *array);
FUSION_API size_t fusion_bytes(const fusion_array *array);
/* Grows by one each time the array is written: fusion_unmap, fusion_copy_into, fusion_fill_into. */
FUSION_API uint64_t fusion_version(const fusion_array *array);
FUSION_API fusion_context *fusion_context_of(const fusion_array *array);

/* ---- reading and writing ---- */

/* Computes and copies the elements, row-major, into memory of exactly fusion_bytes(). */
FUSION_API int fusion_read(fusion_array *array, void *memory, size_t bytes);
/* Computes and waits. */
FUSION_API int fusion_wait(fusion_array *array);

enum fusion_map_mode {
	FUSION_MAP_READ = 1,
	FUSION_MAP_WRITE = 2,     /* waits for queued readers; fusion_unmap makes a new version, of this array alone: see fusion_copy_into() */
};
/* The array's own memory, row-major. Arrays mapped for writing take part in no operation until
 * they are unmapped; views and copies made before keep the old values. Where other processes hold the array, too,
 * fusion_unmap waits until all of them see what was written. */
FUSION_API int fusion_map(fusion_array *array, enum fusion_map_mode mode, void **memoryp);
FUSION_API int fusion_unmap(fusion_array *array);

/* A read that does not wait. The callback runs on a thread of the library with code 0 or
 * FUSION_E_; it may call fusion_error() but must not wait for the daemon. */
typedef void fusion_callback(void *user, int code);
FUSION_API int fusion_read_callback(fusion_array *array, void *memory, size_t bytes, fusion_callback *callback, void *user);
/* The same with a descriptor that becomes readable when the data is there. */
FUSION_API fusion_future *fusion_read_begin(fusion_array *array, void *memory, size_t bytes);
FUSION_API int fusion_future_fd(const fusion_future *future);
FUSION_API int fusion_future_finish(fusion_future *future);   /* waits, frees, returns the code */

/*
 * Replaces the values of `array` (same shape after broadcasting, converted to its type), and of no other: what was made of it before keeps
 * the old ones, and an array made by fusion_slice(), fusion_reshape(), fusion_transpose() and the like is not a window into the one it was made of.
 * To write a part of an array, map the array itself, or replace it by fusion_put_along(), fusion_where() or fusion_concat() of it.
 */
FUSION_API int fusion_copy_into(fusion_array *array, fusion_array *source);
FUSION_API int fusion_fill_into(fusion_array *array, double value);

/* ---- arrays that several processes hold ---- */

/* What opens an exported array: 128 random bits, for those who are meant to have it. */
struct fusion_token {
	uint8_t bytes[16];
};
enum fusion_rights {
	FUSION_SHARE_READ = 1,
	FUSION_SHARE_READ_WRITE = 3,     /* it may also be mapped for writing */
};
/*
 * A token by which other processes open this array. It moves to memory that can be shared, once; each call gives one token more. A token
 * opens nothing any more after lifetime_ms (0: there is no such time), when it is revoked, when this context has let
 * go of the array, or is closed; who has opened the array keeps it. Waits for the daemon. libfusion(3) tells what
 * others see of a write.
 */
FUSION_API int fusion_export(fusion_array *array, enum fusion_rights rights, uint64_t lifetime_ms, struct fusion_token *tokenp);
/*
 * The array of a token, in place: nothing is copied. An array on another device of the daemon than this context's is copied, through the
 * memory of this process: what comes is an array like any other, that neither sees later writes nor is seen written. An error
 * does not tell what is wrong with a token.
 */
FUSION_API fusion_array *fusion_import(fusion_context *context, const struct fusion_token *token);
/* A token of this context opens nothing any more. */
FUSION_API int fusion_revoke(fusion_context *context, const struct fusion_token *token);

/* ---- operations with arguments of their own; the elementwise ones are in fusion_ops.h ---- */

FUSION_API fusion_array *fusion_cast(fusion_array *a, enum fusion_dtype dtype);
FUSION_API fusion_array *fusion_copy(fusion_array *a);
/* One extent may be -1: it follows from the others. */
FUSION_API fusion_array *fusion_reshape(fusion_array *a, int rank, const int64_t *dims);
/* Result axis d is axis axes[d] of a; axes NULL reverses them all. */
FUSION_API fusion_array *fusion_permute(fusion_array *a, const int *axes);
/* Swaps the last two axes. */
FUSION_API fusion_array *fusion_transpose(fusion_array *a);
FUSION_API fusion_array *fusion_broadcast(fusion_array *a, int rank, const int64_t *dims);
/*
 * Python's a[start:stop:step] on every axis; FUSION_END stands for a left-out bound; step NULL: 1. The result is a value of
 * its own, as of every operation: fusion_copy_into(), fusion_fill_into() and fusion_map(FUSION_MAP_WRITE) give it another one and leave `a` as it is.
 */
#define FUSION_END INT64_MIN
FUSION_API fusion_array *fusion_slice(fusion_array *a, const int64_t *start, const int64_t *stop, const int64_t *step);
/* Reversed along count axes (negative ones count from the end); count 0 and axes NULL: all axes. */
FUSION_API fusion_array *fusion_flip(fusion_array *a, int count, const int *axes);
/*
 * Windows of `size` elements along an axis, without a copy: result[..., o, ..., k] is
 * a[..., o * step + k * dilation, ...]; the windows' elements are a new last axis.
 */
FUSION_API fusion_array *fusion_windows(fusion_array *a, int axis, int64_t size, int64_t step, int64_t dilation);
/*
 * result[..., i..., ...] = a[..., index[i...], ...]: the axes of index, integers, stand where the axis
 * was. Negative ones count from the end; where one is beyond the axis the result is 0.
 */
FUSION_API fusion_array *fusion_take(fusion_array *a, fusion_array *index, int axis);
/* result[..., i, ...] = a[..., index[..., i, ...], ...]: as many axes both; the others broadcast. */
FUSION_API fusion_array *fusion_take_along(fusion_array *a, fusion_array *index, int axis);
/*
 * a, in which elements along the axis are replaced by updates, or have them added, at the places that
 * index says, in order. Index and updates have the shape of a but for the axis; updates take a's type.
 */
FUSION_API fusion_array *fusion_put_along(fusion_array *a, fusion_array *index, fusion_array *updates, int axis);
FUSION_API fusion_array *fusion_add_along(fusion_array *a, fusion_array *index, fusion_array *updates, int axis);
/*
 * Along an axis, ascending or descending, always stable: equal elements keep their order; -0 equals +0 and
 * NaN stands above everything. argsort and topk give places along the axis, i64.
 */
FUSION_API fusion_array *fusion_sort(fusion_array *a, int axis, bool descending);
FUSION_API fusion_array *fusion_argsort(fusion_array *a, int axis, bool descending);
/* The k largest or smallest elements along an axis, sorted, and their places. Either pointer may be NULL. */
FUSION_API int fusion_topk(fusion_array *a, int64_t k, int axis, bool largest, fusion_array **valuesp, fusion_array **placesp);
/*
 * Where each value goes in the vector `sorted`: how many of its elements are below it (right: not above
 * it), i64, in the shape of values. Both are converted to the type they meet in.
 */
FUSION_API fusion_array *fusion_searchsorted(fusion_array *sorted, fusion_array *values, bool right);
/* One after the other along an axis; converted to the type they meet in. */
FUSION_API fusion_array *fusion_concat(int count, fusion_array *const *array, int axis);
/* The same along a new axis. */
FUSION_API fusion_array *fusion_stack(int count, fusion_array *const *array, int axis);
/* low[d] elements before and high[d] after axis d (NULL: none), of a value of rank 0 (NULL: 0). */
FUSION_API fusion_array *fusion_pad(fusion_array *a, const int64_t *low, const int64_t *high, fusion_array *value);
/* count parts along an axis, views whose extents add up to it; arrayp receives new arrays. */
FUSION_API int fusion_split(fusion_array *a, int count, const int64_t *extent, int axis, fusion_array **arrayp);
/* Axis d so many times after itself; each element of an axis so many times; moved around an axis. */
FUSION_API fusion_array *fusion_tile(fusion_array *a, const int64_t *times);
FUSION_API fusion_array *fusion_repeat(fusion_array *a, int64_t times, int axis);
FUSION_API fusion_array *fusion_roll(fusion_array *a, int64_t by, int axis);
FUSION_API fusion_array *fusion_matmul(fusion_array *a, fusion_array *b);

/* Reductions: count axes (negative ones count from the end); count 0 and axes NULL: all axes. */
FUSION_API fusion_array *fusion_sum(fusion_array *a, int count, const int *axes, bool keepdims);
FUSION_API fusion_array *fusion_max(fusion_array *a, int count, const int *axes, bool keepdims);
FUSION_API fusion_array *fusion_min(fusion_array *a, int count, const int *axes, bool keepdims);
FUSION_API fusion_array *fusion_mean(fusion_array *a, int count, const int *axes, bool keepdims);
FUSION_API fusion_array *fusion_prod(fusion_array *a, int count, const int *axes, bool keepdims);
FUSION_API fusion_array *fusion_any(fusion_array *a, int count, const int *axes, bool keepdims);
FUSION_API fusion_array *fusion_all(fusion_array *a, int count, const int *axes, bool keepdims);

/* Scans: element i is what the reduction makes of elements 0 to i of the axis (negative: from the end). */
FUSION_API fusion_array *fusion_cumsum(fusion_array *a, int axis);
FUSION_API fusion_array *fusion_cumprod(fusion_array *a, int axis);
FUSION_API fusion_array *fusion_cummax(fusion_array *a, int axis);
FUSION_API fusion_array *fusion_cummin(fusion_array *a, int axis);

/*
 * An operation by its name: a composite of fusion-ops(7), which also has a function of its own in
 * fusion_ops.h, one that fusion_define_op() made, or one of the daemon's administrator (fusiond.conf(5)), which the
 * daemon is asked for at the first call: that may wait while it is tried. Operands that may be left out are NULL or not
 * counted; attributes NULL: all zero.
 */
FUSION_API fusion_array *fusion_call(fusion_context *context, const char *name, int count, fusion_array *const *operand, const struct fusion_attributes *attributes);
/*
 * Defines an operation of this context for fusion_call(): fusion_define_op(c, "swish2(x, beta)",
 * "x * sigmoid(beta * x)", NULL). Without a list the operands are a, b and c. fusion-ops(7) tells what
 * a text may say; f16 and bf16 are computed in f32 and rounded once. gradient: a text for each operand,
 * which may also name g and y, or NULL; it is checked and kept for whoever differentiates.
 */
FUSION_API int fusion_define_op(fusion_context *context, const char *name, const char *text, const char *const *gradient);

/*
 * Defines a fusion pattern: fusion_define_pattern(c, "swish(x, beta)", "x * sigmoid(beta * x)", false). Wherever the
 * expression arises from ordinary operations it is recognised: counted by fusion_stats(), named by fusion_explain(),
 * fusion_opportunities() and fusion_recent(), and switched by fusion_configure() and "fusion.pattern.swish". Results keep
 * their bits. It holds for this context from now on, or with whole_daemon for all of the daemon (for root and the
 * daemon's user). libfusion(3) tells what is taken for the same expression.
 */
FUSION_API int fusion_define_pattern(fusion_context *context, const char *name, const char *text, bool whole_daemon);
/* What is queued or runs ends as it began. */
FUSION_API int fusion_forget_pattern(fusion_context *context, const char *name, bool whole_daemon);

/*
 * The places, i64 and in order, of the elements of a (row-major) that are not zero; NaN is not. Waits for
 * the daemon, since the size of the result depends on the values.
 */
FUSION_API fusion_array *fusion_flatnonzero(fusion_array *a);
/* The same as one index along each axis: placep receives as many arrays as a has axes, at least one. */
FUSION_API int fusion_nonzero(fusion_array *a, fusion_array **placep);
/*
 * The values of a, ascending, each once; the place of the first of each in the flattened a; for each element of
 * a, in its shape, the place of its value; how often each occurs. Places and counts are i64; pointers of what is
 * not wanted are NULL. NaN equals nothing, so each is a value; -0 equals +0. Waits for the daemon.
 */
FUSION_API int fusion_unique(fusion_array *a, fusion_array **valuesp, fusion_array **firstp, fusion_array **inversep, fusion_array **countsp);

/* ---- gradients ---- */

/*
 * What is computed from watched arrays from here on can be differentiated by them; what was computed before cannot.
 * It stays so for values that fusion_copy_into() and the like give the array later, each of which gradients end at anew:
 * differentiate before you write. Of what depends on watched arrays the contents that gradients need are kept until it is
 * released or differentiated; nothing else is, and programs that watch nothing pay nothing. libfusion(3) tells more.
 */
FUSION_API int fusion_watch(fusion_array *array);
FUSION_API int fusion_unwatch(fusion_array *array);
/*
 * gradp[i] becomes the gradient by input[i] of the sum of y's elements times those of seed (NULL: ones, so of
 * y itself where it is a scalar): a new array of the input's type and shape, to be released; zeros where y does not depend
 * on it. Inputs are watched arrays, or computed from such. What was kept for y is let go, so that it can be differentiated
 * once; fusion_vjp() can keep it.
 */
FUSION_API int fusion_grad(fusion_array *y, fusion_array *seed, fusion_array *const *input, int count, fusion_array **gradp);

enum fusion_grad_flags {
	FUSION_GRAD_KEEP = 1,      /* what leads to the outputs can be differentiated again */
	FUSION_GRAD_WATCH = 2,     /* and so can the gradients, which is what second derivatives are made of */
};
/* The same of several outputs, whose seeds (NULL, or entries of NULL: ones) multiply each: the product of a row and the
 * Jacobian. flags: a sum of FUSION_GRAD_. */
FUSION_API int fusion_vjp(int outputs, fusion_array *const *y, fusion_array *const *seed, int inputs, fusion_array *const *input, fusion_array **gradp, unsigned flags);

/* The same elements, by which nothing is differentiated: a constant. */
FUSION_API fusion_array *fusion_stop_gradient(fusion_array *a);
/* Between the two, for the calling thread: nothing is recorded for gradients. They nest. */
FUSION_API void fusion_no_grad_begin(void);
FUSION_API int fusion_no_grad_end(void);
/* Between the two, for the calling thread: of what is computed nothing is kept for gradients, which compute it again from
 * what was there before. They nest. */
FUSION_API void fusion_checkpoint_begin(void);
FUSION_API int fusion_checkpoint_end(void);
/* Bytes that are kept for gradients alone or also for them, of arrays that were sent to the daemon: now, and the most so far. */
FUSION_API int fusion_kept_bytes(fusion_context *context, uint64_t *nowp, uint64_t *peakp);

struct fusion_sgd_options {
	double rate;
	double momentum;           /* 0: there are no velocities */
	double decay;              /* of the weights: added to gradients */
	uint64_t reserved[FUSION_RESERVED];
};
struct fusion_adam_options {
	double rate, beta1, beta2, eps;
	double decay;              /* adam: added to gradients; adamw: taken from the parameters themselves */
	uint64_t reserved[FUSION_RESERVED];
};
/*
 * One step of descent for count parameters, computed like PyTorch's, in one launch where they are of one element type and
 * none is of one element; adam counts in one more. The parameters, and the velocities or averages (of their shapes, zeros at first), are given new values; or, where nextp is
 * not NULL, as in a recorded graph, it receives new arrays: parameters, then velocities or first and second averages,
 * then the step. step is of rank 0, 0 at first, and counts.
 */
FUSION_API int fusion_sgd(int count, fusion_array *const *parameter, fusion_array *const *gradient, fusion_array *const *velocity, const struct fusion_sgd_options *options, fusion_array **nextp);
FUSION_API int fusion_adam(int count, fusion_array *const *parameter, fusion_array *const *gradient, fusion_array *const *first, fusion_array *const *second, fusion_array *step, const struct fusion_adam_options *options, fusion_array **nextp);
FUSION_API int fusion_adamw(int count, fusion_array *const *parameter, fusion_array *const *gradient, fusion_array *const *first, fusion_array *const *second, fusion_array *step, const struct fusion_adam_options *options, fusion_array **nextp);

/* ---- graphs recorded once ---- */

/*
 * Between begin and end the operations of the calling thread are recorded, not run. input: arrays that stand for what replay passes, which has
 * their types and shapes; they cannot be read meanwhile. Other arrays from outside may be used, not written: replay uses the values they
 * have then. Uploads are not recorded, their arrays are from outside too. output: what replay gives. capture_end returns the recorded graph, which
 * fusion_capture_free() releases, or NULL: then nothing is recorded any more.
 */
FUSION_API int fusion_capture_begin(fusion_context *context, int inputs, fusion_array *const *input);
FUSION_API fusion_capture *fusion_capture_end(fusion_context *context, int outputs, fusion_array *const *output);
/* Gives up what the calling thread records: 0, or FUSION_E_STATE where it records nothing. */
FUSION_API int fusion_capture_abort(fusion_context *context);
/* Runs it, in one short message to the daemon: input[i] stands for the i-th input of capture_begin, outputp[i] receives a new array for the i-th output of
 * capture_end, to be released. As often as wanted. */
FUSION_API int fusion_replay(fusion_capture *capture, fusion_array *const *input, fusion_array **outputp);
FUSION_API void fusion_capture_free(fusion_capture *capture);

/* ---- what happened ---- */

/* JSON, to be freed by the caller: counters of this session, or of the whole daemon; fusionctl(1) tells of its fields, and of those of the answers below. */
FUSION_API char *fusion_stats(fusion_context *context, bool whole_daemon);
/* What an explanation tells of: a sum of these. */
enum fusion_explain_what {
	FUSION_EXPLAIN_SOURCE = 1,     /* the OpenCL C of each kernel, too, as the compiler gets it */
	FUSION_EXPLAIN_UNFUSED = 2,    /* with fusion off */
	FUSION_EXPLAIN_NODES = 4,      /* also the operations one by one, with what they read: to draw them */
	FUSION_EXPLAIN_OPPORTUNITIES = 8, /* only what fusing gains, as fusion_opportunities() tells it */
	FUSION_EXPLAIN_BUILD = 16,     /* have its kernels built in the background; for administrators */
	FUSION_EXPLAIN_OWN_SOURCE = 32, /* of the OpenCL C only what is the kernel's own, not the functions that all may call: to be read */
};
/* JSON, to be freed by the caller: how the daemon would run the operations that lead to these arrays, recorded by this thread or on
 * their way; or, where they were sent, how the run that made them ran (as long as it is known: fusion.explain_runs): kernels, their
 * patterns, the operations in each with their places ("at": "FILE:LINE", not of what has run), how each kernel runs now and since when;
 * "not_fused": for each two kernels the reason that decided, and both places. What went in full batches (batch_ops) before runs without these and
 * is not told of: "operations_before" counts it, "note" says so. Runs nothing. what: a sum of FUSION_EXPLAIN_. */
FUSION_API char *fusion_explain(fusion_context *context, int count, fusion_array *const *array, unsigned what);
/* The same of a recorded graph, before any replay. */
FUSION_API char *fusion_explain_capture(fusion_capture *capture, unsigned what);
/* The same for what would be fused alone, the greatest gain first: kernel, pattern, operations with their places and ids, bytes and buffers
 * saved, estimated times. Of what has run: fusion_recent() with FUSION_EXPLAIN_OPPORTUNITIES. */
FUSION_API char *fusion_opportunities(fusion_context *context, int count, fusion_array *const *array);
/* For fusion_recent(): the session of the context itself. */
#define FUSION_OWN_SESSION UINT64_MAX
/* JSON, to be freed by the caller: how the last graphs of a session ran, the newest first. session 0: of
 * the one that ran last, this one aside; FUSION_OWN_SESSION: of this one. what: as of fusion_explain(), but not UNFUSED and
 * BUILD. Sessions of other users: for administrators. */
FUSION_API char *fusion_recent(fusion_context *context, uint64_t session, unsigned what);
/*
 * An explanation for people to look at; to be freed by the caller, NULL on failure. explanation: what fusion_explain() or fusion_recent() answered, with
 * FUSION_EXPLAIN_NODES and, to be read there, FUSION_EXPLAIN_OWN_SOURCE; needs no daemon. title: of the page, may be NULL.
 *   PAGE     a document in HTML that holds all it needs, and no script: operations and the kernels that hold them as a picture, each kernel's time beside
 *            what bounds it, what was not fused and why, a timeline
 *   PART     the same, to stand within another page
 *   PICTURE  SVG
 */
enum fusion_report_form { FUSION_REPORT_PAGE, FUSION_REPORT_PART, FUSION_REPORT_PICTURE };
FUSION_API char *fusion_report(const char *explanation, const char *title, enum fusion_report_form form);
/*
 * For tools that watch a daemon; JSON, to be freed by the caller, or NULL. Other users' sessions are for root, the daemon's user and
 * its administrators.
 *   CLIENTS  the sessions of the engine that serves this one: {"clients": [...]}
 *   KERNELS  the programs of that engine, with their text where first is 1, with their own text alone where it is 2: for administrators
 *   EVENTS   what happened from event `first` on (UINT64_MAX: from now on), of session `second`, 0: of all; see fusion-protocol(7)
 *   TIMELINE the same with when kernels ran on the device, which costs each launch some time
 */
enum fusion_inspection { FUSION_INSPECT_CLIENTS, FUSION_INSPECT_KERNELS, FUSION_INSPECT_EVENTS, FUSION_INSPECT_TIMELINE };
FUSION_API char *fusion_inspect(fusion_context *context, enum fusion_inspection what, uint64_t first, uint64_t second);
/* JSON, to be freed by the caller: the operations that the daemon's administrator defined: name, operands, whether
 * they are ready, or refused and why. */
FUSION_API char *fusion_operations(fusion_context *context);
/* JSON, to be freed by the caller: the fusion patterns of this session, built in and defined, and on which devices
 * each is on. */
FUSION_API char *fusion_patterns(fusion_context *context);
/*
 * 1 or 0: would the operations whose results are these two arrays, not sent yet, run in one kernel? Of the plan that fusion_explain() tells of
 * the arrays results[0 .. count); count 0: of `second` alone. textp (may be NULL) is to be freed: JSON with "fused", "reason", and the
 * kernel, its operations and gain, or the operations that the reason is of. -1 on error.
 */
FUSION_API int fusion_can_fuse(fusion_context *context, fusion_array *first, fusion_array *second, int count, fusion_array *const *results, char **textp);

/* The element type and shape of an operand. */
struct fusion_operand {
	enum fusion_dtype dtype;
	int rank;
	int64_t dims[FUSION_MAX_RANK];
};
struct fusion_benchmark_options {
	int64_t size;              /* operands are of this extent, squares mostly; 0: 256 */
	enum fusion_dtype dtype;   /* their element type; 0: f32 */
	int operands;              /* instead of both, the type and shape of each of so many; 0: as it comes */
	const struct fusion_operand *operand;
	double seconds;            /* how long it may measure, builds not counted; 0: 2 */
	uint64_t reserved[FUSION_RESERVED];
};
/*
 * How fast a pattern, built in or defined, runs now on this device, fused and as one kernel an operation, one launch a kernel. JSON, to be freed by the
 * caller: what was measured, kernels of both forms, whether results have the same bits, and for each of two clocks ("device": of launches, as the driver
 * tells; "wall": of many runs until the last is waited for) best and median of rounds in turns, and their quotient; see libfusion(3). Waits until kernels
 * are built. It is a session of its own, with this one's settings and patterns, of the same user, whose limits hold; options may be NULL.
 */
FUSION_API char *fusion_benchmark_pattern(fusion_context *context, const char *pattern, const struct fusion_benchmark_options *options);

#include "fusion_ops.h"      /* generated from protocol/ops.def; also wraps each call in fusion_here() */

#ifdef __cplusplus
}
#endif
#endif
