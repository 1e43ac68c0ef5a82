/*
 * The parser of expressions; see expr.h for the language.
 *
 * One function below is one line of the grammar. Nodes are appended as they are read, so arguments
 * stand before the calls that take them. A node's depth is that of the value, also through names;
 * the parser's own recursion is bounded by the same limit.
 */
#include "expr.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "op.h"

enum token_kind {
	TOKEN_END,
	TOKEN_NUMBER,
	TOKEN_NAME,
	TOKEN_SIGN,
};

struct token {
	enum token_kind kind;
	uint16_t at, length;
	double number;
};

struct named {
	const char *text;
	uint16_t length, node;
};

struct parser {
	const char *text;
	const char *operands;
	struct token token;
	struct expr *e;
	struct named name[EXPR_NAMES];
	unsigned names, depth;
	locale_t locale;                     /* a point is a point, whatever the program's locale says */
	struct fault *fault;
};

static const struct {
	const char *name;
	uint8_t least, most;
} functions[] = {
#define FUNCTION(name, least, most) { #name, least, most },
	EXPR_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

const char *expr_function_name(enum expr_function function) {
	return functions[function].name;
}

/* ---- tokens ---- */

static int refuse(const struct parser *p, const char *expected) {
	const struct token *t = &p->token;

	if (t->kind == TOKEN_END)
		return fault_set(p->fault, FAULT_SYNTAX, "column %u: expected %s, found the end", t->at + 1U, expected);
	return fault_set(p->fault, FAULT_SYNTAX, "column %u: expected %s, found '%.*s'", t->at + 1U, expected,
		t->length, p->text + t->at);
}

static bool is_name_character(char c) {
	return isalnum((unsigned char)c) || c == '_';
}

static uint16_t name_length(const char *at) {
	uint16_t length = 0;

	while (is_name_character(at[length]))
		length++;
	return length;
}

/* Digits, a point and an exponent; strtod() alone would also take hexadecimal numbers and infinities. */
static uint16_t number_length(const char *at) {
	uint16_t length = 0;

	while (isdigit((unsigned char)at[length]) || at[length] == '.')
		length++;
	if (at[length] == 'e' || at[length] == 'E') {
		uint16_t sign = at[length + 1] == '-' || at[length + 1] == '+';

		if (isdigit((unsigned char)at[length + 1 + sign]))
			length = (uint16_t)(length + 1 + sign);
		while (isdigit((unsigned char)at[length]))
			length++;
	}
	return length;
}

static uint16_t sign_length(const char *at) {
	return strchr("<>=!", *at) && at[1] == '=' ? 2 : 1;
}

static int next(struct parser *p) {
	struct token *t = &p->token;
	const char *at = p->text + t->at + t->length;
	char *end;

	while (isspace((unsigned char)*at))
		at++;
	*t = (struct token){ .at = (uint16_t)(at - p->text) };
	if (!*at)
		return 0;
	if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1]))) {
		t->kind = TOKEN_NUMBER;
		t->length = number_length(at);
		t->number = strtod_l(at, &end, p->locale);
		if (end != at + t->length || is_name_character(*end))
			return refuse(p, "a number");
	} else if (is_name_character(*at)) {
		t->kind = TOKEN_NAME;
		t->length = name_length(at);
	} else {
		t->kind = TOKEN_SIGN;
		t->length = sign_length(at);
	}
	return 0;
}

static bool at_sign(const struct parser *p, const char *sign) {
	return p->token.kind == TOKEN_SIGN && p->token.length == strlen(sign) &&
	       !memcmp(p->text + p->token.at, sign, p->token.length);
}

static int take_sign(struct parser *p, const char *sign, const char *expected) {
	return at_sign(p, sign) ? next(p) : refuse(p, expected);
}

static bool same_name(const char *a, uint16_t length, const char *b) {
	return !strncmp(a, b, length) && !b[length];
}

/* ---- nodes ---- */

