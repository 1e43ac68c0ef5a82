/*
 * Characters of text that somebody else wrote, and which of them people may be shown: what the log and reports have in common.
 *
 * Not shown is what is no letter, sign or blank: control characters, separators of lines and paragraphs, what turns the direction of writing,
 * what has no form of its own (selectors of variants aside), surrogates, and codes that are never characters. By these text could look like other text,
 * end a line, or hide what it says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes the character at `text` has, with its code; 0: its first byte belongs to none. The end of the text is a byte of none. */
size_t utf8_decode(const char *text, uint32_t *codep);
bool utf8_is_shown(uint32_t code);
