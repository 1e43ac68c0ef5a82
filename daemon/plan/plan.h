/*
 * Which operations become which kernel.
 *
 * plan_make() turns a graph into steps in execution order; each step is one kernel over one set of
 * extents, and names its memory by slots. A plan holds no buffer, no address and no scalar value,
 * so it serves every graph of the same structure: exec binds slots to buffers and scalar numbers
 * to values when it runs. plan calls no OpenCL. Only where users' patterns name numbers does a plan depend on
 * values: its tests say on which.
 *
 * Slots 0 .. leaves-1 are the graph's leaves. Then come slots that the plan creates: outputs
 * (which outlive it) and temporaries. `reuse` names a temporary whose memory a new one takes over:
 * the step that writes the new one reads the old one for the last time, element by element.
 */
#pragma once

#include "protocol/pattern.h"
#include "daemon/base/arena.h"
#include "daemon/base/op_pairs.h"
#include "daemon/graph/graph.h"
#include "daemon/plan/book.h"
#include "daemon/plan/kernel.h"
#include "daemon/plan/knobs.h"

#define PLAN_NONE UINT32_MAX

/* Neighbouring steps of one program that take longer together are not one launch: whoever else wants the device waits for a whole one. */
#define PLAN_LAUNCH_NS 1e6

struct str;

struct plan_options {
	bool fuse;                     /* false: one kernel an operation */
	bool fast;                     /* the client accepts other rounding: fast.c */
	bool notes;                    /* keep why operations were not fused (explain) */
	pattern_set patterns_off;      /* no kernel is of one of these: fusion.pattern.* */
	struct book *book;             /* what users call patterns, or NULL */
	named_set named_off;           /* of the book: no kernel is of one of these */
	struct op_pairs apart;         /* no kernel has two of these, one read by the other: fusion.apart */
	uint64_t min_elements;         /* smaller kernels are not fused: fusion.min_elements */
	const struct traits *traits;
	struct knob_pins pins;         /* values of knobs that hold for all kernels: fusion.knobs */
	const struct tuning *tuning;   /* what was learned of kernels; NULL: all are as the rules say */
	bool tuned_later;              /* plan_tune() will look at that */
	struct knob_variant variant;        /* ... and one of them otherwise, to try it */
};

struct plan_operand {
	uint32_t slot;                 /* PLAN_NONE for an iota */
	int64_t offset;                /* elements, beyond the leaf's own offset; an iota's first value */
	int64_t stride[KERNEL_RANK];   /* elements */
};

struct plan_step {
	struct kernel *kernel;         /* shared, owned by the plan */
	int64_t dims[KERNEL_RANK];
	uint64_t extent;               /* KERNEL_WORD_EXTENT */
	struct plan_operand *operand;  /* kernel->operands of them */
	uint32_t *scalar;              /* kernel->scalars numbers: below graph_scalars(), or plan constants */
	uint32_t *op;                  /* nodes of the graph computed here, for explain and split */
	uint32_t ops;
	uint64_t elements;             /* of the iteration */
	uint64_t bytes_read, bytes_written;
	uint8_t pattern;               /* enum pattern */
	named_set named;               /* patterns of the plan's book that it is of, too */
	/* Of all steps of its operations together, which only the last of them tells: */
	uint64_t bytes_fused;          /* read and written */
	uint64_t bytes_unfused;        /* as one kernel an operation */
	uint32_t buffers_eliminated;
	uint32_t kernels_before;       /* that they take without fusion; 0: not compared, see plan_step_before() */
	double estimate_ns;            /* cost.c's, when the plan was made; 0: not known, as below */
	double memory_ns, arithmetic_ns; /* what moving its memory and its arithmetic take of that, side by side */
	double estimate_unfused_ns;    /* of its operations as kernels of their own */
	double measured_ns;            /* exec's: the fastest run that was timed */
	double measured_unfused_ns;
	uint64_t identity;             /* knobs_kernel(); 0: planned without a tuning, or made once, like panels that stay */
	struct knobs chosen, knobs;    /* all that was chosen; of it what applies */
	/* exec's: the first step of its launch; launches by its own program, and otherwise; how the newest was made, and the first of those like it (loop_now()). */
	uint32_t launch;
	uint64_t compiled, interpreted, since_us;
	uint8_t tier;                  /* enum plan_tier */
};

