/* Text and numbers of a report; see report.h. */
#include "report.h"

#include <inttypes.h>
#include <math.h>

#include "client/number.h"
#include "protocol/utf8.h"

enum {
	REPLACEMENT = 0xfffd,
	ELLIPSIS = 0x2026,
};

/* ---- characters ---- */

/* Takes one character off *textp; a byte that is of none is the replacement. */
static uint32_t take_character(const char **textp) {
	uint32_t code;
	size_t bytes = utf8_decode(*textp, &code);

	*textp += bytes ? bytes : 1;
	return bytes ? code : REPLACEMENT;
}

static void put_character(FILE *to, uint32_t c) {
	if (!utf8_is_shown(c) && c != '\n' && c != '\t')
		c = REPLACEMENT;
	if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'' || c >= 0x80)
		fprintf(to, "&#%" PRIu32 ";", c);
	else
		putc((int)c, to);
}

void report_put_text(FILE *to, const char *text) {
	while (*text)
		put_character(to, take_character(&text));
}

void report_put_start(FILE *to, const char *text, unsigned most) {
	uint32_t last;

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
