/*
 * The last error of each thread, and the place in the caller's source.
 *
 * Inside the library functions refuse into a `struct fault` (protocol/fault.h). The functions of
 * fusion.h hand what they got to error_report(), which adds " (at FILE:LINE)" and keeps it for
 * fusion_error(). The names of source files are copied once and live as long as the process, so
 * that a place may outlive the caller's strings.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"

#define FUSION_NO_PLACES
#include "fusion.h"

#if defined(__clang_analyzer__)
/* The analyzer sees one file at a time; this tells it that what fault_set() returns is not 0. */
#define fault_set(f, code, ...) (fault_set(f, code, __VA_ARGS__) ? (code) : (code))
#endif

/* A line of the caller; file 0 where it is not known. */
struct place {
	uint32_t line;
	uint16_t file;
};

/* Sentences of other processes carry no place yet; this is the longest that is added. */
enum { PLACE_TEXT = 256 };

/* Where fusion_here() last was. */
struct place place_here(void);
/* " (at demo.c:42)", or "" where the place is not known; returns text. */
char *place_text(struct place place, char text[static PLACE_TEXT]);
/* "demo.c:42", or "an unknown place". */
char *place_name(struct place place, char text[static PLACE_TEXT]);

/* Puts the place at the end of a sentence, where it has none yet. */
void place_append(struct fault *f, struct place place);

/*
 * The way out of the library. r is 0, a positive code that f holds, or a negative errno: it
 * becomes the thread's error, with the place of the call where the sentence names none yet.
 * Returns the code (0: nothing changed).
 */
int error_report(int r, const struct fault *f);
/* The same for a call that has begun nothing, and its name: "sgd: count is 0, below 1". The code; or no array. */
int error_refuse(int code, const char *what, const char *format, ...) FAULT_PRINTF(3, 4);
fusion_array *error_refuse_array(int code, const char *what, const char *format, ...) FAULT_PRINTF(3, 4);
/* The end of a structure that the caller filled, which is zeros: else reports that this release does not know what it asks for, and returns the code. */
int error_reserved(const char *what, const uint64_t reserved[static FUSION_RESERVED]);
/*
 * The code of an error that stays until it is cleared, or 0: NONFINITE, which fusion.debug finds
 * (its sentence names the place itself).
 */
int error_sticky(void);

/* Turns a negative errno into a fault, for what is kept and reported later. Returns the code. */
int error_from_errno(struct fault *f, int r, const char *doing);

/* For the handlers of fork(): nobody holds the lock of the table of files while the process forks. */
void error_before_fork(void);
void error_after_fork(void);
