/*
 * The attributes of attributes.def: members of struct op_attr, by name.
 */
#pragma once

#include "op.h"
#include "wire.h"

enum attribute_kind {
	ATTRIBUTE_KIND_AXES,
	ATTRIBUTE_KIND_FLAG,
	ATTRIBUTE_KIND_REAL,
	ATTRIBUTE_KIND_WHOLE,
	ATTRIBUTE_KIND_DTYPE,
	ATTRIBUTE_KIND_LIST,
};

struct attribute_info {
	const char *name;
	enum attribute_kind kind;
	size_t offset;         /* of the member */
	int64_t standard;      /* LIST: an entry that is left out */
};

const struct attribute_info *attribute_info(enum op_attribute attribute);

/* The attribute with this name (not terminated), or -1. */
int attribute_find(const char *name, size_t length);

/* Sets and reads a member that is no LIST; AXES as a set of bits, FLAG as 0 or 1. What does not fit is refused. */
int attribute_set(struct op_attr *attr, enum op_attribute attribute, double value, struct fault *f) FAULT_MUST_USE;
double attribute_get(const struct op_attr *attr, enum op_attribute attribute);
/* A list's values; how many there are is attr->rank. */
int64_t *attribute_list(struct op_attr *attr, enum op_attribute attribute);

/* The attributes of a set, in the order of their numbers. */
void attributes_put(struct wire_writer *w, uint32_t attributes, const struct op_attr *attr);
int attributes_get(struct wire_cursor *c, uint32_t attributes, struct op_attr *attr, struct fault *f) FAULT_MUST_USE;
