/* Whose fault it was; see blame.h. */
#include "blame.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "daemon/base/cache_folder.h"
#include "daemon/base/str.h"
#include "daemon/base/version.h"
#include "daemon/door/arenas.h"
#include "daemon/door/kept.h"

enum {
	/* Engines that a graph ends alone before it is refused. */
	BLAME_ENDS = 2,
	/* That ended with graphs of a user before these go alone: one may have been anybody's. */
	BLAME_WATCHED = 2,
	/* Suspects of one engine; of more the oldest is forgotten. */
	BLAME_SUSPECTS = 1024,
	/* Of those under way, so many are looked at: what the device has at a time is less. */
	BLAME_RUNS = 1024,
	/* Reports kept. */
	BLAME_REPORTS = 16,
	BLAME_PATH = CONFIG_TEXT + 96,
};

#define KEPT_NAME "quarantine"

struct blame_key {
	uint64_t key[2];
	uint64_t uid;
};

struct suspect {
	struct blame_key key;
	char device[CHILD_DEVICE], driver[CHILD_DEVICE];
	unsigned ends;
	uint64_t until_us;
	uint32_t operations;
	UT_hash_handle hh;                   /* in the order in which they came */
};

/* ---- what was under way ---- */

struct flight {
	const struct engine *engine;
	struct {
		uint64_t session;
		struct catalogue_run run;
	} of[BLAME_RUNS];
	unsigned count, planning, beside;
};

/* With the device, or planned while it had others: any of these may have ended the engine. */
static bool is_beside(uint32_t step) {
	return step == CATALOGUE_LAUNCHED || step == CATALOGUE_PLANNED_BESIDE;
}

static void take_run(void *user, uint64_t session, const struct catalogue_run *r) {
	struct flight *l = user;
	uint32_t step = atomic_load(&r->step);

	l->planning += step == CATALOGUE_PLANNING;
	l->beside += is_beside(step);
	if (l->count == BLAME_RUNS || step > CATALOGUE_PLANNED_BESIDE)
		return;
	l->of[l->count].session = session;
	l->of[l->count].run = *r;
	l->count++;
}

static struct client *session_of(const struct engine *e, uint64_t session) {
	struct client *c;

	HASH_FIND(hh, e->supervisor->sessions, &session, sizeof session, c);
	return c && c->engine == e ? c : NULL;
}

/* Whose it is, or was: it may have ended before its engine did. */
static struct user *user_of(const struct engine *e, uint64_t session) {
	const struct client *c = session_of(e, session);

	return c ? c->user : leaving_user(e, session);
}

/* ---- suspects ---- */

/* All graphs of a user: he has the device alone. */
static bool is_anything(const struct suspect *s) {
	return !s->key.key[0] && !s->key.key[1];
}

static void suspect_free(struct engine *e, struct suspect *s) {
	HASH_DELETE(hh, e->suspects, s);
	free(s);
}

void blame_free(struct engine *e) {
	while (e->suspects)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a suspect leaves the table before it is freed */
		suspect_free(e, e->suspects);
}

static void forget_old(struct engine *e) {
	uint64_t now = loop_now();
	struct suspect *s, *next;

	HASH_ITER(hh, e->suspects, s, next)
		if (now >= s->until_us || strcmp(s->device, e->child.device) != 0 || strcmp(s->driver, e->child.driver) != 0)
			suspect_free(e, s);
	if (HASH_COUNT(e->suspects) >= BLAME_SUSPECTS)
		suspect_free(e, e->suspects);
}

static void suspect(struct engine *e, const struct catalogue_run *r, uid_t uid, bool guilty) {
	const struct blame_key key = { { r->key[0], r->key[1] }, uid };
	struct suspect *s;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all words of the key are set */
	HASH_FIND(hh, e->suspects, &key, sizeof key, s);
	if (!s) {
		forget_old(e);
		s = calloc(1, sizeof *s);
		if (!s)
			return;
		s->key = key;
		snprintf(s->device, sizeof s->device, "%s", e->child.device);
		snprintf(s->driver, sizeof s->driver, "%s", e->child.driver);
		HASH_ADD(hh, e->suspects, key, sizeof s->key, s);
		if (!HASH_ADDED(hh, s)) {
			free(s);
			return;
		}
	}
	s->operations = r->operations;
	s->until_us = loop_now() + e->supervisor->config.engine_quarantine_us;
	if (!guilty)
		return;
	s->ends++;
	if (s->ends == BLAME_ENDS)
		log_warning("a graph of user %ju, %016" PRIx64 ", has ended the engine %u times and is refused", (uintmax_t)uid,
			key.key[1], s->ends);
}

