/*
 * Arrays: the caller's reference counted names for values, and scopes that release them.
 *
 * Type and shape of an array never change, so its getters take no lock: they copy, and look again whether the name still holds.
 */
#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "flush.h"

enum {
	/* With fusion.debug a place is not taken again before so many others were: it knows meanwhile where its array was released. 4 MB. */
	DEBUG_ARRAYS_SPARE = 1 << 14,
	/* "second average 4294967295" */
	ARGUMENT_TEXT = 64,
};

/* Arrays that one thread made since fusion_scope_begin(), newest first. It holds the context, which may be closed meanwhile. */
struct scope {
	struct fusion_context *context;
	fusion_context *name;
	struct scope *outer;
	struct fusion_array *newest;
};

/* Innermost first; scopes of several contexts may be open at once. */
static _Thread_local struct scope *scopes;

static struct scope *scope_of(const struct fusion_context *c) {
	struct scope *s = scopes;

	while (s && s->context != c)
		s = s->outer;
	return s;
}

static void scope_add(struct scope *s, struct fusion_array *a) {
	a->scope = s;
	a->previous = NULL;
	a->next = s->newest;
	if (a->next)
		a->next->previous = a;
	s->newest = a;
}

static void scope_remove(struct fusion_array *a) {
	if (!a->scope)
		return;
	if (a->previous)
		a->previous->next = a->next;
	else
		a->scope->newest = a->next;
	if (a->next)
		a->next->previous = a->previous;
	a->scope = NULL;
}

/* ---- memory ---- */

static uint32_t spare_least(const struct fusion_context *c) {
	return c->debug ? DEBUG_ARRAYS_SPARE : 0;
}

static struct fusion_array *array_take(struct fusion_context *c) {
	struct object_chain fresh = { 0 };

	if (c->spare_arrays.count <= spare_least(c)) {
		if (!object_take_batch(OBJECT_ARRAY, sizeof(struct fusion_array), &fresh) && !c->spare_arrays.count)
			return NULL;
		while (fresh.count)
			object_chain_push(&c->spare_arrays, object_chain_pop(&fresh));
	}
	return (struct fusion_array *)object_chain_pop(&c->spare_arrays);
}

static void array_give(struct fusion_context *c, struct fusion_array *a) {
	if (c->debug)
		object_chain_append(&c->spare_arrays, &a->object);
	else
		object_chain_push(&c->spare_arrays, &a->object);
	if (c->spare_arrays.count > spare_least(c) + 2 * OBJECT_BATCH)
		object_give_batch(OBJECT_ARRAY, &c->spare_arrays, OBJECT_BATCH);
}

/* Who has an old name may look at it now: that its generation has ended comes before. */
static void type_write(struct tensor_type *to, const struct tensor_type *type) {
	__atomic_store_n(&to->dtype, type->dtype, __ATOMIC_RELEASE);
	__atomic_store_n(&to->rank, type->rank, __ATOMIC_RELEASE);
	for (unsigned d = 0; d < LIMIT_RANK; d++)
		__atomic_store_n(&to->dims[d], type->dims[d], __ATOMIC_RELEASE);
}

struct fusion_array *array_make(struct fusion_context *c, struct value *v, const struct tensor_type *type) {
	struct fusion_array *a = array_take(c);
	struct scope *s = scope_of(c);

	if (!a)
		return NULL;
	type_write(&a->type, type);
	atomic_store_explicit(&a->object.context, c, memory_order_release);
	a->value = v;
	a->mapping = NULL;
	a->references = 1;
	a->users = 0;
	a->watched = false;
	a->input = 0;
	a->capture = 0;
	a->version = 1;
	a->scope = NULL;
	a->previous = a->next = NULL;
	if (v)
		value_hold(v);
	if (s)
		scope_add(s, a);
	c->references++;
	object_name(OBJECT_ARRAY, &a->object);
	return a;
}

fusion_array *array_name(const struct fusion_array *a) {
	return a ? object_name_of(OBJECT_ARRAY, &a->object) : NULL;
}

struct fusion_context *array_context(const struct fusion_array *a) {
	return atomic_load_explicit(&a->object.context, memory_order_relaxed);
}

void mapping_free(struct fusion_context *c, struct mapping *m) {
	if (!m)
		return;
	if (m->arena)
		arena_unpin(m->arena);
	if (m->upload)
		upload_give(&c->arenas, m->upload);
	if (m->value)
		value_unhold(c, m->value);
	free(m->copy);
	free(m);
}