static int node_add(struct parser *p, const struct expr_node *n, uint16_t *nodep) {
	struct expr *e = p->e;
	unsigned depth = 0;

	for (unsigned i = 0; i < n->arity; i++)
		if (e->node[n->in[i]].depth > depth)
			depth = e->node[n->in[i]].depth;
	if (e->count == EXPR_NODES)
		return fault_set(p->fault, FAULT_LIMIT, "column %u: the expression has more than %d parts",
			n->at + 1U, EXPR_NODES);
	if (depth == EXPR_DEPTH)
		return fault_set(p->fault, FAULT_LIMIT, "column %u: values stand more than %d deep inside each other",
			n->at + 1U, EXPR_DEPTH);
	*nodep = e->count++;
	e->node[*nodep] = *n;
	e->node[*nodep].depth = (uint8_t)(depth + 1);
	return 0;
}

static int operation_add(struct parser *p, unsigned op, uint16_t at, unsigned arity, uint16_t a, uint16_t b,
	uint16_t *nodep) {
	struct expr_node n = { .kind = EXPR_OPERATION, .which = (uint16_t)op, .at = at, .arity = (uint8_t)arity,
		.in = { a, b }, .name = { EXPR_POSITIONAL, EXPR_POSITIONAL } };

	return node_add(p, &n, nodep);
}

static int number_add(struct parser *p, uint16_t at, double number, uint16_t *nodep) {
	struct expr_node n = { .kind = EXPR_NUMBER, .at = at, .number = number };

	return node_add(p, &n, nodep);
}

/* ---- names ---- */

/* The number of an operand with this name, or -1. "a, b:int" are two names. */
static int find_operand(const struct parser *p, const char *name, uint16_t length) {
	static const char between[] = ", ";
	int number = 0;

	for (const char *at = p->operands + strspn(p->operands, between); *at; number++) {
		if (name_length(at) == length && !memcmp(at, name, length))
			return number;
		at += strcspn(at, between);
		at += strspn(at, between);
	}
	return -1;
}

static int find_given(const struct parser *p, const char *name, uint16_t length) {
	for (unsigned i = 0; i < p->names; i++)
		if (p->name[i].length == length && !memcmp(p->name[i].text, name, length))
			return p->name[i].node;
	return -1;
}

static int find_dtype(const char *name, uint16_t length) {
	for (unsigned d = 0; d < DTYPE_COUNT; d++)
		if (same_name(name, length, dtype_info(d)->name))
			return (int)d;
	return -1;
}

static int find_operation(const char *name, uint16_t length) {
	for (unsigned id = 0; id < OP_COUNT; id++)
		if (op_info(id) && same_name(name, length, op_info(id)->name))
			return (int)id;
	return -1;
}

static int find_function(const char *name, uint16_t length) {
	for (unsigned i = 0; i < EXPR_FUNCTION_COUNT; i++)
		if (same_name(name, length, functions[i].name))
			return (int)i;
	return -1;
}

/* The node of an operand, attribute or type; each has one, however often it is named. */
static int leaf_add(struct parser *p, const struct expr_node *leaf, uint16_t *nodep) {
	for (uint16_t i = 0; i < p->e->count; i++)
		if (p->e->node[i].kind == leaf->kind && p->e->node[i].which == leaf->which) {
			*nodep = i;
			return 0;
		}
	return node_add(p, leaf, nodep);
}

