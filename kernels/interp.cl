/*
 * section:  interp
 * requires: types declare convert memory
 * provides: interpreter
 *
 * What an interpreter of bytecode is made of (daemon/emit/bytecode.h has the code, interpreter.c the rest of
 * the text). The emitter defines
 *
 *   INTERP_GROUP      work-items of a group
 *   INTERP_VECTORS    vectors of a block: what an instruction does at once
 *   INTERP_REGISTERS  registers of a work-item, each of a block of any type
 *   INTERP_OPERANDS   most operands of a program
 *   INTERP_STRIP      elements of a strip of transposed reading, where there are no tiles
 *   INTERP_CHAINS     defined where there are chains of short operations
 *
 * and writes a kernel that declares what stands in INTERP_STATE and has a case for each instruction. Nothing
 * here is checked: programs are data that the daemon alone writes, and it checks them when it does.
 */
#define INTERP_RANK 8

/* A register holds blocks of any type, one after the other. */
#define INTERP_REGISTER(T, element, bytes) \
	typedef T JOIN(T, _register) __attribute__((may_alias)); \
	typedef element JOIN(T, _lane) __attribute__((may_alias)); \
	typedef T JOIN(T, _anywhere) __attribute__((aligned(bytes), may_alias));
INTERP_REGISTER(i8v, char, 1)
INTERP_REGISTER(u8v, uchar, 1)
INTERP_REGISTER(i16v, short, 2)
INTERP_REGISTER(u16v, ushort, 2)
INTERP_REGISTER(i32v, int, 4)
INTERP_REGISTER(u32v, uint, 4)
INTERP_REGISTER(i64v, long, 8)
INTERP_REGISTER(u64v, ulong, 8)
INTERP_REGISTER(f32v, float, 4)
#ifdef HAS_F64
INTERP_REGISTER(f64v, double, 8)
#endif

#define INTERP_BLOCK (W * INTERP_VECTORS)
#define INTERP_SLOT (8 * INTERP_BLOCK)
#define INTERP_FILE (INTERP_REGISTERS * INTERP_GROUP * INTERP_SLOT)

/*
 * Vector j of a register, as it is written and as it is read. Groups keep registers in local memory, a column an item.
 * On CPUs whose programs are machine code, so that private and global memory are one, a register may be where an
 * operand lies: `base` says where each is read.
 */
#if INTERP_GROUP == 1
#define REGISTER(T, number, j) (*(JOIN(T, _register) *)(file + (number) * INTERP_SLOT + (j) * (int)sizeof(T)))
#else
#define REGISTER(T, number, j) \
	(*(local JOIN(T, _register) *)(file + ((number) * INTERP_GROUP + (uint)get_local_id(0)) * INTERP_SLOT + \
		(j) * (int)sizeof(T)))
#endif
#if INTERP_GROUP == 1 && !defined(__SPIR__)
#define INTERP_REACHES
#define PLACE(number) s->base[number]
#define READ(T, place, j) (*(const JOIN(T, _anywhere) *)(place + (ulong)((j) * (int)sizeof(T))))
#else
#define PLACE(number) (number)
#define READ(T, place, j) REGISTER(T, place, j)
#endif
/* A function reads the places once: a store into a register could change them, as far as a compiler sees. */
#define PLACES1 const ulong first = PLACE(FIRST);
#define PLACES2 PLACES1 const ulong second = PLACE(SECOND);
#define PLACES3 PLACES2 const ulong third = PLACE(THIRD);

/* The fields of an instruction. */
#define CODE (instruction & 0xffff)
#define TO ((uint)(instruction >> 16) & 0xff)
#define FIRST ((uint)(instruction >> 24) & 0xff)
#define SECOND ((uint)(instruction >> 32) & 0xff)
#define THIRD ((uint)(instruction >> 40) & 0xff)
#define INDEX ((uint)(instruction >> 48))

/*
 * Where a program is: at element `at` of `count` of a piece of a row, and `vectors` of the block hold elements; the address of each
 * operand's piece, or the first number of what is counted, and how far its next vector is from there; where each register is read.
 *
 * The vectors of a block follow each other along the row, or, in a tile, lie one below the other: one a row. `beside` is how
 * many lanes further on the next vector is, W or none, `onward` how many the next block is, and `whole` how many must be left
 * for an operand to be read in place, which one of a tile never is.
 */