/* ---- users ---- */

static uint64_t window_us(const struct supervisor *s) {
	return s->config.engine_quarantine_us;
}

static bool is_refused(const struct supervisor *s, const struct user *user, uint64_t now) {
	uint64_t most = s->config.engine_user_ends;

	return most && window_us(s) && user_ends(user, now, window_us(s), true) >= most;
}

/* How long still: until the oldest of those that count is forgotten. */
static uint64_t refused_us(const struct supervisor *s, const struct user *user, uint64_t now) {
	uint64_t until = user_end_before(user, (unsigned)s->config.engine_user_ends - 1) + window_us(s);

	return until > now ? until - now : 0;
}

static void count_end(struct engine *e, struct user *user, bool alone) {
	static const struct catalogue_run any;
	struct supervisor *s = e->supervisor;
	uint64_t now = loop_now();
	bool refused = is_refused(s, user, now);

	user_ended(user, now, window_us(s), alone);
	if (user_ends(user, now, window_us(s), false) >= BLAME_WATCHED)
		suspect(e, &any, user_uid(user), false);
	if (!refused && is_refused(s, user, now))
		log_warning("graphs of user %ju have ended engines %u times, as many as engine.user_ends allows: the user is refused for %" PRIu64
			    " s, or until somebody says fusionctl quarantine clear",
			(uintmax_t)user_uid(user), user_ends(user, now, window_us(s), true), refused_us(s, user, now) / 1000000 + 1);
}

static int set_refusal(const struct supervisor *s, const struct user *user, uint64_t now, struct fault *f) {
	return fault_set(f, FAULT_QUARANTINE,
		"graphs of user %ju have ended the daemon's engines %u times, as many as engine.user_ends allows; the user is refused for %" PRIu64
		" s more, or until an administrator says fusionctl quarantine clear",
		(uintmax_t)user_uid(user), user_ends(user, now, window_us(s), true), refused_us(s, user, now) / 1000000 + 1);
}

int blame_admit(const struct supervisor *s, const struct user *user, struct fault *f) {
	uint64_t now = loop_now();

	return is_refused(s, user, now) ? set_refusal(s, user, now, f) : 0;
}

void blame_close(struct supervisor *s) {
	struct client *next;
	struct fault f;

	for (struct client *c = s->clients; c; c = next) {
		next = c->next;
		if (!c->hello || !blame_admit(s, c->user, &f))
			continue;
		if (!c->away && client_answer_fault(c, &f))
			log_debug("session %" PRIu64 " was not told of its end", c->session);
		s->sessions_lost++;
		client_close(c);
	}
}

/* ---- judging ---- */

/* Of those under way that may have ended it: what the engine's own thread planned before what was beside that. */
static struct user *suspected(const struct engine *e, const struct flight *l, unsigned at) {
	uint32_t step = atomic_load(&l->of[at].run.step);

	return (l->planning ? step == CATALOGUE_PLANNING : is_beside(step)) ? user_of(e, l->of[at].session) : NULL;
}

/* And what was alone there before what was with others. */
static bool is_guilty(const struct flight *l, unsigned at) {
	return l->planning || l->beside == 1 || l->of[at].run.alone;
}

/* An end counts once for each user, and for one alone where no graph of another may have done it. */
static void judge_users(struct engine *e, const struct flight *l, bool killed) {
	struct user *user, *other;

	for (unsigned i = 0; i < l->count; i++) {
		bool counted = false, alone = !killed;

		user = suspected(e, l, i);
		for (unsigned k = 0; user && k < l->count; k++) {
			other = suspected(e, l, k);
			counted |= k < i && other == user;
			alone &= !other || other == user;
		}
		if (user && !counted)
			count_end(e, user, alone);
	}
}

static void judge(struct engine *e, const struct flight *l, bool killed) {
	for (unsigned i = 0; i < l->count; i++) {
		const struct user *user = suspected(e, l, i);

		if (user)
			suspect(e, &l->of[i].run, user_uid(user), is_guilty(l, i));
	}
	judge_users(e, l, killed);
}

void blame_reader(struct engine *e, uint64_t session) {
	struct user *user = user_of(e, session);

	if (user && window_us(e->supervisor))
		count_end(e, user, true);
}

/* ---- across restarts of the daemon ---- */

