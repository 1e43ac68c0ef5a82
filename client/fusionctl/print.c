/* Output for people; see print.h. */
#include "print.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/number.h"

enum {
	NAME_WIDTH = 16,
	GAP = 2,
	/* How much further in the later lines of a long one stand. */
	HANGING = 2,
	/* A narrower terminal is none that lines are wrapped for. */
	PRINT_NARROWEST = 40,
};

/* ---- numbers ---- */

char *print_count(double value, char text[static PRINT_TEXT]) {
	char plain[PRINT_TEXT];
	bool negative;

	if (value != floor(value) || fabs(value) >= 1e18) {
		snprintf(text, PRINT_TEXT, "%.4g", value);
		return text;
	}
	snprintf(plain, sizeof plain, "%.0f", value);
	negative = *plain == '-';
	if (negative)
		*text = '-';
	number_thousands(plain + negative, text + negative);
	return text;
}

char *print_bytes(double bytes, char text[static PRINT_TEXT]) {
	const char *unit;
	double count = number_bytes(bytes, &unit);
	int digits = count == floor(count) || count >= 100 ? 0 : count >= 10 ? 1 : 2;

	snprintf(text, PRINT_TEXT, "%.*f %s", digits, count, unit);
	return text;
}

char *print_seconds(double seconds, char text[static PRINT_TEXT]) {
	static const struct {
		double size;
		const char *name, *next;
	} long_units[] = { { 86400, "d", "h" }, { 3600, "h", "min" }, { 60, "min", "s" } };
	static const double next_size[] = { 3600, 60, 1 };

	for (unsigned i = 0; i < 3; i++)
		if (seconds >= long_units[i].size) {
			double whole = floor(seconds / long_units[i].size);

			snprintf(text, PRINT_TEXT, "%.0f %s %.0f %s", whole, long_units[i].name,
				floor((seconds - whole * long_units[i].size) / next_size[i]),
				long_units[i].next);
			return text;
		}
	if (seconds >= 1 || seconds == 0)
		snprintf(text, PRINT_TEXT, "%.3g s", seconds);
	else if (seconds >= 1e-3)
		snprintf(text, PRINT_TEXT, "%.3g ms", seconds * 1e3);
	else
		snprintf(text, PRINT_TEXT, "%.3g us", seconds * 1e6);
	return text;
}

char *print_counted(double value, const char *noun, char text[static PRINT_TEXT]) {
	char count[PRINT_TEXT];

	print_count(value, count);
	snprintf(text, PRINT_TEXT, "%.20s %.24s%s", count, noun, strcmp(count, "1") ? "s" : "");
	return text;
}

char *print_speed(double ratio, char text[static PRINT_TEXT]) {
	char number[PRINT_TEXT];

	snprintf(number, sizeof number, "%.3g", ratio);
	snprintf(text, PRINT_TEXT, "%.16s%sas fast", strcmp(number, "1") ? number : "", strcmp(number, "1") ? " times " : "");
	return text;
}

/* ---- lines ---- */

