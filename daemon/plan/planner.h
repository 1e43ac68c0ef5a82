/*
 * Inside plan: how the planner sees a graph while it decides. Nobody outside includes this.
 *
 * The passes, in the order in which plan.c runs them:
 *   frame.c    where the dims of a shape lie among a kernel's (used by all)
 *   resolve.c  which nodes are live; views become (base node, strides); what no strides can
 *              express becomes a copy
 *   walk.c     what reaches each other through reshapes is computed over one shape
 *   parts.c    arrays that are made of parts, written side by side
 *   group.c    which nodes share a kernel: rules/ decide, one file a fusion pattern
 *   merge.c    which more do, and what is computed again: the cost model decides
 *   spread.c   what is read through a view, as it would be computed over the shape that reads it
 *   before.c   what computes the first factor of a product in the product's kernel
 *   lower.c    a group becomes a kernel and a step: values, operands, scalars
 *   pack.c     how the factors of a product lie when it is computed
 *   fast.c     what may be computed otherwise, if asked; fast_attention.c, before all others: attention from its parts
 *   layout.c   iteration dims collapse; the form of a reduction is chosen; blocks
 *   cost.c     how long each step will take
 *   named.c    where patterns of users arise; before all others, since it looks at the graph as it came
 *   describe.c the operations, kept for those who ask; apart.c: why they are not in one kernel
 *   pattern.c  what each kernel is called
 *   pairs.c    which operations fusion.apart keeps in kernels of their own
 *   slots.c    lifetimes, temporaries used again in place, what fusion saved
 *   order.c    in which order steps run, so that little memory is alive at once
 *
 * After each of them check.c looks whether what it promises holds.
 */
#pragma once

#include "daemon/base/arena.h"
#include "plan.h"

enum node_kind {
	NODE_DEAD,
	NODE_LEAF,             /* in memory */
	NODE_FILL,             /* a scalar, whatever its shape */
	NODE_IOTA,             /* an arange, seen through its view */
	NODE_VIEW,             /* of a base that is a leaf or is computed */
	NODE_MAP,              /* computed element by element; copies too */
	NODE_REDUCE,
	NODE_MATMUL,
	NODE_SCAN,
	NODE_SCATTER,
	NODE_SORT,
	NODE_ATTENTION,
	NODE_CONV,
	NODE_PARTS,            /* in memory, written by other nodes, its parts */
};

enum {
	/* Numbers that queries, keys and scores are multiplied by before an attention is not looked for. */
	ATTENDED_SCALES = 4,
};

/* An attention that was found from its parts (fast_attention.c). */
struct attended {
	struct op_attr attr;               /* none of it is used */
	uint32_t scale[ATTENDED_SCALES];   /* fills whose values scores are multiplied or divided by */
	bool divides[ATTENDED_SCALES];
	uint8_t scales;
	bool across;                       /* keys are given as [places, keys] */
	uint32_t hidden;                   /* a fill whose value stands for scores that a bool mask hides, or GRAPH_NONE */
	uint32_t parts;                    /* operations it stands for */
};

struct node {
	uint16_t op;
	uint8_t kind;                      /* enum node_kind */
	uint8_t arity;
	bool stored;                       /* its value must be in memory */
	bool output;
	bool factor;                       /* a product reads it */
	uint32_t in[LIMIT_OPERANDS];
	uint32_t index;                    /* leaf or scalar number */
	const struct op_attr *attr;
	const struct attended *attended;   /* or NULL */
	uint32_t parts;                    /* named.c: operations of the graph that it stands for; 0: itself */
	const struct tensor_type *type;
	const struct tensor_type *space;   /* shape iterated over: a reduction's and a reshaping copy's is the operand's */
	const struct tensor_type *over;    /* walk.c: what operands are broadcast to, where that is another shape than `space`; or NULL */
	uint32_t base;                     /* node whose memory (or iota) this is; itself where computed */
	struct view view;                  /* of the base; contiguous where computed */
	uint32_t copy;                     /* outputs without memory: the node that copies them into some */
	bool after;                        /* member of a MATMUL group that reduces its rows: computed when they are there */
	bool before;                       /* member of a MATMUL group: computed row by row before the product, as part of its first factor */
	bool row;                          /* member of a REDUCE group: computed once an element of a row, not once a row */
	uint32_t whole;                    /* of a part: the node in whose memory it is stored, at `place` */
	struct view place;
	uint32_t group;
	uint32_t origin;                   /* merge.c: the node that this one computes again, or GRAPH_NONE */
	uint32_t reduced_by;               /* the last group with a reduction of this value, or GROUP_NONE */
	uint32_t slot;
	uint16_t value;                    /* lower.c: its value in the kernel being made */
	uint8_t columns;                   /* pack.c: it is stored in panels of so many; 0: row-major */
	uint8_t row_dims;                  /* ... in each of which its rows lie along so many dims before the last */
	uint8_t minimal;                   /* ... as filters that are transformed: results of a tile's side (minimal.c), or 0 */
	uint32_t panels;                   /* pack.c: the node that copies it into panels, or GRAPH_NONE */
};

