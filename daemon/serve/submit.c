/* SUBMIT: a batch of operations, the names of their results, and what is released after them. */
#include "request.h"

#include <errno.h>

#include "protocol/message.h"
#include "daemon/serve/batch.h"
#include "daemon/serve/recurring.h"

static int add_operations(struct batch *b, struct wire_cursor *ops, struct fault *f) {
	struct coded_op o;
	int r = 0;

	while (!r && ops->left) {
		r = codec_get_op(ops, b->count, &o, f);
		if (!r)
			r = batch_add(b, &o, f);
	}
	return r;
}

/* Every output gets its handle, also of a refused batch: a later read of it tells why. */
static void name_outputs(struct batch *b, struct wire_cursor *outputs) {
	while (outputs->left) {
		struct fault f;
		uint64_t node;
		int r = wire_get_uint(outputs, "node", UINT32_MAX, &node, &f);

		if (r) {
			batch_refuse(b, -1, r, &f);
			return;
		}
		batch_output(b, node, outputs);
	}
}

int submit_request(struct request *r, struct fault *f) {
	struct wire_cursor ops, outputs, releases;
	struct batch b;
	uint64_t flags;
	int code;

	if (r->form)
		return recurring_submit(r, f);
	code = wire_get_uint(&r->body, "flags", SUBMIT_ALL, &flags, f);

	if (!code)
		code = wire_get_array(&r->body, "ops", LIMIT_BATCH_OPS, &ops, f);
	if (!code)
		code = wire_get_array(&r->body, "outputs", 2 * LIMIT_BATCH_OPS, &outputs, f);
	if (!code)
		code = wire_get_array(&r->body, "releases", LIMIT_HANDLES, &releases, f);
	if (!code)
		code = wire_get_end(&r->body, "SUBMIT", f);
	if (code)
		return code;
	if (!repeated_alone(r->session, flags))
		return -EINPROGRESS;
	b = batch_begin(r->session, r->seq);
	code = drain_refuse(r->session->server, f);
	if (!code)
		code = repeated_begin(r->session, flags, f);
	if (!code)
		code = add_operations(&b, &ops, f);
	if (code)
		batch_refuse(&b, b.count, code, f);
	else
		recurring_note(&b, r);
	name_outputs(&b, &outputs);
	batch_release(&b, &releases);
	code = batch_end(&b, r, flags & SUBMIT_ALL, f);
	repeated_end(r->session);
	return code;
}
