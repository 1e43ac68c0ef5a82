/*
 * Numbers with units, and aligned tables, for people.
 */
#pragma once

#include <stdbool.h>

enum {
	PRINT_TEXT = 48
};

/* Each returns text: "1,234,567", "1.5 MiB", "3 h 12 min" or "12.5 ms". */
char *print_count(double value, char text[static PRINT_TEXT]);
char *print_bytes(double bytes, char text[static PRINT_TEXT]);
char *print_seconds(double seconds, char text[static PRINT_TEXT]);

/* A table is filled row by row, the headings first; cells are copied. NULL: out of memory. */
struct print_table;
struct print_table *print_table_new(unsigned columns);
void print_table_cell(struct print_table *t, const char *text, bool right);
/* Prints it, each row after `indent` blanks, and frees it. */
void print_table_end(struct print_table *t, unsigned indent);

/* May standard output have colours? Not where it is no terminal, or $NO_COLOR is set. */
bool print_colours(void);

/* "name          value", the name filled to a common width. */
void print_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
