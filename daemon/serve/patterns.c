/*
 * Patterns of users; see patterns.h.
 *
 * Patterns that say the same are one object, and so are books of the same patterns, so that sessions that define the
 * same share their plans. Both are kept in lists while anybody else refers to them.
 */
#include "patterns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "protocol/message.h"
#include "protocol/pattern.h"

#define SWITCH_PREFIX "fusion.pattern."

enum {
	/* Of a request: a name, and the names of the operands. */
	SIGNATURE = DEFINITION_NAME + DEFINITION_OPERANDS + 2,
};

/* A pattern that all sessions have. */
struct common {
	struct named *named;
	uint64_t devices;
	bool of_file;
	uint64_t found;              /* with the counters: of sessions that have ended */
	struct pattern_counters counters;
};

/* What is shared between sessions. */
struct kept_named {
	struct kept_named *next;
	struct named *named;
};

struct kept_book {
	struct kept_book *next;
	struct book *book;
};

struct patterns {
	struct server *server;
	struct common common[BOOK_COMMON];
	unsigned commons;
	struct kept_named *named;
	struct kept_book *book;
};

/* ---- one object for what is equal ---- */

static void forget_unused_named(struct patterns *p) {
	for (struct kept_named **at = &p->named; *at;) {
		struct kept_named *k = *at;

		if (k->named->references > 1) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		named_unref(k->named);
		free(k);
	}
}

static void forget_unused_books(struct patterns *p) {
	for (struct kept_book **at = &p->book; *at;) {
		struct kept_book *k = *at;

		if (k->book->references > 1) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		book_unref(k->book);
		free(k);
	}
}

/* Takes over the caller's reference, and gives back one of the object that says the same; NULL without memory. */
static struct named *share_named(struct patterns *p, struct named *n) {
	struct kept_named *k;

	forget_unused_named(p);
	for (k = p->named; k; k = k->next)
		if (named_equal(k->named, n)) {
			named_unref(n);
			return named_ref(k->named);
		}
	k = calloc(1, sizeof *k);
	if (!k)
		return named_unref(n);
	*k = (struct kept_named){ p->named, named_ref(n) };
	p->named = k;
	return n;
}

static bool book_holds(const struct book *b, unsigned count, struct named *const *list) {
	return b->patterns == count && !memcmp((const void *)b->pattern, (const void *)list, count * sizeof *list);
}

/* NULL where there are none. */
static int share_book(struct patterns *p, unsigned count, struct named *const *list, struct book **bookp) {
	struct kept_book *k;
	int r;

	*bookp = NULL;
	if (!count)
		return 0;
	forget_unused_books(p);
	for (k = p->book; k; k = k->next)
		if (book_holds(k->book, count, list)) {
			*bookp = book_ref(k->book);
			return 0;
		}
	k = calloc(1, sizeof *k);
	r = k ? book_new(count, list, &k->book) : -ENOMEM;
	if (r) {
		free(k);
		return r;
	}
	k->next = p->book;
	p->book = k;
	*bookp = book_ref(k->book);
	return 0;
}

/* ---- a session's ---- */

static unsigned uses(const struct session *s) {
	return s->book ? s->book->patterns : 0;
}

static void find_off(struct session *s) {
	s->named_off = 0;
	for (unsigned i = 0; i < uses(s); i++)
		if (!(s->use[i].devices & DEVICES_OF(s->server->traits->strategy)))
			s->named_off |= named_bit(i);
}

static struct common *find_common(struct patterns *p, const struct named *n) {
	for (unsigned i = 0; i < p->commons; i++)
		if (p->common[i].named == n)
			return &p->common[i];
	return NULL;
}

/* What a session has counted of a common pattern stays when it ends or the pattern goes. */
static void keep_counted(struct patterns *p, const struct named *n, const struct pattern_use *u) {
	struct common *c = u->own ? NULL : find_common(p, n);

	if (!c)
		return;
	c->found += u->found;
	pattern_counters_add(&c->counters, &u->counters);
}

/* The list of what a session is to have; uses that it had are taken along. */
struct next_book {
	struct named *named[BOOK_PATTERNS];
	struct pattern_use use[BOOK_PATTERNS];
	unsigned count;
};

static void add_use(struct next_book *next, const struct session *s, struct named *n, const struct pattern_use *fresh) {
	int had = book_find(s->book, n);

	if (next->count == BOOK_PATTERNS)
		return;
	if (had >= 0 && s->use[had].own != fresh->own)
		had = -1;
	next->use[next->count] = had < 0 ? *fresh : s->use[had];
	if (!next->use[next->count].chosen && !fresh->own)
		next->use[next->count].devices = fresh->devices;
	next->named[next->count++] = n;
}

