/* Rules of gradients: found, parsed, applied. See rule.h for the contract. */
#include "rule.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/definition.h"
#include "context.h"

/* ---- what a text reads ---- */

/* Is only the shape of this argument looked at? */
static bool shape_alone(const struct expr_node *n, unsigned argument) {
	if (n->kind == EXPR_OPERATION)
		return (n->which == OP_conv_input_grad && argument == 0) ||
		       (n->which == OP_conv_weight_grad && argument == 1);
	if (n->kind != EXPR_FUNCTION)
		return false;
	switch ((enum expr_function)n->which) {
	case EXPR_count:
	case EXPR_extent:
	case EXPR_shape:
	case EXPR_index:
	case EXPR_is_bool:
		return argument == 0;
	case EXPR_given:
		return argument == 0;
	case EXPR_along:
		return argument == 1;
	default:
		return false;
	}
}

static uint16_t operands_read(const struct expr *e) {
	const struct expr_node *result = &e->node[e->result];
	uint16_t set = result->kind == EXPR_OPERAND ? (uint16_t)(1U << result->which) : 0;

	for (unsigned i = 0; i < e->count; i++)
		for (unsigned k = 0; k < e->node[i].arity; k++) {
			const struct expr_node *in = &e->node[e->node[i].in[k]];

			if (in->kind == EXPR_OPERAND && !shape_alone(&e->node[i], k))
				set |= (uint16_t)(1U << in->which);
		}
	return set;
}

/* ---- texts ---- */

static int parse(const char *what, const char *text, const char *names, struct expr **ep, struct fault *f) {
	struct expr *e = malloc(sizeof *e), *fit;
	int r = e ? expr_parse(text, names, e, f) : -ENOMEM;

	if (r) {
		free(e);
		return r > 0 ? (fault_prefix(f, "gradient of %s", what), r) : r;
	}
	*ep = e;
	fit = realloc(e, offsetof(struct expr, node) + e->count * sizeof *e->node);
	if (fit)
		*ep = fit;
	return 0;
}

static bool is_zero(const char *text) {
	return !strcmp(text, "0");
}

static int take_texts(struct rule *rule, const char *what, unsigned arity, const char *const *text, const char *operands,
	struct fault *f) {
	char names[DEFINITION_OPERANDS + 8];
	int r = 0;

	snprintf(names, sizeof names, "g, y, %s", operands);
	for (unsigned i = 0; !r && i < arity; i++) {
		if (!text[i])
			rule->none |= (uint16_t)(1U << i);
		else if (is_zero(text[i]))
			rule->zero |= (uint16_t)(1U << i);
		else
			r = parse(what, text[i], names, &rule->text[i], f);
		if (!r && rule->text[i])
			rule->needs[i] = operands_read(rule->text[i]);
	}
	return r;
}

/* ---- operations ---- */

static void take_code(struct rule *rule, const struct rule_code *code) {
	rule->kind = RULE_FUNCTION;
	rule->function = code->function;
	memcpy(rule->needs, code->needs, sizeof rule->needs);
}

struct expr *rule_text(struct site *s, const char *text, const char *names) {
	struct expr *e = NULL;

	if (!s->failed)
		s->failed = parse(s->recording->what, text, names, &e, &s->recording->fault);
	return e;
}

static int take_parts(struct rule *rule, const struct op_info *info, struct fault *f) {
	/* Its parts may read any operand. */
	for (unsigned i = 0; i < LIMIT_OPERANDS; i++)
		rule->needs[i] = (uint16_t)(UINT16_MAX << RULE_OPERANDS);
	rule->kind = RULE_PARTS;
	return parse(info->name, info->expr, info->operands, &rule->parts, f);
}

static int take_operation(struct rule *rule, unsigned op, struct fault *f) {
	const struct op_info *info = op_info(op);
	const struct rule_code *code = rule_code(op);
	bool written = false;
	int r = 0;

	if (code->function) {
		if (info->class == OP_CLASS_COMPOSITE)
			r = take_parts(rule, info, f);
		take_code(rule, code);
		return r;
	}
	for (unsigned i = 0; i < info->arity; i++)
		written = written || info->gradient[i];
	if (info->class == OP_CLASS_COMPOSITE && !written && info->result == OP_RESULT_SAME)
		return take_parts(rule, info, f);
	return take_texts(rule, info->name, info->arity, info->gradient,
		info->operands && *info->operands ? info->operands : "a, b, c", f);
}

