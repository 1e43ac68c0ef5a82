/* Metrics of the supervisor and its engines; see metrics.h. */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol/message.h"
#include "daemon/door/blame.h"
#include "daemon/base/version.h"
#include "daemon/door/closer.h"

enum {
	/* An engine answers within its turn of some milliseconds; one that is stuck is not waited for. */
	METRICS_ANSWER_US = 1000 * 1000,
	/* A collector that does not ask, or does not take its answer. */
	METRICS_CLIENT_US = 10 * 1000 * 1000,
	METRICS_BACKLOG = 16,
};

static const struct {
	const char *name, *type, *doc;
	double per;
} rows[] = {
#define METRIC(name, type, per, value, doc) { #name, #type, doc, per },
#include "daemon/base/metrics.def"
#undef METRIC
};

/* ---- the text ---- */

/* Within quotes: a backslash, a quote and an end of line have another form. */
static void put_label(struct str *text, const char *value) {
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			str_printf(text, "\\%c", *value);
		else if (*value == '\n')
			str_append(text, "\\n");
		else
			str_append_bytes(text, value, 1);
	}
}

static void put_head(struct str *text, const char *name, const char *type, const char *doc) {
	str_printf(text, "# HELP fusiond_%s %s\n# TYPE fusiond_%s %s\n", name, doc, name, type);
}

static void put_plain(struct str *text, const char *name, const char *type, const char *doc, double value) {
	put_head(text, name, type, doc);
	str_printf(text, "fusiond_%s %.17g\n", name, value);
}

static void put_supervisor(struct str *text, const struct supervisor *s) {
	double bytes = 0;

	for (const struct client *c = s->clients; c; c = client_next(c))
		bytes += (double)client_bytes(c);
	put_head(text, "build_info", "gauge", "The release, always 1.");
	str_printf(text, "fusiond_build_info{version=\"" FUSIOND_VERSION "\",protocol=\"%d\"} 1\n", PROTOCOL_VERSION);
	put_plain(text, "uptime_seconds", "gauge", "Since the daemon was started.", (double)(loop_now() - s->started_us) / 1e6);
	put_plain(text, "connections", "gauge", "Connections of the door.", s->connections);
	put_plain(text, "sessions", "gauge", "Sessions that are open.", s->session_count);
	put_plain(text, "sessions_total", "counter", "Sessions that were opened.", (double)s->sessions_total);
	put_plain(text, "shared_memory_bytes", "gauge", "Shared memory of all sessions.", bytes);
	put_plain(text, "sessions_lost_total", "counter", "Sessions that ended with an engine or a daemon, or could not go on after that.", (double)s->sessions_lost);
	put_plain(text, "quarantined_graphs", "gauge", "Graphs that are refused, since they ended engines.", blame_refused(s));
	put_plain(text, "reload_failed", "gauge", "1 where the configuration was wrong when it was last read again, and the old one holds.", *s->reload.error ? 1 : 0);
	put_plain(text, "reloads_failed_total", "counter", "How often that was so.", (double)s->reload.failures);
	put_plain(text, "cache_bytes", "gauge", "What the cache folder holds, as found in the last minutes.", (double)cache_size_bytes(&s->cache_size));
	put_plain(text, "cache_limit_bytes", "gauge", "What a start leaves of it, cache.bytes; 0: all.", (double)s->config.cache_bytes);
	put_plain(text, "remote_refused_total", "counter", "Connections of other machines that were refused: tls, certificates, users.", (double)s->gateway.refused);
	if (s->gateway.certificate_until)
		put_plain(text, "certificate_expiry_timestamp_seconds", "gauge", "When the certificate of remote.certificate ends.", (double)s->gateway.certificate_until);
}

static void put_engines(struct str *text, const struct supervisor *s) {
	put_head(text, "engine_up", "gauge", "1 where the engine serves.");
	for (unsigned i = 0; i < s->engines; i++) {
		str_printf(text, "fusiond_engine_up{engine=\"%u\",device=\"", i);
		put_label(text, s->engine[i]->child.device);
		str_printf(text, "\"} %d\n", s->engine[i]->child.state == CHILD_READY);
	}
	put_head(text, "engine_ends_total", "counter", "How often the engine ended without being told to.");
	for (unsigned i = 0; i < s->engines; i++)
		str_printf(text, "fusiond_engine_ends_total{engine=\"%u\"} %" PRIu32 "\n", i, s->engine[i]->ends);
}