struct interp {
	global const ulong *r;
	uint rank, operands;
	int vectors, beside;
	long at, count, onward, whole;
	ulong place[INTERP_OPERANDS];
	long step[INTERP_OPERANDS];
#ifdef INTERP_REACHES
	ulong base[INTERP_REGISTERS];
#endif
};

/* Do all vectors of the block hold elements, and all of each, one after the other? */
#define INTERP_NEVER 0x7fffffffffffffff
#define INTERP_WHOLE (s->count - s->at >= s->whole)

/*
 * An operand whose elements lie as a register holds them is read in place; where the block is not whole, which might
 * read beyond memory, the next instruction runs, which loads it.
 */
#ifdef INTERP_REACHES
#define INTERP_FILES \
	for (int i = 0; i < INTERP_REGISTERS; i++) \
		s->base[i] = (ulong)(file + i * INTERP_SLOT);
#define INTERP_REACH \
	if (INTERP_WHOLE) { \
		s->base[TO] = s->place[INDEX] + (ulong)s->at * FIRST; \
		code++; \
	} else { \
		s->base[TO] = (ulong)(file + TO * INTERP_SLOT); \
	} \
	break;
#else
#define INTERP_FILES
#define INTERP_REACH break;
#endif

/* A piece begins at `left` of its row. Of units, pieces and strips, map.c says what they are. */
#define INTERP_STATE \
	struct interp state, *const s = &state; \
	const uint rank = (uint)*code++; \
	const uint operands = INTERP_DIMS + rank; \
	const ulong end = INTERP_END; \
	const long length = INTERP_LENGTH; \
	global const ulong *unit_code = 0, *block_code = 0; \
	ulong index[INTERP_RANK]; \
	ulong unit = INTERP_BEGIN, rows = INTERP_GROUP; \
	long width = length, strip = 0, left = 0; \
	bool tile = false; \
	\
	if (unit >= end) \
		return; \
	s->r = r; \
	s->rank = rank; \
	s->operands = operands; \
	s->vectors = INTERP_VECTORS; \
	s->beside = W; \
	s->at = s->count = 0; \
	s->onward = s->whole = INTERP_BLOCK; \
	INTERP_FILES

#if INTERP_GROUP == 1
#define INTERP_BEGIN (r[INTERP_FIRST] + own_item * r[INTERP_UNITS_PER_ITEM])
#define INTERP_END min(INTERP_BEGIN + r[INTERP_UNITS_PER_ITEM], r[INTERP_UNITS])
#define INTERP_LENGTH ((long)r[INTERP_EXTENT])
#else
#define INTERP_BEGIN (get_group_id(0) * r[INTERP_UNITS_PER_ITEM] * INTERP_GROUP + get_local_id(0))
#define INTERP_END min(INTERP_BEGIN + r[INTERP_UNITS_PER_ITEM] * INTERP_GROUP, r[INTERP_UNITS])
#define INTERP_LENGTH W
#endif

#define STRIDE(operand, d) ((long)s->r[s->operands + (operand) * (1 + s->rank) + 1 + (d)])
/* Along the lanes, where access says 1: contiguous, 0: uniform, 2: strided. */
#define LANE_STRIDE(operand, access) ((access) == 2 ? STRIDE(operand, s->rank - 1) : (long)(access))

/*
 * An operand that lies closer together down the rows than along them has the rows walked in tiles, of which each line of memory is
 * read once; where the rows are too few for that, in strips.
 */
#if INTERP_GROUP == 1
#define INTERP_ACROSS \
	if (abs(STRIDE(INDEX, rank - 2)) >= abs(STRIDE(INDEX, rank - 1))) \
		break; \
	tile = r[INTERP_DIMS + rank - 2] >= INTERP_VECTORS / 2; \
	width = tile ? length : INTERP_STRIP; \
	if (tile) { \
		s->beside = 0; \
		s->onward = W; \
		s->whole = INTERP_NEVER; \
	} \
	break;
/* The rows of a tile that begins at this one: all of them begin at multiples of a tile's. */
#define INTERP_ROWS(row) \
	min(min(INTERP_VECTORS - (row) % INTERP_VECTORS, r[INTERP_DIMS + rank - 2] - (row)), end - unit)
