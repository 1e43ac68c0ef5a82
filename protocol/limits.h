/*
 * Every limit of the protocol, with its reason. Limits that an administrator sets live in
 * daemon/base/config.h; these are the ones both sides must agree on.
 */
#pragma once

/* Bytecode, the numbers of frames and what is shared in memory are those of a little-endian machine; no other was ever tried. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "fusiond keeps numbers in little-endian order in memory that it shares: it does not build for this machine"
#endif

enum {
	/* NumPy-sized ranks cost record words and source text; 8 covers every workload we know. */
	LIMIT_RANK = 8,
	/* Elementwise operations take at most 3; joining arrays, norms and attention take more. */
	LIMIT_OPERANDS = 8,
	/* One batch: bounds the engine's time a message (2 us an operation: 33 ms). */
	LIMIT_BATCH_OPS = 16384,
	/* Longest frame on the op stream; 16,384 operations of the longest form stay below it. */
	LIMIT_FRAME_BYTES = 4 << 20,
	/* Frames are arrays of arrays of arrays of operands; nothing legal nests deeper. */
	LIMIT_WIRE_DEPTH = 6,
	/* Values in one frame: 24 bytes each once unpacked, so a frame never costs more than 24 MiB. */
	LIMIT_WIRE_VALUES = 1 << 20,
	/* Live handles a session may hold; the table costs 24 bytes a slot. */
	LIMIT_HANDLES = 1 << 20,
	/* Recorded graphs a session may keep. */
	LIMIT_CAPTURES = 1024,
	/* Groups of a user that are looked at. NFS knows 16, Linux allows 65536. */
	LIMIT_GROUPS = 1024,
	/* Arenas a session may map, those of shared arrays among them; each costs a descriptor in the daemon. */
	LIMIT_ARENAS = 128,
	/* Of them, those of arrays it has exported and imported: the rest stays for its own. */
	LIMIT_SHARED = 64,
	/* Arenas of a session are below (clients pack the number with an offset into 64 bits), those of shared arrays, which sessions have in common, from here on. */
	LIMIT_ARENA_NUMBERS = 1 << 24,
	/* What an exported array is opened by, from getrandom(2). */
	LIMIT_TOKEN_BYTES = 16,
	/* Requests a client keeps unanswered; the daemon closes a connection with more than 8. */
	LIMIT_UNANSWERED = 8,
	/* Length of the sentence of an error. */
	LIMIT_SENTENCE = 512,
	/* The session secret, from getrandom(2). */
	LIMIT_SECRET_BYTES = 16,
	/*
	 * Kernels read whole vectors: a load of 16 lanes of 8 bytes may run 127 bytes past an
	 * array, and a row of a tile of a product, four vectors of 4 bytes or two of 8, 252. Every arena keeps this many bytes unused at its end so that it never leaves it.
	 */
	LIMIT_ARENA_SLACK = 256,
	/* Arrays start on multiples of this; PoCL wants 128, a non-temporal store 64. */
	LIMIT_ALIGNMENT = 128,
};

/* One array; keeps every byte offset a kernel computes inside 47 bits. */
#define LIMIT_ARRAY_BYTES (INT64_C(1) << 40)