/* What a step runs by. */
enum plan_tier {
	PLAN_TIER_NONE,                /* it has not run */
	PLAN_TIER_OWN,                 /* its own program */
	PLAN_TIER_CODE,                /* bytecode */
	PLAN_TIER_GENERIC,             /* plan_generic()'s kernels, in place of its plan's */
};

static inline bool plan_step_interpreted(const struct plan_step *s) {
	return s->tier > PLAN_TIER_OWN;
}

/* It runs otherwise than before. */
void plan_step_turned(struct plan_step *s, enum plan_tier tier);

static inline void plan_step_ran(struct plan_step *s, enum plan_tier tier) {
	s->interpreted += tier > PLAN_TIER_OWN;
	s->compiled += tier == PLAN_TIER_OWN;
	if (s->tier != tier)
		plan_step_turned(s, tier);
}

/* Keeps the fastest: what disturbs a kernel only makes it slower. */
static inline void plan_step_measured(struct plan_step *s, double ns) {
	if (!(s->measured_ns > 0) || ns < s->measured_ns)
		s->measured_ns = ns;
}

static inline uint64_t plan_step_saved(const struct plan_step *s) {
	return s->bytes_unfused > s->bytes_fused ? s->bytes_unfused - s->bytes_fused : 0;
}

struct plan_slot {
	uint64_t bytes;
	bool output;
	bool parts;                    /* several steps may write it, each a part of its own */
	uint32_t first, last;          /* steps that write it first and use it last */
	uint32_t written;              /* ... that writes it last */
	uint32_t reuse;                /* slot, or PLAN_NONE */
	bool packed;                   /* a factor of a product, in panels */
	uint32_t packed_of;            /* ... which is made of this leaf and of constants alone; else PLAN_NONE */
};

/* A result: a slot seen through a view. Leaves and views of them are results too. */
struct plan_output {
	uint32_t slot;
	struct tensor_type type;
	struct view view;              /* offset beyond the leaf's own offset where the slot is a leaf */
	uint64_t tag;                  /* position in the graph's outputs */
};

/* An operation of the graph, or a copy that the planner added. */
struct plan_node {
	uint16_t op;                   /* OP_load for leaves */
	uint8_t arity;
	bool dead, output;
	uint32_t note;                 /* the graph's; PLAN_NONE for an added copy */
	const uint32_t *in;
	const struct tensor_type *type;
};

/* A number that the plan depends on, because a user's pattern names one: it serves graphs of this outcome. */
struct plan_test {
	uint32_t scalar;               /* of the graph */
	bool equal;
	uint64_t value;
};

struct plan_note {
	uint32_t producer, consumer;   /* nodes */
	const char *reason;            /* a constant text */
	bool beside;                   /* neither reads the other: they might have stood side by side */
};

