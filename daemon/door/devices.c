/* See devices.h. */
#include "devices.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/door/child.h"

/* One entry of the list; `every` has no number. */
struct entry {
	char name[CONFIG_TEXT];
	uint64_t number;
	bool every;
};

/* Cuts ":2" and ":*" off. A colon with anything else behind it belongs to the name. */
static void cut_number(struct entry *e) {
	char *colon = strrchr(e->name, ':'), *end;
	unsigned long number;

	if (!colon)
		return;
	if (!strcmp(colon, ":*")) {
		e->every = true;
		*colon = 0;
		return;
	}
	number = strtoul(colon + 1, &end, 10);
	if (!isdigit((unsigned char)colon[1]) || *end)
		return;
	e->number = number;
	*colon = 0;
}

static void read_entry(struct entry *e, const char *text, size_t length) {
	while (length && isspace((unsigned char)*text)) {
		text++;
		length--;
	}
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	*e = (struct entry){ .number = 0 };
	snprintf(e->name, sizeof e->name, "%.*s", (int)length, text);
	if (!strcmp(e->name, "*")) {
		e->every = true;
		e->name[0] = 0;
	}
	cut_number(e);
}

static int add_entry(const struct config *config, const struct config_source *source, const struct entry *e, device_add *add, void *user,
	struct fault *f) {
	unsigned count = 1;
	int r = e->every ? child_count(config, source, e->name, &count, f) : 0;

	for (unsigned i = 0; !r && i < count; i++)
		r = add(user, e->name, e->every ? i : e->number, f);
	return r;
}

int devices_each(const struct config *config, const struct config_source *source, device_add *add, void *user, struct fault *f) {
	const char *text = config->device_device;
	bool single = !strchr(text, ',');
	size_t length;
	int r = 0;

	do {
		struct entry e;

		length = strcspn(text, ",");
		read_entry(&e, text, length);
		if (single && !e.every && !e.number)
			e.number = config->device_number;
		r = add_entry(config, source, &e, add, user, f);
		text += length;
	} while (!r && *text++);
	return r;
}

/* ---- looking ---- */

struct look {
	const struct config *config;
	const struct config_source *source;
	bool failed;
};

static int print_wish(void *user, const char *name, uint64_t number, struct fault *f) {
	char device[CONFIG_TEXT + sizeof "device.device="], which[64];
	struct look *l = user;
	struct config_source source = *l->source;
	char text[CHECK_TEXT] = "";
	int r;

	snprintf(device, sizeof device, "device.device=%s", name);
	snprintf(which, sizeof which, "device.number=%" PRIu64, number);
	r = config_flag(&source, device);
	if (!r)
		r = config_flag(&source, which);
	if (!r)
		r = child_look(l->config, &source, text, f);
	l->failed |= r != 0;
	if (r >= 0)
		printf("%s\t%s\n", r ? "error" : "ok", r ? f->text : text);
	return r < 0 ? r : 0;
}

int devices_print(const struct config_source *source) {
	struct config config;
	struct look l = { &config, source, false };
	struct fault f = { 0 };
	int r = config_load(&config, source, &f);

	if (!r)
		r = devices_each(&config, source, print_wish, &l, &f);
	if (r)
		printf("error\t%s\n", r > 0 ? f.text : strerror(-r));
	return r || l.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
