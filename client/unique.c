/*
 * The values that an array holds, each once: sorted, so that equal ones stand side by side; where one differs
 * from the one before it, a value begins. Waits for the daemon, as nonzero.c does.
 *
 * By the array API standard a NaN equals nothing, so each is a value of its own; -0 equals +0, and the
 * first of equal elements is the one that stays.
 */
#include "context.h"
#include "error.h"

/* What unique() makes on the way; all of it is released at the end. */
struct unique {
	int64_t n;
	fusion_array *flat, *order, *sorted;     /* order: argsort; NULL where nobody asks for it */
	fusion_array *begins;                    /* bool: is this the first of equal ones? */
	fusion_array *starts;                    /* where that is */
};

static fusion_array *part(fusion_array *a, int64_t from, int64_t to) {
	return fusion_slice(a, &from, &to, NULL);
}

/* Takes the first array away. */
static fusion_array *instead(fusion_array *old, fusion_array *new) {
	fusion_release(old);
	return new;
}

static fusion_array *make_begins(const struct unique *u) {
	fusion_array *here = part(u->sorted, 1, u->n), *before = part(u->sorted, 0, u->n - 1);
	fusion_array *differs = fusion_ne(here, before), *pair[2], *result;

	pair[0] = fusion_full_int(fusion_context_of(u->sorted), FUSION_BOOL, 1, (const int64_t[]){ u->n ? 1 : 0 }, 1);
	pair[1] = differs;
	result = fusion_concat(2, pair, 0);
	fusion_release(here);
	fusion_release(before);
	fusion_release(differs);
	fusion_release(pair[0]);
	return result;
}

static int find_starts(struct unique *u, fusion_array *a, bool places) {
	u->n = fusion_elements(a);
	u->flat = fusion_reshape(a, 1, &u->n);
	u->order = places ? fusion_argsort(u->flat, 0, false) : NULL;
	u->sorted = places ? fusion_take(u->flat, u->order, 0) : fusion_sort(u->flat, 0, false);
	u->begins = u->sorted ? make_begins(u) : NULL;
	u->starts = u->begins ? fusion_flatnonzero(u->begins) : NULL;
	return u->starts ? 0 : fusion_error_code();
}

static void unique_clear(struct unique *u) {
	fusion_release(u->flat);
	fusion_release(u->order);
	fusion_release(u->sorted);
	fusion_release(u->begins);
	fusion_release(u->starts);
}

/* From each start to the next one. */
static fusion_array *make_counts(const struct unique *u) {
	int64_t count = fusion_elements(u->starts);
	fusion_array *pair[2] = { part(u->starts, count ? 1 : 0, count), NULL }, *ends, *result;

	pair[1] = fusion_full_int(fusion_context_of(u->starts), FUSION_I64, 1, (const int64_t[]){ count ? 1 : 0 }, u->n);
	ends = fusion_concat(2, pair, 0);
	result = fusion_sub(ends, u->starts);
	fusion_release(pair[0]);
	fusion_release(pair[1]);
	fusion_release(ends);
	return result;
}

/* The element that the sort put at place p has as many values before it as begin up to p, but its own. */
static fusion_array *make_inverse(const struct unique *u, fusion_array *a) {
	fusion_array *rank = fusion_cumsum(u->begins, 0), *back;

	rank = instead(rank, fusion_sub_scalar(rank, 1));
	back = fusion_argsort(u->order, 0, false);
	rank = instead(rank, fusion_take(rank, back, 0));
	fusion_release(back);
	return instead(rank, fusion_reshape(rank, fusion_rank(a), fusion_dims(a)));
}

int fusion_unique(fusion_array *a, fusion_array **valuesp, fusion_array **firstp, fusion_array **inversep,
	fusion_array **countsp) {
	fusion_array **to[] = { valuesp, firstp, inversep, countsp }, *made[4] = { NULL };
	struct unique u = { 0 };
	int code = 0;

	if (!array_given(a, "unique", "argument a"))
		return fusion_error_code();
	code = find_starts(&u, a, firstp || inversep);
	if (!code && valuesp)
		made[0] = fusion_take(u.sorted, u.starts, 0);
	if (!code && firstp)
		made[1] = fusion_take(u.order, u.starts, 0);
	if (!code && inversep)
		made[2] = make_inverse(&u, a);
	if (!code && countsp)
		made[3] = make_counts(&u);
	for (int i = 0; i < 4 && !code; i++)
		code = to[i] && !made[i] ? fusion_error_code() : 0;
	for (int i = 0; i < 4; i++)
		if (code)
			fusion_release(made[i]);
		else if (to[i])
			*to[i] = made[i];
	unique_clear(&u);
	return code;
}