static void array_free(struct fusion_array *a) {
	struct fusion_context *c = array_context(a);

	mapping_free(c, a->mapping);
	if (a->value)
		value_unhold(c, a->value);
	array_give(c, a);
	c->references--;
}

void array_drop(struct fusion_array *a) {
	if (--a->references)
		return;
	scope_remove(a);
	/* Nobody else ends it: that takes the lock. */
	(void)object_end(&a->object, array_name(a));
	if (!a->users)
		array_free(a);
}

void array_use(struct fusion_array *a) {
	a->users++;
}

void array_unuse(struct fusion_array *a) {
	if (!--a->users && !a->references)
		array_free(a);
}

void array_rebind(struct fusion_array *a, struct value *v) {
	struct value *old = a->value;

	value_hold(v);
	a->value = v;
	a->version++;
	if (old)
		value_unhold(array_context(a), old);
}

int array_usable(const struct fusion_array *a, const char *what, struct fault *f) {
	if (a->mapping && a->mapping->mode == FUSION_MAP_WRITE)
		return fault_set(
			f, FAULT_STATE, "%s: the array is mapped for writing; call fusion_unmap first", what);
	if (!a->value)
		return fault_set(f, FAULT_STATE, "%s: the array has no contents", what);
	if (a->value->state == VALUE_FAILED) {
		*f = a->value->failure->fault;
		return f->code;
	}
	return 0;
}

int array_refuse_other(const struct fusion_array *a, const char *what, const char *argument, struct fault *f) {
	struct fusion_context *c = atomic_load_explicit(&a->object.context, memory_order_acquire);

	/* Its own lock is not for who has another one's. */
	if (context_is_closed(c))
		return context_refuse_closed_of(what, argument, f);
	return fault_set(f, FAULT_ARGUMENT, "%s: %s is of another context", what, argument);
}

int array_find(struct fusion_context *c, fusion_array *name, const char *what, const char *argument, struct fusion_array **ap, struct fault *f) {
	struct fusion_array *a = (struct fusion_array *)object_find(OBJECT_ARRAY, name);

	/* NULL where an earlier call failed: that error says more than we could. */
	if (!name && fusion_error_code())
		return fault_set(f, fusion_error_code(), "%s", fusion_error());
	/* One of this context is not released while we have its lock. */
	if (!a)
		return object_refuse(OBJECT_ARRAY, name, what, argument, f);
	if (atomic_load_explicit(&a->object.context, memory_order_acquire) != c)
		return array_refuse_other(a, what, argument, f);
	*ap = a;
	return 0;
}

int array_find_in(struct fusion_context *c, fusion_array *const *list, unsigned i, const char *what, const char *argument,
	struct fusion_array **ap, struct fault *f) {
	struct fusion_array *a = (struct fusion_array *)object_find(OBJECT_ARRAY, list[i]);
	char text[ARGUMENT_TEXT];

	/* What another context has may be released at this moment. */
	if (a && array_context(a) == c) {
		*ap = a;
		return 0;
	}
	snprintf(text, sizeof text, "%s %u", argument, i);
	return array_find(c, list[i], what, text, ap, f);
}

bool array_given(const fusion_array *name, const char *what, const char *argument) {
	const struct fusion_array *a = (struct fusion_array *)object_find(OBJECT_ARRAY, name);
	struct fault f;

	if (!a)
		return !object_report(OBJECT_ARRAY, name, what, argument);
	if (!context_is_closed(atomic_load_explicit(&a->object.context, memory_order_acquire)))
		return true;
	error_report(context_refuse_closed_of(what, argument, &f), &f);
	return false;
}

/* ---- what programs hold ---- */

static struct fusion_array *array_lock(const fusion_array *name, const char *what) {
	return (struct fusion_array *)context_lock(OBJECT_ARRAY, name, what, "the array");
}

fusion_array *fusion_retain(fusion_array *array) {
	struct fusion_array *a = array_lock(array, "retain");

	if (!a)
		return context_forked() ? array : NULL;
	a->references++;
	context_leave(array_context(a));
	return array;
}

void fusion_release(fusion_array *array) {
	struct fusion_array *a = array_lock(array, "release");
	struct fusion_context *c;

	if (!a)
		return;
	c = array_context(a);
	array_drop(a);
	flush_releases(c);
	context_leave(c);
}

