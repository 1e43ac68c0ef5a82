/*
 * fusionctl doctor: where kernels are kept.
 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fusiond.h"
#include "print.h"
#include "client/json.h"

/* ---- HOME ---- */

static bool variable(const char *name) {
	const char *value = getenv(name);

	return value && *value;
}

void doctor_home(struct doctor *d) {
	bool service = d->subject.uid != geteuid() || d->status;

	if (service || !d->subject.uid || *doctor_setting(d, "cache.dir")) {
		doctor_find(d, DOCTOR_OK, "the cache folder does not depend on HOME, or that is set");
		return;
	}
	if (variable("CACHE_DIRECTORY") || variable("XDG_CACHE_HOME") || variable("HOME")) {
		doctor_find(d, DOCTOR_OK, "HOME or what stands for it is set");
		return;
	}
	doctor_find(d, DOCTOR_ERROR, "HOME is not set, so there is no folder for compiled kernels");
	doctor_mend(d, "export HOME=$(getent passwd \"$(id -u)\" | cut -d: -f6)    # or start fusiond with --cache-dir FOLDER");
}

/* ---- the folder ---- */

static void mend_noexec(struct doctor *d, const char *folder) {
	doctor_find(d, DOCTOR_ERROR, "the file system of the cache folder %s is mounted noexec, but drivers run code from files there",
		folder);
	doctor_mend(d, "mount -o remount,exec \"$(findmnt -n -o TARGET -T %s)\"    # or set cache.dir to another place", folder);
}

/* Where the folder is missing, it is made: what lies above it stays whose it is. */
static void mend_writable(struct doctor *d, const char *folder, bool there, const char *why) {
	doctor_find(d, DOCTOR_ERROR, "the cache folder %s cannot be %s by %s: %s", folder, there ? "written to" : "made",
		d->subject.name, why);
	if (there)
		doctor_mend(d, "chown -R %s %s && chmod u+rwx %s    # or set cache.dir to another place", d->subject.name, folder, folder);
	else
		doctor_mend(d, "install -d -m 0750 -o %s %s    # or set cache.dir to another place", d->subject.name, folder);
}

/* The daemon makes the last part of the path, so the folder above counts where it is missing. Is it there itself? */
static bool existing_part(char path[static PATH_MAX]) {
	struct stat st;
	bool there = !stat(path, &st);
	char *slash;

	while (stat(path, &st) && (slash = strrchr(path, '/')) && slash != path)
		*slash = 0;
	return there;
}

/* Maps a file of the folder as drivers do; 0 or -errno. */
static int try_folder(const char *folder, bool *wrotep) {
	char path[PATH_MAX];
	void *map;
	int fd, r = 0;

	*wrotep = false;
	if (snprintf(path, sizeof path, "%s/.doctor-XXXXXX", folder) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, "doctor", 6) != 6)
		r = errno ? -errno : -ENOSPC;
	*wrotep = !r;
	map = r ? MAP_FAILED : mmap(NULL, 6, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (!r && map == MAP_FAILED)
		r = -errno;
	if (map != MAP_FAILED)
		munmap(map, 6);
	close(fd);
	unlink(path);
	return r;
}

/* Of another user only permissions can be judged. */
static int judge_other(const struct doctor *d, const char *folder) {
	struct stat st;
	mode_t mode;

	if (stat(folder, &st))
		return -errno;
	mode = st.st_mode;
	if (!S_ISDIR(mode))
		return -ENOTDIR;
	return doctor_may_use(d, st.st_uid, st.st_gid, mode) ? 0 : -EACCES;
}

static const char *folder_name(const struct doctor *d) {
	const char *running = json_text(d->status, "cache_dir");

	if (*running)
		return running;
	return d->subject.uid != geteuid() && !geteuid() ? "/var/cache/fusiond" : doctor_setting(d, "cache.dir");
}

/* The daemon refuses it, and looks at what lies above, too; here it is the folder itself. */
static bool is_private(struct doctor *d, const char *folder) {
	struct stat st;

	if (stat(folder, &st) || (st.st_uid == d->subject.uid && !(st.st_mode & S_IWOTH)))
		return true;
	doctor_find(d, DOCTOR_ERROR, "the cache folder %s %s, who could have code of their own run from it", folder,
		st.st_uid != d->subject.uid ? "belongs to another user than the daemon's" : "may be written to by others");
	doctor_mend(d, "chown -R %s %s && chmod -R go-w %s    # or set cache.dir to another place", d->subject.name, folder, folder);
	return false;
}