/* The client's own one of a name, -1: it has none. */
static int find_own(const struct session *s, const char *name) {
	for (unsigned i = 0; i < uses(s); i++)
		if (s->use[i].own && !strcmp(s->book->pattern[i]->name, name))
			return (int)i;
	return -1;
}

/* But those whose names the client has given to patterns of its own, besides one that goes. */
static void add_commons(struct next_book *next, const struct session *s, int without) {
	const struct patterns *p = s->server->patterns;

	for (unsigned i = 0; i < p->commons; i++) {
		const struct pattern_use fresh = { .devices = p->common[i].devices };
		int own = find_own(s, p->common[i].named->name);

		if (own < 0 || own == without)
			add_use(next, s, p->common[i].named, &fresh);
	}
}

/* Those of the client, but one that goes, where it is not -1. */
static void add_own(struct next_book *next, const struct session *s, int without) {
	for (unsigned i = 0; i < uses(s); i++)
		if (s->use[i].own && (int)i != without)
			add_use(next, s, s->book->pattern[i], &s->use[i]);
}

static int turn_page(struct session *s, const struct next_book *next) {
	struct pattern_use *use = calloc(next->count + 1u, sizeof *use);
	struct book *book;
	int r = use ? share_book(s->server->patterns, next->count, next->named, &book) : -ENOMEM;

	if (r) {
		free(use);
		return r;
	}
	if (s->gathered)
		flush_session(s, FLUSH_DEMAND);
	memcpy(use, next->use, next->count * sizeof *use);
	free(s->use);
	book_unref(s->book);
	s->use = use;
	s->book = book;
	find_off(s);
	return 0;
}

int patterns_begin(struct session *s) {
	struct next_book next = { 0 };

	if (!s->server->patterns || !s->server->patterns->commons)
		return 0;
	add_commons(&next, s, -1);
	return turn_page(s, &next);
}

void patterns_end(struct session *s) {
	for (unsigned i = 0; i < uses(s); i++)
		keep_counted(s->server->patterns, s->book->pattern[i], &s->use[i]);
	s->book = book_unref(s->book);
	free(s->use);
	s->use = NULL;
}

/* ---- all sessions ---- */

/* The common ones have changed. Where memory is short a session keeps what it had. */
static int tell_sessions(struct patterns *p) {
	int r = 0;

	for (struct session *s = p->server->sessions; s; s = s->hh.next) {
		struct next_book next = { 0 };
		int one;

		add_commons(&next, s, -1);
		add_own(&next, s, -1);
		one = turn_page(s, &next);
		r = r ? r : one;
	}
	return r;
}

static void drop_common(struct patterns *p, unsigned i) {
	named_unref(p->common[i].named);
	p->commons--;
	memmove(&p->common[i], &p->common[i + 1], (p->commons - i) * sizeof *p->common);
}

static void add_common(struct patterns *p, struct named *n, uint64_t devices, bool of_file) {
	p->common[p->commons++] = (struct common){ .named = n, .devices = devices, .of_file = of_file };
}

int patterns_set_files(struct patterns *p, unsigned count, const struct pattern_of_file *file) {
	struct patterns old = *p;
	int r;

	p->commons = 0;
	for (unsigned i = 0; i < old.commons; i++)
		if (!old.common[i].of_file)
			p->common[p->commons++] = old.common[i];
	for (unsigned i = 0; i < count; i++) {
		struct named *n = p->commons < BOOK_COMMON ? share_named(p, named_ref(file[i].named)) : NULL;
		const struct common *had = n ? find_common(&old, n) : NULL;

		if (!n && p->commons < BOOK_COMMON)
			log_error("the pattern %s is not there: out of memory", file[i].named->name);
		else if (!n)
			log_error("the pattern %s is not there: there are more than %d", file[i].named->name, BOOK_COMMON);
		else
			add_common(p, n, file[i].devices, true);
		if (had && had->of_file) {
			p->common[p->commons - 1].found = had->found;
			p->common[p->commons - 1].counters = had->counters;
		}
	}
	r = tell_sessions(p);
	for (unsigned i = 0; i < old.commons; i++)
		if (old.common[i].of_file)
			named_unref(old.common[i].named);
	return r;
}

int patterns_new(struct server *v, struct patterns **patternsp) {
	struct patterns *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->server = v;
	*patternsp = p;
	return 0;
}

