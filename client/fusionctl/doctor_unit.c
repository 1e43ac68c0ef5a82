/*
 * What fusiond.service says, as it lies on disk: the unit of the folder that goes first, then drop-ins by their names, later
 * lines over earlier ones. Enough for the few lines that checks ask for; systemd itself need not run.
 */
#include "doctor.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ini.h>

/* Those that go first come first. */
static const char *const folders[] = { "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system", "/lib/systemd/system" };

enum {
	FOLDERS = sizeof folders / sizeof *folders,
};

struct wanted {
	const char *name;
	char *value;
	bool found;
};

static int take_line(void *user, const char *section, const char *name, const char *value) {
	struct wanted *w = user;

	if (!strcmp(section, "Service") && !strcmp(name, w->name)) {
		snprintf(w->value, DOCTOR_NAME, "%s", value);
		w->found = true;
	}
	return 1;
}

/* A line that inih finds too long is not one of those that are asked for. */
static void read_file(const char *path, struct wanted *w) {
	(void)ini_parse(path, take_line, w);
}

static void read_unit(const struct doctor *d, struct wanted *w) {
	char file[PATH_MAX], path[PATH_MAX];

	for (int i = 0; i < FOLDERS; i++) {
		snprintf(file, sizeof file, "%s/fusiond.service", folders[i]);
		if (doctor_path(d, file, path) && !access(path, R_OK)) {
			read_file(path, w);
			return;
		}
	}
}

/* glob() sorts within a folder; one that goes first is read last. */
static void read_drop_ins(const struct doctor *d, struct wanted *w) {
	char file[PATH_MAX], pattern[PATH_MAX];

	for (int i = FOLDERS - 1; i >= 0; i--) {
		glob_t found = { 0 };

		snprintf(file, sizeof file, "%s/fusiond.service.d/*.conf", folders[i]);
		if (doctor_path(d, file, pattern) && !glob(pattern, 0, NULL, &found))
			for (size_t k = 0; k < found.gl_pathc; k++)
				read_file(found.gl_pathv[k], w);
		globfree(&found);
	}
}

bool doctor_unit_value(const struct doctor *d, const char *name, char value[static DOCTOR_NAME]) {
	struct wanted w = { name, value, false };

	value[0] = 0;
	read_unit(d, &w);
	read_drop_ins(d, &w);
	return w.found;
}
