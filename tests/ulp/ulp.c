/*
 * Checks the device function library against references that are not ours.
 *
 *     ulp [--kernels DIR] [--platform N] [--lanes N] [--all] [--digest] [--only NAME,...] [--type T] [--unary]
 *         [--threads N] [--record FILE]
 *
 * Every function of kernels/ulp.def is run in programs of one lane and of sixteen (--lanes), whose
 * bits must agree, and its worst error must stay within its row. By default on a slice: special values, every
 * binade, and dense samples where the functions are interesting; --all tries all 2^32 floats of the
 * functions of one f32 operand, whose rows must then also be no more than rounded up, and more of the others. --digest adds a
 * hash of the results' bits, which must be the same on every device; --record writes a line a function for programs:
 * name, type, how many results, worst error, its operands, the hash. --unary leaves out functions of two operands.
 */
#include "device.h"
#include "exact.h"
#include "judge.h"
#include "reference.h"
#include "sweep.h"

#include <math.h>
#include <pthread.h>
#include <quadmath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	LANES_FEW = 1,
	MAX_THREADS = 64,
	F32_COUNT = 3 << 18,         /* the slice of one f32 operand */
	F32_PAIRS = 3 << 18,
	F64_COUNT = 3 << 14,
	MORE_PAIRS = 4, MORE_F64 = 7,  /* with --all: times 2^ */
	TEXT_BYTES = 1 << 16,
	NAME_BYTES = 64,
};

static const struct {
	const char *name;
	double f32, f64;
} bounds[] = {
#define ULP(name, f32, f64) { #name, f32, f64 },
#include "../../kernels/ulp.def"
#undef ULP
};

struct options {
	const char *kernels, *only, *type;
	unsigned platform;
	int lanes;                   /* of the second program */
	unsigned threads;
	bool all, digest, unary;
	FILE *record;                /* a line a function, for programs; or NULL */
};

/* One function on one type, with the results of both programs. */
struct trial {
	const struct reference *reference;
	bool f64;
	size_t n;
	const void *a, *b;
	const void *few, *many;
};

struct outcome {
	double worst;
	size_t worst_at;
	size_t wrong, wrong_at;      /* NaN, infinity or sign of zero not as the reference */
	size_t unequal, unequal_at;  /* other bits with other lanes */
	uint64_t digest;             /* of the results of many lanes */
	uint64_t tried;
};

struct share {
	pthread_t thread;
	const struct trial *trial;
	size_t first, end;
	struct outcome outcome;
};

static double bound_of(const char *name, bool f64) {
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		if (!strcmp(bounds[i].name, name))
			return f64 ? bounds[i].f64 : bounds[i].f32;
	fprintf(stderr, "ulp.def has no row %s\n", name);
	exit(2);
}

