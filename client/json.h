/* Reading the daemon's JSON, in the library and fusionctl: what is missing is "" or 0. */
#pragma once

#include <cjson/cJSON.h>

static inline const char *json_text(const cJSON *object, const char *name) {
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	return text ? text : "";
}

static inline double json_number(const cJSON *object, const char *name) {
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

static inline const cJSON *json_item(const cJSON *object, const char *name) {
	return cJSON_GetObjectItemCaseSensitive(object, name);
}
