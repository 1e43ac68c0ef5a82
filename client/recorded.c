/* Questions about recorded graphs, and about the one that is being recorded. See capture.h for the contract. */
#include "capture_state.h"

#include <errno.h>

#include "context.h"
#include "record.h"

/* --- of one that is being recorded -------------------------------------------------------- */

static bool stands_here(const struct fusion_context *c, const struct value *v) {
	return v->state == VALUE_CAPTURED && capture_mine(c) && v->capture == c->capture->serial;
}

static bool is_operation(const struct fusion_context *c, const struct value *v) {
	return stands_here(c, v) && v->op != OP_CAPTURE_INPUT;
}

bool capture_has(const struct fusion_array *a) {
	return a->value && stands_here(array_context(a), a->value);
}

bool capture_among(const struct fusion_context *c, unsigned count, struct value *const *value) {
	unsigned i = 0;

	while (i < count && !stands_here(c, value[i]))
		i++;
	return i < count;
}

/* Another thread may have closed the context while this one waited for room. */
uint32_t capture_mark(struct fusion_context *c, unsigned count, struct value *const *value, uint32_t *outputsp) {
	*outputsp = 0;
	if (!capture_mine(c))
		return 0;
	capture_unmark(c->capture);
	for (unsigned i = 0; i < count; i++) {
		if (!is_operation(c, value[i]))
			continue;
		value[i]->needed = true;
		++*outputsp;
	}
	return value_list_number(&c->capture->recorded);
}

void capture_put_explain(
	struct fusion_context *c, struct wire_writer *w, uint32_t operations, uint32_t outputs, unsigned count, struct value *const *value, unsigned flags) {
	capture_put_marked(c->capture, w, operations);
	wire_put_array(w, outputs);
	for (unsigned i = 0; i < count; i++)
		if (is_operation(c, value[i]))
			wire_put_uint(w, value[i]->index);
	wire_put_uint(w, flags);
	capture_put_types(c->capture, w);
}

const struct value_list *capture_recorded(const struct fusion_context *c) {
	return &c->capture->recorded;
}

/* --- of one that was ---------------------------------------------------------------------- */

void capture_text_explain(const struct capture_text *t, struct wire_writer *w, unsigned flags) {
	wire_put_raw(w, t->text + t->ops_at, t->bytes - t->ops_at);
	wire_put_uint(w, flags);
	wire_put_raw(w, t->text + t->types_at, t->ops_at - t->types_at);
}

int capture_definition(struct recording *r, const char *what, fusion_capture *capture, struct capture_text **textp) {
	struct fusion_capture *p = (struct fusion_capture *)context_enter_of(OBJECT_CAPTURE, capture, what, "the capture");

	*r = (struct recording){ .what = what, .context = p ? p->context : NULL };
	*textp = NULL;
	if (!p)
		return fusion_error_code();
	if (!p->definition)
		return -ENOMEM;
	*textp = capture_text_ref(p->definition);
	return 0;
}