/* Sessions have ended. */
struct patterns *patterns_free(struct patterns *p) {
	if (!p)
		return NULL;
	while (p->commons)
		drop_common(p, p->commons - 1);
	while (p->book) {
		struct kept_book *k = p->book;

		p->book = k->next;
		book_unref(k->book);
		free(k);
	}
	while (p->named) {
		struct kept_named *k = p->named;

		p->named = k->next;
		named_unref(k->named);
		free(k);
	}
	free(p);
	return NULL;
}

/* ---- switches ---- */

bool patterns_is_switch(const char *setting) {
	size_t length = strlen(SWITCH_PREFIX);

	return !strncmp(setting, SWITCH_PREFIX, length) && !pattern_find(setting + length);
}

static int read_devices(const char *name, const char *value, uint64_t *devicesp, struct fault *f) {
	if (config_devices(value, devicesp))
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s is '%s', but wants yes or no, or cpu or gpu for such devices alone", name, value);
}

static int no_such(const char *name, struct fault *f) {
	char hint[NEAREST_SENTENCE];

	return fault_set(f, FAULT_ARGUMENT, "there is no setting %s: no pattern has this name%s", name, config_nearest(name, hint));
}

/* The place of a pattern in a session's book; -1: it has none of this name. */
static int find_use(const struct session *s, const char *name) {
	for (unsigned i = 0; i < uses(s); i++)
		if (!strcmp(s->book->pattern[i]->name, name))
			return (int)i;
	return -1;
}

int patterns_configure(struct session *s, const char *name, const char *value, struct fault *f) {
	int i = find_use(s, name + strlen(SWITCH_PREFIX));
	uint64_t devices = 0;
	int r = i < 0 ? no_such(name, f) : read_devices(name, value, &devices, f);

	if (r)
		return r;
	s->use[i].devices = devices;
	s->use[i].chosen = true;
	find_off(s);
	return 0;
}

/* Those who have chosen for themselves keep what they chose. */
static bool set_session(struct session *s, const char *name, uint64_t devices) {
	int i = find_use(s, name);

	if (i < 0)
		return false;
	if (s->use[i].chosen)
		return true;
	if (s->gathered)
		flush_session(s, FLUSH_DEMAND);
	s->use[i].devices = devices;
	find_off(s);
	return true;
}

int patterns_set(struct server *v, const char *name, const char *value, struct fault *f) {
	const char *pattern = name + strlen(SWITCH_PREFIX);
	struct patterns *p = v->patterns;
	uint64_t devices = 0;
	bool any = false;
	int r = read_devices(name, value, &devices, f);

	if (r)
		return r;
	for (unsigned i = 0; i < p->commons; i++)
		if (!strcmp(p->common[i].named->name, pattern)) {
			p->common[i].devices = devices;
			any = true;
		}
	for (struct session *s = v->sessions; s; s = s->hh.next)
		any |= set_session(s, pattern, devices);
	return any ? 0 : no_such(name, f);
}

/* ---- counting ---- */

/* The session's place of a plan's pattern; -1: it has gone meanwhile. */
static int place_of(const struct session *s, const struct book *b, unsigned i) {
	return b == s->book ? (int)i : book_find(s->book, b->pattern[i]);
}

void patterns_count_step(struct session *s, const struct plan *p, uint32_t step) {
	for (named_set left = p->step[step].named; left; left &= left - 1) {
		int i = place_of(s, p->book, (unsigned)__builtin_ctzll(left));

		if (i >= 0)
			pattern_counters_count(&s->use[i].counters, p, step);
	}
}

void patterns_count_found(struct session *s, const struct plan *p) {
	for (unsigned i = 0; p->found && i < p->book->patterns; i++) {
		int place = p->found[i] ? place_of(s, p->book, i) : -1;

		if (place >= 0)
			s->use[place].found += p->found[i];
	}
}

/* ---- telling ---- */

static void add_setting(cJSON *json, const char *name, uint64_t devices) {
	struct str text = { 0 };

	str_printf(&text, SWITCH_PREFIX "%s", name);
	if (!str_finish(&text))
		cJSON_AddStringToObject(json, str_text(&text), config_devices_word(devices));
	str_free(&text);
}

void patterns_add_settings(cJSON *json, const struct server *v, const struct session *s) {
	for (unsigned i = 0; s && i < uses(s); i++)
		add_setting(json, s->book->pattern[i]->name, s->use[i].devices);
	for (unsigned i = 0; !s && i < v->patterns->commons; i++)
		add_setting(json, v->patterns->common[i].named->name, v->patterns->common[i].devices);
}

typedef cJSON *add_function(cJSON *list, const char *name, const struct pattern_counters *c);

