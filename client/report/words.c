/* Text and numbers of a report; see report.h. */
#include "report.h"

#include <math.h>

#include "client/number.h"

enum {
	REPLACEMENT = 0xfffd,
	ELLIPSIS = 0x2026,
	/* What turns the direction of writing, by which text could look like other text. */
	EMBED_FIRST = 0x202a, EMBED_LAST = 0x202e, ISOLATE_FIRST = 0x2066, ISOLATE_LAST = 0x2069,
	CONTROLS_FIRST = 0x7f, CONTROLS_LAST = 0x9f,
	SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff,
	CHARACTER_LAST = 0x10ffff,
};

/* ---- characters ---- */

/* How many bytes a character has that begins so; 0: none does. */
static unsigned length_of(unsigned char first) {
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	if (first < 0xe0)
		return 2;
	return first < 0xf0 ? 3 : 4;
}

static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };

/* Takes one character off *textp; a byte that is of none is the replacement. */
static unsigned take_character(const char **textp) {
	const unsigned char *text = (const unsigned char *)*textp;
	unsigned length = length_of(*text), c = length < 2 ? *text : *text & (0xffU >> (length + 1));

	++*textp;
	if (!length)
		return REPLACEMENT;
	for (unsigned i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return REPLACEMENT;
		c = c << 6 | (text[i] & 0x3fU);
	}
	*textp += length - 1;
	return c < least[length] || c > CHARACTER_LAST ? REPLACEMENT : c;
}

static bool is_between(unsigned c, unsigned first, unsigned last) {
	return c >= first && c <= last;
}

static bool may_stand(unsigned c) {
	if (c < ' ')
		return c == '\n' || c == '\t';
	return !is_between(c, CONTROLS_FIRST, CONTROLS_LAST) && !is_between(c, EMBED_FIRST, EMBED_LAST) &&
		!is_between(c, ISOLATE_FIRST, ISOLATE_LAST) && !is_between(c, SURROGATE_FIRST, SURROGATE_LAST) && (c & 0xfffe) != 0xfffe;
}

static void put_character(FILE *to, unsigned c) {
	if (!may_stand(c))
		c = REPLACEMENT;
	if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'' || c >= 0x80)
		fprintf(to, "&#%u;", c);
	else
		putc((int)c, to);
}

void report_put_text(FILE *to, const char *text) {
	while (*text)
		put_character(to, take_character(&text));
}

void report_put_start(FILE *to, const char *text, unsigned most) {
	unsigned last;

	for (unsigned count = 1; *text && count < most; count++)
		put_character(to, take_character(&text));
	if (!*text)
		return;
	/* The last there is room for, or the sign that there were more. */
	last = take_character(&text);
	put_character(to, *text ? ELLIPSIS : last);
}

/* ---- numbers ---- */

char *report_time(double us, char text[static REPORT_WORDS]) {
	if (us >= 1e6)
		snprintf(text, REPORT_WORDS, "%.3g s", us / 1e6);
	else if (us >= 1e3)
		snprintf(text, REPORT_WORDS, "%.3g ms", us / 1e3);
	else if (us >= 1)
		snprintf(text, REPORT_WORDS, "%.3g &#181;s", us);
	else
		snprintf(text, REPORT_WORDS, "%.3g ns", us * 1e3);
	return text;
}

char *report_bytes(double bytes, char text[static REPORT_WORDS]) {
	const char *unit;
	double count = number_bytes(bytes, &unit);

	snprintf(text, REPORT_WORDS, count >= 100 || floor(count) == count ? "%.0f %s" : "%.3g %s", count, unit);
	return text;
}

char *report_count(double count, const char *what, char text[static REPORT_WORDS]) {
	char digits[REPORT_WORDS / 2];
	char *out;

	snprintf(digits, sizeof digits, "%.0f", fmin(fmax(count, 0), 1e15));
	out = number_thousands(digits, text);
	snprintf(out, REPORT_WORDS - (size_t)(out - text), "%s%s%s", *what ? " " : "", what, !*what || count == 1 ? "" : "s");
	return text;
}