#else
#define INTERP_ACROSS \
	if (abs(STRIDE(INDEX, rank - 2)) < abs(STRIDE(INDEX, rank - 1))) \
		width = INTERP_STRIP; \
	break;
#define INTERP_ROWS(row) 1
#endif

/*
 * The next unit, of this strip or the next; the first time, the first one. Units are pieces of rows, those of a row one after
 * the other; where there are tiles, those of one piece of all rows, of which a tile is some.
 */
#define INTERP_UNIT \
	if (unit_code) \
		unit += rows; \
	unit_code = code - 1; \
	if (unit >= end) { \
		strip += width; \
		unit = INTERP_BEGIN; \
	} \
	if (strip >= length) \
		return; \
	{ \
		ulong rest = unit; \
		const long row = tile ? take(&rest, r[INTERP_DIMS + rank - 2]) : 0; \
		const long piece = rank ? take(&rest, r[INTERP_PIECES]) : 0; \
		\
		for (uint d = tile ? rank - 2 : rank - 1; rank && d-- > 0;) \
			index[d] = take(&rest, r[INTERP_DIMS + d]); \
		if (tile) { \
			index[rank - 2] = row; \
			rows = INTERP_ROWS((ulong)row); \
		} \
		left = piece * length + strip; \
		s->count = rank ? min((long)r[INTERP_DIMS + rank - 1] - left, min(length - strip, width)) : 1; \
	} \
	s->vectors = tile ? (int)rows : INTERP_VECTORS; \
	break;

/* Where an operand's piece begins: FIRST bytes an element, or 0 for what is counted; SECOND its access. */
#define INTERP_PLACE \
	{ \
		const uint word = operands + INDEX * (1 + rank); \
		const long bytes = FIRST ? FIRST : 1, lane = rank ? LANE_STRIDE(INDEX, SECOND) : 0; \
		long position = left * lane; \
		\
		for (uint d = 0; d + 1 < rank; d++) \
			position += (long)index[d] * (long)r[word + 1 + d]; \
		s->place[INDEX] = (FIRST ? (ulong)ADDRESS(r[word]) : r[word]) + (ulong)(position * bytes); \
		s->step[INDEX] = bytes * (tile ? STRIDE(INDEX, rank - 2) : W * lane); \
	} \
	break;

#define INTERP_BEGIN_BLOCK \
	if (!tile) \
		s->vectors = (int)min((s->count - s->at + W - 1) / W, (long)INTERP_VECTORS);
#define INTERP_BLOCKS \
	s->at = 0; \
	block_code = code; \
	if (s->count <= 0) \
		code = unit_code; \
	INTERP_BEGIN_BLOCK \
	break;
#define INTERP_NEXT \
	s->at += s->onward; \
	code = s->at < s->count ? block_code : unit_code; \
	INTERP_BEGIN_BLOCK \
	break;

/* ---- instructions on each vector of a block ---- */

/*
 * A loop costs as much as an addition, so short operations are unrolled, for four vectors at once also where fewer
 * hold elements: the rest of a register may hold anything. Others would only take a compiler twice as long. The number of vectors is
 * read once: a store into a register could change it, as far as a compiler sees.
 */
/* Each is a function, which stays one on CPUs: a compiler takes much longer for one that holds them all, and a call is nothing beside a block. */
#if INTERP_GROUP == 1
#define INTERP_APART static __attribute__((noinline))
#define INTERP_SPACE
#else
#define INTERP_APART static inline __attribute__((always_inline))
#define INTERP_SPACE local
#endif
#define INSTRUCTION(number) \
	INTERP_APART void JOIN(instruction_, number)(INTERP_SPACE uchar *file, ulong instruction, const struct interp *s)
#define CALL(number) JOIN(instruction_, number)(file, instruction, s); break;

#if INTERP_VECTORS == 1
#define EACH_VECTOR const int j = 0;
#define EACH_VECTOR_SHORT const int j = 0;
#else
#define EACH_VECTOR \
	_Pragma("clang loop unroll(disable) vectorize(disable)") for (int j = 0, vectors = s->vectors; j < vectors; j++)