/* By the clock on the wall, which goes on while nothing of the daemon runs. */
static void keep_one(struct str *t, const struct engine *e, const struct suspect *s, uint64_t now) {
	uint64_t left = s->until_us > now ? (s->until_us - now) / 1000000 : 0;

	str_printf(t, "%u %" PRIx64 " %" PRIx64 " %" PRIu64 " %u %u %" PRIu64 "\t%s\t%s\n", e->number, s->key.key[0], s->key.key[1],
		s->key.uid, s->ends, s->operations, (uint64_t)time(NULL) + left, s->device, s->driver);
}

static void keep(const struct supervisor *s) {
	uint64_t now = loop_now();
	struct str t = { 0 };
	unsigned count = 0;
	int r;

	for (unsigned i = 0; i < s->engines; i++) {
		const struct engine *e = s->engine[i];

		if (!e->catalogue || !e->suspects)
			continue;
		count++;
		str_printf(&t, "seed %u %" PRIx64 "\n", i, atomic_load(&e->catalogue->header->seed));
		for (const struct suspect *x = e->suspects; x; x = x->hh.next)
			keep_one(&t, e, x, now);
	}
	r = str_finish(&t);
	if (!r)
		r = kept_write(s->config.cache_dir, KEPT_NAME, count ? &t : NULL);
	if (r)
		log_warning("the graphs that ended engines are not known any more after a restart: %s", strerror(-r));
	str_free(&t);
}

/* Hashes mean something only under the seed that they were made by. */
static bool take_seed(struct supervisor *s, const char *line) {
	unsigned number;
	uint64_t seed;

	if (sscanf(line, "seed %u %" SCNx64, &number, &seed) != 2)
		return false;
	if (number < s->engines && s->engine[number]->catalogue && seed)
		atomic_store(&s->engine[number]->catalogue->header->seed, seed);
	return true;
}

static void take_suspect(struct supervisor *s, const char *line) {
	const uint64_t most = s->config.engine_quarantine_us / 1000000;
	const uint64_t now = (uint64_t)time(NULL);
	struct suspect *x = calloc(1, sizeof *x);
	unsigned number;
	uint64_t until;

	if (!x || sscanf(line, "%u %" SCNx64 " %" SCNx64 " %" SCNu64 " %u %u %" SCNu64 "\t%255[^\t]\t%255[^\t]", &number, &x->key.key[0],
			  &x->key.key[1], &x->key.uid, &x->ends, &x->operations, &until, x->device, x->driver) < 8 ||
		number >= s->engines || !s->engine[number]->catalogue || until <= now ||
		HASH_COUNT(s->engine[number]->suspects) >= BLAME_SUSPECTS) {
		free(x);
		return;
	}
	/* A clock that was set back keeps nobody out for longer than the setting says. */
	x->until_us = loop_now() + UINT64_C(1000000) * (until - now < most ? until - now : most);
	HASH_ADD(hh, s->engine[number]->suspects, key, sizeof x->key, x);
	if (!HASH_ADDED(hh, x))
		free(x);
}

void blame_open(struct supervisor *s) {
	char *text = NULL, *line, *rest;
	int r = s->config.engine_quarantine_us ? kept_read(s->config.cache_dir, KEPT_NAME, &text) : 0;

	if (r && r != -ENOENT)
		log_warning("what was known of graphs that ended engines is not believed: %s",
			r == -EBADMSG ? "the file was changed or cut short" : r == -EPERM ? "the file belongs to another user, or others may write it" : strerror(-r));
	for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
		if (!take_seed(s, line))
			take_suspect(s, line);
	free(text);
}

/* ---- telling the engine ---- */

static void tell(struct engine *e, const struct suspect *s, uint64_t seconds) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 6);
	wire_put_uint(&w, CONTROL_SUSPECT);
	wire_put_uint(&w, s->key.key[0]);
	wire_put_uint(&w, s->key.key[1]);
	wire_put_uint(&w, s->key.uid);
	wire_put_bool(&w, s->ends >= BLAME_ENDS);
	wire_put_uint(&w, seconds);
	r = child_queue(&e->child, &w, -1);
	wire_writer_free(&w);
	if (r && r != -EPIPE)
		log_error("engine %u was not told of a suspect: %s", e->number, strerror(-r));
}

void blame_tell(struct engine *e) {
	uint64_t now = loop_now();
	struct suspect *s, *next;

	forget_old(e);
	HASH_ITER(hh, e->suspects, s, next)
		tell(e, s, (s->until_us - now) / 1000000 + 1);
}

