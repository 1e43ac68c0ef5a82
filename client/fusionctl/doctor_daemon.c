/*
 * fusionctl doctor: the configuration, the socket, and what answers there.
 */
#include "doctor.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/link.h"
#include "client/place.h"
#include "fusiond.h"
#include "client/json.h"
#include "protocol/message.h"

#define CONFIG_FILE "/etc/fusiond/fusiond.conf"

/* ---- the configuration ---- */

/* Lines "section.name=value". */
static cJSON *read_settings(char *text) {
	cJSON *json = cJSON_CreateObject();
	char *line, *value;

	while ((line = strsep(&text, "\n"))) {
		value = line;
		strsep(&value, "=");
		if (value)
			cJSON_AddStringToObject(json, line, value);
	}
	return json;
}

void doctor_configuration(struct doctor *d) {
	const char *socket = control_socket_path(d->control->socket);
	char file[PATH_MAX], *text = NULL;
	const char *argument[] = { "--check", "--socket", link_is_url(socket) ? "/run/fusiond/door" : socket, NULL, file, NULL };
	int status;

	if (*d->root && doctor_path(d, CONFIG_FILE, file) && !access(file, R_OK))
		argument[3] = "--config";
	status = fusiond_run(argument, FUSIOND_ALL, &text);
	if (!status && text) {
		d->settings = read_settings(text);
		doctor_find(d, DOCTOR_OK, "the configuration reads");
	} else if (text && strstr(text, "cannot be run")) {
		doctor_find(d, DOCTOR_ERROR, "the program fusiond is not installed beside fusionctl nor in $PATH");
		doctor_mend(d, "apt install fusiond    # or make install");
	} else {
		doctor_find(d, DOCTOR_ERROR, "the configuration does not read: %.*s", text ? (int)strcspn(text, "\n") : 0,
			text ? text : "");
		doctor_mend(d, "fusiond --check    # after a correction in " CONFIG_FILE " or what the sentence names");
	}
	free(text);
}

/* ---- the socket ---- */

static int try_connect(const char *path, struct fault *f) {
	struct sockaddr_un address;
	int r = place_address(path, &address, f), fd;

	if (r)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = connect(fd, (const struct sockaddr *)&address, sizeof address) ? -errno : 0;
	close(fd);
	return r;
}

/* The folder on the way that may not be entered, or the socket itself. */
static void mend_forbidden(struct doctor *d, const char *path) {
	char group[DOCTOR_NAME];
	struct stat st;

	d->check_code = EX_NOPERM;
	if (stat(path, &st)) {
		doctor_find(d, DOCTOR_ERROR, "the socket %s is forbidden to this user: a folder on its path may not be entered", path);
		doctor_mend(d, "namei -l %s    # then chmod o+x the folder that says no", path);
		return;
	}
	doctor_group(st.st_gid, group);
	doctor_find(d, DOCTOR_ERROR, "the socket %s is forbidden to this user: its mode is %04o, its group %s", path,
		(unsigned)(st.st_mode & 07777), group);
	if (st.st_mode & S_IWGRP && st.st_gid)
		doctor_mend(d, "usermod -aG %s USER    # then log in again", group);
	else
		doctor_mend(d, "fusionctl config get door.mode --show-origin    # then door.mode = 0666 there, and systemctl restart fusiond");
}

static void mend_missing(struct doctor *d, const char *path, int r) {
	if (r == -ECONNREFUSED)
		doctor_find(d, DOCTOR_ERROR, "the socket %s is of a daemon that is gone", path);
	else if (r == -ENOENT)
		doctor_find(d, DOCTOR_ERROR, "the socket %s is missing: no daemon runs, or it serves another", path);
	else
		doctor_find(d, DOCTOR_ERROR, "the socket %s cannot be used: %s", path, strerror(-r));
	doctor_mend(d, "systemctl start fusiond    # without systemd: fusiond --socket %s", path);
}

void doctor_socket(struct doctor *d) {
	const char *path = control_socket_path(d->control->socket);
	struct fault f;
	int r;

	if (d->status) {
		doctor_find(d, DOCTOR_OK, "fusiond %s answers at %s", json_text(d->status, "version"), path);
		return;
	}
	if (*d->root) {
		doctor_find(d, DOCTOR_OK, "not looked at: nothing runs in a tree of files");
		return;
	}
	if (link_is_url(path)) {
		doctor_find(d, DOCTOR_ERROR, "no daemon answers at %s", path);
		doctor_mend(d, "fusionctl -s %s status    # says why; on that machine: fusionctl doctor", path);
		return;
	}
	r = try_connect(path, &f);
	if (r > 0) {
		doctor_find(d, DOCTOR_ERROR, "%s", f.text);
		doctor_mend(d, "fusiond --socket PATH    # a shorter one, and FUSION_SOCKET=PATH for who uses it");
	} else if (r == -EACCES || r == -EPERM) {
		mend_forbidden(d, path);
	} else if (r) {
		mend_missing(d, path, r);
	} else {
		doctor_find(d, DOCTOR_ERROR, "%s takes connections and does not answer: it hangs, or is no fusiond", path);
		doctor_mend(d, "systemctl restart fusiond");
	}
}

