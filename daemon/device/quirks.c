/* Reads the table of quirks.def. Nobody else knows a driver by name. */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct quirks rows[] = {
#define QUIRK(property, text, ...) { QUIRK_##property, text, __VA_ARGS__ },
#include "quirks.def"
#undef QUIRK
};

enum { ROWS = sizeof rows / sizeof *rows };

const struct quirks *quirks_of(const char *platform, const char *device) {
	const char *name;

	for (size_t i = 0; i < ROWS; i++) {
		name = rows[i].property == QUIRK_PLATFORM ? platform : device;
		if (strstr(name, rows[i].text))
			return &rows[i];
	}
	return &rows[ROWS - 1];
}

int quirks_set_variables(const char *folder) {
	for (size_t i = 0; i < ROWS; i++) {
		if (folder && rows[i].cache_variable && setenv(rows[i].cache_variable, folder, 1))
			return -errno;
		/* Who has set it knows what he wants. */
		if (rows[i].variable && setenv(rows[i].variable, rows[i].value, 0))
			return -errno;
	}
	return 0;
}

const char *quirks_package(void) {
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].missing)
			return rows[i].missing;
	return "an OpenCL driver";
}
