/* Fusion patterns that users define: the daemon reads and keeps them, so all of it is a question to it. */
#include <string.h>

#include "protocol/message.h"
#include "context.h"
#include "record.h"

static int send_texts(struct recording *r, enum message_request kind, bool whole_daemon, const char *const *text, unsigned texts) {
	struct wire_writer *w;
	struct request *q;
	struct answer a;
	int failed = 0;

	if (!(r->context->door.features & FEATURE_PATTERNS))
		return fault_set(&r->fault, FAULT_VERSION, "%s: this fusiond takes no patterns of users", r->what);
	for (unsigned i = 0; i < texts; i++)
		if (!text[i])
			return fault_set(&r->fault, FAULT_ARGUMENT, "%s: argument %u is NULL", r->what, i + 2);
	failed = stream_room_to_wait(r->context, &q, &r->fault);
	if (failed)
		return failed;
	w = stream_begin(r->context, q, kind, 1 + texts);
	wire_put_uint(w, whole_daemon);
	for (unsigned i = 0; i < texts; i++)
		wire_put_text(w, text[i]);
	failed = stream_send(r->context, q, &a, &r->fault);
	return failed ? failed : stream_wait(r->context, q, &a, &r->fault);
}

static int ask(fusion_context *context, const char *what, enum message_request kind, bool whole_daemon,
	const char *const *text, unsigned texts) {
	struct fault f = { 0 };
	struct recording r;
	int failed;

	if (!record_begin_source(&r, what, context))
		return fusion_error_code();
	failed = send_texts(&r, kind, whole_daemon, text, texts);
	f = r.fault;
	context_leave(context);
	return error_report(failed, &f);
}

int fusion_define_pattern(fusion_context *context, const char *name, const char *text, bool whole_daemon) {
	const char *const texts[] = { name, text };

	return ask(context, "define_pattern", REQUEST_PATTERN, whole_daemon, texts, 2);
}

int fusion_forget_pattern(fusion_context *context, const char *name, bool whole_daemon) {
	return ask(context, "forget_pattern", REQUEST_FORGET_PATTERN, whole_daemon, &name, 1);
}