/* Its fields and what becomes of them: group.def. */
struct group {
#define GROUP_FIELD(type, name, new, merged, doc) type name;
#include "group.def"
#undef GROUP_FIELD
	uint32_t source[KERNEL_OPERANDS];
};

#define GROUP_NONE UINT32_MAX

enum {
	/* Operands a group may read, so that as many again are left for what must be stored. */
	GROUP_SOURCES = KERNEL_OPERANDS / 2,
};

struct planner {
	const struct graph *g;
	const struct plan_options *o;
	struct arena arena;
	struct node *node;
	uint32_t *next;                    /* member lists of groups */
	uint32_t nodes, node_capacity;
	struct group *group;
	uint32_t groups, group_capacity;
	uint32_t *reader, *reader_start;   /* sink pass: nodes that read node i: reader[start[i] .. start[i+1]) */
	struct named_sites *named;         /* named.c; NULL: no patterns of users */
	struct plan *plan;
	uint32_t constant_capacity, note_capacity;
};

/* A group by its rank: what it reads ranks lower. */
struct ranked {
	uint32_t rank, group;
};

/* ---- resolve.c ---- */

int planner_resolve(struct planner *p) FAULT_MUST_USE;
/* The operand of a computed node: through views, to what is in memory or computed. */
struct edge {
	uint32_t node;                     /* operand as given */
	uint32_t base;
	bool direct;                       /* computed over one shape, in which element i reads element i */
};
struct edge planner_edge(const struct planner *p, const struct node *n, unsigned i);
bool node_is_computed(const struct node *n);
/* Does it read its operands from memory, wherever they lie there, and not element by element? */
bool node_is_product(const struct node *n);
/* The same extents; element types may differ, as between a cast and its operand. */
bool space_equal(const struct tensor_type *a, const struct tensor_type *b);
/* Is `in` all of its base, in its order, whatever its shape? */
bool node_is_flat(const struct node *in, const struct node *base);
/* Adds a node that copies `of`, read through its view, into memory of its own. */
int planner_add_copy(struct planner *p, uint32_t of, uint32_t *nodep) FAULT_MUST_USE;
/* Adds a node that computes what `of` does, once more; it is of no group and read by nobody. */
int planner_add_twin(struct planner *p, uint32_t of, uint32_t *nodep) FAULT_MUST_USE;
/* Adds a node that is `of` seen as another shape: the view is of its base. */
int planner_add_view(struct planner *p, uint32_t of, const struct tensor_type *t, const struct view *v, uint32_t *nodep)
	FAULT_MUST_USE;
/* A number without memory. */
int planner_add_fill(struct planner *p, const struct tensor_type *t, uint64_t value, uint32_t *nodep) FAULT_MUST_USE;

/* ---- walk.c ---- */

int planner_walk(struct planner *p) FAULT_MUST_USE;
/* Operand i of n over the shape that n is computed over, or one that is broadcast to it; false where it has no strides there, which check.c finds. */
bool planner_seen(const struct planner *p, const struct node *n, unsigned i, struct tensor_type *t, struct view *v);

/* ---- parts.c ---- */

/* Adds the parts of a NODE_PARTS: nodes *firstp to *firstp + *countp - 1, which copy what it is made of. */
int planner_add_parts(struct planner *p, uint32_t node, uint32_t *firstp, uint32_t *countp) FAULT_MUST_USE;

/* ---- frame.c ---- */

/* The shape that values are computed over, and the kernel dim of each of its dims. */
struct frame {
	const struct tensor_type *space;
	uint8_t dim[LIMIT_RANK];           /* FRAME_NONE: reduced away, extent 1 here */
};

enum { FRAME_NONE = 0xff };