int blame_innocent(struct engine *e, struct wire_cursor *body, struct fault *f) {
	struct blame_key key;
	struct suspect *s;
	int r = wire_get_uint(body, "low", UINT64_MAX, &key.key[0], f);

	if (!r)
		r = wire_get_uint(body, "high", UINT64_MAX, &key.key[1], f);
	if (!r)
		r = wire_get_uint(body, "uid", UINT32_MAX, &key.uid, f);
	if (r)
		return r;
	HASH_FIND(hh, e->suspects, &key, sizeof key, s);
	if (!s)
		return 0;
	suspect_free(e, s);
	keep(e->supervisor);
	return 0;
}

/* ---- the administrator ---- */

static void add_users(cJSON *json, const struct supervisor *s) {
	cJSON *list = cJSON_AddArrayToObject(json, "users"), *one;
	uint64_t now = loop_now();

	for (struct user *u = NULL; (u = users_next(&s->users, u));) {
		unsigned ends = user_ends(u, now, window_us(s), false);
		bool refused = is_refused(s, u, now);

		if (!ends)
			continue;
		one = cJSON_CreateObject();
		cJSON_AddItemToArray(list, one);
		cJSON_AddNumberToObject(one, "uid", user_uid(u));
		cJSON_AddNumberToObject(one, "ended", ends);
		cJSON_AddNumberToObject(one, "ended_alone", user_ends(u, now, window_us(s), true));
		cJSON_AddBoolToObject(one, "refused", refused);
		cJSON_AddNumberToObject(one, "expires_s", refused ? (double)refused_us(s, u, now) / 1e6 : 0);
	}
}

static void add_suspect(cJSON *list, const struct engine *e, const struct suspect *s, uint64_t now) {
	cJSON *one = cJSON_CreateObject();
	char graph[40];

	snprintf(graph, sizeof graph, "%016" PRIx64 "%016" PRIx64, s->key.key[1], s->key.key[0]);
	cJSON_AddItemToArray(list, one);
	cJSON_AddStringToObject(one, "graph", graph);
	cJSON_AddNumberToObject(one, "uid", (double)s->key.uid);
	cJSON_AddNumberToObject(one, "engine", e->number);
	cJSON_AddStringToObject(one, "device", s->device);
	cJSON_AddStringToObject(one, "driver", s->driver);
	cJSON_AddNumberToObject(one, "operations", s->operations);
	cJSON_AddNumberToObject(one, "ended", s->ends);
	cJSON_AddBoolToObject(one, "refused", s->ends >= BLAME_ENDS);
	cJSON_AddNumberToObject(one, "expires_s", now < s->until_us ? (double)(s->until_us - now) / 1e6 : 0);
}

unsigned blame_refused(const struct supervisor *s) {
	uint64_t now = loop_now();
	unsigned count = 0;

	for (unsigned i = 0; i < s->engines; i++)
		for (const struct suspect *x = s->engine[i]->suspects; x; x = x->hh.next)
			count += x->ends >= BLAME_ENDS && now < x->until_us;
	return count;
}

char *blame_json(const struct supervisor *s) {
	cJSON *json = cJSON_CreateObject(), *list = json ? cJSON_AddArrayToObject(json, "graphs") : NULL;
	uint64_t now = loop_now();
	char *text;

	for (unsigned i = 0; list && i < s->engines; i++)
		for (const struct suspect *x = s->engine[i]->suspects; x; x = x->hh.next)
			if (!is_anything(x))
				add_suspect(list, s->engine[i], x, now);
	if (list)
		add_users(json, s);
	text = list ? cJSON_PrintUnformatted(json) : NULL;
	cJSON_Delete(json);
	return text;
}

void blame_clear(struct supervisor *s) {
	for (unsigned i = 0; i < s->engines; i++) {
		for (const struct suspect *x = s->engine[i]->suspects; x; x = x->hh.next)
			if (s->engine[i]->child.state == CHILD_READY)
				tell(s->engine[i], x, 0);
		blame_free(s->engine[i]);
	}
	users_forgive(&s->users);
	keep(s);
}

/* ---- the report ---- */

static const char *step_text(uint32_t step) {
	static const char *const texts[] = { [CATALOGUE_PLANNING] = "being planned", [CATALOGUE_QUEUED] = "queued", [CATALOGUE_LAUNCHED] = "with the device",
		[CATALOGUE_PLANNED_BESIDE] = "being planned beside others" };

	return step < sizeof texts / sizeof *texts ? texts[step] : "of unknown state";
}