/* The samples of a metric stand together. An engine that never answered has none. */
static void put_rows(struct str *text, const struct supervisor *s) {
	for (unsigned m = 0; m < METRICS; m++) {
		put_head(text, rows[m].name, rows[m].type, rows[m].doc);
		for (unsigned i = 0; i < s->engines; i++)
			if (s->engine[i]->metrics_known)
				str_printf(text, "fusiond_%s{engine=\"%u\"} %.17g\n", rows[m].name, i,
					(double)s->engine[i]->metric[m] / rows[m].per);
	}
}

static const struct {
	const char *name, *doc;
} histograms[] = {
#define HISTOGRAM(name, value, doc) { #name, doc },
#include "daemon/base/metrics.def"
};

/* Steps are counted upwards, as Prometheus has them. */
static void put_histogram(struct str *text, const char *name, unsigned engine, const uint64_t number[static HISTOGRAM_NUMBERS]) {
	uint64_t count = 0;

	for (unsigned i = 0; i < HISTOGRAM_STEPS; i++) {
		count += number[i];
		if (i + 1 < HISTOGRAM_STEPS)
			str_printf(text, "fusiond_%s_bucket{engine=\"%u\",le=\"%g\"} %" PRIu64 "\n", name, engine, (double)histogram_end_ns(i) / 1e9, count);
		else
			str_printf(text, "fusiond_%s_bucket{engine=\"%u\",le=\"+Inf\"} %" PRIu64 "\n", name, engine, count);
	}
	str_printf(text, "fusiond_%s_sum{engine=\"%u\"} %.17g\n", name, engine, (double)number[HISTOGRAM_STEPS] / 1e9);
	str_printf(text, "fusiond_%s_count{engine=\"%u\"} %" PRIu64 "\n", name, engine, count);
}

static void put_histograms(struct str *text, const struct supervisor *s) {
	for (unsigned h = 0; h < HISTOGRAMS; h++) {
		put_head(text, histograms[h].name, "histogram", histograms[h].doc);
		for (unsigned i = 0; i < s->engines; i++)
			if (s->engine[i]->metrics_known)
				put_histogram(text, histograms[h].name, i, s->engine[i]->histogram[h]);
	}
}

/* ---- by user ---- */

struct user_metrics {
	uid_t uid;
	struct spent spent;
};

static int uses_more(const void *a, const void *b) {
	const struct user_metrics *x = a, *y = b;

	return (x->spent.device_ns < y->spent.device_ns) - (x->spent.device_ns > y->spent.device_ns);
}

static const struct {
	const char *name, *type, *doc;
	size_t offset;                       /* in struct spent */
	double per;
} user_rows[] = {
	{ "user_device_seconds_total", "counter", "Time of the device that the user's sessions have used, as the accounts have it.", offsetof(struct spent, device_ns), 1e9 },
	{ "user_sessions_total", "counter", "Sessions that the user began.", offsetof(struct spent, sessions), 1 },
	{ "user_refused_total", "counter", "Requests of the user that were refused.", offsetof(struct spent, refused), 1 },
	{ "user_limits_total", "counter", "Of these, those that met a limit.", offsetof(struct spent, limits), 1 },
};

static void put_user_rows(struct str *text, const struct user_metrics *u, unsigned count) {
	for (unsigned i = 0; i < sizeof user_rows / sizeof *user_rows; i++) {
		put_head(text, user_rows[i].name, user_rows[i].type, user_rows[i].doc);
		for (unsigned k = 0; k < count; k++)
			str_printf(text, "fusiond_%s{uid=\"%ju\"} %.17g\n", user_rows[i].name, (uintmax_t)u[k].uid,
				(double)*(const uint64_t *)((const char *)&u[k].spent + user_rows[i].offset) / user_rows[i].per);
	}
}

/* Those of the most: who has used less is not told apart, so that their number has a bound. */
static void put_users(struct str *text, const struct supervisor *s) {
	unsigned count = 0;
	uid_t *uid = s->config.metrics_users ? accounts_users(&s->accounts, &count) : NULL;
	struct user_metrics *u = count ? calloc(count, sizeof *u) : NULL;

	for (unsigned i = 0; u && i < count; i++)
		u[i] = (struct user_metrics){ uid[i], accounts_sum(&s->accounts, uid[i], 0) };
	free(uid);
	if (!u)
		return;
	qsort(u, count, sizeof *u, uses_more);
	put_user_rows(text, u, count < s->config.metrics_users ? count : (unsigned)s->config.metrics_users);
	free(u);
}

static void put_text(struct str *text, const struct supervisor *s) {
	put_users(text, s);
	put_supervisor(text, s);
	put_engines(text, s);
	put_rows(text, s);
	put_histograms(text, s);
}

/* ---- asking the engines ---- */