#define EACH_VECTOR_SHORT \
	_Pragma("clang loop unroll(disable) vectorize(disable)") \
	for (int i = 0, vectors = s->vectors; i < vectors; i += INTERP_TOGETHER) \
		_Pragma("clang loop unroll(full)") for (int j = i; j < i + INTERP_TOGETHER; j++)
#define INTERP_TOGETHER 4
#endif

#define APPLY1(function, T, TA) REGISTER(T, TO, j) = function(READ(TA, first, j));
#define APPLY2(function, T, TA, TB) REGISTER(T, TO, j) = function(READ(TA, first, j), READ(TB, second, j));
#define APPLY3(function, T, TA, TB, TC) \
	REGISTER(T, TO, j) = function(READ(TA, first, j), READ(TB, second, j), READ(TC, third, j));

#define UNARY(number, function, T, TA) INSTRUCTION(number) { PLACES1 EACH_VECTOR APPLY1(function, T, TA) }
#define BINARY(number, function, T, TA, TB) INSTRUCTION(number) { PLACES2 EACH_VECTOR APPLY2(function, T, TA, TB) }
#define TERNARY(number, function, T, TA, TB, TC) INSTRUCTION(number) { PLACES3 EACH_VECTOR APPLY3(function, T, TA, TB, TC) }
#define SHORT_UNARY(number, function, T, TA) INSTRUCTION(number) { PLACES1 EACH_VECTOR_SHORT APPLY1(function, T, TA) }
#define SHORT_BINARY(number, function, T, TA, TB) INSTRUCTION(number) { PLACES2 EACH_VECTOR_SHORT APPLY2(function, T, TA, TB) }
#define SHORT_TERNARY(number, function, T, TA, TB, TC) INSTRUCTION(number) { PLACES3 EACH_VECTOR_SHORT APPLY3(function, T, TA, TB, TC) }

/*
 * Where the vectors of an operand are: the first of the block, and each `step` after the one before. Both are read once, like how
 * many vectors there are.
 */
#define LANE_STEP STRIDE(INDEX, s->rank - 1)
#define ALONG(lane) \
	global uchar *const here = (global uchar *)s->place[INDEX] + (ulong)(s->at * (lane)); \
	const long step = s->step[INDEX];
#define LANES_LEFT \
	const long remain = s->count - s->at; \
	const int beside = s->beside;
#define AT (here + (ulong)(j * step))
#define LANES ((int)min(remain - j * beside, (long)W))

/*
 * Beyond the arrays of a GPU there may be nothing. On CPUs what the next block loads is asked for: no instruction between has
 * anything else to wait for, while memory would have nothing to do.
 */
#if INTERP_GROUP == 1
#define LOAD(number, D, T, bytes) \
	INSTRUCTION(number) { \
		const long onward = s->onward * bytes; \
		ALONG(bytes) \
		EACH_VECTOR { \
			AHEAD(AT + onward); \
			REGISTER(T, TO, j) = JOIN(load_, D)(AT); \
		} \
	}
#else
#define LOAD(number, D, T, bytes) \
	INSTRUCTION(number) { \
		ALONG(bytes) \
		LANES_LEFT \
		EACH_VECTOR REGISTER(T, TO, j) = JOIN(loadn_, D)(AT, LANES); \
	}
#endif
#define LOAD_UNIFORM(number, D, T, bytes) INSTRUCTION(number) { ALONG(0) EACH_VECTOR REGISTER(T, TO, j) = JOIN(uniform_, D)(AT); }
#define GATHER(D, T, bytes) \
	const long lane = LANE_STEP; \
	ALONG(lane * bytes) \
	LANES_LEFT \
	INTERP_TURNED(D, T, bytes) \
	EACH_VECTOR REGISTER(T, TO, j) = JOIN(gather_, D)(AT, lane, LANES);
#define LOAD_STRIDED(number, D, T, bytes) INSTRUCTION(number) { GATHER(D, T, bytes) }
#define SCALAR(number, D, T, bytes) INSTRUCTION(number) { EACH_VECTOR REGISTER(T, TO, j) = JOIN(scalar_, D)(s->r[INDEX]); }
#define COUNT(number, D, T, bytes) \
	INSTRUCTION(number) { \
		const long lane = LANE_STRIDE(INDEX, SECOND), first = (long)s->place[INDEX] + s->at * lane, step = s->step[INDEX]; \
		EACH_VECTOR REGISTER(T, TO, j) = JOIN(iota_, D)(first + j * step, lane); \
	}