int print_width(void) {
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = columns ? atoi(columns) : 0;

	if (width < PRINT_NARROWEST && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		width = size.ws_col;
	return width < PRINT_NARROWEST ? 0 : width;
}

/* The cursor is at `at`, where the first word is to stand; later lines begin at `column`. */
static void put_words(const char *text, int at, int column, int width) {
	bool first = true;

	for (; *text; first = false) {
		int length = (int)strcspn(text, " ");

		if (first)
			;
		else if (width && at + 1 + length > width && at > column)
			at = printf("\n%*s", column, "") - 1;
		else
			at += printf(" ");
		at += printf("%.*s", length, text);
		text += length + (text[length] == ' ');
	}
	putchar('\n');
}

void print_wrapped(const char *text, int at, int column, int width) {
	if (at >= column && column) {
		putchar('\n');
		at = 0;
	}
	if (at < column)
		at += printf("%*s", column - at, "");
	else if (at && *text)
		at += printf(" ");
	put_words(text, at, column, width);
}

/* ---- long lines ---- */

void print_hold(struct print_held *h) {
	*h = (struct print_held){ .out = stdout };
	h->memory = open_memstream(&h->text, &h->size);
	if (h->memory)
		stdout = h->memory;
}

void print_let_go(struct print_held *h) {
	int indent;

	stdout = h->out;
	if (!h->memory || fclose(h->memory)) {
		putchar('\n');
		return;
	}
	indent = (int)strspn(h->text, " ");
	printf("%*s", indent, "");
	put_words(h->text + indent, indent, indent + HANGING, print_width());
	free(h->text);
}

bool print_colours(void) {
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && terminal && strcmp(terminal, "dumb") != 0;
}

void print_line(const char *name, const char *format, ...) {
	char *text = NULL;
	va_list ap;
	int at;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	at = printf("%-*s", NAME_WIDTH - 1, name);
	if (text && *text)
		print_wrapped(text, at, at + 1, print_width());
	else
		putchar('\n');
	free(text);
}

/* ---- tables ---- */

struct cell {
	char *text;
	bool right;
};

struct print_table {
	unsigned columns, cells;
	struct cell *cell;
	bool failed;
};

struct print_table *print_table_new(unsigned columns) {
	struct print_table *t = calloc(1, sizeof *t);

	if (t)
		t->columns = columns ? columns : 1;
	return t;
}

void print_table_cell(struct print_table *t, const char *text, bool right) {
	struct cell *more;

	if (!t || t->failed)
		return;
	if (!(t->cells & (t->cells + 1))) {
		more = realloc(t->cell, (2 * (size_t)t->cells + 1) * sizeof *more);
		if (!more) {
			t->failed = true;
			return;
		}
		t->cell = more;
	}
	t->cell[t->cells] = (struct cell){ strdup(text), right };
	t->failed = !t->cell[t->cells++].text;
}

static int column_width(const struct print_table *t, unsigned column) {
	size_t widest = 0;

	for (unsigned i = column; i < t->cells; i += t->columns)
		if (strlen(t->cell[i].text) > widest)
			widest = strlen(t->cell[i].text);
	return (int)widest;
}

/* The last column ends where a terminal does. Blanks are owed until text follows, so that no line ends in them. */
static void print_cell(const struct cell *c, int width, bool last, int room, int *owed) {
	int length = (int)strlen(c->text), shown = last && !c->right && room > 0 && length > room ? room : length;

	*owed += c->right ? width - length : 0;
	if (shown) {
		printf("%*s%.*s", *owed, "", shown, c->text);
		*owed = 0;
	}
	*owed += (c->right ? 0 : width - length) + GAP;
	if (last)
		putchar('\n');
}

static void print_rows(const struct print_table *t, unsigned indent) {
	int *width = calloc(t->columns, sizeof *width), room = print_width() - (int)indent, owed = 0;

	for (unsigned c = 0; width && c < t->columns; c++)
		width[c] = column_width(t, c);
	for (unsigned c = 0; width && c + 1 < t->columns; c++)
		room -= width[c] + GAP;
	for (unsigned i = 0; width && i < t->cells; i++) {
		unsigned column = i % t->columns;

		if (!column)
			owed = (int)indent;
		print_cell(&t->cell[i], width[column], column + 1 == t->columns || i + 1 == t->cells, room, &owed);
	}
	free(width);
}

static int table_width(const struct print_table *t) {
	int width = -GAP;

	for (unsigned c = 0; c < t->columns; c++)
		width += column_width(t, c) + GAP;
	return width;
}

/* "FIRST  heading cell, heading cell": each row, whose later lines stand further in. */
static void print_folded(const struct print_table *t, unsigned indent) {
	for (unsigned row = t->columns; row + t->columns <= t->cells; row += t->columns) {
		struct print_held line;

		print_hold(&line);
		printf("%*s%s ", (int)indent, "", t->cell[row].text);
		for (unsigned c = 1; c < t->columns; c++)
			printf("%s %s %s", c > 1 ? "," : "", t->cell[c].text, t->cell[row + c].text);
		print_let_go(&line);
	}
}

static void table_free(struct print_table *t) {
	for (unsigned i = 0; t && i < t->cells; i++)
		free(t->cell[i].text);
	if (t)
		free(t->cell);
	free(t);
}

static bool table_is_whole(const struct print_table *t) {
	bool whole = t && !t->failed;

	if (!whole)
		fprintf(stderr, "fusionctl: a table is left out: no memory\n");
	return whole;
}

void print_table_end(struct print_table *t, unsigned indent) {
	if (table_is_whole(t))
		print_rows(t, indent);
	table_free(t);
}

void print_table_fold(struct print_table *t, unsigned indent) {
	int room = print_width() - (int)indent;

	if (!table_is_whole(t))
		;
	else if (print_width() && table_width(t) > room)
		print_folded(t, indent);
	else
		print_rows(t, indent);
	table_free(t);
}