/* Type and shape of the array that a name holds; else false, and an error where it is not NULL. */
static bool type_read(const fusion_array *name, const char *what, struct tensor_type *t) {
	const struct fusion_array *a = (const struct fusion_array *)object_find(OBJECT_ARRAY, name);

	if (a) {
		t->dtype = __atomic_load_n(&a->type.dtype, __ATOMIC_ACQUIRE);
		t->rank = __atomic_load_n(&a->type.rank, __ATOMIC_ACQUIRE);
		for (unsigned d = 0; d < LIMIT_RANK; d++)
			t->dims[d] = __atomic_load_n(&a->type.dims[d], __ATOMIC_ACQUIRE);
	}
	if (a && object_is(&a->object, name))
		return true;
	if (name)
		object_report(OBJECT_ARRAY, name, what, "the array");
	return false;
}

enum fusion_dtype fusion_dtype_of(const fusion_array *array) {
	struct tensor_type t;

	return type_read(array, "dtype_of", &t) ? (enum fusion_dtype)t.dtype : FUSION_BOOL;
}

int fusion_rank(const fusion_array *array) {
	struct tensor_type t;

	return type_read(array, "rank", &t) ? t.rank : 0;
}

const int64_t *fusion_dims(const fusion_array *array) {
	const struct fusion_array *a = (const struct fusion_array *)object_find(OBJECT_ARRAY, array);

	if (!a && array)
		object_report(OBJECT_ARRAY, array, "dims", "the array");
	return a ? a->type.dims : NULL;
}

int64_t fusion_elements(const fusion_array *array) {
	struct tensor_type t;

	return type_read(array, "elements", &t) ? shape_elements(&t) : 0;
}

size_t fusion_bytes(const fusion_array *array) {
	struct tensor_type t;

	return type_read(array, "bytes", &t) ? (size_t)shape_bytes(&t) : 0;
}

uint64_t fusion_version(const fusion_array *array) {
	struct fusion_array *a = array_lock(array, "version");
	uint64_t version;

	if (!a)
		return 0;
	version = a->version;
	context_leave(array_context(a));
	return version;
}

fusion_context *fusion_context_of(const fusion_array *array) {
	struct fusion_array *a = array_lock(array, "context_of");
	struct fusion_context *c;
	fusion_context *name;

	if (!a)
		return NULL;
	c = array_context(a);
	name = c->name;
	context_leave(c);
	return name;
}

/* ---- scopes ---- */

int fusion_scope_begin(fusion_context *context) {
	struct scope *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return error_report(-ENOMEM, NULL);
	r = context_enter(context, "scope_begin", &s->context);
	if (r) {
		free(s);
		return r;
	}
	s->name = context;
	s->outer = scopes;
	scopes = s;
	s->context->references++;
	context_leave(s->context);
	return 0;
}

/* Takes the innermost scope of a context out of the thread's chain. */
static struct scope *scope_pop(const fusion_context *name) {
	struct scope **link = &scopes;
	struct scope *s;

	while (*link && (*link)->name != name)
		link = &(*link)->outer;
	s = *link;
	if (s)
		*link = s->outer;
	return s;
}

static int refuse_scope_end(fusion_context *context) {
	struct fusion_context *c;
	struct fault f;
	int r = context_enter(context, "scope_end", &c);

	if (r)
		return r;
	context_leave(c);
	return error_report(fault_set(&f, FAULT_STATE, "scope_end: no scope of this context is open in this thread"), &f);
}

/* Works on a lost connection and on a closed context too: what was made still has to be released. */
int fusion_scope_end(fusion_context *context) {
	struct scope *s = context_forked() ? NULL : scope_pop(context);
	struct fusion_context *c = s ? s->context : NULL;

	if (!s)
		return refuse_scope_end(context);
	pthread_mutex_lock(&c->lock);
	while (s->newest) {
		struct fusion_array *a = s->newest;

		scope_remove(a);
		array_drop(a);
	}
	flush_releases(c);
	/* With the scope's own reference. */
	context_leave(c);
	free(s);
	return 0;
}

fusion_array *fusion_keep(fusion_array *array) {
	struct fusion_array *a = array_lock(array, "keep");

	if (!a)
		return context_forked() ? array : NULL;
	scope_remove(a);
	context_leave(array_context(a));
	return array;
}