#define STORE(number, D, T, bytes) \
	INSTRUCTION(number) { \
		PLACES1 \
		ALONG(bytes) \
		LANES_LEFT \
		EACH_VECTOR JOIN(storen_, D)(AT, READ(T, first, j), LANES); \
	}
/* The first lane alone: of each row of a tile, else of the first vector. */
#define STORE_UNIFORM(number, D, T, bytes) \
	INSTRUCTION(number) { \
		PLACES1 \
		ALONG(0) \
		for (int j = 0, vectors = s->beside ? 1 : s->vectors; j < vectors; j++) \
			JOIN(storen_, D)(AT, READ(T, first, j), 1); \
	}
#define STORE_STRIDED(number, D, T, bytes) \
	INSTRUCTION(number) { \
		const long lane = LANE_STEP; \
		PLACES1 \
		ALONG(lane * bytes) \
		LANES_LEFT \
		EACH_VECTOR JOIN(scatter_, D)(AT, READ(T, first, j), lane, LANES); \
	}
/* Past the caches, whole vectors that lie on such. */
#define STREAM_STORE(number, D, T, bytes) \
	INSTRUCTION(number) { \
		PLACES1 \
		ALONG(bytes) \
		LANES_LEFT \
		const int aligned = (((ulong)here | (ulong)step) & (W * bytes - 1)) == 0; \
		EACH_VECTOR \
			if (aligned && LANES == W) \
				JOIN(stream_, D)(AT, READ(T, first, j)); \
			else \
				JOIN(storen_, D)(AT, READ(T, first, j), LANES); \
	}

/*
 * A tile of an operand whose elements lie side by side down the rows: of each lane, beyond the last one of that one, a vector
 * is read down them, and its elements are written where the rows' vectors have this lane. Vectors are read whole, beyond the last row,
 * too.
 */
#if INTERP_GROUP == 1 && W > 1
#define TURN_LANE(i, c) to[i * W] = v.s##c;
#define TURN_LANES(T, top) \
	JOIN(T, _lane) *const to = (JOIN(T, _lane) *)&REGISTER(T, TO, top) + i; \
	EACH_LANE(TURN_LANE)
#define INTERP_TURNED(D, T, bytes) \
	if (!beside && step == bytes) { \
		const int last = (int)min(remain, (long)W) - 1, rows = s->vectors; \
		_Pragma("clang loop unroll(disable)") for (int top = 0; top < rows; top += W) { \
			i32v held[W]; \
			_Pragma("clang loop unroll(disable) vectorize(disable)") for (int i = 0; i < W; i++) { \
				global const uchar *const from = here + (ulong)((top + min(i, last) * lane) * bytes); \
				AHEAD(from + W * lane * bytes); \
				const T v = JOIN(load_, D)(from); \
				if (sizeof v == sizeof *held) { \
					held[i] = *(const i32v_anywhere *)&v; \
				} else { \
					TURN_LANES(T, top) \
				} \
			} \
			if (sizeof(T) == sizeof *held) \
				turn_words(held, (i32v_register *)&REGISTER(T, TO, top)); \
		} \
		return; \
	}

/* Words of whatever type. The emitter writes turn(), and this behind it. */
#define TURN_WORDS \
	INTERP_APART void turn_words(i32v *held, i32v_register *to) { \
		turn(held); \
		for (int i = 0; i < W; i++) \
			to[i] = held[i]; \
	}
#else
#define INTERP_TURNED(D, T, bytes)
#endif

/* ---- chains ---- */

/*
 * Short operations on f32 one upon the other: the value that one computes and the next reads stays in the processor's
 * registers, as many of its vectors as these hold. So an operation costs its arithmetic and one read of its other
 * operand, where a function of its own would load two and store one. A chain is an instruction, CHAIN, that loads its
 * FIRST, followed by links:
 *
 *   a link computes ACC = f(ACC), f(ACC, FIRST), f(FIRST, ACC) or f(ACC, ACC)
 *   KEEP   stores ACC in a register
 *   END    does so and ends the chain
 *   WRITE, STREAM   where the block is whole, store ACC as the operand INDEX and skip the instruction behind the chain, else END
 */
