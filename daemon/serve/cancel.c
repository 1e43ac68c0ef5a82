/*
 * CANCEL: what a session asked for and is not begun, is not run.
 *
 * Arrays that it would have computed fail, and WAIT tells of their batches, as where a run fails. What the device
 * has begun ends as ever. Batches that are still held for want of room in the queue run later.
 */
#include "request.h"

int cancel_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct exec *x = s->server->exec;
	struct wire_writer *w;
	uint32_t count;
	int code = wire_get_end(&r->body, "CANCEL", f);

	if (code)
		return code;
	exec_gather(x);                  /* what was gathered is queued, and not begun */
	count = s->gathered && !flush_session(s, FLUSH_DEMAND) && flush_cancel(s);
	count += lane_cancel(s->lane);
	w = request_answer(s->server, r->id, 1);
	wire_put_uint(w, count);
	request_send(s->server, r->frame);
	return 0;
}
