/* See cache.h. */
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "daemon/base/cache_folder.h"
#include "daemon/base/log.h"
#include "daemon/base/version.h"

static const struct {
	const char *name, *doc;
} kinds[CACHE_KINDS] = {
	[CACHE_PROGRAM] = { "programs", "built programs" },
	[CACHE_NOTE] = { "notes", "what kernels were built from" },
	[CACHE_DRIVER] = { "driver", "entries of the driver's own cache" },
	[CACHE_LEFTOVER] = { "leftovers", "files that nobody will finish" },
};

static void add_sum(cJSON *json, const char *name, const char *doc, const struct cache_sum *s) {
	cJSON *one = cJSON_AddObjectToObject(json, name);

	cJSON_AddNumberToObject(one, "count", (double)s->count);
	cJSON_AddNumberToObject(one, "bytes", (double)s->bytes);
	cJSON_AddStringToObject(one, "doc", doc);
}

/* What built what is held; where that cannot be read, the rest is told. */
static void add_makers(cJSON *json, const char *folder) {
	cJSON *list = cJSON_AddArrayToObject(json, "made_by");
	struct cache_makers m;

	if (cache_folder_makers(folder, &m))
		log_warning("not all notes of the cache folder %s could be read", folder);
	for (size_t i = 0; i < m.count; i++) {
		cJSON *one = cJSON_CreateObject();

		cJSON_AddItemToArray(list, one);
		cJSON_AddStringToObject(one, "device", m.made[i].device);
		cJSON_AddStringToObject(one, "driver", m.made[i].driver);
		cJSON_AddStringToObject(one, "version", m.made[i].version);
		cJSON_AddNumberToObject(one, "kernels", (double)m.made[i].kernels);
	}
	cache_makers_free(&m);
}

static int print_usage(const struct config *c, const struct cache_usage *u) {
	cJSON *json = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(json, "folder", c->cache_dir);
	cJSON_AddStringToObject(json, "version", FUSIOND_VERSION);
	cJSON_AddNumberToObject(json, "most_bytes", (double)c->cache_bytes);
	cJSON_AddBoolToObject(json, "driver_in_memory", u->in_memory);
	for (unsigned i = 0; i < CACHE_KINDS; i++)
		add_sum(json, kinds[i].name, kinds[i].doc, &u->held[i]);
	add_sum(json, "removed", "leftovers, and what was used longest ago", &u->removed);
	add_sum(json, "damaged", "did not read as written, and was removed unless only looked at", &u->damaged);
	add_sum(json, "aside", "entries of the driver's cache that were damaged, or an engine ended over: put aside for a week", &u->aside);
	add_makers(json, c->cache_dir);
	text = cJSON_Print(json);
	puts(text ? text : "{}");
	free(text);
	cJSON_Delete(json);
	return EXIT_SUCCESS;
}

int cache_action(const struct config *c, const char *action) {
	struct cache_usage u;
	int r;

	if (!strcmp(action, "stat"))
		r = cache_folder_measure(c->cache_dir, &u);
	else if (!strcmp(action, "prune"))
		r = cache_folder_prune(c->cache_dir, c->cache_bytes ? (uint64_t)c->cache_bytes : UINT64_MAX, &u);
	else if (!strcmp(action, "verify"))
		r = cache_folder_verify(c->cache_dir, &u);
	else if (!strcmp(action, "check"))
		r = cache_folder_check(c->cache_dir, &u);
	else
		return fprintf(stderr, "fusiond: --cache does stat, prune, verify or check, not %s\n", action), EXIT_FAILURE;
	if (!r)
		return print_usage(c, &u);
	fprintf(stderr, "fusiond: the cache folder %s: %s\n", c->cache_dir, strerror(-r));
	return EXIT_FAILURE;
}
