/*
 * Arrays: the caller's reference counted names for values, and scopes that release them.
 *
 * Type and shape of an array never change, so its getters take no lock.
 */
#include "value.h"

#include <errno.h>
#include <stdlib.h>

#include "context.h"
#include "flush.h"

/* Arrays that one thread made since fusion_scope_begin(), newest first. */
struct scope {
	struct fusion_context *context;
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

struct fusion_array *array_make(struct fusion_context *c, struct value *v, const struct tensor_type *type) {
	struct fusion_array *a = slab_take(&c->arrays);
	struct scope *s = scope_of(c);

	if (!a)
		return NULL;
	*a = (struct fusion_array){ .context = c, .value = v, .references = 1, .version = 1, .type = *type };
	if (v)
		value_hold(v);
	if (s)
		scope_add(s, a);
	c->references++;
	return a;
}

static void mapping_free(struct fusion_context *c, struct mapping *m) {
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

void array_drop(struct fusion_array *a) {
	struct fusion_context *c = a->context;

	if (--a->references)
		return;
	scope_remove(a);
	mapping_free(c, a->mapping);
	if (a->value)
		value_unhold(c, a->value);
	slab_give(&c->arrays, a);
	c->references--;
}

void array_rebind(struct fusion_array *a, struct value *v) {
	struct value *old = a->value;

	value_hold(v);
	a->value = v;
	a->version++;
	if (old)
		value_unhold(a->context, old);
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

fusion_array *fusion_retain(fusion_array *array) {
	if (!array || !context_enter_release(array->context))
		return array;
	array->references++;
	context_leave(array->context);
	return array;
}

void fusion_release(fusion_array *array) {
	struct fusion_context *c = array ? array->context : NULL;

	if (!array || !context_enter_release(c))
		return;
	array_drop(array);
	flush_releases(c);
	context_leave(c);
}

enum fusion_dtype fusion_dtype_of(const fusion_array *array) {
	return array ? (enum fusion_dtype)array->type.dtype : FUSION_BOOL;
}

int fusion_rank(const fusion_array *array) {
	return array ? array->type.rank : 0;
}

const int64_t *fusion_dims(const fusion_array *array) {
	return array ? array->type.dims : NULL;
}

int64_t fusion_elements(const fusion_array *array) {
	return array ? shape_elements(&array->type) : 0;
}

size_t fusion_bytes(const fusion_array *array) {
	return array ? (size_t)shape_bytes(&array->type) : 0;
}

uint64_t fusion_version(const fusion_array *array) {
	uint64_t version;

	if (!array || !context_enter_release(array->context))
		return 0;
	version = array->version;
	context_leave(array->context);
	return version;
}

fusion_context *fusion_context_of(const fusion_array *array) {
	return array ? array->context : NULL;
}

int fusion_scope_begin(fusion_context *context) {
	struct scope *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return error_report(-ENOMEM, NULL);
	r = context_enter(context);
	if (r) {
		free(s);
		return r;
	}
	s->context = context;
	s->outer = scopes;
	scopes = s;
	context_leave(context);
	return 0;
}

/* Takes the innermost scope of a context out of the thread's chain. */
static struct scope *scope_pop(const struct fusion_context *c) {
	struct scope **link = &scopes;
	struct scope *s;

	while (*link && (*link)->context != c)
		link = &(*link)->outer;
	s = *link;
	if (s)
		*link = s->outer;
	return s;
}

/* Works on a lost connection too: what was made still has to be released. */
int fusion_scope_end(fusion_context *context) {
	struct fault f;
	struct scope *s;

	if (!context)
		return error_report(fault_set(&f, FAULT_ARGUMENT, "scope_end: the context is NULL"), &f);
	if (!context_enter_release(context))
		return context_enter(context);
	s = scope_pop(context);
	while (s && s->newest) {
		struct fusion_array *a = s->newest;

		scope_remove(a);
		array_drop(a);
	}
	flush_releases(context);
	context_leave(context);
	if (!s)
		return error_report(fault_set(&f, FAULT_STATE,
					    "scope_end: no scope of this context is open in this thread"),
			&f);
	free(s);
	return 0;
}

fusion_array *fusion_keep(fusion_array *array) {
	if (!array || !context_enter_release(array->context))
		return array;
	scope_remove(array);
	context_leave(array->context);
	return array;
}