/* Starts a round, or joins the one that is under way. */
static uint64_t ask_engines(struct supervisor *s) {
	struct metrics *m = &s->metrics;
	struct wire_writer w;

	if (m->round_us)
		return m->round;
	m->round++;
	m->round_us = loop_now() + METRICS_ANSWER_US;
	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_METRICS_WANT);
	for (unsigned i = 0; i < s->engines; i++) {
		struct engine *e = s->engine[i];

		e->metrics_asked = e->child.state == CHILD_READY && !child_queue(&e->child, &w, -1);
	}
	wire_writer_free(&w);
	return m->round;
}

static bool all_answered(const struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++)
		if (s->engine[i]->metrics_asked && s->engine[i]->child.state == CHILD_READY)
			return false;
	return true;
}

int metrics_take(struct engine *e, struct wire_cursor *body, struct fault *f) {
	uint64_t value[METRICS], histogram[HISTOGRAMS][HISTOGRAM_NUMBERS];
	int r = 0;

	for (unsigned i = 0; !r && i < METRICS; i++)
		r = wire_get_uint(body, "metric", UINT64_MAX, &value[i], f);
	for (unsigned i = 0; !r && i < HISTOGRAMS * HISTOGRAM_NUMBERS; i++)
		r = wire_get_uint(body, "histogram", UINT64_MAX, &histogram[i / HISTOGRAM_NUMBERS][i % HISTOGRAM_NUMBERS], f);
	if (!r)
		r = wire_get_end(body, "METRICS", f);
	if (r)
		return r;
	memcpy(e->metric, value, sizeof e->metric);
	memcpy(e->histogram, histogram, sizeof e->histogram);
	e->metrics_known = true;
	e->metrics_asked = false;
	return 0;
}

/* ---- the file ---- */

/* Beside its place, and renamed: who reads meets a whole file. */
static void write_file(const struct supervisor *s) {
	char beside[CONFIG_TEXT + 8];
	struct str text = { 0 };
	bool failed;
	FILE *f;

	put_text(&text, s);
	snprintf(beside, sizeof beside, "%s.new", s->config.metrics_file);
	f = str_finish(&text) ? NULL : fopen(beside, "we");
	failed = !f || fputs(str_text(&text), f) < 0;
	if (f && fclose(f))
		failed = true;
	str_free(&text);
	if (failed || chmod(beside, 0644) || rename(beside, s->config.metrics_file))
		log_warning("metrics.file %s cannot be written: %s", s->config.metrics_file, strerror(errno));
}

/* ---- HTTP ---- */

static void client_end(struct metrics_client *c) {
	c->source = loop_remove(c->source);
	closer_take(c->supervisor, c->fd, NULL);
	c->fd = -1;
}

