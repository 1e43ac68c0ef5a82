/*
 * fusionctl stats: what the daemon has counted, as a tree of names and numbers. Every name the
 * daemon sends is printed; a name's ending tells its unit, so that a new counter needs nothing here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"

enum {
	NAME_TEXT = 128,
	/* As much as the notes of a driver. */
	LINE_TEXT = 4096,
	TEXT_GAP = 2,
};

static bool ends_in(const char *text, const char *end) {
	size_t a = strlen(text), b = strlen(end);

	return a >= b && !strcmp(text + a - b, end);
}

static char *print_percent(double value, char text[static PRINT_TEXT]) {
	snprintf(text, PRINT_TEXT, "%.1f %%", value);
	return text;
}

/* 0: not known. */
static char *print_times(double value, char text[static PRINT_TEXT]) {
	if (value > 0)
		snprintf(text, PRINT_TEXT, "%.3g times", value);
	else
		snprintf(text, PRINT_TEXT, "-");
	return text;
}

/* Units by the ending of a name, the first that fits. The ending is shown where it says more than the unit. */
static const struct unit {
	const char *ending;
	char *(*print)(double value, char text[static PRINT_TEXT]);
	double factor;
	bool shown;
} units[] = {
	{ "flush_bytes", print_count, 1, true },
	{ "bytes_not_moved", print_bytes, 1, true },
	{ "_speedup", print_times, 1, true },
	{ "_bytes", print_bytes, 1, false },
	{ "_percent", print_percent, 1, false },
	{ "_ns", print_seconds, 1e-9, false },
	{ "_us", print_seconds, 1e-6, false },
	{ "_ms", print_seconds, 1e-3, false },
	{ "_s", print_seconds, 1, false },
	{ "", print_count, 1, true },
};

static const struct unit *unit_of(const char *name) {
	const struct unit *u = units;

	while (!ends_in(name, u->ending))
		u++;
	return u;
}

/* kernels_launched becomes "kernels launched". */
static char *readable(const char *name, char text[static NAME_TEXT]) {
	const struct unit *u = unit_of(name);

	snprintf(text, NAME_TEXT, "%.*s", (int)(strlen(name) - (u->shown ? 0 : strlen(u->ending))), name);
	for (char *p = text; *p; p++)
		if (*p == '_')
			*p = ' ';
	return text;
}

/* Lines of a longer text stand beside each other. */
static char *one_line(const char *text, char line[static LINE_TEXT]) {
	size_t used = 0;

	for (; *text && used + 3 < LINE_TEXT; text++) {
		if (*text != '\n')
			line[used++] = *text;
		else if (text[1])
			used += (size_t)sprintf(line + used, "; ");
	}
	line[used] = '\0';
	return line;
}

static void text_cell(struct print_table *t, const char *text) {
	char line[LINE_TEXT];

	print_table_cell(t, one_line(text, line), false);
}

static void value_cell(struct print_table *t, const cJSON *item, const char *name) {
	const struct unit *u = unit_of(name);
	char text[PRINT_TEXT];

	if (cJSON_IsNumber(item))
		print_table_cell(t, u->print(item->valuedouble * u->factor, text), true);
	else if (cJSON_IsString(item))
		text_cell(t, item->valuestring);
	else
		print_table_cell(t, cJSON_IsTrue(item) ? "yes" : cJSON_IsFalse(item) ? "no" : "-", true);
}

static bool is_group(const cJSON *item) {
	return cJSON_IsObject(item) || cJSON_IsArray(item);
}

/* The texts of an object, which may be long. */
static void print_texts(const cJSON *object, unsigned indent) {
	char name[NAME_TEXT], line[LINE_TEXT];
	const cJSON *item;
	int widest = 0;

	cJSON_ArrayForEach(item, object) {
		if (cJSON_IsString(item) && item->string && (int)strlen(readable(item->string, name)) > widest)
			widest = (int)strlen(name);
	}
	cJSON_ArrayForEach(item, object) {
		if (!cJSON_IsString(item))
			continue;
		printf("%*s%-*s", (int)indent, "", widest, readable(item->string ? item->string : "", name));
		print_wrapped(one_line(item->valuestring, line), (int)indent + widest, (int)indent + widest + TEXT_GAP, print_width());
	}
}

/* Its other plain values, aligned. */
static void print_values(const cJSON *object, unsigned indent) {
	struct print_table *t = print_table_new(2);
	const cJSON *item;
	char text[NAME_TEXT];

	cJSON_ArrayForEach(item, object) {
		if (is_group(item) || cJSON_IsString(item))
			continue;
		print_table_cell(t, readable(item->string ? item->string : "", text), false);
		value_cell(t, item, item->string ? item->string : "");
	}
	print_table_end(t, indent);
}

/* An array of objects with the same names: one row each. */
static void print_rows(const cJSON *array, unsigned indent) {
	const cJSON *first = array->child, *row, *item;
	struct print_table *t = print_table_new((unsigned)cJSON_GetArraySize(first));
	char text[NAME_TEXT];

	cJSON_ArrayForEach(item, first) {
		print_table_cell(t, readable(item->string, text), cJSON_IsNumber(item));
	}
	cJSON_ArrayForEach(row, array) {
		cJSON_ArrayForEach(item, first) {
			value_cell(t, cJSON_GetObjectItemCaseSensitive(row, item->string), item->string);
		}
	}
	print_table_fold(t, indent);
}

static void print_tree(const cJSON *object, unsigned indent) {
	char text[NAME_TEXT];
	const cJSON *item;

	print_texts(object, indent);
	print_values(object, indent);
	cJSON_ArrayForEach(item, object) {
		if (!is_group(item) || !item->child)
			continue;
		printf("\n%*s%s\n", (int)indent, "", readable(item->string ? item->string : "", text));
		if (cJSON_IsArray(item) && cJSON_IsObject(item->child))
			print_rows(item, indent + 2);
		else
			print_tree(item, indent + 2);
	}
}

static void print_stats(const cJSON *json) {
	print_tree(json, 0);
}

int stats_command(const struct control *c) {
	fusion_context *context;
	char *text;
	struct fault f;
	int r = control_open(c, &context, &f);

	if (r)
		return control_fail(c, r, &f);
	text = fusion_stats(context, true);
	r = control_show(c, text, print_stats, &f);
	if (r)
		r = control_fail(c, r, &f);
	free(text);
	fusion_close(context);
	return r;
}
