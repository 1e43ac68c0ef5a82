/* Characters of text; see utf8.h. */
#include "utf8.h"

/* By the count of bytes. */
static const struct form {
	unsigned char first, last;   /* of the first byte */
	unsigned char bits;          /* of it that are the code's */
	uint32_t least;              /* smaller codes have a shorter form */
} forms[] = {
	{ 0x01, 0x7f, 0x7f, 0x01 },
	{ 0xc0, 0xdf, 0x1f, 0x80 },
	{ 0xe0, 0xef, 0x0f, 0x800 },
	{ 0xf0, 0xf7, 0x07, 0x10000 },
};

enum {
	FORMS = sizeof forms / sizeof *forms,
	SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff,
	CODE_LAST = 0x10ffff,
	/* The last two of each 65,536 are no characters. */
	NONE_OF_PLANE = 0xfffe,
};

/* The code, or 0. */
static uint32_t decode(const unsigned char *p, size_t bytes, const struct form *form) {
	uint32_t code = *p & form->bits;

	for (size_t i = 1; i < bytes; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3fU);
	}
	return code < form->least || code > CODE_LAST || (code >= SURROGATE_FIRST && code <= SURROGATE_LAST) ? 0 : code;
}

size_t utf8_decode(const char *text, uint32_t *codep) {
	const unsigned char *p = (const unsigned char *)text;

	*codep = 0;
	for (size_t i = 0; i < FORMS; i++)
		if (*p >= forms[i].first && *p <= forms[i].last) {
			*codep = decode(p, i + 1, &forms[i]);
			return *codep ? i + 1 : 0;
		}
	return 0;
}

/*
 * In order: what is ignorable by default (Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt), but for the selectors of variants, by which
 * people write hearts and names; and what utf8.h names besides.
 */
static const struct {
	uint32_t first, last;
} hidden[] = {
	{ 0x00, 0x1f },                   /* controls */
	{ 0x7f, 0x9f },
	{ 0xad, 0xad },                   /* a hyphen where a line may end, else nothing */
	{ 0x34f, 0x34f },                 /* joins graphemes */
	{ 0x61c, 0x61c },                 /* Arabic letter mark: turns */
	{ 0x115f, 0x1160 },               /* fillers of Hangul */
	{ 0x17b4, 0x17b5 },               /* vowels of Khmer that are not written */
	{ 0x180e, 0x180e },               /* Mongolian vowel separator: no width */
	{ 0x200b, 0x200f },               /* no width, joiners, marks that turn */
	{ 0x2028, 0x202e },               /* separators, what embeds and overrides */
	{ 0x2060, 0x206f },               /* no width, isolates, what was for form */
	{ 0x3164, 0x3164 },               /* a filler of Hangul */
	{ SURROGATE_FIRST, SURROGATE_LAST },
	{ 0xfdd0, 0xfdef },               /* no characters */
	{ 0xfeff, 0xfeff },               /* no width, the mark of the order of bytes */
	{ 0xffa0, 0xffa0 },               /* a filler of Hangul, half as wide */
	{ 0xfff0, 0xfffb },               /* ignorable, and what is said about a text, between its lines */
	{ 0x1bca0, 0x1bca3 },             /* form of shorthand, of music */
	{ 0x1d173, 0x1d17a },
	{ 0xe0000, 0xe00ff },             /* tags: ASCII that nobody sees */
	{ 0xe01f0, 0xe0fff },
};

bool utf8_is_shown(uint32_t code) {
	if (code > CODE_LAST || (code & NONE_OF_PLANE) == NONE_OF_PLANE)
		return false;
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden && hidden[i].first <= code; i++)
		if (code <= hidden[i].last)
			return false;
	return true;
}