#ifdef INTERP_CHAINS
/* A vector of 64 bytes is one register of 32, or two of 16. */
#ifdef __AVX512F__
#define INTERP_ACC 16
#define EACH_ACC(DO, f) EACH_ACC_4(DO, f) \
	DO(f, 4) DO(f, 5) DO(f, 6) DO(f, 7) DO(f, 8) DO(f, 9) DO(f, 10) DO(f, 11) DO(f, 12) DO(f, 13) DO(f, 14) DO(f, 15)
#else
#define INTERP_ACC 4
#define EACH_ACC(DO, f) EACH_ACC_4(DO, f)
#endif
#define EACH_ACC_4(DO, f) DO(f, 0) DO(f, 1) DO(f, 2) DO(f, 3)

#define OTHER(j) READ(f32v, PLACE(FIRST), from + j)
#define ACC_DECLARE(f, j) f32v acc##j;
#define ACC_LOAD(f, j) acc##j = OTHER(j);
#define ACC_KEEP(f, j) REGISTER(f32v, TO, from + j) = acc##j;
#define ACC_WRITE(f, j) store_f32(to + (j) * 4 * W, acc##j);
#define ACC_STREAM(f, j) stream_f32(to + (j) * 4 * W, acc##j);
#define ACC_UNARY(f, j) acc##j = f(acc##j);
#define ACC_BEFORE(f, j) acc##j = f(acc##j, OTHER(j));
#define ACC_BEHIND(f, j) acc##j = f(OTHER(j), acc##j);
#define ACC_TWICE(f, j) acc##j = f(acc##j, acc##j);

#define LINK_UNARY(f) EACH_ACC(ACC_UNARY, f) break;
#define LINK_BEFORE(f) EACH_ACC(ACC_BEFORE, f) break;
#define LINK_BEHIND(f) EACH_ACC(ACC_BEHIND, f) break;
#define LINK_TWICE(f) EACH_ACC(ACC_TWICE, f) break;
#define LINK_KEEP EACH_ACC(ACC_KEEP, ) break;
#define LINK_END EACH_ACC(ACC_KEEP, ) return code;
#define LINK_OUT(how, aligned) \
	if (INTERP_WHOLE) { \
		global uchar *const to = (global uchar *)s->place[INDEX] + (ulong)(s->at + from * W) * 4; \
		if (aligned) { \
			EACH_ACC(how, ) \
			return code + 1; \
		} \
	} \
	EACH_ACC(ACC_KEEP, ) \
	return code;
#define LINK_WRITE LINK_OUT(ACC_WRITE, true)
#define LINK_STREAM LINK_OUT(ACC_STREAM, ((ulong)to & (4 * W - 1)) == 0)

/* From vector `from` on; where the chain ends. The emitter writes the cases of links, and closes it by CHAIN_CLOSE. */
#define CHAIN_OPEN \
	static inline __attribute__((always_inline)) global const ulong *chain_part( \
		INTERP_SPACE uchar *file, global const ulong *code, ulong instruction, const struct interp *s, int from) { \
		EACH_ACC(ACC_DECLARE, ) \
		EACH_ACC(ACC_LOAD, ) \
		for (;;) { \
			instruction = *code++; \
			switch (CODE) {
#define CHAIN_CLOSE \
			default: return code; \
			} \
		} \
	} \
	INTERP_APART global const ulong *chain( \
		INTERP_SPACE uchar *file, global const ulong *code, ulong instruction, const struct interp *s) { \
		CHAIN_PARTS \
	}
#if INTERP_ACC >= INTERP_VECTORS
#define CHAIN_PARTS return chain_part(file, code, instruction, s, 0);
#else
#define CHAIN_PARTS \
	global const ulong *end; \
	int from = 0; \
	do { \
		end = chain_part(file, code, instruction, s, from); \
		from += INTERP_ACC; \
	} while (from < s->vectors); \
	return end;
#endif
#define INTERP_CHAIN code = chain(file, code, instruction, s); break;
#endif