/* A kernel whose dims are those of a shape. */
void frame_plain(struct frame *f, const struct tensor_type *space);
/* Strides of a tensor, seen through v, over the frame: broadcast by NumPy's rules. */
struct plan_operand frame_operand(const struct frame *f, const struct tensor_type *t, const struct view *v,
	uint32_t slot);

/* What a group of reductions walks over: kernel dims are the kept ones, then the reduced ones. */
struct rows {
	const struct tensor_type *type;
	uint16_t axes;
	uint8_t kept;
};

enum {
	ROWS_CLASS_ROW = 1,                /* computed once an element of a row */
	ROWS_CLASS_KEPT = 2,               /* computed once a row */
	/* Long rows a compute unit before they are walked whole instead of in blocks side by side. */
	ROWS_EACH_UNIT = 2,
};

struct rows rows_of(const struct planner *p, const struct node *reduction);
uint64_t rows_extent(const struct rows *r);
bool rows_same(const struct rows *a, const struct rows *b);
/* What may be computed over this space in a kernel of these rows: classes, or 0. */
unsigned rows_classes(const struct rows *r, const struct tensor_type *space);
void frame_row(struct frame *f, const struct rows *r);
void frame_kept(struct frame *f, const struct rows *r, const struct tensor_type *space);
/* Could n, computed as `class`, take operand i from its base inside a kernel that computes the base too? */
bool rows_reach(const struct planner *p, const struct rows *r, const struct node *n, unsigned class, unsigned i);
/* Does a kernel of several passes over these rows pay? */
bool rows_pay(const struct planner *p, const struct rows *r);
bool rows_adjacent(const struct rows *r);

/* ---- group.c and rules/ ---- */

/* The lowest rank first, and of one rank the group that was made first. */
void ranked_sort(struct ranked *order, uint32_t count);

/* The passes of group.c: nodes join groups; who reads whom; groups sink into their readers; what others read is stored. */
int planner_join(struct planner *p) FAULT_MUST_USE;
int planner_find_readers(struct planner *p) FAULT_MUST_USE;
int planner_sink(struct planner *p) FAULT_MUST_USE;
int planner_store(struct planner *p) FAULT_MUST_USE;
/* The group that it has become part of by now; the way there gets shorter. */
uint32_t group_find(const struct planner *p, uint32_t group);
/* Does member n of a group read operand i inside the group's kernel, not from memory? */
bool group_inside(struct planner *p, uint32_t group, const struct node *n, unsigned i);
/* Does a group of reductions need more than one reduction after a prologue and before an epilogue? */
bool group_needs_rows(struct planner *p, uint32_t group);
/* Cuts a group that does not fit a kernel into small ones, which are lowered in their order. */
int planner_shed(struct planner *p, uint32_t group) FAULT_MUST_USE;
int planner_merge(struct planner *p);
/* What merge.c uses of group.c: most members; a new group of one node, the last of p->group. */
uint32_t group_max_ops(const struct planner *p);
int group_new(struct planner *p, uint32_t node, uint32_t rank) FAULT_MUST_USE;
void group_add(struct planner *p, struct group *g, uint32_t node);
/* Adds what n reads from outside g; false where that is too much (g is then unchanged). */
bool group_add_sources(struct planner *p, struct group *g, const struct node *n);
/*
 * Requires rank order to allow it; false where both are too much together, or `from` has rows before or after a product, or
 * stores a part and would rank otherwise.
 * `from` ceases to stand, its members go first: members stay in topological order whether or not `into` reads them.
 */
bool group_merge(struct planner *p, struct group *into, struct group *from);
/* Has a group, of which only `into` reads, computed there. NULL, or why not (may be empty). */
const char *group_sink(struct planner *p, uint32_t group, uint32_t into);
/* What apart.c tells of, where it is still so in the end: why the consumer's kernel does not compute the producer; or why two are not side by side. */
int planner_note(struct planner *p, uint32_t producer, uint32_t consumer, const char *reason) FAULT_MUST_USE;
int planner_note_beside(struct planner *p, uint32_t producer, uint32_t consumer, const char *reason) FAULT_MUST_USE;

/* ---- spread.c ---- */

/* The shape that operand k of a reader is broadcast to. */
const struct tensor_type *spread_shape(const struct planner *p, uint32_t reader, unsigned k);
/* Could the elementwise value that operand k is a view of be computed over that shape? Those that make it must be taken, too. */
bool spread_leads(const struct planner *p, uint32_t reader, unsigned k);
bool spread_takes(const struct node *maker);
/* How often a kernel then computes it. */
double spread_times(const struct planner *p, uint32_t reader, unsigned k);
/* Has a twin of a maker of that value be over that shape, with its operands. */
int spread_twin(struct planner *p, uint32_t twin, uint32_t reader, unsigned k) FAULT_MUST_USE;

