/* METRICS: the numbers of base/metrics.def for the supervisor, who tells them to whoever collects metrics. */
#include "server.h"

#include "protocol/message.h"

/* All sessions, those that ended included. */
static struct counters sum(const struct server *v) {
	struct counters all = v->ended;

	for (const struct session *s = v->sessions; s; s = s->hh.next) {
#define COUNTER(name, doc) all.name += s->counters.name;
#include "counters.def"
#undef COUNTER
	}
	return all;
}

static void put_histogram(struct wire_writer *w, const struct histogram *h) {
	for (unsigned i = 0; i < HISTOGRAM_STEPS; i++)
		wire_put_uint(w, h->count[i]);
	wire_put_uint(w, h->sum_ns);
}

void metrics_put(const struct server *v, struct wire_writer *w) {
	const struct device_counters *d = device_counters(v->device);
	const struct exec_counters *x = exec_counters(v->exec);
	uint64_t arrays = 0, memory = 0, arenas = 0, queued = 0;
	struct counters all = sum(v);

	for (const struct session *s = v->sessions; s; s = s->hh.next) {
		arrays += s->handles.live;
		memory += space_used(s->space);
		arenas += space_mapped(s->space);
		queued += s->queued + s->gathered;
	}
	wire_put_array(w, 1 + METRICS + HISTOGRAMS * HISTOGRAM_NUMBERS);
	wire_put_uint(w, CONTROL_METRICS);
#define METRIC(name, type, per, value, doc) wire_put_uint(w, (uint64_t)(value));
#include "daemon/base/metrics.def"
#define HISTOGRAM(name, value, doc) put_histogram(w, value);
#include "daemon/base/metrics.def"
}