/* Is it one of the names that --only gives? */
static bool wanted(const struct options *o, const char *name) {
	size_t n = strlen(name);

	if (!o->only)
		return true;
	for (const char *at = o->only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

static uint64_t next_random(uint64_t *state) {
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double uniform(uint64_t *state) {
	return (double)(next_random(state) >> 11) * 0x1p-53;
}

static double element(const void *p, bool f64, size_t i) {
	return f64 ? ((const double *)p)[i] : ((const float *)p)[i];
}

static void set_element(void *p, bool f64, size_t i, double x) {
	if (f64)
		((double *)p)[i] = x;
	else
		((float *)p)[i] = (float)x;
}

static uint64_t bits_of(const void *p, bool f64, size_t i) {
	return f64 ? ((const uint64_t *)p)[i] : ((const uint32_t *)p)[i];
}

static void set_bits(void *p, bool f64, size_t i, uint64_t bits) {
	if (f64)
		((uint64_t *)p)[i] = bits;
	else
		((uint32_t *)p)[i] = (uint32_t)bits;
}

/* The spacing of a type's numbers at x. */
static quad spacing(quad x, bool f64) {
	int e = x == 0 ? -20000 : ilogbq(x), low = f64 ? -1022 : -126;

	return ldexpq(1, (e < low ? low : e) - (f64 ? 52 : 23));
}

/* Where results overflow, infinity stands for the next power of two. */
static quad bounded(quad x, bool f64) {
	quad limit = f64 ? (quad)0x1p1023 * 2 : (quad)0x1p128;

	return x > limit ? limit : (x < -limit ? -limit : x);
}

static quad reference_at(const struct trial *t, size_t i) {
	const struct reference *r = t->reference;
	double a = element(t->a, t->f64, i), b = t->b ? element(t->b, t->f64, i) : 0;

	if (t->f64)
		return r->f64_unary ? r->f64_unary(a) : r->f64_binary(a, b);
	return r->f32_unary ? r->f32_unary(a) : r->f32_binary(a, b);
}

/* Error in units of the last place, or a negative number where the class of the result is wrong. */
static double error_at(const struct trial *t, size_t i) {
	quad exact = reference_at(t, i), unit = exact;
	double y = element(t->many, t->f64, i);

	if (isnanq(exact) || isnan(y))
		return isnanq(exact) && isnan(y) ? 0 : -1;
	if (y == 0 && !signbit(y) != !signbitq(exact) && !t->reference->relative_to_operands)
		return -1;
	if (isinfq(exact))
		return exact == (quad)y ? 0 : -1;
	if (t->reference->relative_to_operands) {
		unit = fmaxq(fabsq(unit), fabsq(element(t->a, t->f64, i)));
		unit = fmaxq(unit, fabsq(element(t->b, t->f64, i)));
	}
	exact = bounded(exact, t->f64);
	return (double)(fabsq(bounded(y, t->f64) - exact) / spacing(bounded(unit, t->f64), t->f64));
}

/* The same for f32, in double: the references there are doubles. */
static double error_f32_at(const struct trial *t, size_t i) {
	const struct reference *r = t->reference;
	double a = ((const float *)t->a)[i], b = t->b ? ((const float *)t->b)[i] : 0;
	double exact = r->f32_unary ? r->f32_unary(a) : r->f32_binary(a, b), unit = fabs(exact);

	if (r->relative_to_operands)
		unit = fmax(unit, fmax(fabs(a), fabs(b)));
	return f32_error(exact, ((const float *)t->many)[i], unit, !r->relative_to_operands);
}

/* For f32 functions of one operand: in quad, where the reference in double may itself be the question. */
static double precise_error(const struct trial *t, size_t i) {
	quad exact = t->reference->f64_unary(element(t->a, t->f64, i)), y = element(t->many, t->f64, i);

	if (!finiteq(exact) || !finiteq(y))
		return error_f32_at(t, i);
	return (double)(fabsq(y - bounded(exact, false)) / spacing(bounded(exact, false), false));
}

static void judge(const struct trial *t, size_t i, struct outcome *o) {
	double e = t->f64 ? error_at(t, i) : error_f32_at(t, i);
	double few = element(t->few, t->f64, i), many = element(t->many, t->f64, i);

	if (e < 0) {
		if (!o->wrong++)
			o->wrong_at = i;
	} else if (e > o->worst) {
		o->worst = e;
		o->worst_at = i;
	}
	if (bits_of(t->few, t->f64, i) != bits_of(t->many, t->f64, i) && !(isnan(few) && isnan(many)))
		if (!o->unequal++)
			o->unequal_at = i;
	o->digest += digest_of(i, isnan(many) ? UINT64_MAX : bits_of(t->many, t->f64, i));
}

static void *judge_share(void *argument) {
	struct share *s = argument;

	for (size_t i = s->first; i < s->end; i++)
		judge(s->trial, i, &s->outcome);
	return NULL;
}

static void outcome_add(struct outcome *sum, const struct outcome *o) {
	if (o->worst > sum->worst) {
		sum->worst = o->worst;
		sum->worst_at = o->worst_at;
	}
	if (o->wrong && !sum->wrong)
		sum->wrong_at = o->wrong_at;
	if (o->unequal && !sum->unequal)
		sum->unequal_at = o->unequal_at;
	sum->wrong += o->wrong;
	sum->unequal += o->unequal;
	sum->digest += o->digest;
}

static struct outcome judge_all(const struct options *options, const struct trial *t) {
	size_t threads = options->threads;
	struct share shares[MAX_THREADS] = { 0 };
	struct outcome sum = { .tried = t->n };

	for (size_t i = 0; i < threads; i++) {
		shares[i].trial = t;
		shares[i].first = t->n * i / threads;
		shares[i].end = t->n * (i + 1) / threads;
		if (pthread_create(&shares[i].thread, NULL, judge_share, &shares[i]))
			exit(2);
	}
	for (size_t i = 0; i < threads; i++) {
		pthread_join(shares[i].thread, NULL);
		outcome_add(&sum, &shares[i].outcome);
	}
	return sum;
}

/* Arguments at which something happens, both signs. */
static const double special[] = {
	0, 0x1p-1074, 0x1p-1022, 0x1p-149, 0x1p-126, 0x1.fffffcp-127, 0x1p-64, 0x1p-25, 0x1p-24, 0x1p-12, 1e-300,
	0.25, 0.5, 0.70710678118654752, 0.69314718055994531, 0.75, 0.85, 0.9, 0x1.fffffep-1, 0x1.fffffffffffffp-1,
	1, 0x1.0000000000001p0, 0x1.000002p0, 1.4142135623730951, 1.5, 1.5707963267948966, 2, 2.5, 3,
	3.1415926535897932, 3.9, 4, 5.9, 8, 9.2, 10, 12, 13, 14.5, 16, 17, 38.5, 40, 64,
	87.5, 88, 88.722839, 88.73, 89.4159, 90, 103.97208, 104, 120, 126, 127, 128, 149, 150, 151,
	708.39, 709.78271289338397, 709.79, 710.4758, 745.13, 745.14, 746, 1000, 1022, 1023, 1024, 1074, 1075,
	0x1p17, 0x1p24, 0x1p25, 0x1p27, 0x1p52, 0x1p53, 0x1p60, 0x1p63, 0x1p64, 0x1p100, 0x1.fffffep127,
	1e300, 0x1.6ac5b262ca1ffp849, 0x1p1000, 0x1.fffffffffffffp1023, INFINITY, NAN,
};
enum { SPECIALS = 2 * sizeof special / sizeof *special };

static double special_at(size_t i) {
	return i % 2 ? -special[i / 2] : special[i / 2];
}

/* Arguments where digits cancel: close to a multiple of pi / 2, or to 1 and -1. */
static double delicate(uint64_t *state) {
	uint64_t r = next_random(state);
	quad k = (quad)(r >> (r % 64));
	double small = ldexp(uniform(state), -(int)(r >> 10) % 60);

	if (r >> 20 & 1)
		return (double)(k * __extension__ M_PI_2q);
	return (r >> 21 & 1 ? 1 : -1) * (r >> 22 & 1 ? 1 + small : 1 - small);
}

/* A third each: special values, all binades and delicate ones; [-20, 20]; [-150, 150] (f64: 800). */
static void fill_one(void *a, bool f64, size_t n) {
	uint64_t state = 1;
	size_t i = 0;

	for (; i < (size_t)5 * SPECIALS && i < n; i++) {
		set_element(a, f64, i, special_at(i / 5));
		if (isfinite(element(a, f64, i)) && element(a, f64, i) != 0)
			set_bits(a, f64, i, bits_of(a, f64, i) + i % 5 - 2);
	}
	for (; i < n / 3; i++) {
		set_bits(a, f64, i, next_random(&state));
		if (i % 4 == 0)
			set_element(a, f64, i, delicate(&state));
	}
	for (; i < n / 3 * 2; i++)
		set_element(a, f64, i, (uniform(&state) * 2 - 1) * (i % 2 ? 20 : 2));
	for (; i < n; i++)
		set_element(a, f64, i, (uniform(&state) * 2 - 1) * (f64 ? 800 : 150));
}

/* Special pairs; any bits; moderate numbers; and pairs whose power stays finite. */
static void fill_two(void *a, void *b, bool f64, size_t n) {
	uint64_t state = 2;
	size_t i = 0;

	for (; i < (size_t)SPECIALS * SPECIALS && i < n / 2; i++) {
		set_element(a, f64, i, special_at(i / SPECIALS));
		set_element(b, f64, i, special_at(i % SPECIALS));
	}
	for (; i < n; i++) {
		double x = (uniform(&state) * 2 - 1) * 40, y = (uniform(&state) * 2 - 1) * 40;

		if (i % 4 == 0) {
			set_bits(a, f64, i, next_random(&state));
			set_bits(b, f64, i, next_random(&state));
			continue;
		}
		if (i % 4 == 1)
			y = x + y * 0x1p-10;
		if (i % 4 == 2) {
			x = i % 8 == 2 ? 1 + x * 0x1p-12 : exp2(x * (f64 ? 25 : 3));
			y = (uniform(&state) * 2 - 1) * (f64 ? 1080 : 151) / log2(fabs(x));
		}
		set_element(a, f64, i, x);
		set_element(b, f64, i, y);
	}
}

/* NAME TYPE HOW-MANY WORST AT [AT] DIGEST: the same digest from every driver whose results have the same bits. */
static void record(FILE *f, const struct trial *t, const struct outcome *o) {
	fprintf(f, "%s %s %llu %.4f %a", t->reference->name, t->f64 ? "f64" : "f32", (unsigned long long)o->tried, o->worst,
		element(t->a, t->f64, o->worst_at));
	if (t->b)
		fprintf(f, ",%a", element(t->b, t->f64, o->worst_at));
	fprintf(f, " %016llx\n", (unsigned long long)o->digest);
	fflush(f);
}

/* Prints the verdict of one function and returns whether it passed. */
static bool report(const struct options *options, const struct trial *t, const struct outcome *o) {
	const char *type = t->f64 ? "f64" : "f32", *name = t->reference->name;
	double bound = bound_of(name, t->f64);
	/* Once all is known, a row says what is so: the worst, rounded up in its second digit. */
	bool lax = options->all && !t->f64 && !t->b && bound - o->worst > 0.015;
	bool ok = !o->wrong && !o->unequal && o->worst <= bound && !lax;
	size_t at = o->wrong ? o->wrong_at : (o->unequal ? o->unequal_at : o->worst_at);

	printf("%s %-10s %s %.3f ulp (bound %.2f) at %a", ok ? "ok  " : "FAIL", name, type, o->worst, bound,
		element(t->a, t->f64, o->worst_at));
	if (t->b)
		printf(", %a", element(t->b, t->f64, o->worst_at));
	if (lax)
		printf("; the row says more than that");
	if (options->digest)
		printf(" digest %016llx", (unsigned long long)o->digest);
	if (o->wrong)
		printf("; %zu of the wrong kind", o->wrong);
	if (o->unequal)
		printf("; %zu differ between 1 and more lanes", o->unequal);
	if (o->wrong || o->unequal)
		printf(", first %a, %a: %a and %a", element(t->a, t->f64, at), t->b ? element(t->b, t->f64, at) : 0,
			element(t->few, t->f64, at), element(t->many, t->f64, at));
	printf("\n");
	fflush(stdout);
	if (options->record)
		record(options->record, t, o);
	return ok;
}

static char *kernels_text(bool f64, const struct options *options) {
	const char *type = f64 ? "f64" : "f32", *scalar = f64 ? "8" : "4";
	char *text = malloc(TEXT_BYTES);
	size_t used;

	if (!text)
		exit(2);
	used = (size_t)snprintf(text, TEXT_BYTES, "%s", RUNNER_TEXT);
	for (const struct reference *r = references; r->name; r++)
		if (wanted(options, r->name))
			used += (size_t)snprintf(text + used, TEXT_BYTES - used,
				"kernel void test_%s(global const uchar *p, global const uchar *q, "
				"global const uchar *r, global uchar *o, uint count) {\n"
				"ulong at = get_global_id(0) * (ulong)count * %s;\n"
				"for (uint i = 0; i < count; i += W, at += W * %s) {\n"
				"%sv a = load_%s(p + at); %s\nstore_%s(o + at, %s); } }\n",
				r->name, scalar, scalar, type, type,
				r->f32_binary ? (f64 ? "f64v b = load_f64(q + at);" : "f32v b = load_f32(q + at);") : "",
				type, r->expr);
	return text;
}

static void run_trial(struct program *few, struct program *many, struct trial *t, void *out_few,
	void *out_many) {
	size_t bytes = t->f64 ? sizeof(double) : sizeof(float);
	const void *in[DEVICE_MAX_INPUTS] = { t->a, t->b };
	const size_t sizes[DEVICE_MAX_INPUTS] = { bytes, bytes };
	char name[NAME_BYTES];

	snprintf(name, sizeof name, "test_%s", t->reference->name);
	program_run(few, name, t->n, in, sizes, out_few, bytes);
	program_run(many, name, t->n, in, sizes, out_many, bytes);
	t->few = out_few;
	t->many = out_many;
}

struct buffers {
	void *a, *b, *few, *many;
};

static void put_point(const struct buffers *buffers, size_t i, struct sweep_point p) {
	set_bits(buffers->a, false, i, p.a);
	set_bits(buffers->few, false, i, p.few);
	set_bits(buffers->many, false, i, p.many);
}

/* Leaves in the buffers what a report shows; the worst is judged once more, by the reference for doubles. */
static struct outcome try_all_floats(const struct options *options, struct program *few, struct program *many,
	struct trial *t, const struct buffers *buffers) {
	char name[NAME_BYTES];
	struct sweep_result r;
	struct outcome o = { .tried = UINT64_C(1) << 32, .worst_at = 0, .wrong_at = 1, .unequal_at = 2 };

	snprintf(name, sizeof name, "test_%s", t->reference->name);
	r = sweep_run(few, many, name, t->reference, options->threads);
	put_point(buffers, o.worst_at, r.worst_at);
	put_point(buffers, o.wrong_at, r.first_wrong);
	put_point(buffers, o.unequal_at, r.first_unequal);
	t->few = buffers->few;
	t->many = buffers->many;
	o.worst = precise_error(t, o.worst_at);
	o.wrong = r.wrong;
	o.unequal = r.unequal;
	o.digest = r.digest;
	return o;
}

/*
 * Are the references in vectors those of single numbers, within 2^-16 last places of a float? Formulas of several functions differ by more
 * places of a double than these do.
 */
static bool check_blocks(const struct trial *t) {
	static double exact[F32_COUNT];
	const float *a = t->a;
	size_t bad = 0;

	t->reference->f32_block(a, exact, t->n);
	for (size_t i = 0; i < t->n; i++) {
		double one = t->reference->f32_unary(a[i]);
		bool same = exact[i] == one || (isnan(one) && isnan(exact[i])) ||
			fabs(exact[i] - one) <= fabs(one) * 0x1p-40 + 0x1p-1000;

		if ((!same || (!isnan(one) && signbit(exact[i]) != signbit(one))) && !bad++)
			printf("FAIL %-10s reference in vectors: %a at %a, not %a\n", t->reference->name, exact[i], (double)a[i], one);
	}
	return !bad;
}

static void check_type(const struct options *options, struct device *d, bool f64, int *passedp,
	int *failedp) {
	size_t pairs = options->all ? F32_PAIRS << MORE_PAIRS : F32_PAIRS;
	size_t doubles = options->all ? F64_COUNT << MORE_F64 : F64_COUNT;
	size_t most = f64 ? doubles : (pairs > F32_COUNT ? pairs : F32_COUNT);
	struct buffers buffers = { malloc(most * 8), malloc(most * 8), malloc(most * 8), malloc(most * 8) };
	char *text = kernels_text(f64, options);
	struct program *few = program_build(d, LANES_FEW, f64, text);
	struct program *many = program_build(d, options->lanes, f64, text);

	for (const struct reference *r = references; r->name; r++) {
		struct trial t = { .reference = r, .f64 = f64, .a = buffers.a };
		struct outcome o;

		if (!wanted(options, r->name) || (options->unary && r->f32_binary))
			continue;
		if (r->f32_binary) {
			t.b = buffers.b;
			t.n = f64 ? doubles : pairs;
			fill_two(buffers.a, buffers.b, f64, t.n);
		} else {
			t.n = f64 ? doubles : F32_COUNT;
			fill_one(buffers.a, f64, t.n);
		}
		if (!f64 && !t.b && !check_blocks(&t))
			++*failedp;
		if (options->all && !f64 && !t.b) {
			o = try_all_floats(options, few, many, &t, &buffers);
		} else {
			run_trial(few, many, &t, buffers.few, buffers.many);
			o = judge_all(options, &t);
		}
		++*(report(options, &t, &o) ? passedp : failedp);
	}
	program_free(few);
	program_free(many);
	free(text);
	free(buffers.a);
	free(buffers.b);
	free(buffers.few);
	free(buffers.many);
}

static unsigned processors(void) {
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : (n > MAX_THREADS ? MAX_THREADS : (unsigned)n);
}

static FILE *open_record(const char *path) {
	FILE *f = fopen(path, "w");

	if (!f) {
		perror(path);
		exit(2);
	}
	return f;
}

static void read_options(int argc, char **argv, struct options *o) {
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--all"))
			o->all = true;
		else if (!strcmp(argv[i], "--digest"))
			o->digest = true;
		else if (!strcmp(argv[i], "--unary"))
			o->unary = true;
		else if (!strcmp(argv[i], "--kernels") && i + 1 < argc)
			o->kernels = argv[++i];
		else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			o->only = argv[++i];
		else if (!strcmp(argv[i], "--platform") && i + 1 < argc)
			o->platform = (unsigned)atoi(argv[++i]);
		else if (!strcmp(argv[i], "--type") && i + 1 < argc)
			o->type = argv[++i];
		else if (!strcmp(argv[i], "--lanes") && i + 1 < argc)
			o->lanes = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
			o->threads = (unsigned)atoi(argv[++i]);
		else if (!strcmp(argv[i], "--record") && i + 1 < argc)
			o->record = open_record(argv[++i]);
		else {
			fprintf(stderr, "usage: ulp [--kernels DIR] [--platform N] [--lanes N] [--all] [--digest] "
				"[--only NAME,...] [--type f32|f64] [--unary] [--threads N] [--record FILE]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv) {
	struct options options = { .kernels = "kernels", .lanes = 16, .threads = processors() };
	struct device *d;
	int passed = 0, failed = 0;

	read_options(argc, argv, &options);
	if (options.threads < 1 || options.threads > MAX_THREADS)
		options.threads = processors();
	d = device_open(options.platform, options.kernels);
	printf("device %s\n", device_name(d));
	if (!options.type || !strcmp(options.type, "f32"))
		check_type(&options, d, false, &passed, &failed);
	if (device_has_f64(d) && (!options.type || !strcmp(options.type, "f64")))
		check_type(&options, d, true, &passed, &failed);
	if (!options.only && !options.type)
		exact_run(d, options.lanes, &passed, &failed);
	device_close(d);
	if (options.record)
		fclose(options.record);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