/* ---- what answers ---- */

/* The release of the program that would be started now; "" where none can be run. */
static void installed_version(char version[static DOCTOR_NAME]) {
	const char *const argument[] = { "--version", NULL };
	char *text = NULL;

	version[0] = 0;
	if (!fusiond_run(argument, FUSIOND_ALL, &text) && text && !strncmp(text, "fusiond ", 8))
		snprintf(version, DOCTOR_NAME, "%.*s", (int)strcspn(text + 8, "\n"), text + 8);
	free(text);
}

void doctor_version(struct doctor *d) {
	static const struct message_versions own = { PROTOCOL_OLDEST, PROTOCOL_VERSION };
	const char *running = json_text(d->status, "version");
	char installed[DOCTOR_NAME], spoken[VERSIONS_TEXT], known[VERSIONS_TEXT];
	struct message_versions theirs;

	if (!d->status) {
		doctor_find(d, DOCTOR_OK, "no daemon answers whose version could differ");
		return;
	}
	installed_version(installed);
	theirs.newest = (uint64_t)json_number(d->status, "protocol");
	theirs.oldest = cJSON_HasObjectItem(d->status, "protocol_oldest") ? (uint64_t)json_number(d->status, "protocol_oldest") : theirs.newest;
	if (!message_agree(theirs, own)) {
		doctor_find(d, DOCTOR_ERROR, "the daemon is %s and speaks %s of the protocol, fusionctl %s speaks %s", running,
			message_versions_text(theirs, spoken), FUSION_VERSION, message_versions_text(own, known));
		doctor_mend(d, "apt install fusiond libfusion1 fusion-tools && systemctl restart fusiond    # all of one release");
	} else if (strcmp(running, FUSION_VERSION) != 0) {
		doctor_find(d, DOCTOR_WARNING, "the daemon is %s, fusionctl %s; they understand each other", running, FUSION_VERSION);
		doctor_mend(d, "systemctl restart fusiond");
	} else if (*installed && strcmp(running, installed) != 0) {
		doctor_find(d, DOCTOR_WARNING, "the daemon that runs is %s, the one installed is %s", running, installed);
		doctor_mend(d, "systemctl restart fusiond");
	} else {
		doctor_find(d, DOCTOR_OK, "the daemon and fusionctl are both %s", running);
	}
}

void doctor_engine(struct doctor *d) {
	const cJSON *engine;
	bool good = true;

	cJSON_ArrayForEach(engine, json_item(d->status, "engines")) {
		if (!strcmp(json_text(engine, "state"), "ready"))
			continue;
		good = false;
		doctor_find(d, DOCTOR_ERROR, "engine %.0f is %s%s%s", json_number(engine, "number"), json_text(engine, "state"),
			*json_text(engine, "last_end") ? "; it ended before: " : "", json_text(engine, "last_end"));
		doctor_mend(d, "journalctl -u fusiond -b    # what the daemon said; a first start may build kernels for a minute");
	}
	if (good)
		doctor_find(d, DOCTOR_OK, d->status ? "every engine is ready" : "no daemon answers whose engines could be asked");
}

/* ---- other machines ---- */

void doctor_network(struct doctor *d) {
	const char *listen = doctor_setting(d, "remote.listen");
	char value[DOCTOR_NAME];
	bool private = doctor_unit_value(d, "PrivateNetwork", value) &&
		       (!strcasecmp(value, "yes") || !strcasecmp(value, "true") || !strcmp(value, "1") || !strcasecmp(value, "on"));

	if (!*listen) {
		doctor_find(d, DOCTOR_OK, "the daemon is not meant for other machines");
	} else if (private) {
		doctor_find(d, DOCTOR_ERROR, "remote.listen is %s, but fusiond.service has PrivateNetwork=%s: nobody can reach it", listen, value);
		doctor_mend(d, "systemctl edit fusiond    # [Service] PrivateNetwork=no, RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6; then systemctl restart fusiond");
	} else {
		doctor_find(d, DOCTOR_OK, "remote.listen is %s, and the unit does not take the network away", listen);
	}
}