static void put_run(struct str *t, const struct engine *e, uint64_t session, const struct catalogue_run *r) {
	const struct client *c = session_of(e, session);
	uint32_t step = atomic_load(&r->step);

	str_printf(t, "graph %016" PRIx64 "%016" PRIx64 ", %s", r->key[1], r->key[0], step_text(step));
	if (step == CATALOGUE_LAUNCHED)
		str_printf(t, ", kernel %u of %u%s", r->at + 1, r->kernels, r->alone ? ", alone" : "");
	str_printf(t, ", %u operations, of session %" PRIu64, r->operations, session);
	if (c)
		str_printf(t, ", user %ju, process %jd (%s)", (uintmax_t)c->uid, (intmax_t)c->pid, c->name);
	str_append(t, "\n");
}

static bool under_way(const struct flight *l, const struct catalogue_text *text) {
	for (unsigned i = 0; i < l->count; i++)
		if (l->of[i].run.key[0] == text->key[0] && l->of[i].run.key[1] == text->key[1])
			return true;
	return false;
}

static void put_texts(struct str *t, const struct engine *e, const struct flight *l, bool flying) {
	for (unsigned i = 0; i < CATALOGUE_TEXTS; i++) {
		const struct catalogue_text *x = &e->catalogue->header->text[i];

		if (!x->used || x->length > CATALOGUE_TEXT || under_way(l, x) != flying)
			continue;
		str_printf(t, "\n# graph %016" PRIx64 "%016" PRIx64 "%s\n", x->key[1], x->key[0], flying ? ", under way" : "");
		str_printf(t, "%.*s", (int)x->length, x->text);
	}
}

static void put_report(struct str *t, const struct engine *e, const struct flight *l, const char *why) {
	char when[64];
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &tm);
	str_printf(t, "# fusiond " FUSIOND_VERSION ": %s\n", why);
	str_printf(t, "# %s, engine %u, generation %u, process %jd, on %s\n#\n", when, e->number, e->child.generation,
		(intmax_t)e->last_pid, e->child.device);
	str_append(t, "# Under way:\n");
	for (unsigned i = 0; i < l->count; i++) {
		str_append(t, "#   ");
		put_run(t, e, l->of[i].session, &l->of[i].run);
	}
	if (!l->count)
		str_append(t, "#   nothing\n");
	str_append(t, "#\n# The graphs follow, those under way first, then others of late, each in the language of fusion-graph(5), with what that leaves out in\n"
		      "# comments. For the sources of their kernels, one graph in a file: fusionctl explain --source FILE\n");
	put_texts(t, e, l, true);
	put_texts(t, e, l, false);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_report(const struct dirent *e) {
	return !strncmp(e->d_name, "engine-", 7);
}

/* Names sort by time. */
static void drop_old(const char *folder) {
	struct dirent **list;
	char path[BLAME_PATH + 256];
	int n = scandir(folder, &list, is_report, by_name);

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
		if (i + BLAME_REPORTS <= n)
			unlink(path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

/* Where another user may have put the folder, or a link in its place, no report is written and no old one removed. */
static bool is_ours(const char *folder) {
	struct fault f;

	return !cache_folder_trust(folder, &f);
}

static int write_report(const struct engine *e, const struct str *t, char path[static BLAME_PATH]) {
	char folder[BLAME_PATH - 64], when[32];
	time_t now = time(NULL);
	struct tm tm;
	int fd, r = 0;

	snprintf(folder, sizeof folder, "%s/crash", e->supervisor->config.cache_dir);
	if (!is_ours(e->supervisor->config.cache_dir))
		return -EPERM;
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (!is_ours(folder))
		return -EPERM;
	drop_old(folder);
	gmtime_r(&now, &tm);
	strftime(when, sizeof when, "%Y%m%d-%H%M%S", &tm);
	snprintf(path, BLAME_PATH, "%s/engine-%s-%u.%u", folder, when, e->number, e->child.generation);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, str_text(t), t->length) != (ssize_t)t->length)
		r = -EIO;
	close(fd);
	return r;
}

static void report(const struct engine *e, const struct flight *l, const char *why) {
	char path[BLAME_PATH] = "";
	struct str t = { 0 };
	int r;

	put_report(&t, e, l, why);
	r = str_finish(&t);
	if (!r)
		r = write_report(e, &t, path);
	if (r)
		log_warning("no report of the engine's end could be written: %s", strerror(-r));
	else
		log_notice("what the engine was at is told in %s", path);
	str_free(&t);
}

void blame_ended(struct engine *e, const char *why) {
	struct flight *l = e->catalogue ? calloc(1, sizeof *l) : NULL;

	if (!l)
		return;
	l->engine = e;
	catalogue_runs(e->catalogue, take_run, l);
	report(e, l, why);
	if (e->supervisor->config.engine_quarantine_us) {
		judge(e, l, e->child.killed_outside);
		keep(e->supervisor);
	}
	free(l);
}