static void add_statistics(cJSON *list, add_function *add, const struct named *n, uint64_t found,
	const struct pattern_counters *c) {
	cJSON *one = found || c->count ? add(list, n->name, c) : NULL;

	if (one)
		cJSON_AddNumberToObject(one, "found", (double)found);
}

static void add_common_statistics(cJSON *list, add_function *add, const struct server *v, const struct common *c) {
	struct pattern_counters all = c->counters;
	uint64_t found = c->found;

	for (const struct session *s = v->sessions; s; s = s->hh.next) {
		int i = book_find(s->book, c->named);

		if (i < 0 || s->use[i].own)
			continue;
		pattern_counters_add(&all, &s->use[i].counters);
		found += s->use[i].found;
	}
	add_statistics(list, add, c->named, found, &all);
}

void patterns_add_statistics(cJSON *list, const struct server *v, const struct session *s, add_function *add) {
	for (unsigned i = 0; s && i < uses(s); i++)
		add_statistics(list, add, s->book->pattern[i], s->use[i].found, &s->use[i].counters);
	for (unsigned i = 0; !s && i < v->patterns->commons; i++)
		add_common_statistics(list, add, v, &v->patterns->common[i]);
	/* Own ones of the sessions that there are. */
	for (const struct session *each = s ? NULL : v->sessions; each; each = each->hh.next)
		for (unsigned i = 0; i < uses(each); i++)
			if (each->use[i].own)
				add_statistics(list, add, each->book->pattern[i], each->use[i].found, &each->use[i].counters);
}

/* ---- PATTERN, FORGET_PATTERN ---- */

int patterns_get_text(struct wire_cursor *c, const char *field, size_t most, char **textp, struct fault *f) {
	const char *text;
	size_t size;
	int r = wire_get_text(c, field, most, &text, &size, f);

	if (r)
		return r;
	*textp = strndup(text, size);
	return *textp ? 0 : -ENOMEM;
}

static int get_scope(struct request *r, bool *wholep, struct fault *f) {
	uint64_t scope = 0;
	int code = wire_get_uint(&r->body, "scope", 1, &scope, f);

	*wholep = scope;
	if (!code && *wholep)
		code = session_needs_rights(r->session, "define patterns for everybody", f);
	return code;
}

static int check_own(const struct session *s, const struct named *n, struct fault *f) {
	unsigned own = 0;
	int had = find_use(s, n->name);

	if (had >= 0)
		return fault_set(f, FAULT_ARGUMENT, "%s: %s", n->name, s->use[had].own ? "it is defined already"
			: "the administrator has defined a pattern of this name");
	for (unsigned i = 0; i < uses(s); i++)
		own += s->use[i].own;
	if (own < BOOK_OWN)
		return 0;
	return fault_set(f, FAULT_LIMIT, "%s: a client has at most %d patterns", n->name, BOOK_OWN);
}

static int define_own(struct session *s, struct named *n) {
	const struct pattern_use fresh = { .devices = UINT64_MAX, .own = true };
	struct next_book next = { 0 };

	add_commons(&next, s, -1);
	add_own(&next, s, -1);
	add_use(&next, s, n, &fresh);
	return turn_page(s, &next);
}

static int define_common(struct patterns *p, struct named *n, struct fault *f) {
	for (unsigned i = 0; i < p->commons; i++)
		if (!strcmp(p->common[i].named->name, n->name))
			return fault_set(f, FAULT_ARGUMENT, "%s: it is defined already%s", n->name,
				p->common[i].of_file ? ", in a file" : "");
	if (p->commons == BOOK_COMMON)
		return fault_set(f, FAULT_LIMIT, "%s: the daemon has at most %d patterns for everybody", n->name, BOOK_COMMON);
	add_common(p, named_ref(n), UINT64_MAX, false);
	return tell_sessions(p);
}

static int read_definition(struct patterns *p, const char *signature, const char *text, struct named **namedp, struct fault *f) {
	int r = named_new(signature, text, 0, namedp, f);

	if (r)
		return r;
	*namedp = share_named(p, *namedp);
	return *namedp ? 0 : -ENOMEM;
}

int patterns_define(struct patterns *p, const char *signature, const char *text, struct fault *f) {
	struct named *n = NULL;
	int r = read_definition(p, signature, text, &n, f);

	if (!r)
		r = define_common(p, n, f);
	named_unref(n);
	return r;
}

static int define_for(struct session *s, const char *signature, const char *text, struct fault *f) {
	struct named *n = NULL;
	int r = read_definition(s->server->patterns, signature, text, &n, f);

	if (!r)
		r = check_own(s, n, f);
	if (!r)
		r = define_own(s, n);
	named_unref(n);
	return r;
}