/* A name that stands for a value. */
static int value_add(struct parser *p, const struct token *t, uint16_t *nodep) {
	const char *name = p->text + t->at;
	struct expr_node n = { .kind = EXPR_OPERAND, .at = t->at };
	int found = find_given(p, name, t->length);

	if (found >= 0) {
		*nodep = (uint16_t)found;
		return 0;
	}
	found = find_operand(p, name, t->length);
	if (found >= 0 && found >= p->e->operands)
		p->e->operands = (uint8_t)(found + 1);
	if (found < 0) {
		n.kind = EXPR_ATTRIBUTE;
		found = attribute_find(name, t->length);
	}
	if (found < 0) {
		n.kind = EXPR_DTYPE;
		found = find_dtype(name, t->length);
	}
	n.which = (uint16_t)found;
	if (found >= 0)
		return leaf_add(p, &n, nodep);
	if (same_name(name, t->length, "inf"))
		return number_add(p, t->at, (double)INFINITY, nodep);
	if (same_name(name, t->length, "nan"))
		return number_add(p, t->at, (double)NAN, nodep);
	return fault_set(p->fault, FAULT_SYNTAX, "column %u: no operand and no value is called '%.*s'", t->at + 1U,
		t->length, name);
}

/* ---- the grammar ---- */

static int parse_comparison(struct parser *p, uint16_t *nodep);

/* An attribute's name and "=", where that is what comes. */
static int parse_argument_name(struct parser *p, uint8_t *namep) {
	const char *after = p->text + p->token.at + p->token.length;
	int attribute;
	int r;

	*namep = EXPR_POSITIONAL;
	after += strspn(after, " \t\n");
	if (p->token.kind != TOKEN_NAME || *after != '=' || after[1] == '=')
		return 0;
	attribute = attribute_find(p->text + p->token.at, p->token.length);
	if (attribute < 0)
		return refuse(p, "the name of an attribute");
	*namep = (uint8_t)attribute;
	r = next(p);
	return r ? r : next(p);
}

/* The arguments of a call or a list, up to the sign that closes it. */
static int parse_arguments(struct parser *p, struct expr_node *n, const char *close) {
	bool more = !at_sign(p, close);
	int r = 0;

	while (!r && more) {
		if (n->arity == EXPR_ARGUMENTS)
			return refuse(p, "no more arguments");
		r = n->kind == EXPR_LIST ? 0 : parse_argument_name(p, &n->name[n->arity]);
		if (!r)
			r = parse_comparison(p, &n->in[n->arity]);
		n->arity++;
		more = at_sign(p, ",");
		if (!r && more)
			r = next(p);
	}
	return r ? r : take_sign(p, close, n->arity ? "',' or the end of the arguments" : "a value");
}

static unsigned positional(const struct expr_node *n) {
	unsigned count = 0;

	for (unsigned i = 0; i < n->arity; i++)
		count += n->name[i] == EXPR_POSITIONAL;
	return count;
}

static int refuse_count(const struct parser *p, const struct expr_node *n, const char *name, unsigned least,
	unsigned most) {
	if (least == most)
		return fault_set(p->fault, FAULT_SYNTAX, "column %u: %s takes %u argument%s, not %u", n->at + 1U,
			name, least, least == 1 ? "" : "s", positional(n));
	return fault_set(p->fault, FAULT_SYNTAX, "column %u: %s takes %u to %u arguments, not %u", n->at + 1U, name,
		least, most, positional(n));
}

/* How many arguments stand without a name: operands, and what a view or a reduction works with. */
static void call_counts(unsigned op, unsigned *leastp, unsigned *mostp) {
	static const uint8_t structural[OP_COUNT] = {
		[OP_cast] = 2,
		[OP_copy] = 1,
		[OP_reshape] = 2,
		[OP_permute] = 2,
		[OP_broadcast] = 2,
		[OP_flip] = 2,
		[OP_matmul] = 2,
		[OP_take] = 3,
		[OP_take_along] = 3,
	};
	const struct op_info *info = op_info(op);

	*leastp = info->class == OP_CLASS_STRUCT ? structural[op] : op_least(op);
	*mostp = info->class == OP_CLASS_STRUCT ? structural[op] : info->arity + (info->class == OP_CLASS_REDUCE);
}

