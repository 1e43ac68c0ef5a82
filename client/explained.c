/* Places in an explanation. See explained.h for the contract. */
#include "explained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key of the answer whose value is the number of an operation. Within a text of the answer each quotation mark has a backslash, so no text holds one. */
struct key {
	const char *number, *at;
};

static const struct key keys[] = {
	{ "\"node\":", "at" },
	{ "\"producer\":", "producer_at" },
	{ "\"consumer\":", "consumer_at" },
};

static const struct key *key_at(const char *json) {
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strncmp(json, keys[i].number, strlen(keys[i].number)))
			return &keys[i];
	return NULL;
}

/* Names of files may hold anything but a zero. */
static void put_escaped(FILE *to, const char *text) {
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(to, "\\u%04x", (unsigned char)*text);
		else
			putc(*text, to);
}

/* Returns what is behind the number. */
static const char *put_number(FILE *to, const char *json, const struct key *key, const struct place *place, uint32_t count) {
	const char *number = json + strlen(key->number);
	char *end, name[PLACE_TEXT];
	double value = strtod(number, &end);

	fwrite(json, 1, (size_t)(end - json), to);
	/* Copies that the planner added have none: their number is -1. */
	if (value < 0 || value >= count || !place[(uint32_t)value].file)
		return end;
	fprintf(to, ",\"%s\":\"", key->at);
	put_escaped(to, place_name(place[(uint32_t)value], name));
	putc('"', to);
	return end;
}

char *explained_with_places(const char *json, const struct place *place, uint32_t count) {
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	bool failed;

	if (!to)
		return NULL;
	while (*json) {
		const struct key *key = *json == '"' ? key_at(json) : NULL;

		if (key)
			json = put_number(to, json, key, place, count);
		else
			putc(*json++, to);
	}
	failed = ferror(to);
	if (fclose(to) || failed) {
		free(text);
		return NULL;
	}
	return text;
}