/* ---- before.c ---- */

/* What computes a first factor row by row, and nobody else reads, is computed in the product's kernel; then what reduces a product's rows. */
int planner_before(struct planner *p) FAULT_MUST_USE;

/*
 * A fusion pattern: one file in rules/, found by its entry in the section plan_rules.
 *
 * join: may node n, elementwise or a reduction, become a member of g, which computes an operand that
 *       n reaches inside g's kernel? Called in topological order, before n has a group.
 * sink: may group g, whose only reader is group into, be computed inside it?
 * Both return true, or false with a constant text in *reasonp. Limits and cycles are group.c's.
 */
struct plan_rule {
	const char *name, *doc;
	bool (*join)(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp);
	bool (*sink)(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp);
};

/*
 * What rules have in common that take elementwise operations of a root's own shape: does g, of this root, take n; does
 * `into` take g? `why` is the reason where only the shape differs.
 */
bool rule_joins(const struct group *g, const struct node *n, unsigned root, const char *why, const char **reasonp);
bool rule_sinks(const struct group *g, const struct group *into, unsigned root, const char *why, const char **reasonp);

#define PLAN_RULE(rule, ...)                                                                       \
	static const struct plan_rule rule_##rule = { .name = #rule, __VA_ARGS__ };                \
	static const struct plan_rule *const rule_entry_##rule                                     \
		__attribute__((used, retain, section("plan_rules"))) = &rule_##rule

/* ---- pattern.c ---- */

/*
 * Would a kernel of all these be of a pattern that is switched off? NULL, or the reason. Either group
 * may be NULL, node GRAPH_NONE; what is read stands before what reads it.
 */
const char *pattern_refuses(const struct planner *p, const struct group *from, const struct group *into, uint32_t node);
/* The steps from `first` on are of group g: tells their pattern, and the last of them what it saved. */
void pattern_mark(const struct planner *p, const struct group *g, uint32_t first);
/* The general pattern of a kernel that was cut from another. */
enum pattern pattern_of_kernel(const struct kernel *k);

/* ---- named.c ---- */

/* Finds the patterns of the book, where there is one. An own operation may take the place of an expression. */
int planner_find_named(struct planner *p) FAULT_MUST_USE;
/* As pattern_refuses(), for pairs that fusion.apart names: pairs.c. pattern_refuses() asks it. */
const char *pairs_refuse(const struct planner *p, const struct group *from, const struct group *into, uint32_t node);
/* As pattern_refuses(), for patterns of users. */
const char *named_refuses(const struct planner *p, const struct group *from, const struct group *into, uint32_t node);
/* The patterns of users that a kernel of this group is of. */
named_set named_of_group(const struct planner *p, const struct group *g);
/* Tells the plan what was found. */
int named_count(struct planner *p) FAULT_MUST_USE;

/* ---- layout.c, cut.c, lower.c ---- */

/*
 * A kernel while it is made, with the operands of its step. Dims stand kept before reduced;
 * while `collapsed` is false strides are over all of them.
 */
struct draft {
	struct kernel kernel;
	int64_t dims[KERNEL_RANK];
	struct plan_operand operand[KERNEL_OPERANDS];
	uint32_t scalar[KERNEL_SCALARS];
	uint64_t extent;
	bool full;                         /* something did not fit: the group must be cut */
};

/* Each appends and returns its number; a full draft returns 0 and sets `full`. */
uint16_t draft_value(struct draft *d, struct kernel_value v);
uint16_t draft_operand(struct draft *d, uint8_t dtype, const struct plan_operand *o);
uint16_t draft_scalar(struct draft *d, uint8_t dtype, uint32_t number);
uint16_t draft_op(struct draft *d, unsigned op, uint8_t dtype, unsigned arity, const uint16_t *arg);
uint16_t draft_load(struct draft *d, uint8_t dtype, const struct plan_operand *o);
/* arg: index, extent and stride of the axis that o does not walk. */
uint16_t draft_gather(struct draft *d, uint8_t dtype, const struct plan_operand *o, const uint16_t arg[static 3]);
/* A place in a vector: arg are what goes there, its extent and stride. */
uint16_t draft_search(struct draft *d, uint8_t dtype, const struct plan_operand *o, const uint16_t arg[static 3], bool right);
/* The index along an arange: its operand has strides but no memory. */
uint16_t draft_iota(struct draft *d, const struct plan_operand *o);
void draft_store(struct draft *d, uint16_t value, const struct plan_operand *o);

