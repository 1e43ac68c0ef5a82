/*
 * The settings of settings.def, and where their values come from: the standard, then
 * /etc/fusiond/fusiond.conf and /etc/fusiond/conf.d/ *.conf in the order of their names (or the one
 * file given), then the environment, then flags; later ones win. What holds for some users only is rules.h's.
 *
 * An unknown section, name or value is refused with a sentence that names where it stands.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/nearest.h"
#include "protocol/pattern.h"
#include "daemon/base/log.h"
#include "daemon/base/str.h"

enum {
	CONFIG_TEXT = 256,
	/* Flags --set of one command line. */
	CONFIG_FLAGS = 128,
	/* The exit code of who finds the configuration wrong, as sysexits.h has it: starting again would not help. */
	CONFIG_EXIT = 78,
};

enum setting_type {
	SETTING_BOOL,
	SETTING_COUNT,
	SETTING_TIME,
	SETTING_MODE,
	SETTING_LEVEL,
	SETTING_DEVICES,
	SETTING_TRANSPORT,
	SETTING_INTERPRETER,
	SETTING_TEXT,
};

enum setting_applies {
	SETTING_START,
	SETTING_RELOAD,
	SETTING_USER,
	SETTING_SESSION,
};

/* How many there are. */
enum {
#define SETTING(section, name, ...) SETTING_NUMBER_##section##_##name,
#include "settings.def"
#undef SETTING
#define PATTERN(id, name, doc) SETTING_NUMBER_pattern_##name,
#include "protocol/patterns.def"
#undef PATTERN
	CONFIG_SETTINGS,
};

/* Numbers of every type are 64 bits wide, which keeps the table's readers simple. */
#define SETTING_FIELD_BOOL(field) uint64_t field
#define SETTING_FIELD_COUNT(field) uint64_t field
#define SETTING_FIELD_TIME(field) uint64_t field
#define SETTING_FIELD_MODE(field) uint64_t field
#define SETTING_FIELD_LEVEL(field) uint64_t field
#define SETTING_FIELD_DEVICES(field) uint64_t field
#define SETTING_FIELD_TRANSPORT(field) uint64_t field
#define SETTING_FIELD_INTERPRETER(field) uint64_t field
#define SETTING_FIELD_TEXT(field) char field[CONFIG_TEXT]

/* The values of a TRANSPORT. */
enum config_transport {
	TRANSPORT_AUTO,
	TRANSPORT_NNG,
};

/* The values of an INTERPRETER. */
enum config_interpreter {
	INTERPRETER_OFF,
	INTERPRETER_AUTO,
	INTERPRETER_ALWAYS,
	INTERPRETER_SWAP,
};

/* The kinds of devices a DEVICES names: those that run kernels by this strategy. */
#define DEVICES_OF(strategy) (UINT64_C(1) << (strategy))

struct config {
#define SETTING(section, name, type, ...) SETTING_FIELD_##type(section##_##name);
#include "settings.def"
#undef SETTING
	/* fusion.pattern.<name> of every row of patterns.def, by its id: a DEVICES. */
	uint64_t fusion_pattern[PATTERN_COUNT];
};

struct setting {
	const char *section, *name;
	enum setting_type type;
	enum setting_applies applies;
	const char *standard;
	uint64_t min, max;
	const char *doc;
	size_t offset;                   /* in struct config */
};

/* Bytes of its value there. */
static inline size_t setting_size(const struct setting *s) {
	return s->type == SETTING_TEXT ? CONFIG_TEXT : sizeof(uint64_t);
}

/* Where values come from besides the standard places. */
struct config_source {
	const char *file;                /* NULL: the standard files, which need not exist */
	bool user;                       /* the standards of a daemon of one user: config_user() */
	const char *flag[CONFIG_FLAGS];  /* "section.name=value", in order */
	unsigned flags;
};

enum {
	CONFIG_ORIGIN = 192,
};

/* Where each setting's value comes from: "FILE:LINE", "$VARIABLE", "command line"; empty: the standard. */
struct config_origins {
	char text[CONFIG_SETTINGS][CONFIG_ORIGIN];
};

struct rules;

unsigned config_settings(void);
const struct setting *config_setting(unsigned i);
/* Its place: config_setting(config_number(s)) is s. */
unsigned config_number(const struct setting *s);
/* The setting called "section.name" of length bytes, or NULL. */
const struct setting *config_find(const char *name, size_t length);
/* FAULT_ARGUMENT: there is no setting of this name, and which one may be meant; and the end of that sentence, or "". */
int config_refuse_name(const char *name, struct fault *f);
const char *config_nearest(const char *name, char hint[static NEAREST_SENTENCE]);

/* Every setting at its standard. */
void config_standard(struct config *c);
/*
 * Makes it the source of a daemon of one user: its file is $XDG_CONFIG_HOME/fusiond/fusiond.conf or that of ~/.config, and
 * need not exist; nobody else may connect, and it ends a minute after its last connection, unless settings say otherwise.
 */
int config_user(struct config_source *s, struct fault *f) FAULT_MUST_USE;
/* Sets "section.name" from text: 0, or FAULT_ARGUMENT with a sentence that names the setting. */
int config_set(struct config *c, const char *name, const char *value, struct fault *f) FAULT_MUST_USE;
/* All sources in order: 0, FAULT_SYNTAX or FAULT_ARGUMENT naming file and line, variable or flag; -errno. */
int config_load(struct config *c, const struct config_source *s, struct fault *f) FAULT_MUST_USE;
/* The same, where each value comes from, and the settings of some users only (rules.h), which are added. Either may be NULL. */
int config_load_told(struct config *c, struct config_origins *o, struct rules *rules, const struct config_source *s,
	struct fault *f) FAULT_MUST_USE;
/*
 * The same of who starts: values are what they must be, too - paths absolute, folders and groups there, knobs known - and folders left
 * empty are filled in. FAULT_ARGUMENT names the place.
 */
int config_load_checked(struct config *c, struct config_origins *o, struct rules *rules, const struct config_source *s,
	struct fault *f) FAULT_MUST_USE;
int config_check(const struct config *c, const struct config_origins *o, struct fault *f) FAULT_MUST_USE;
/* The same of one value, before config_set(), which takes any text: 0, or a fault. Of a name that is no setting's it says nothing. */
int config_check_value(const char *name, const char *value, struct fault *f) FAULT_MUST_USE;
/* Puts the setting's name and the place of its value before the sentence of f. Its code. */
int config_place(const struct config_origins *o, unsigned setting, struct fault *f);
/* Of what went wrong at a start: CONFIG_EXIT where the configuration is to blame, else EXIT_FAILURE. */
int config_exit(int r);
/* Adds a flag; -E2BIG beyond CONFIG_FLAGS. */
int config_flag(struct config_source *s, const char *flag) FAULT_MUST_USE;
/* A DEVICES from its word and back; false where it is none. */
bool config_devices(const char *word, uint64_t *devicesp);
const char *config_devices_word(uint64_t devices);
/* The value of a setting as text that config_set() reads back. */
void config_print(const struct config *c, const struct setting *s, struct str *text);
/* The help text of every setting. */
void config_help(struct str *text);
/* Fills in folders that were left empty; FAULT_ARGUMENT where the environment gives none. */
int config_resolve(struct config *c, struct fault *f) FAULT_MUST_USE;