static int define(struct session *s, bool whole, const char *signature, const char *text, struct fault *f) {
	int r = whole ? patterns_define(s->server->patterns, signature, text, f) : define_for(s, signature, text, f);

	if (!r && whole)
		control_order(s->server, ORDER_PATTERN, signature, text);
	return r;
}

static void answer_nothing(struct request *r) {
	request_answer(r->session->server, r->id, 0);
	request_send(r->session->server, r->frame);
}

int pattern_request(struct request *r, struct fault *f) {
	char *signature = NULL, *text = NULL;
	bool whole;
	int code = get_scope(r, &whole, f);

	if (!code)
		code = patterns_get_text(&r->body, "signature", SIGNATURE, &signature, f);
	if (!code)
		code = patterns_get_text(&r->body, "text", EXPR_BYTES, &text, f);
	if (!code)
		code = wire_get_end(&r->body, "PATTERN", f);
	if (!code)
		code = flush_demanded(r->session);
	if (!code)
		code = define(r->session, whole, signature, text, f);
	if (!code)
		answer_nothing(r);
	free(signature);
	free(text);
	return code;
}

static int forget_own(struct session *s, const char *name, struct fault *f) {
	struct next_book next = { 0 };
	int i = find_use(s, name);

	if (i < 0 || !s->use[i].own)
		return fault_set(f, FAULT_ARGUMENT, "%s: this client has defined no such pattern", name);
	add_commons(&next, s, i);
	add_own(&next, s, i);
	return turn_page(s, &next);
}

static int forget_common(struct patterns *p, const char *name, struct fault *f) {
	unsigned i = 0;

	while (i < p->commons && strcmp(p->common[i].named->name, name) != 0)
		i++;
	if (i == p->commons)
		return fault_set(f, FAULT_ARGUMENT, "%s: there is no such pattern of everybody", name);
	if (p->common[i].of_file)
		return fault_set(f, FAULT_ARGUMENT, "%s: it is defined in a file; change that, and reload the configuration", name);
	drop_common(p, i);
	return tell_sessions(p);
}

int forget_pattern_request(struct request *r, struct fault *f) {
	char *name = NULL;
	bool whole;
	int code = get_scope(r, &whole, f);

	if (!code)
		code = patterns_get_text(&r->body, "name", DEFINITION_NAME, &name, f);
	if (!code)
		code = wire_get_end(&r->body, "FORGET_PATTERN", f);
	if (!code)
		code = flush_demanded(r->session);
	if (!code)
		code = whole ? forget_common(r->session->server->patterns, name, f) : forget_own(r->session, name, f);
	if (!code && whole)
		control_order(r->session->server, ORDER_FORGET, name, "");
	if (!code)
		answer_nothing(r);
	free(name);
	return code;
}

/* ---- PATTERNS ---- */

static cJSON *add_pattern(cJSON *list, const char *name, const char *from, uint64_t devices) {
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddStringToObject(one, "pattern", name);
	cJSON_AddStringToObject(one, "from", from);
	cJSON_AddStringToObject(one, "on", config_devices_word(devices));
	return one;
}

static void add_named(cJSON *list, const struct named *n, const char *from, uint64_t devices) {
	cJSON *one = add_pattern(list, n->name, from, devices);

	cJSON_AddStringToObject(one, "operands", n->operands);
	cJSON_AddStringToObject(one, "doc", n->text);
	if (n->op)
		cJSON_AddStringToObject(one, "body", n->inexact ? "where fast, or of the same bits" : "where of the same bits");
}

static const char *origin_of(struct patterns *p, const struct session *s, unsigned i) {
	const struct common *c = s->use[i].own ? NULL : find_common(p, s->book->pattern[i]);

	return s->use[i].own ? "this client" : c && c->of_file ? "a file" : "the administrator";
}

int patterns_request(struct request *r, struct fault *f) {
	const struct session *s = r->session;
	cJSON *json;
	int code = wire_get_end(&r->body, "PATTERNS", f);

	if (code)
		return code;
	json = cJSON_CreateArray();
	for (unsigned i = 1; i < PATTERN_COUNT; i++) {
		cJSON *one = add_pattern(json, pattern_name((enum pattern)i), "built in", s->settings.pattern[i]);

		cJSON_AddStringToObject(one, "doc", pattern_doc((enum pattern)i));
	}
	for (unsigned i = 0; i < uses(s); i++)
		add_named(json, s->book->pattern[i], origin_of(s->server->patterns, s, i), s->use[i].devices);
	code = json ? request_send_json(r, json, f) : -ENOMEM;
	cJSON_Delete(json);
	return code;
}