struct plan {
	struct plan_step *step;
	uint32_t steps;
	struct plan_slot *slot;
	uint32_t slots, leaves;
	struct plan_output *output;
	uint32_t outputs;
	uint64_t *constant;            /* scalar numbers from graph_scalars() on */
	uint32_t scalars, constants;   /* of the graph; of the plan */
	struct plan_note *note;
	uint32_t notes;
	struct plan_node *node;
	uint32_t nodes;
	uint32_t ops;                  /* operations that are computed, the planner's copies among them */
	uint32_t operations, reductions; /* of them the graph's own; reductions in whatever kernel */
	/* What fusion saved: against the graph's plan without fusion where the two were compared, else against one kernel and one buffer an operation. */
	bool compared;
	bool compare_tried;            /* serve's: once is enough, whatever came of it */
	uint32_t unfused_steps;        /* of that plan */
	uint32_t buffers_eliminated;
	uint64_t bytes_not_moved;
	uint64_t peak_bytes;           /* most that temporaries and results take at once, between any two steps */
	pattern_set patterns_off;      /* it was made without these */
	struct book *book;             /* a reference, or NULL */
	uint32_t *found;               /* how often each pattern of the book was found, fused or not; NULL: never */
	struct plan_test *test;
	uint32_t tests;
	bool generic;                  /* made by plan_generic(): its maps have no programs of their own */
	bool patterns_cut;             /* the graph is so large or regular that patterns of users were not looked for everywhere */
	uint32_t asked;                /* serve's: looks whether it should be made again */
	uint64_t tuning_serial;        /* tuning_serial() when its kernels were last known to be as is chosen */
	double made_ns;                /* what planning took, where its caller told */
	uint32_t references;
	/* exec's: what runs while programs of this plan are built (plan_generic()), or NULL; was it made? */
	struct plan *stand_in;
	bool stand_in_made;
	/* exec's: what it computed once for this plan. plan_unref() calls release(prepared) when the plan goes. */
	void *prepared;
	void (*release)(void *prepared);
	struct arena arena;            /* of the steps' operands, scalars, operations and kernels */
	uint32_t step_capacity, slot_capacity;
};

/*
 * 0, -ENOMEM, or a FAULT_ code where an operation is beyond the device (f64). The graph is not changed. Where the planner
 * broke a rule of its own the plan is of one kernel an operation; FAULT_INTERNAL where that broke one, too.
 */
int plan_make(const struct graph *g, const struct plan_options *o, struct plan **planp, struct fault *f)
	FAULT_MUST_USE;
/* What was learned of kernels since, of a plan that was made to be `tuned_later`. 0 or -ENOMEM. */
int plan_tune(struct plan *p, const struct plan_options *o) FAULT_MUST_USE;
/* How often it broke one. */
uint64_t plan_rules_broken(void);
/* What must hold of any plan: NULL, or the rule that is broken, a constant text. Without the graph less is known of leaves. */
const char *plan_broken(const struct plan *p, const struct graph *g);
struct plan *plan_ref(struct plan *p);
struct plan *plan_unref(struct plan *p);        /* returns NULL */
/* Of memory that it takes, without what exec hangs on it. */
uint64_t plan_bytes(const struct plan *p);

/* Plans by structure and options, least recently used ones dropped. */
struct plan_cache;
int plan_cache_new(uint32_t capacity, struct plan_cache **cachep) FAULT_MUST_USE;
struct plan_cache *plan_cache_free(struct plan_cache *c);
/*
 * The plan for a graph: found, or made and kept. *planp is a reference of the caller's. *hitp tells
 * which. Plans are not shared between options that differ.
 */
int plan_cache_get(struct plan_cache *c, const struct graph *g, const struct plan_options *o,
	struct plan **planp, bool *hitp, struct fault *f) FAULT_MUST_USE;
/* Keeps a plan that was made of the graph with these options, in the place of any other. 0 or -ENOMEM. */
int plan_cache_put(struct plan_cache *c, const struct graph *g, const struct plan_options *o, struct plan *p) FAULT_MUST_USE;
/* The plan where it is kept, as a reference of the caller's, or NULL. */
struct plan *plan_cache_find(const struct plan_cache *c, const struct graph *g, const struct plan_options *o);
/* Puts `new` in the place of `old` (after a split), if old is still kept. */
void plan_cache_replace(struct plan_cache *c, struct plan *old, struct plan *new);

/*
 * The same plan with one step cut in two, for a kernel that does not build or is too large on its device: the
 * first half of its values ends in temporaries that the second half loads; a root is cut from what
 * goes before and after it. Results keep their bits. 0, -ENOMEM, FAULT_BUILD where the step is a
 * single operation, or FAULT_INTERNAL.
 */