static int check_call(const struct parser *p, const struct expr_node *n) {
	unsigned least, most;

	if (n->kind == EXPR_FUNCTION) {
		least = functions[n->which].least;
		most = functions[n->which].most;
		if (positional(n) != n->arity || n->arity < least || n->arity > most)
			return refuse_count(p, n, functions[n->which].name, least, most);
		return 0;
	}
	call_counts(n->which, &least, &most);
	/* A scan is along an axis that no argument could say. */
	if ((!most && op_info(n->which)->class == OP_CLASS_STRUCT) || op_info(n->which)->class == OP_CLASS_SCAN)
		return fault_set(p->fault, FAULT_SYNTAX, "column %u: %s cannot stand in an expression", n->at + 1U,
			op_info(n->which)->name);
	if (positional(n) != n->arity && op_info(n->which)->class != OP_CLASS_COMPOSITE)
		return fault_set(p->fault, FAULT_SYNTAX, "column %u: %s takes no arguments by name", n->at + 1U,
			op_info(n->which)->name);
	if (positional(n) < least || positional(n) > most)
		return refuse_count(p, n, op_info(n->which)->name, least, most);
	return 0;
}

static int parse_call(struct parser *p, const struct token *name, uint16_t *nodep) {
	struct expr_node n = { .kind = EXPR_FUNCTION, .at = name->at };
	int found = find_function(p->text + name->at, name->length);
	int r;

	if (found < 0) {
		n.kind = EXPR_OPERATION;
		found = find_operation(p->text + name->at, name->length);
	}
	if (found < 0 || (n.kind == EXPR_OPERATION && found == OP_load))
		return fault_set(p->fault, FAULT_SYNTAX, "column %u: there is no operation '%.*s'", name->at + 1U,
			name->length, p->text + name->at);
	n.which = (uint16_t)found;
	r = next(p);
	if (!r)
		r = parse_arguments(p, &n, ")");
	if (!r)
		r = check_call(p, &n);
	return r ? r : node_add(p, &n, nodep);
}

static int parse_list(struct parser *p, uint16_t *nodep) {
	struct expr_node n = { .kind = EXPR_LIST, .at = p->token.at };
	int r = next(p);

	if (!r)
		r = parse_arguments(p, &n, "]");
	return r ? r : node_add(p, &n, nodep);
}

static int parse_group(struct parser *p, uint16_t *nodep) {
	int r = next(p);

	if (!r)
		r = parse_comparison(p, nodep);
	return r ? r : take_sign(p, ")", "an operator or ')'");
}

static int parse_primary(struct parser *p, uint16_t *nodep) {
	struct token t = p->token;
	int r;

	if (at_sign(p, "("))
		return parse_group(p, nodep);
	if (at_sign(p, "["))
		return parse_list(p, nodep);
	if (t.kind != TOKEN_NUMBER && t.kind != TOKEN_NAME)
		return refuse(p, "a value");
	r = next(p);
	if (r)
		return r;
	if (t.kind == TOKEN_NUMBER)
		return number_add(p, t.at, t.number, nodep);
	return at_sign(p, "(") ? parse_call(p, &t, nodep) : value_add(p, &t, nodep);
}

/* The minus of a number is part of it. */
static int negate(struct parser *p, uint16_t at, uint16_t *nodep) {
	const struct expr_node *n = &p->e->node[*nodep];

	if (n->kind == EXPR_NUMBER && *nodep + 1 == p->e->count)
		return number_add(p, at, -n->number, nodep);
	return operation_add(p, OP_neg, at, 1, *nodep, 0, nodep);
}

static int parse_unary(struct parser *p, uint16_t *nodep) {
	uint16_t at = p->token.at;
	int r;

	if (!at_sign(p, "-"))
		return parse_primary(p, nodep);
	if (p->depth == EXPR_DEPTH)
		return refuse(p, "fewer signs");
	p->depth++;
	r = next(p);
	if (!r)
		r = parse_unary(p, nodep);
	p->depth--;
	return r ? r : negate(p, at, nodep);
}

