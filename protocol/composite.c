/* The shapes of composites; see composite.h. */
#include "composite.h"

#include <inttypes.h>
#include <string.h>

struct call {
	const char *name;
	unsigned op, operands;
	const struct tensor_type *const *in;
	const struct op_attr *attr;
};

static const struct {
	const char *name;
	enum op_types types;
} operand_types[] = {
	{ "any", OP_TYPES_ANY },
	{ "int", OP_TYPES_INT },
	{ "bool", OP_TYPES_BOOL },
};

/* The end of a name of "x, target:int". */
static const char *name_end(const char *names) {
	return names + strcspn(names, ",");
}

int composite_operand_types(const struct op_info *info, unsigned operand) {
	const char *name = info->operands, *colon;
	size_t length;

	for (; operand && *name; operand--)
		name = name_end(name) + strspn(name_end(name), ", ");
	colon = memchr(name, ':', (size_t)(name_end(name) - name));
	length = colon ? (size_t)(name_end(name) - colon - 1) : 0;
	for (size_t i = 0; colon && i < sizeof operand_types / sizeof *operand_types; i++)
		if (strlen(operand_types[i].name) == length && !memcmp(operand_types[i].name, colon + 1, length))
			return operand_types[i].types;
	return -1;
}

/* --- rules ------------------------------------------------------------------------------- */

/* The shape of the first operand, to which the others broadcast. */
static int shape_same(const struct call *c, struct tensor_type *outp, struct fault *f) {
	char a[SHAPE_TEXT], b[SHAPE_TEXT];

	*outp = *c->in[0];
	for (unsigned i = 1; i < c->operands; i++)
		if (shape_broadcast(outp, c->in[i], NULL) || !shape_equal(outp, c->in[0]))
			return fault_set(f, FAULT_SHAPE, "%s: argument %c (%s) does not broadcast to %s", c->name,
				'a' + (int)i, shape_text(c->in[i], b), shape_text(c->in[0], a));
	return 0;
}

/* --- the table --------------------------------------------------------------------------- */

typedef int shape_rule(const struct call *c, struct tensor_type *outp, struct fault *f);

static shape_rule *const rules[OP_COUNT] = {
#define UNARY(...)
#define BINARY(...)
#define TERNARY(...)
#define REDUCE(...)
#define STRUCT(...)
#define COMPOSITE(id, name, types, result, shape, ...) [id] = shape_##shape,
#include "ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef REDUCE
#undef STRUCT
};

int composite_shape(unsigned op, unsigned n, const struct tensor_type *const *in, const struct op_attr *attr,
	struct tensor_type *outp, struct fault *f) {
	const struct call c = { .name = op_info(op)->name, .op = op, .operands = n, .in = in, .attr = attr };

	return rules[op](&c, outp, f);
}
