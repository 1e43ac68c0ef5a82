/*
 * Bodies of an administrator's operations: what is admitted can be written for a compiler, and of what is written each word is known:
 * one of ours, a type, keyword or constant of the language's, or a function of builtins.def. No preprocessor, no string, no loop.
 */
#include "fuzz.h"

#include <ctype.h>

#include "daemon/base/body.h"

static void check_words(const char *text) {
	static const char *const never[] = { "for", "while", "do", "goto", "asm", "struct", "global", "local", "constant", "private", "kernel", "volatile",
		"printf", "sizeof", "typedef", "switch", NULL };

	claim(!strpbrk(text, "#\"'\\@$`[]"), "a character that computes nothing: %s", text);
	while (*text) {
		size_t n = 0;

		while (isalnum((unsigned char)text[n]) || text[n] == '_')
			n++;
		claim(strncmp(text, "__", 2) != 0, "a reserved word");
		for (unsigned i = 0; n && never[i]; i++)
			claim(n != strlen(never[i]) || strncmp(text, never[i], n) != 0, "the word %s", never[i]);
		text += n ? n : 1;
	}
}

void fuzz_one(struct fuzz_bytes *b) {
	static const char *const operands[] = { "x, t", "x", "a, b, c" };
	const char *names = operands[fuzz_below(b, 3)];
	char *text = fuzz_text(fuzz_take(b, fuzz_left(b)));
	struct fault f = { 0 };
	struct str out = { 0 };
	int r = body_check(text, names, &f);
	const char *at = text;

	claim(r >= 0 && (!r || (f.code == r && f.text[0])), "no sentence");
	if (!r) {
		claim(!body_write(text, names, &out, &f) && !str_finish(&out), "admitted, and not written: %s", f.text);
		check_words(str_text(&out));
		while (body_next_builtin(&at))
			claim(at > text && *(at - 1), "a function without a name");
	}
	str_free(&out);
	free(text);
}