struct rule *rules_free(struct rule *first) {
	while (first) {
		struct rule *next = first->next;

		for (unsigned i = 0; i < LIMIT_OPERANDS; i++)
			free(first->text[i]);
		free(first->parts);
		free(first);
		first = next;
	}
	return NULL;
}

static int rule_new(unsigned op, const struct definition *d, struct rule **rulep, struct fault *f) {
	struct rule *rule = calloc(1, sizeof *rule);
	int r;

	if (!rule)
		return -ENOMEM;
	rule->op = (uint16_t)op;
	rule->definition = d;
	r = d ? take_texts(rule, d->name, d->arity, (const char *const *)d->gradient, d->operands, f)
	      : take_operation(rule, op, f);
	if (r)
		rules_free(rule);
	else
		*rulep = rule;
	return r;
}

int rule_of(struct fusion_context *c, unsigned op, const struct definition *d, const struct rule **rulep,
	struct fault *f) {
	struct rule **link = &c->rules, *rule;
	int r;

	for (rule = *link; rule && (rule->op != op || rule->definition != d); rule = *link)
		link = &rule->next;
	if (!rule) {
		r = rule_new(op, d, &rule, f);
		if (r)
			return r;
	} else {
		*link = rule->next;
	}
	/* What was asked for last is asked for again. */
	rule->next = c->rules;
	c->rules = rule;
	*rulep = rule;
	return 0;
}

uint16_t rule_needs(const struct rule *rule, unsigned operands) {
	uint16_t needs = 0;

	for (; operands; operands &= operands - 1)
		needs |= rule->needs[__builtin_ctz(operands)];
	return needs;
}

/* ---- applying ---- */

static const char *name_of(const struct rule *rule) {
	return rule->definition ? rule->definition->name : op_info(rule->op)->name;
}

/* Reductions of texts keep their axes, so results that lost them get them back. */
static struct value *kept_axes(const struct rule_call *c, struct value *v) {
	const struct tensor_type *a = &c->in[0]->type;
	int64_t dims[LIMIT_RANK];

	for (unsigned d = 0; d < a->rank; d++)
		dims[d] = c->attr->axes >> d & 1 ? 1 : a->dims[d];
	return site_reshape(c->site, v, a->rank, dims);
}

static bool reduces(const struct rule *rule) {
	const struct op_info *info = rule->definition ? NULL : op_info(rule->op);

	return info && (info->class == OP_CLASS_REDUCE || info->attributes >> OP_ATTRIBUTE_keepdims & 1);
}

static int apply_texts(const struct rule *rule, const struct rule_call *c, struct value **gradp) {
	struct value *operand[RULE_OPERANDS + LIMIT_OPERANDS] = { c->g, c->y };
	int failed = 0;

	if (reduces(rule) && !c->attr->keepdims) {
		operand[RULE_G] = kept_axes(c, c->g);
		operand[RULE_Y] = kept_axes(c, c->y);
	}
	memcpy(operand + RULE_OPERANDS, c->in, c->arity * sizeof(struct value *));
	for (unsigned i = 0; !failed && i < c->arity; i++)
		if (c->tracked >> i & 1 && rule->text[i])
			failed = site_expand(c->site, name_of(rule), rule->text[i], RULE_OPERANDS + c->arity, operand,
				c->attr, NULL, &gradp[i]);
	return failed;
}

int rule_apply(const struct rule *rule, const struct rule_call *c, struct value **gradp) {
	unsigned none = rule->none & c->tracked;
	struct recording *r = c->site->recording;

	if (none)
		return fault_set(&r->fault, FAULT_OPERATION, "%s: %s has no derivative by its operand %d", r->what,
			name_of(rule), __builtin_ctz(none) + 1);
	if (rule->kind == RULE_TEXTS)
		return apply_texts(rule, c, gradp);
	return rule->function(c, gradp);
}