/* The answer is some kilobytes, for which a fresh socket has room; who makes none loses it. */
static void respond(struct metrics_client *c, const char *status, const char *type, const char *body) {
	struct str text = { 0 };

	str_printf(&text, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status, type,
		strlen(body), body);
	if (!str_finish(&text) && send(c->fd, str_text(&text), text.length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a collector of metrics took no answer: %s", strerror(errno));
	str_free(&text);
	client_end(c);
}

static void respond_metrics(struct metrics_client *c) {
	struct str text = { 0 };

	put_text(&text, c->supervisor);
	if (str_finish(&text))
		client_end(c);
	else
		respond(c, "200 OK", "text/plain; version=0.0.4; charset=utf-8", str_text(&text));
	str_free(&text);
}

/* Only the first line says what is wanted. */
static void take_request(struct metrics_client *c) {
	static const char plain[] = "text/plain; charset=utf-8";

	if (strncmp(c->request, "GET ", 4) != 0)
		respond(c, "405 Method Not Allowed", plain, "only GET\n");
	else if (strncmp(c->request + 4, "/metrics ", 9) != 0 && strncmp(c->request + 4, "/metrics?", 9) != 0)
		respond(c, "404 Not Found", plain, "there is only /metrics\n");
	else
		c->round = ask_engines(c->supervisor);
}

static void on_client(void *user, uint32_t events) {
	struct metrics_client *c = user;
	ssize_t n;

	(void)events;
	n = closer_receive(c->fd, c->request + c->size, sizeof c->request - 1 - c->size);
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		client_end(c);
		return;
	}
	c->size += (size_t)n;
	c->request[c->size] = 0;
	if (c->round)
		c->size = 0;
	else if (strstr(c->request, "\r\n\r\n") || strstr(c->request, "\n\n"))
		take_request(c);
	else if (c->size + 1 == sizeof c->request)
		respond(c, "431 Request Header Fields Too Large", "text/plain; charset=utf-8", "too long\n");
}

static struct metrics_client *free_place(struct metrics *m) {
	for (unsigned i = 0; i < METRICS_CLIENTS; i++)
		if (m->client[i].fd < 0)
			return &m->client[i];
	return NULL;
}

static void on_listener(void *user, uint32_t events) {
	struct supervisor *s = user;
	int fd = accept4(s->metrics.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct metrics_client *c = fd < 0 ? NULL : free_place(&s->metrics);

	(void)events;
	if (fd < 0)
		return;
	closer_refuse_descriptors(fd);
	if (!c) {
		closer_take(s, fd, NULL);
		return;
	}
	*c = (struct metrics_client){ .fd = fd, .supervisor = s, .deadline_us = loop_now() + METRICS_CLIENT_US };
	if (loop_add(s->loop, fd, EPOLLIN, on_client, c, &c->source)) {
		closer_take(s, fd, NULL);
		c->fd = -1;
	}
}

/* ---- opening and closing ---- */

static int listen_at(struct supervisor *s, struct fault *f) {
	const char *path = s->config.metrics_socket;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;

	if (*path != '/' || strlen(path) >= sizeof a.sun_path)
		return fault_set(f, FAULT_ARGUMENT, "metrics.socket %s must be absolute and shorter than %zu bytes", path,
			sizeof a.sun_path);
	if (!lstat(path, &st) && !S_ISSOCK(st.st_mode))
		return fault_set(f, FAULT_ARGUMENT, "metrics.socket %s exists and is no socket", path);
	strcpy(a.sun_path, path);
	unlink(path);
	s->metrics.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->metrics.listener < 0)
		return -errno;
	closer_refuse_descriptors(s->metrics.listener);
	if (bind(s->metrics.listener, (const struct sockaddr *)&a, sizeof a) < 0 ||
		chmod(path, (mode_t)s->config.metrics_mode) < 0 || listen(s->metrics.listener, METRICS_BACKLOG) < 0)
		return fault_set(f, FAULT_ARGUMENT, "metrics.socket %s cannot be made: %s", path, strerror(errno));
	return loop_add(s->loop, s->metrics.listener, EPOLLIN, on_listener, s, &s->metrics.listener_source);
}

int metrics_open(struct supervisor *s, struct fault *f) {
	s->metrics.listener = -1;
	for (unsigned i = 0; i < METRICS_CLIENTS; i++)
		s->metrics.client[i].fd = -1;
	return *s->config.metrics_socket ? listen_at(s, f) : 0;
}

void metrics_close(struct supervisor *s) {
	struct metrics *m = &s->metrics;

	for (unsigned i = 0; i < METRICS_CLIENTS; i++)
		if (m->client[i].supervisor && m->client[i].fd >= 0)
			client_end(&m->client[i]);
	m->listener_source = loop_remove(m->listener_source);
	if (m->listener >= 0) {
		close(m->listener);
		unlink(s->config.metrics_socket);
	}
	m->listener = -1;
}

/* ---- what is due ---- */

static void end_round(struct supervisor *s) {
	struct metrics *m = &s->metrics;

	m->answered = m->round;
	m->round_us = 0;
	for (unsigned i = 0; i < METRICS_CLIENTS; i++)
		if (m->client[i].fd >= 0 && m->client[i].round && m->client[i].round <= m->answered)
			respond_metrics(&m->client[i]);
	if (m->file_round && m->file_round <= m->answered) {
		m->file_round = 0;
		write_file(s);
	}
}

static uint64_t tick_file(struct supervisor *s, uint64_t now) {
	struct metrics *m = &s->metrics;

	if (!*s->config.metrics_file)
		return UINT64_MAX;
	if (now >= m->file_us) {
		m->file_us = now + s->config.metrics_every_us;
		m->file_round = ask_engines(s);
	}
	return m->file_us;
}

static uint64_t tick_clients(struct metrics *m, uint64_t now) {
	uint64_t due = UINT64_MAX;

	for (unsigned i = 0; i < METRICS_CLIENTS; i++) {
		struct metrics_client *c = &m->client[i];

		if (c->fd >= 0 && c->supervisor && now >= c->deadline_us)
			client_end(c);
		else if (c->fd >= 0 && c->supervisor)
			due = loop_sooner(due, c->deadline_us);
	}
	return due;
}

uint64_t metrics_tick(struct supervisor *s, uint64_t now) {
	struct metrics *m = &s->metrics;
	uint64_t due = tick_file(s, now);

	if (m->round_us && (all_answered(s) || now >= m->round_us))
		end_round(s);
	due = loop_sooner(due, m->round_us);
	return loop_sooner(due, tick_clients(m, now));
}
