/* Variables of the environment; see variable.h. */
#include "variable.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "nearest.h"

static const char prefix[] = "FUSION_";

enum variable_type {
	VARIABLE_SWITCH,
	VARIABLE_NUMBER,
	VARIABLE_TRANSPORT,
	VARIABLE_TEXT,
};

static const struct variable {
	const char *name;
	enum variable_type type;
	const char *wants;
} variables[] = {
#define VARIABLE(name, type, wants) { #name, VARIABLE_##type, wants },
#define OTHER(prefix)
#include "variables.def"
#undef VARIABLE
#undef OTHER
};

static const char *const others[] = {
#define VARIABLE(name, type, wants)
#define OTHER(prefix) #prefix,
#include "variables.def"
#undef VARIABLE
#undef OTHER
};

/* ---- words ---- */

const struct word words_switch[] = {
	{ "no", 0 },
	{ "yes", 1 },
	{ "0", 0 },
	{ "1", 1 },
	{ "false", 0 },
	{ "true", 1 },
	{ "off", 0 },
	{ "on", 1 },
	{ NULL, 0 },
};

bool word_value(const struct word *words, const char *text, uint64_t *valuep) {
	for (; words->text; words++)
		if (!strcmp(words->text, text)) {
			*valuep = words->value;
			return true;
		}
	return false;
}

const char *word_text(const struct word *words, uint64_t value) {
	while (words->text && words->value != value)
		words++;
	return words->text ? words->text : "";
}

static bool number_value(const char *text, uint64_t *valuep) {
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*valuep = strtoul(text, &end, 10);
	return !errno && !*end && *valuep <= INT32_MAX;
}

/* ---- checking ---- */

static bool reads(const struct variable *v, const char *text) {
	uint64_t value;

	if (!*text || v->type == VARIABLE_TEXT)
		return true;
	if (v->type == VARIABLE_TRANSPORT)
		return !strcmp(text, "auto") || !strcmp(text, "nng");
	return v->type == VARIABLE_SWITCH ? word_value(words_switch, text, &value) : number_value(text, &value);
}

static const struct variable *find(const char *name, size_t length) {
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		if (strlen(variables[i].name) == length && !memcmp(variables[i].name, name, length))
			return &variables[i];
	return NULL;
}

static bool is_other(const char *name) {
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (!strncmp(name, others[i], strlen(others[i])))
			return true;
	return false;
}

static int refuse_name(const char *name, size_t length, struct fault *f) {
	char hint[NEAREST_SENTENCE];
	struct nearest near;

	nearest_begin(&near, name, length);
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		nearest_try(&near, variables[i].name);
	return fault_set(f, FAULT_ARGUMENT, "environment variable %s%.*s: there is no such variable%s (libfusion(3) lists them; those of the "
		"daemon's settings are FUSIOND_SECTION_NAME)", prefix, (int)length, name, nearest_text(&near, prefix, hint));
}

/* "NAME=VALUE", behind the prefix. */
static int check(const char *text, bool values, struct fault *f) {
	size_t length = strcspn(text, "=");
	const struct variable *v = find(text, length);

	if (!v && is_other(text))
		return 0;
	if (!v)
		return refuse_name(text, length, f);
	if (!values || !text[length] || reads(v, text + length + 1))
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "environment variable %s%s is '%s', but wants %s", prefix, v->name, text + length + 1, v->wants);
}

static int check_all(bool values, struct fault *f) {
	int r = 0;

	/* Who has more rights than its caller takes nothing from it, mistakes among it. */
	if (getauxval(AT_SECURE))
		return 0;
	for (char **p = environ; p && *p && !r; p++)
		if (!strncmp(*p, prefix, sizeof prefix - 1))
			r = check(*p + sizeof prefix - 1, values, f);
	return r;
}

int variables_check(struct fault *f) {
	return check_all(true, f);
}

int variables_check_names(struct fault *f) {
	return check_all(false, f);
}

/* ---- values ---- */

bool variable_switch(const char *name, bool standard) {
	const char *text = secure_getenv(name);
	uint64_t value = standard;

	return text && word_value(words_switch, text, &value) ? value != 0 : standard;
}

uint32_t variable_number(const char *name, uint32_t standard) {
	const char *text = secure_getenv(name);
	uint64_t value;

	return text && number_value(text, &value) ? (uint32_t)value : standard;
}