void doctor_cache_folder(struct doctor *d) {
	const char *name = folder_name(d);
	bool own = d->subject.uid == geteuid(), wrote = false;
	char folder[PATH_MAX], whole[PATH_MAX];
	struct statvfs v;
	bool there;
	int r;

	if (!*name || !doctor_path(d, name, folder)) {
		doctor_find(d, DOCTOR_WARNING, "it is not known which folder the daemon would take");
		return;
	}
	strcpy(whole, folder);
	there = existing_part(folder);
	if (!statvfs(folder, &v) && v.f_flag & ST_NOEXEC) {
		mend_noexec(d, folder);
		return;
	}
	r = own ? try_folder(folder, &wrote) : judge_other(d, folder);
	if (r && wrote)
		mend_noexec(d, folder);
	else if (r)
		mend_writable(d, whole, there, strerror(-r));
	else if (!there || is_private(d, whole))
		doctor_find(d, DOCTOR_OK, "the cache folder %s can be written to, and run from", whole);
}

/* ---- what it holds ---- */

/* Is `made` of a device and a driver that are there, by this release? */
static bool is_current(const struct doctor *d, const cJSON *made, const char *version) {
	const cJSON *device;

	if (strcmp(json_text(made, "version"), version) != 0)
		return false;
	cJSON_ArrayForEach(device, d->devices) {
		char name[2 * PATH_MAX];

		snprintf(name, sizeof name, "%s, %s", json_text(device, "platform"), json_text(device, "device"));
		if (!strcmp(name, json_text(made, "device")) && !strcmp(json_text(device, "driver"), json_text(made, "driver")))
			return true;
	}
	return false;
}

static void judge_stale(struct doctor *d, const cJSON *usage, const char *folder) {
	const char *version = json_text(usage, "version");
	double stale = 0, all = 0;
	const cJSON *made, *example = NULL;

	cJSON_ArrayForEach(made, json_item(usage, "made_by")) {
		double count = json_number(made, "kernels");

		all += count;
		if (is_current(d, made, version))
			continue;
		stale += count;
		example = made;
	}
	if (!stale) {
		doctor_find(d, DOCTOR_OK, "what the cache folder holds is of the drivers that are here (%.0f kernels)", all);
		return;
	}
	doctor_find(d, DOCTOR_WARNING, "the cache is stale: %.0f of its %.0f kernels are of no driver that is here, such as %s by driver %s, fusiond %s",
		stale, all, json_text(example, "device"), json_text(example, "driver"), json_text(example, "version"));
	doctor_mend(d, "fusionctl cache prune --size 0    # the folder %s; kernels are built again as they are wanted", folder);
}

/* What fusiond says of the folder; NULL: nobody reads it, and that is said. */
static cJSON *ask_folder(struct doctor *d, const char *action, const char *folder) {
	const char *const argument[] = { "--cache", action, "--cache-dir", folder, NULL };
	cJSON *usage = NULL;
	char *text = NULL;

	if (!fusiond_run(argument, FUSIOND_ALL, &text))
		usage = cJSON_Parse(text);
	free(text);
	if (!usage)
		doctor_find(d, DOCTOR_OK, "not looked at: %s cannot be read by this user", folder);
	return usage;
}

void doctor_cache_stale(struct doctor *d) {
	const char *folder = folder_name(d);
	cJSON *usage;

	if (!*folder || *d->root || !cJSON_GetArraySize(d->devices)) {
		doctor_find(d, DOCTOR_OK, "not looked at: no folder or no device is known");
		return;
	}
	usage = ask_folder(d, "stat", folder);
	if (usage)
		judge_stale(d, usage, folder);
	cJSON_Delete(usage);
}

static void judge_damaged(struct doctor *d, const cJSON *usage, const char *folder) {
	double damaged = json_number(json_item(usage, "damaged"), "count"), aside = json_number(json_item(usage, "aside"), "count");

	if (damaged > 0) {
		doctor_find(d, DOCTOR_WARNING, "%.0f entries of the cache do not read as they were written", damaged);
		doctor_mend(d, "fusionctl cache verify    # the folder %s; look at its disk; kernels are built again as they are wanted", folder);
	} else if (aside > 0) {
		doctor_find(d, DOCTOR_WARNING, "%.0f entries of the driver's cache were damaged this week, and are in %s/aside", aside, folder);
		doctor_mend(d, "rm -r %s/aside    # nothing needs them; look at the disk", folder);
	} else {
		doctor_find(d, DOCTOR_OK, "what the cache folder holds reads as it was written");
	}
}

void doctor_cache_damaged(struct doctor *d) {
	const char *folder = folder_name(d);
	cJSON *usage = NULL;

	if (*folder && !*d->root)
		usage = ask_folder(d, "check", folder);
	else
		doctor_find(d, DOCTOR_OK, "not looked at: no folder is known");
	if (usage)
		judge_damaged(d, usage, folder);
	cJSON_Delete(usage);
}