/* MATMUL, CPU strategy: vectors side by side in a tile of a result with rows of n elements. */
uint8_t tile_vectors(uint8_t width, uint8_t accumulator, int64_t n);
/* An extent in pieces of at most so many: a piece, all being alike. */
int64_t even_piece(int64_t extent, int64_t most);
/* Is a product of these extents computed with lanes along M? The steps are the first factor's. */
bool tile_turns(uint8_t width, int64_t m, int64_t n, int64_t step_m, int64_t step_k);
/* Drops extents of 1 and merges dims that every operand walks evenly. */
void draft_collapse(struct draft *d);
/* Chooses form and width, then each operand's access by the lane dimension. */
void draft_finish(struct draft *d, const struct traits *t);
/* The second part alone: after a form was given. */
void draft_access(struct draft *d, const struct traits *t);
/* Elements of the iteration, and of one operand's part of it. */
uint64_t draft_elements(const struct draft *d);

/* Copying parts of one draft into another: arguments come along; imports are loaded instead. */
struct cut {
	const struct draft *from;
	struct draft *to;
	uint16_t map[KERNEL_VALUES];       /* KERNEL_NONE: not copied yet */
};
void cut_begin(struct cut *c, const struct draft *from, struct draft *to);
uint16_t cut_value(struct cut *c, uint16_t value);
void cut_import(struct cut *c, uint16_t value, const struct plan_operand *o);
/* Stores a value where output operand `operand` of `from` does. */
void cut_output(struct cut *c, uint16_t operand);

int planner_lower(struct planner *p) FAULT_MUST_USE;
/* A plan constant; its scalar number. */
int planner_constant(struct planner *p, uint64_t value, uint32_t *scalarp) FAULT_MUST_USE;

/* ---- minimal.c ---- */

/* Results of a tile's side of a Winograd convolution: 2, 4, or 0. */
uint8_t minimal_side(const struct planner *p, const struct node *conv);
/* Products of elements then; and what the CPU strategy computes at once, as KERNEL_WORD_EXTENT has it. */
double minimal_products(const int64_t *dims, unsigned side);
uint64_t minimal_block(const int64_t *dims, unsigned side);
/* What the tiles of a kernel are rows of: places of such a block, or tiles of results. */
int64_t minimal_tiles(const struct kernel *k, uint64_t block);
/* What copies filters into panels so: loads from `in` on, where the first element of each lies, and stores from `to` on. */
int minimal_filters(struct planner *p, struct draft *d, const struct node *n, struct plan_operand in, struct plan_operand to) FAULT_MUST_USE;

/* ---- pack.c ---- */

/* The type that a product of this result is accumulated in. */
uint8_t planner_accumulator(const struct tensor_type *result);
/* Where factor i of a product must lie otherwise: a node that copies it, new ones are of no group; else GRAPH_NONE. */
int planner_add_factor(struct planner *p, uint32_t product, unsigned i, uint32_t *copyp) FAULT_MUST_USE;
/*
 * CONV, CPU strategy: the node that copies the weights into panels [group][panel][channel][row][column][channel of the
 * result], of no group yet; GRAPH_NONE where they are read as they lie.
 */
int planner_add_filters(struct planner *p, uint32_t conv, uint32_t *copyp) FAULT_MUST_USE;
/* Of a node in panels: its memory, and the strides there over [batch][panel][row][column], of batch extents of 1 being 0. */
uint64_t panels_bytes(const struct node *n);
void panels_strides(const struct node *n, int64_t *stride);
/* ... and the elements of a panel, or of each transformed element of its filters. */
int64_t panels_inner(const struct node *n);
/*
 * A group with a member in panels is lowered over [batch][panel][row][column], rows being one dim or several: the frame;
 * the extents; and the steps of a draft over it, whose dim of panels still has the extent of all columns: whole panels,
 * then the last.
 */
void panels_frame(struct frame *f, const struct tensor_type *space, unsigned row_dims);
void panels_dims(struct draft *d, const struct group *g);
int planner_add_panels(struct planner *p, const struct draft *d, unsigned row_dims, const uint32_t *op, uint32_t ops)
	FAULT_MUST_USE;

/* ---- fast.c ---- */