int plan_split(const struct plan *p, uint32_t step, const struct traits *t, struct plan **planp, struct fault *f) FAULT_MUST_USE;

/*
 * Compares with a plan of the same graph without fusion: the plan learns how many kernels that has and how much
 * more it moves, and each step of several operations what these take as kernels of their own, as far as both plans know. 0 or -ENOMEM.
 */
int plan_compare(struct plan *p, const struct plan *single) FAULT_MUST_USE;
/* The same with a plan that is made for it. 0, -ENOMEM, or a fault of plan_make(). */
int plan_compare_single(struct plan *p, const struct graph *g, const struct plan_options *o,
	struct fault *f) FAULT_MUST_USE;
/* Bytes that its steps read and write. */
uint64_t plan_moved(const struct plan *p);
/* Without fusion it would be so many: how many of them fusion saves. */
void plan_saved(struct plan *p, uint64_t unfused);
/* Kernels of its graph without fusion. Where nobody has compared it with such a plan: one an operation, as near as is known. */
uint32_t plan_unfused_steps(const struct plan *p);
/* The first step behind those that share the launch of this one. */
uint32_t plan_launch_end(const struct plan *p, uint32_t first);
/* What the steps of a launch are estimated to take each with a launch of its own, and together; 0: not known. */
struct plan_launch_times {
	double apart_ns, together_ns;
};
struct plan_launch_times plan_launch_times(const struct plan *p, uint32_t first, const struct rates *r);
/* Kernels that a step's operations take without fusion, and those that they take here: it, and those before it that begin them. */
uint32_t plan_step_before(const struct plan *p, uint32_t step);
uint32_t plan_step_passes(const struct plan *p, uint32_t step);
/* The time of all steps of a step's operations, as plan_step.bytes_fused counts them; 0: not known. */
double plan_estimate_of(const struct plan *p, uint32_t step);
double plan_measured_of(const struct plan *p, uint32_t step);

/* What steps that share a launch with an equal one are: memory_ops, or horizontal. */
enum pattern pattern_of_launch(const struct plan_step *s);

/* Are all kernels as they would be chosen now? */
bool plan_is_tuned(const struct plan *p, const struct tuning *t);

/* Writes the estimate of each step: it starts, then takes the longer of moving its memory and its arithmetic. cost.c */
void plan_estimate(struct plan *p, const struct traits *t);

/* Does it serve a graph of its structure with these numbers? */
bool plan_tests_hold(const struct plan *p, const struct graph *g);

/* What a step is for whose operations do not tell: a pass of a long reduction, a packing. Adds nothing where they do. describe.c */
void plan_put_purpose(const struct plan *p, uint32_t step, struct str *text);

/*
 * Why what is in several kernels is not in one: for each two of them one note, with the reason that decided. *notep, of *countp notes, is to be
 * freed; they name operations that steps tell of. 0 or -ENOMEM. apart.c
 */
int plan_apart(const struct plan *p, struct plan_note **notep, uint32_t *countp) FAULT_MUST_USE;

/* An operation as who recorded it knows it: the node that is its value, and its number, PLAN_NONE: none. A composite is all nodes of its number. */
struct plan_member {
	uint32_t node, note;
};

struct plan_pair {
	bool fused;
	uint32_t step;                 /* of both, the last one; PLAN_NONE: none */
	uint32_t producer, consumer;   /* not fused: the nodes that the reason is of, as far as it is of any; else PLAN_NONE */
	const char *reason;            /* a constant text */
};

/* Is there a kernel that computes of both, and why not? The plan keeps notes. 0 or -ENOMEM. pair.c */
int plan_pair(const struct plan *p, struct plan_member first, struct plan_member second, struct plan_pair *pair) FAULT_MUST_USE;
