/*
 * What the fuzz targets share. A target is one file with one function, fuzz_one(), that libFuzzer calls with bytes, again and
 * again, looking for those that reach what none has reached (harness.c). `make fuzz TARGET=plan SECONDS=600`.
 *
 * Whatever the bytes are, fuzz_one() ends, gives back all memory and leaves nothing behind that a later call could see. What must
 * hold is a claim(); what is read or written beyond its place the sanitizers find. Bytes that are no use are skipped, so that
 * every string of bytes says something.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fuzz_bytes {
	const uint8_t *at, *end;
};

/* The target's. */
void fuzz_one(struct fuzz_bytes *b);

/* For its seeds (seeds.c), and for claims that say more than where they stand. */
#define claim(holds, ...) ((holds) ? (void)0 : fuzz_claim_failed(__FILE__, __LINE__, __VA_ARGS__))
_Noreturn void fuzz_claim_failed(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A folder of this process's own, removed at its end, for targets that need files. */
const char *fuzz_folder(void);

static inline size_t fuzz_left(const struct fuzz_bytes *b) {
	return (size_t)(b->end - b->at);
}

/* Behind the end there are zeros. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *b) {
	return b->at < b->end ? *b->at++ : 0;
}

static inline unsigned fuzz_below(struct fuzz_bytes *b, unsigned n) {
	return fuzz_byte(b) % n;
}

static inline uint64_t fuzz_whole(struct fuzz_bytes *b, unsigned bytes) {
	uint64_t n = 0;

	for (unsigned i = 0; i < bytes; i++)
		n |= (uint64_t)fuzz_byte(b) << 8 * i;
	return n;
}

/* The next n bytes, or as many as there are. */
static inline struct fuzz_bytes fuzz_take(struct fuzz_bytes *b, size_t n) {
	struct fuzz_bytes part = { b->at, b->at + (n < fuzz_left(b) ? n : fuzz_left(b)) };

	b->at = part.end;
	return part;
}

/* A string of its own size, so that a read behind it is seen; to be freed. */
static inline char *fuzz_text(struct fuzz_bytes b) {
	char *text = malloc(fuzz_left(&b) + 1);

	if (!text)
		abort();
	memcpy(text, b.at, fuzz_left(&b));
	text[fuzz_left(&b)] = '\0';
	return text;
}