/* Before anything is resolved: parts of attention become attentions (fast_attention.c). */
int fast_attention(struct planner *p) FAULT_MUST_USE;
uint8_t fast_dtype(const struct planner *p, uint8_t dtype);
/* As draft_op(), where the client accepts other rounding. Changes arg. */
uint16_t fast_op(const struct planner *p, struct draft *d, unsigned op, uint8_t dtype, unsigned arity, uint16_t *arg);

/* ---- cost.c: estimates while there is no kernel yet, nanoseconds ---- */

/* Moving so many bytes, half of them read, where the kernel's footprint is such. */
double cost_bytes(const struct traits *t, double bytes, double footprint);
/* An operation on so many elements. */
double cost_op(const struct traits *t, unsigned op, uint8_t from, uint8_t to, double elements);
/* An elementwise kernel: bytes it reads and writes, of so many that are in use, and cost_op() of its operations. */
double cost_map(const struct traits *t, double elements, double read, double written, double footprint,
	double arithmetic);

/* ---- check.c: what must hold after a pass; NULL, or the rule that is broken, a constant text ---- */

const char *check_resolved(struct planner *p);
/* Of groups, at any time. */
const char *check_groups(struct planner *p);
/* ... and what only holds until groups sink. */
const char *check_joined(struct planner *p);
const char *check_readers(struct planner *p);
/* Groups that nothing changes any more. */
const char *check_stored(struct planner *p);
/* Steps and results, before and after they are in their order. */
const char *check_plan(struct planner *p);

/* ---- plan.c ---- */

/* A plan that is made of another one: counted and logged where it breaks a rule. */
bool plan_is_broken(const struct plan *p, const char *made_by);
/* Called when a pass has ended, before it is checked: how tests break a plan. NULL otherwise. */
extern void (*planner_meddle)(struct planner *p, const char *pass);

int plan_add_slot(struct plan *p, uint64_t bytes, bool output, uint32_t *slotp) FAULT_MUST_USE;
/* Makes the finished draft a step; op (ops of them) are the nodes it computes. FAULT_INTERNAL where an operand has no memory. */
int plan_add_step(struct plan *p, const struct draft *d, const uint32_t *op, uint32_t ops) FAULT_MUST_USE;
/* Cuts a reduction or scan of more than KERNEL_BLOCK elements into steps; adds them, or the draft as it is. */
int plan_add_blocks(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op, uint32_t ops)
	FAULT_MUST_USE;

/* Memory for the values of a draft over these dims, row-major, at *o. */
int plan_add_temporary(struct plan *p, uint8_t dtype, const int64_t *dims, unsigned rank, struct plan_operand *o)
	FAULT_MUST_USE;
void draft_of_step(const struct plan_step *s, struct draft *d);
/*
 * Cuts a draft in two that are not finished, and leaves what passes between them in temporaries: a root from what goes before
 * or after it; rows before or behind their first reduction. 0, -ENOMEM, or FAULT_BUILD where there is nothing to cut.
 */
int draft_split(struct plan *p, const struct draft *d, struct draft *first, struct draft *second) FAULT_MUST_USE;
/* A part without reductions: rows with results of one space become a map; a map has no dim that counts blocks. */
void draft_settle_rows(struct draft *d);
void draft_drop_blocks(struct draft *d);
/* What a plan made from another begins with; a step as it is there. */
int plan_copy_lists(const struct plan *from, struct plan *to) FAULT_MUST_USE;
int plan_copy_step(struct plan *p, const struct plan_step *s) FAULT_MUST_USE;

/* ---- sort.c ---- */

/* The steps that a sort takes. */
int plan_add_sort(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op, uint32_t ops)
	FAULT_MUST_USE;
/* One step of whole rows, however few they are; -EOVERFLOW where they are longer than one item should sort. */
int plan_add_sort_rows(struct plan *p, const struct draft *d, const struct traits *t, const uint32_t *op) FAULT_MUST_USE;

/* ---- describe.c ---- */

int planner_describe(struct planner *p) FAULT_MUST_USE;
int plan_copy_description(const struct plan *from, struct plan *to) FAULT_MUST_USE;

/* ---- slots.c ---- */

/* Lifetimes, and temporaries that are overwritten in place. */
void plan_lifetimes(struct plan *p);

/* ---- order.c ---- */

/* Changes the order of the steps where the peak is lower so; lifetimes and estimates are known. 0 or -ENOMEM. */
int plan_order(struct plan *p, struct arena *a) FAULT_MUST_USE;
