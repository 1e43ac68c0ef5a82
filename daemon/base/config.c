/*
 * Settings: one table, read from files (inih), the environment and flags; see config.h.
 *
 * Values pass parse_value() whatever their source; each source only adds to the sentence where
 * the value stood.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ini.h>

#include "protocol/limits.h"
#include "protocol/variable.h"
#include "rules.h"
#include "traits.h"

#define CONFIG_FILE "/etc/fusiond/fusiond.conf"
#define CONFIG_FOLDER "/etc/fusiond/conf.d"
#define VARIABLE_PREFIX "FUSIOND_"

static const struct setting settings[] = {
#define SETTING(section, name, type, standard, min, max, applies, doc)                                       \
	{ #section, #name, SETTING_##type, SETTING_##applies, standard, min, max, doc,                       \
		offsetof(struct config, section##_##name) },
#include "settings.def"
#undef SETTING
#define PATTERN(id, name, doc)                                                                               \
	{ "fusion", "pattern." #name, SETTING_DEVICES, SETTING_SESSION, "yes", 0, UINT64_MAX,                \
		"make kernels of this pattern: " doc,                                                        \
		offsetof(struct config, fusion_pattern) + id * sizeof(uint64_t) },
#include "protocol/patterns.def"
#undef PATTERN
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* The words that are printed come first. */
static const struct word devices_words[] = {
	{ "yes", UINT64_MAX },
	{ "no", 0 },
	{ "on", UINT64_MAX },
	{ "off", 0 },
	{ "1", UINT64_MAX },
	{ "0", 0 },
	{ "true", UINT64_MAX },
	{ "false", 0 },
	{ "cpu", DEVICES_OF(STRATEGY_CPU) },
	{ "gpu", DEVICES_OF(STRATEGY_GPU) },
	{ NULL, 0 },
};

static const struct word level_words[] = {
	{ "error", LOG_LEVEL_ERROR }, { "warning", LOG_LEVEL_WARNING }, { "notice", LOG_LEVEL_NOTICE },
	{ "info", LOG_LEVEL_INFO }, { "debug", LOG_LEVEL_DEBUG }, { NULL, 0 },
};

static const struct word transport_words[] = { { "auto", TRANSPORT_AUTO }, { "nng", TRANSPORT_NNG }, { NULL, 0 } };

static const struct word interpreter_words[] = {
	{ "auto", INTERPRETER_AUTO }, { "off", INTERPRETER_OFF }, { "always", INTERPRETER_ALWAYS }, { "swap", INTERPRETER_SWAP },
	{ NULL, 0 },
};

