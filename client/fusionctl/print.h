/*
 * Numbers with units, and aligned tables, for people.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum {
	PRINT_TEXT = 48
};

/* Each returns text: "1,234,567", "1.5 MiB", "3 h 12 min" or "12.5 ms". */
char *print_count(double value, char text[static PRINT_TEXT]);
char *print_bytes(double bytes, char text[static PRINT_TEXT]);
char *print_seconds(double seconds, char text[static PRINT_TEXT]);

/* "1 kernel", "2 kernels", "1.5 kernels", "1,234 kernels": of a noun whose plural is with an s. */
char *print_counted(double value, const char *noun, char text[static PRINT_TEXT]);
/* "4.85 times as fast", or "as fast" where nobody could tell a difference. */
char *print_speed(double ratio, char text[static PRINT_TEXT]);

/*
 * The text from this column on, with its first line where the cursor is, at `at`; and the end of the line. Where there is a width its words are
 * wrapped to that, later lines from the same column on; 0: none, one line.
 */
void print_wrapped(const char *text, int at, int column, int width);
/* What is printed between the two is one line, which is wrapped there: later lines stand a little further in. */
struct print_held {
	FILE *out, *memory;
	char *text;
	size_t size;
};
void print_hold(struct print_held *h);
void print_let_go(struct print_held *h);
/* How wide standard output is: a terminal's columns, or $COLUMNS; 0 where it is neither, so that lines can be searched. */
int print_width(void);

/* A table is filled row by row, the headings first; cells are copied. NULL: out of memory. */
struct print_table;
struct print_table *print_table_new(unsigned columns);
void print_table_cell(struct print_table *t, const char *text, bool right);
/* Prints it, each row after `indent` blanks, and frees it. */
void print_table_end(struct print_table *t, unsigned indent);
/* The same of one of many columns: where it is wider than the terminal each row is a line of words, which is wrapped. */
void print_table_fold(struct print_table *t, unsigned indent);

/* May standard output have colours? Not where it is no terminal, or $NO_COLOR is set. */
bool print_colours(void);

/* "name          value", the name filled to a common width. */
void print_line(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
