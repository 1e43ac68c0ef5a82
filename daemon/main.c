/*
 * fusiond: the daemon's entry, which is the supervisor. What it does is in daemon/door/.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config.h"
#include "daemon/base/rules.h"
#include "daemon/base/version.h"
#include "daemon/door/cache.h"
#include "daemon/door/child.h"
#include "daemon/door/detach.h"
#include "daemon/door/limits.h"
#include "daemon/door/supervisor.h"
#include "daemon/door/devices.h"

__attribute__((visibility("default"))) const char *argp_program_version = "fusiond " FUSIOND_VERSION;

enum {
	KEY_CHECK = 0x100,
	KEY_ENGINE,
	KEY_CACHE,
	KEY_ACTION,
	KEY_WARM,
	KEY_DEVICES,
	KEY_USER,
	KEY_DETACH,
};

/* Flags that stand for a setting, so that both are one path. */
static const struct {
	int key;
	const char *setting;
} short_forms[] = {
	{ 's', "door.socket" },
	{ KEY_CACHE, "cache.dir" },
	{ KEY_ENGINE, "engine.path" },
};

static const struct argp_option options[] = {
	{ "config", 'c', "FILE", 0, "Read FILE instead of /etc/fusiond/fusiond.conf and conf.d/*.conf", 0 },
	{ "socket", 's', "PATH", 0, "Listen at PATH (door.socket)", 0 },
	{ "cache-dir", KEY_CACHE, "PATH", 0, "Keep compiled kernels in PATH (cache.dir)", 0 },
	{ "engine", KEY_ENGINE, "PATH", 0, "Run PATH as the engine (engine.path)", 0 },
	{ "set", 'S', "SECTION.NAME=VALUE", 0, "Set any of the settings below", 0 },
	{ "user", KEY_USER, NULL, 0, "Serve one user: read fusiond/fusiond.conf of the user's configuration, let nobody else in, end when idle", 0 },
	{ "detach", KEY_DETACH, "LOG", 0, "Go to the background once it serves, with messages in LOG", 0 },
	{ "foreground", 'f', NULL, 0, "Stay in the foreground, as it does without --detach; for scripts that say so",
		0 },
	{ "cache", KEY_ACTION, "stat|prune|verify|check", 0,
		"Print what the cache folder holds, and exit; prune, verify: after removing what is too much, what is damaged; check: what is damaged stays", 0 },
	{ "warm", KEY_WARM, NULL, 0, "Fill the cache with what every session may want, and exit: at installation", 0 },
	{ "devices", KEY_DEVICES, NULL, 0, "Print which devices would be taken, or why none, and exit", 0 },
	{ "check", KEY_CHECK, NULL, 0, "Print the settings that would be in effect, and exit; with 78 where one is wrong", 0 },
	{ "quiet", 'q', NULL, 0, "--check: print only what is wrong", 0 },
	{ 0 },
};

struct command {
	struct config_source source;
	bool check, devices, quiet, warm, user;
	const char *log;             /* of a daemon in the background; NULL: it stays */
	const char *action;          /* on the cache folder; NULL: none */
};

/* argv outlives the process's use of it; only text put together here needs memory of its own. */
static void add_flag(struct argp_state *state, struct command *c, const char *setting, const char *value) {
	struct str text = { 0 };

	if (setting)
		str_printf(&text, "%s=%s", setting, value);
	if (str_finish(&text) || config_flag(&c->source, setting ? str_text(&text) : value))
		argp_failure(state, EXIT_FAILURE, 0, "too many settings on the command line");
}

static error_t parse(int key, char *value, struct argp_state *state) {
	struct command *c = state->input;

	for (size_t i = 0; i < sizeof short_forms / sizeof *short_forms; i++)
		if (short_forms[i].key == key) {
			add_flag(state, c, short_forms[i].setting, value);
			return 0;
		}
	switch (key) {
	case 'c':
		c->source.file = value;
		return 0;
	case 'S':
		add_flag(state, c, NULL, value);
		return 0;
	case 'f':
		return 0;
	case KEY_ACTION:
		c->action = value;
		return 0;
	case KEY_DEVICES:
		c->devices = true;
		return 0;
	case KEY_WARM:
		c->warm = true;
		return 0;
	case KEY_USER:
		c->user = true;
		return 0;
	case KEY_DETACH:
		c->log = value;
		return 0;
	case KEY_CHECK:
		c->check = true;
		return 0;
	case 'q':
		c->quiet = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Appends the table of settings to the help. */
static char *add_settings(int key, const char *text, void *input) {
	struct str help = { 0 };

	(void)input;
	if (key != ARGP_KEY_HELP_EXTRA)
		return (char *)(uintptr_t)text;
	config_help(&help);
	return help.text;
}

static int load(const struct config_source *source, struct config *config) {
	struct fault f;
	int r = config_load(config, source, &f);

	if (!r)
		r = config_resolve(config, &f);
	if (r)
		fprintf(stderr, "fusiond: %s\n", r > 0 ? f.text : strerror(-r));
	return r;
}

static int act(const struct command *c) {
	struct config config;

	int r = load(&c->source, &config);

	return r ? config_exit(r) : cache_action(&config, c->action);
}

/* As a start sees it. */
static int check(const struct config_source *source, bool quiet) {
	struct config_origins origins;
	struct rules rules = { 0 };
	struct config config;
	struct fault f;
	int r = config_load_checked(&config, &origins, &rules, source, &f);

	if (!r)
		r = child_check_remote(&config, source, &f);
	if (r) {
		rules_clear(&rules);
		fprintf(stderr, "fusiond: %s\n", r > 0 ? f.text : strerror(-r));
		return config_exit(r);
	}
	for (unsigned i = 0; !quiet && i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		struct str value = { 0 };

		config_print(&config, s, &value);
		printf("%s.%s=%s\n", s->section, s->name, str_text(&value));
		str_free(&value);
	}
	for (unsigned i = 0; !quiet && i < rules.count; i++) {
		const struct rule *one = &rules.rule[i];

		printf("%s:%s.%s.%s=%s\n", one->group ? "group" : "user", one->name, one->setting->section, one->setting->name, one->value);
	}
	rules_clear(&rules);
	return EXIT_SUCCESS;
}

/* Before anything is opened that the background must not have. */
static int run(const struct command *c) {
	int ready = -1;

	if (c->log) {
		ready = detach(c->log);
		if (ready < 0)
			return EXIT_FAILURE;
	}
	return supervisor_run(&c->source, ready);
}

int main(int argc, char **argv) {
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Owns an accelerator and runs tensor operations of many processes on it, fused.\v"
		       "SIGHUP reads the configuration again; SIGTERM stops. See fusiond(8).",
		.help_filter = add_settings,
	};
	static struct command command;
	struct fault f;
	error_t error;

	log_open("fusiond");
	limits_umask();
	signal(SIGPIPE, SIG_IGN);
	error = argp_parse(&argp, argc, argv, 0, NULL, &command);
	if (error)
		return EXIT_FAILURE;
	if (command.user && config_user(&command.source, &f)) {
		fprintf(stderr, "fusiond: %s\n", f.text);
		return EXIT_FAILURE;
	}
	if (command.warm)
		return child_warm(&command.source);
	if (command.devices)
		return devices_print(&command.source);
	if (command.action)
		return act(&command);
	return command.check ? check(&command.source, command.quiet) : run(&command);
}