static const struct word count_units[] = {
	{ "", 1 }, { "K", UINT64_C(1) << 10 }, { "M", UINT64_C(1) << 20 }, { "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 }, { NULL, 0 },
};

static const struct word time_units[] = {
	{ "", 1 }, { "us", 1 }, { "ms", 1000 }, { "s", 1000000 }, { "min", 60000000 }, { NULL, 0 },
};

static const struct word no_units[] = { { "", 1 }, { NULL, 0 } };

/* How the values of a type read. `words` alone, or a number in `base` with one of `units`. */
static const struct form {
	const struct word *words;
	const struct word *units;
	int base;
	const char *wants;
} forms[] = {
	[SETTING_BOOL] = { words_switch, NULL, 0, "yes or no" },
	[SETTING_COUNT] = { NULL, count_units, 10, "a number, which K, M, G or T may follow" },
	[SETTING_TIME] = { NULL, time_units, 10, "a number, which us, ms, s or min may follow" },
	[SETTING_MODE] = { NULL, no_units, 8, "octal permissions such as 0660" },
	[SETTING_LEVEL] = { level_words, NULL, 0, "error, warning, notice, info or debug" },
	[SETTING_DEVICES] = { devices_words, NULL, 0, "yes or no, or cpu or gpu for such devices alone" },
	[SETTING_TRANSPORT] = { transport_words, NULL, 0, "auto or nng" },
	[SETTING_INTERPRETER] = { interpreter_words, NULL, 0, "auto, off, always or swap" },
	[SETTING_TEXT] = { NULL, NULL, 0, "a text" },
};

unsigned config_settings(void) {
	return SETTINGS;
}

const struct setting *config_setting(unsigned i) {
	return &settings[i];
}

unsigned config_number(const struct setting *s) {
	return (unsigned)(s - settings);
}

static bool equals(const char *text, size_t length, const char *other) {
	return strlen(other) == length && !memcmp(text, other, length);
}

const struct setting *config_find(const char *name, size_t length) {
	const char *dot = memchr(name, '.', length);
	size_t section = dot ? (size_t)(dot - name) : 0;

	if (!dot)
		return NULL;
	for (unsigned i = 0; i < SETTINGS; i++)
		if (equals(name, section, settings[i].section)
			&& equals(dot + 1, length - section - 1, settings[i].name))
			return &settings[i];
	return NULL;
}

/* A number with a unit; false where it does not read or overflows. */
static bool number_value(const struct form *form, const char *text, uint64_t *valuep) {
	uint64_t number, unit;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	number = strtoull(text, &end, form->base);
	while (*end == ' ')
		end++;
	return !errno && word_value(form->units, end, &unit) && !__builtin_mul_overflow(number, unit, valuep);
}

static int refuse_value(const struct setting *s, const char *value, struct fault *f) {
	return fault_set(f, FAULT_ARGUMENT, "%s.%s is '%s', but wants %s", s->section, s->name, value,
		forms[s->type].wants);
}

static int set_text(struct config *c, const struct setting *s, const char *value, struct fault *f) {
	if (strlen(value) > s->max)
		return fault_set(f, FAULT_ARGUMENT, "%s.%s has %zu bytes, at most %" PRIu64 " are allowed",
			s->section, s->name, strlen(value), s->max);
	/* To the end: what is compared is all of it. */
	memset((char *)c + s->offset, 0, CONFIG_TEXT);
	memcpy((char *)c + s->offset, value, strlen(value));
	return 0;
}

static int set_value(struct config *c, const struct setting *s, const char *value, struct fault *f) {
	const struct form *form = &forms[s->type];
	uint64_t number = 0;

	if (s->type == SETTING_TEXT)
		return set_text(c, s, value, f);
	if (!(form->words ? word_value(form->words, value, &number) : number_value(form, value, &number)))
		return refuse_value(s, value, f);
	if (number < s->min || number > s->max)
		return fault_set(f, FAULT_ARGUMENT,
			"%s.%s is %s; the least is %" PRIu64 ", the most %" PRIu64, s->section, s->name,
			value, s->min, s->max);
	memcpy((char *)c + s->offset, &number, sizeof number);
	return 0;
}

const char *config_nearest(const char *name, char hint[static NEAREST_SENTENCE]) {
	char full[CONFIG_TEXT];
	struct nearest near;

	nearest_begin(&near, name, strlen(name));
	for (unsigned i = 0; i < SETTINGS; i++) {
		snprintf(full, sizeof full, "%s.%s", settings[i].section, settings[i].name);
		nearest_try(&near, full);
	}
	return nearest_text(&near, "", hint);
}

int config_refuse_name(const char *name, struct fault *f) {
	char hint[NEAREST_SENTENCE];

	return fault_set(f, FAULT_ARGUMENT, "there is no setting %s%s", name, config_nearest(name, hint));
}

int config_set(struct config *c, const char *name, const char *value, struct fault *f) {
	const struct setting *s = config_find(name, strlen(name));

	if (!s)
		return config_refuse_name(name, f);
	return set_value(c, s, value, f);
}

void config_standard(struct config *c) {
	memset(c, 0, sizeof *c);
	for (unsigned i = 0; i < SETTINGS; i++) {
		/* The table's own values are right, which test_config proves. */
		int r = set_value(c, &settings[i], settings[i].standard, NULL);

		(void)r;
	}
}

/* ---- files ---- */

struct config_reader {
	struct config *config;
	struct config_origins *origins;
	struct rules *rules;
	const char *path;
	FILE *stream;
	unsigned line;
	struct fault *fault;
	int code;
};

/* inih's own count of lines is not handed to its handler in Debian's build, so lines are counted here. */
static char *read_line(char *text, int size, void *user) {
	struct config_reader *r = user;

	r->line++;
	return fgets(text, size, r->stream);
}

FAULT_PRINTF(3, 4)
static void tell_origin(struct config_origins *o, const struct setting *s, const char *format, ...) {
	va_list ap;

	if (!o)
		return;
	va_start(ap, format);
	vsnprintf(o->text[config_number(s)], CONFIG_ORIGIN, format, ap);
	va_end(ap);
}

static int read_rule(const struct config_reader *r, const char *section, const char *name, const char *value) {
	char origin[CONFIG_ORIGIN];

	snprintf(origin, sizeof origin, "%s:%u", r->path, r->line);
	return rules_add(r->rules, section, name, value, origin, r->fault);
}

/* inih goes on after a refused line; the first refusal is the one reported. */
static int read_setting(void *user, const char *section, const char *name, const char *value) {
	struct config_reader *r = user;
	char full[CONFIG_TEXT];

	if (r->code)
		return 0;
	snprintf(full, sizeof full, "%s.%s", section, name);
	if (rules_name(section))
		r->code = read_rule(r, section, name, value);
	else
		r->code = config_set(r->config, full, value, r->fault);
	if (r->code && r->fault)
		fault_prefix(r->fault, "%s:%u", r->path, r->line);
	if (!r->code && !rules_name(section))
		tell_origin(r->origins, config_find(full, strlen(full)), "%s:%u", r->path, r->line);
	return r->code == 0;
}

/* What a source fills in. */
struct config_target {
	struct config *config;
	struct config_origins *origins;
	struct rules *rules;
};

static int load_file(const struct config_target *t, const char *path, bool must_exist, struct fault *f) {
	struct config_reader r = { .config = t->config, .origins = t->origins, .rules = t->rules, .path = path, .fault = f };
	int line;

	r.stream = fopen(path, "re");
	if (!r.stream && errno == ENOENT && !must_exist)
		return 0;
	if (!r.stream)
		return fault_set(f, FAULT_ARGUMENT, "%s cannot be read: %s", path, strerror(errno));
	line = ini_parse_stream(read_line, &r, read_setting, &r);
	fclose(r.stream);
	if (r.code)
		return r.code;
	if (line < 0)
		return -ENOMEM;
	if (line > 0)
		return fault_set(
			f, FAULT_SYNTAX, "%s:%d: the line is neither [section] nor name = value", path, line);
	return 0;
}

/* glob() sorts the names. */
static int load_folder(const struct config_target *t, struct fault *f) {
	glob_t found = { 0 };
	int r = glob(CONFIG_FOLDER "/*.conf", 0, NULL, &found) == GLOB_NOSPACE ? -ENOMEM : 0;

	for (size_t i = 0; !r && i < found.gl_pathc; i++)
		r = load_file(t, found.gl_pathv[i], true, f);
	globfree(&found);
	return r;
}

static int load_files(const struct config_target *t, const char *file, struct fault *f) {
	int r;

	if (file)
		return load_file(t, file, true, f);
	r = load_file(t, CONFIG_FILE, false, f);
	return r ? r : load_folder(t, f);
}

/* ---- environment and flags ---- */

static void variable_of(const struct setting *s, char name[static CONFIG_TEXT]) {
	snprintf(name, CONFIG_TEXT, VARIABLE_PREFIX "%s_%s", s->section, s->name);
	for (char *p = name; *p; p++)
		*p = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
}

/* Is it the variable of a setting? */
static bool is_variable(const char *text, size_t length) {
	char name[CONFIG_TEXT];

	for (unsigned i = 0; i < SETTINGS; i++) {
		variable_of(&settings[i], name);
		if (equals(text, length, name))
			return true;
	}
	return false;
}

static int refuse_variable(const char *text, size_t length, struct fault *f) {
	char name[CONFIG_TEXT], hint[NEAREST_SENTENCE];
	struct nearest near;

	nearest_begin(&near, text, length);
	for (unsigned i = 0; i < SETTINGS; i++) {
		variable_of(&settings[i], name);
		nearest_try(&near, name);
	}
	return fault_set(f, FAULT_ARGUMENT, "environment variable %.*s: there is no setting of that name%s", (int)length, text,
		nearest_text(&near, "", hint));
}

/* One that is mistyped would be as if it were not there, which nobody sees. So are those of the library, which stand beside them. */
static int check_environment(struct fault *f) {
	for (char **p = environ; p && *p; p++) {
		size_t length = strcspn(*p, "=");

		if (!strncmp(*p, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) && !is_variable(*p, length))
			return refuse_variable(*p, length, f);
	}
	return variables_check_names(f);
}

static int load_environment(struct config *c, struct config_origins *o, struct fault *f) {
	for (unsigned i = 0; i < SETTINGS; i++) {
		char name[CONFIG_TEXT];
		const char *value;
		int r;

		variable_of(&settings[i], name);
		value = getenv(name);
		r = value ? set_value(c, &settings[i], value, f) : 0;
		if (r && f)
			fault_prefix(f, "environment variable %s", name);
		if (r)
			return r;
		if (value)
			tell_origin(o, &settings[i], "$%s", name);
	}
	return check_environment(f);
}

static int load_rule_flag(struct rules *rules, const char *flag, const char *equal, struct fault *f) {
	char name[CONFIG_TEXT];
	int r;

	if ((size_t)(equal - flag) >= sizeof name)
		return fault_set(f, FAULT_ARGUMENT, "the name of a setting has at most %zu bytes", sizeof name - 1);
	snprintf(name, sizeof name, "%.*s", (int)(equal - flag), flag);
	r = rules_set(rules, name, equal + 1, "command line", f);
	if (r && f)
		fault_prefix(f, "command line");
	return r;
}

static int load_setting_flag(const struct config_target *t, const char *flag, const char *equal, struct fault *f) {
	const struct setting *s = config_find(flag, (size_t)(equal - flag));
	char name[CONFIG_TEXT];
	int r;

	snprintf(name, sizeof name, "%.*s", (int)(equal - flag), flag);
	r = s ? set_value(t->config, s, equal + 1, f) : config_refuse_name(name, f);
	if (r && f)
		fault_prefix(f, "command line");
	if (!r)
		tell_origin(t->origins, s, "command line");
	return r;
}

static int load_flag(const struct config_target *t, const char *flag, struct fault *f) {
	const char *equal = strchr(flag, '=');

	if (!equal)
		return fault_set(f, FAULT_ARGUMENT, "command line: '%s' is not of the form section.name=value", flag);
	return rules_name(flag) ? load_rule_flag(t->rules, flag, equal, f) : load_setting_flag(t, flag, equal, f);
}

int config_flag(struct config_source *s, const char *flag) {
	if (s->flags >= CONFIG_FLAGS)
		return -E2BIG;
	s->flag[s->flags++] = flag;
	return 0;
}

/* ---- a daemon of one user ---- */

enum {
	USER_MODE = 0600,
	USER_IDLE_US = 60 * 1000 * 1000,
};

static void user_standard(struct config *c) {
	c->door_mode = USER_MODE;
	c->door_idle_exit_us = USER_IDLE_US;
}

/* conf.d beside the file. One that would not fit is left empty: no such folder is read. */
static void place_operations(struct config *c, const char *file) {
	const char *slash = file ? strrchr(file, '/') : NULL;
	int folder = slash ? (int)(slash - file) + 1 : 0;

	if (*c->engine_operations)
		return;
	if (!file)
		snprintf(c->engine_operations, sizeof c->engine_operations, CONFIG_FOLDER);
	else if (folder + sizeof "conf.d" <= sizeof c->engine_operations)
		snprintf(c->engine_operations, sizeof c->engine_operations, "%.*sconf.d", folder, file);
}

int config_load_told(struct config *c, struct config_origins *o, struct rules *rules, const struct config_source *s, struct fault *f) {
	struct config_target t = { .rules = rules };
	int r;

	config_standard(c);
	if (s->user)
		user_standard(c);
	if (o)
		memset(o, 0, sizeof *o);
	t.config = c;
	t.origins = o;
	r = load_files(&t, s->file, f);
	if (!r)
		r = load_environment(c, o, f);
	for (unsigned i = 0; !r && i < s->flags; i++)
		r = load_flag(&t, s->flag[i], f);
	if (!r)
		place_operations(c, s->file);
	return r;
}

int config_load(struct config *c, const struct config_source *s, struct fault *f) {
	return config_load_told(c, NULL, NULL, s, f);
}

/* ---- printing ---- */

void config_print(const struct config *c, const struct setting *s, struct str *text) {
	uint64_t number;

	if (s->type == SETTING_TEXT) {
		str_append(text, (const char *)c + s->offset);
		return;
	}
	memcpy(&number, (const char *)c + s->offset, sizeof number);
	if (forms[s->type].words)
		str_append(text, word_text(forms[s->type].words, number));
	else
		str_printf(text, s->type == SETTING_MODE ? "%#" PRIo64 : "%" PRIu64, number);
}

bool config_devices(const char *word, uint64_t *devicesp) {
	return word_value(devices_words, word, devicesp);
}

const char *config_devices_word(uint64_t devices) {
	return word_text(devices_words, devices);
}

void config_help(struct str *text) {
	str_append(text, "Settings, for --set and fusiond.conf(5):\n");
	for (unsigned i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];

		str_printf(text, "  %s.%s=%s\n      %s\n", s->section, s->name,
			*s->standard ? s->standard : "\"\"", s->doc);
	}
}