/* The operators of each line of the grammar. */
static const struct {
	const char *sign;
	uint16_t op;
	uint8_t level;
} operators[] = {
	{ "*", OP_mul, 0 },
	{ "/", OP_div, 0 },
	{ "+", OP_add, 1 },
	{ "-", OP_sub, 1 },
	{ "<", OP_lt, 2 },
	{ "<=", OP_le, 2 },
	{ ">", OP_gt, 2 },
	{ ">=", OP_ge, 2 },
	{ "==", OP_eq, 2 },
	{ "!=", OP_ne, 2 },
};

static int find_operator(const struct parser *p, unsigned level) {
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
		if (operators[i].level == level && at_sign(p, operators[i].sign))
			return operators[i].op;
	return -1;
}

static int parse_level(struct parser *p, unsigned level, uint16_t *nodep);

static int parse_below(struct parser *p, unsigned level, uint16_t *nodep) {
	return level ? parse_level(p, level - 1, nodep) : parse_unary(p, nodep);
}

/* Operators of one level, from left to right; a comparison is not compared again. */
static int parse_level(struct parser *p, unsigned level, uint16_t *nodep) {
	int r = parse_below(p, level, nodep);
	int op = find_operator(p, level);

	while (!r && op >= 0) {
		uint16_t at = p->token.at, right;

		r = next(p);
		if (!r)
			r = parse_below(p, level, &right);
		if (!r)
			r = operation_add(p, (unsigned)op, at, 2, *nodep, right, nodep);
		op = level < 2 ? find_operator(p, level) : -1;
	}
	return r;
}

static int parse_comparison(struct parser *p, uint16_t *nodep) {
	int r;

	if (p->depth == EXPR_DEPTH)
		return fault_set(p->fault, FAULT_LIMIT, "column %u: values stand more than %d deep inside each other",
			p->token.at + 1U, EXPR_DEPTH);
	p->depth++;
	r = parse_level(p, 2, nodep);
	p->depth--;
	return r;
}

/* ---- programs ---- */

static bool at_assignment(const struct parser *p) {
	const char *after = p->text + p->token.at + p->token.length;

	after += strspn(after, " \t\n");
	return p->token.kind == TOKEN_NAME && *after == '=' && after[1] != '=';
}

/* A name has one meaning in an expression. */
static int check_new(const struct parser *p) {
	const char *name = p->text + p->token.at;
	uint16_t length = p->token.length;

	if (find_given(p, name, length) < 0 && find_operand(p, name, length) < 0 && attribute_find(name, length) < 0 &&
		find_dtype(name, length) < 0)
		return p->names < EXPR_NAMES ? 0 : refuse(p, "fewer names");
	return fault_set(p->fault, FAULT_SYNTAX, "column %u: '%.*s' has a meaning already", p->token.at + 1U, length,
		name);
}

static int parse_assignment(struct parser *p) {
	struct named given = { .text = p->text + p->token.at, .length = p->token.length };
	int r = check_new(p);

	if (!r)
		r = next(p);
	if (!r)
		r = next(p);
	if (!r)
		r = parse_comparison(p, &given.node);
	if (!r)
		r = take_sign(p, ";", "an operator or ';'");
	if (!r)
		p->name[p->names++] = given;
	return r;
}

static int parse_program(struct parser *p) {
	int r = next(p);

	while (!r && at_assignment(p))
		r = parse_assignment(p);
	if (!r)
		r = parse_comparison(p, &p->e->result);
	if (!r && at_sign(p, ";"))
		r = next(p);
	if (r || p->token.kind == TOKEN_END)
		return r;
	return refuse(p, "an operator or the end");
}

int expr_parse(const char *text, const char *names, struct expr *e, struct fault *f) {
	struct parser p = { .text = text, .operands = names, .e = e, .fault = f };
	int r;

	e->count = 0;
	e->operands = 0;
	if (strlen(text) > EXPR_BYTES)
		return fault_set(f, FAULT_LIMIT, "the expression is longer than %d bytes", EXPR_BYTES);
	p.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!p.locale)
		return -ENOMEM;
	r = parse_program(&p);
	freelocale(p.locale);
	return r;
}