/* ---- folders left empty ---- */

/* A folder: a variable of the environment, or a fixed path; and what is appended to it. */
struct place {
	const char *variable;
	const char *path;
	bool root;                   /* root alone */
	const char *below;
};

static const struct place socket_places[] = {
	{ "RUNTIME_DIRECTORY", NULL, false, "/door" },
	{ NULL, "/run/fusiond", true, "/door" },
	{ "XDG_RUNTIME_DIR", NULL, false, "/fusiond/door" },
	{ NULL, NULL, false, NULL },
};

static const struct place cache_places[] = {
	{ "CACHE_DIRECTORY", NULL, false, "" },
	{ NULL, "/var/cache/fusiond", true, "" },
	{ "XDG_CACHE_HOME", NULL, false, "/fusiond" },
	{ "HOME", NULL, false, "/.cache/fusiond" },
	{ NULL, NULL, false, NULL },
};

static const struct place user_cache_places[] = {
	{ "XDG_CACHE_HOME", NULL, false, "/fusiond" },
	{ "HOME", NULL, false, "/.cache/fusiond" },
	{ NULL, NULL, false, NULL },
};

/* The first place there is; false where there is none or it is too long. */
static bool resolve_place(const struct place *p, char *path, size_t size) {
	for (; p->below; p++) {
		const char *folder = p->variable ? getenv(p->variable) : p->path;

		if (!folder || *folder != '/' || (p->root && geteuid() != 0))
			continue;
		return (size_t)snprintf(path, size, "%s%s", folder, p->below) < size;
	}
	return false;
}

/* A daemon of root as of any user keeps its kernels apart from the service's, whose files it would take away from it. */
static void keep_apart(void) {
	char path[CONFIG_TEXT];

	if (geteuid() == 0 && resolve_place(user_cache_places, path, sizeof path))
		setenv("CACHE_DIRECTORY", path, 0);
}

int config_user(struct config_source *s, struct fault *f) {
	static char path[PATH_MAX];
	const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;

	s->user = true;
	keep_apart();
	if (s->file)
		return 0;
	if (folder && *folder == '/')
		n = snprintf(path, sizeof path, "%s/fusiond/fusiond.conf", folder);
	else if (home && *home == '/')
		n = snprintf(path, sizeof path, "%s/.config/fusiond/fusiond.conf", home);
	if (n >= (int)sizeof path)
		return fault_set(f, FAULT_ARGUMENT, "the path of the user's fusiond.conf is too long");
	s->file = n < 0 || access(path, F_OK) ? "/dev/null" : path;
	return 0;
}

int config_resolve(struct config *c, struct fault *f) {
	/* Who only looks after the cache needs no socket: door_open() says so where there is no place for one. */
	if (!*c->door_socket && !resolve_place(socket_places, c->door_socket, sizeof c->door_socket))
		*c->door_socket = 0;
	if (!*c->cache_dir && !resolve_place(cache_places, c->cache_dir, sizeof c->cache_dir))
		return fault_set(f, FAULT_ARGUMENT,
			"no place for compiled kernels: HOME is not set; say --cache-dir PATH");
	return 0;
}
