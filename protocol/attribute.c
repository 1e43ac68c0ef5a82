/* Attributes by name, and how each kind of them lies in memory and travels; see attribute.h. */
#include "attribute.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const struct attribute_info rows[OP_ATTRIBUTES] = {
#define ATTRIBUTE(id, name, kind, member, standard, doc)                                                     \
	[id] = { #name, ATTRIBUTE_KIND_##kind, offsetof(struct op_attr, member), standard },
#include "attributes.def"
#undef ATTRIBUTE
};

const struct attribute_info *attribute_info(enum op_attribute attribute) {
	return &rows[attribute];
}

int attribute_find(const char *name, size_t length) {
	for (int i = 0; i < OP_ATTRIBUTES; i++)
		if (strlen(rows[i].name) == length && !memcmp(rows[i].name, name, length))
			return i;
	return -1;
}

/* --- kinds ------------------------------------------------------------------------------- */

static double get_axes(const void *member) {
	return *(const uint16_t *)member;
}

static double get_flag(const void *member) {
	return *(const bool *)member;
}

static double get_real(const void *member) {
	return *(const double *)member;
}

static double get_whole(const void *member) {
	return (double)*(const int64_t *)member;
}

static double get_dtype(const void *member) {
	return *(const uint8_t *)member;
}

static void set_axes(void *member, double value) {
	*(uint16_t *)member = (uint16_t)value;
}

static void set_flag(void *member, double value) {
	*(bool *)member = value != 0;
}

static void set_real(void *member, double value) {
	*(double *)member = value;
}

static void set_whole(void *member, double value) {
	*(int64_t *)member = (int64_t)value;
}

static void set_dtype(void *member, double value) {
	*(uint8_t *)member = (uint8_t)value;
}

static void put_axes(struct wire_writer *w, const void *member) {
	wire_put_uint(w, *(const uint16_t *)member);
}

static void put_flag(struct wire_writer *w, const void *member) {
	wire_put_bool(w, *(const bool *)member);
}

/* As the bits of the double: a frame holds no floating-point numbers. */
static void put_real(struct wire_writer *w, const void *member) {
	uint64_t bits;

	memcpy(&bits, member, sizeof bits);
	wire_put_uint(w, bits);
}

static void put_whole(struct wire_writer *w, const void *member) {
	wire_put_int(w, *(const int64_t *)member);
}

static void put_dtype(struct wire_writer *w, const void *member) {
	wire_put_uint(w, *(const uint8_t *)member);
}

static int read_axes(struct wire_cursor *c, const char *name, void *member, struct fault *f) {
	uint64_t value;
	int r = wire_get_uint(c, name, (1 << LIMIT_RANK) - 1, &value, f);

	if (!r)
		*(uint16_t *)member = (uint16_t)value;
	return r;
}

static int read_flag(struct wire_cursor *c, const char *name, void *member, struct fault *f) {
	return wire_get_bool(c, name, member, f);
}

static int read_real(struct wire_cursor *c, const char *name, void *member, struct fault *f) {
	uint64_t bits;
	int r = wire_get_uint(c, name, UINT64_MAX, &bits, f);

	if (!r)
		memcpy(member, &bits, sizeof bits);
	return r;
}

static int read_whole(struct wire_cursor *c, const char *name, void *member, struct fault *f) {
	return wire_get_int(c, name, INT64_MIN, INT64_MAX, member, f);
}

static int read_dtype(struct wire_cursor *c, const char *name, void *member, struct fault *f) {
	uint64_t value;
	int r = wire_get_uint(c, name, UINT8_MAX, &value, f);

	if (r)
		return r;
	if (value >= DTYPE_COUNT)
		return fault_set(f, FAULT_DTYPE, "element type %u does not exist", (unsigned)value);
	*(uint8_t *)member = (uint8_t)value;
	return 0;
}

/* Lists are read and written with their length, by functions of their own below. */
static const struct {
	const char *words;
	double least, most;
	bool whole;
	double (*get)(const void *member);
	void (*set)(void *member, double value);
	void (*put)(struct wire_writer *w, const void *member);
	int (*read)(struct wire_cursor *c, const char *name, void *member, struct fault *f);
} kinds[] = {
	[ATTRIBUTE_KIND_AXES] = { "a set of axes", 0, (1 << LIMIT_RANK) - 1, true, get_axes, set_axes, put_axes,
		read_axes },
	[ATTRIBUTE_KIND_FLAG] = { "0 or 1", 0, 1, true, get_flag, set_flag, put_flag, read_flag },
	[ATTRIBUTE_KIND_REAL] = { "a number", (double)-INFINITY, (double)INFINITY, false, get_real, set_real,
		put_real, read_real },
	[ATTRIBUTE_KIND_WHOLE] = { "an integer", -0x1p53, 0x1p53, true, get_whole, set_whole, put_whole,
		read_whole },
	[ATTRIBUTE_KIND_DTYPE] = { "an element type", 0, DTYPE_COUNT - 1, true, get_dtype, set_dtype, put_dtype,
		read_dtype },
	[ATTRIBUTE_KIND_LIST] = { "a list", 1, 0, true, NULL, NULL, NULL, NULL },
};

int attribute_set(struct op_attr *attr, enum op_attribute attribute, double value, struct fault *f) {
	const struct attribute_info *info = &rows[attribute];

	if (isnan(value) || value < kinds[info->kind].least || value > kinds[info->kind].most ||
		(kinds[info->kind].whole && value != (double)(int64_t)value))
		return fault_set(f, info->kind == ATTRIBUTE_KIND_DTYPE ? FAULT_DTYPE : FAULT_ARGUMENT, "%s is %s, not %.17g", info->name, kinds[info->kind].words, value);
	kinds[info->kind].set((char *)attr + info->offset, value);
	return 0;
}

double attribute_get(const struct op_attr *attr, enum op_attribute attribute) {
	return kinds[rows[attribute].kind].get((const char *)attr + rows[attribute].offset);
}

int64_t *attribute_list(struct op_attr *attr, enum op_attribute attribute) {
	return (int64_t *)(void *)((char *)attr + rows[attribute].offset);
}

/* --- the wire ---------------------------------------------------------------------------- */

static void put_list(struct wire_writer *w, const struct op_attr *attr, size_t offset) {
	const int64_t *list = (const void *)((const char *)attr + offset);

	wire_put_array(w, attr->rank);
	for (unsigned d = 0; d < attr->rank; d++)
		wire_put_int(w, list[d]);
}

/* The first list says how long all are. */
static int read_list(struct wire_cursor *c, enum op_attribute attribute, bool first, struct op_attr *attr,
	struct fault *f) {
	const char *name = rows[attribute].name;
	int64_t *list = attribute_list(attr, attribute);
	struct wire_cursor inside;
	int r = wire_get_array(c, name, LIMIT_RANK, &inside, f);

	if (r)
		return r;
	if (!first && inside.left != attr->rank)
		return fault_set(f, FAULT_PROTOCOL, "field %s has %u entries instead of %u", name, inside.left,
			attr->rank);
	attr->rank = (uint8_t)inside.left;
	while (!r && inside.left)
		r = wire_get_int(&inside, name, INT64_MIN, INT64_MAX, list++, f);
	return r;
}

void attributes_put(struct wire_writer *w, uint32_t attributes, const struct op_attr *attr) {
	for (; attributes; attributes &= attributes - 1) {
		const struct attribute_info *info = &rows[__builtin_ctz(attributes)];

		if (info->kind == ATTRIBUTE_KIND_LIST)
			put_list(w, attr, info->offset);
		else
			kinds[info->kind].put(w, (const char *)attr + info->offset);
	}
}

int attributes_get(struct wire_cursor *c, uint32_t attributes, struct op_attr *attr, struct fault *f) {
	bool listed = false;
	int r = 0;

	for (; !r && attributes; attributes &= attributes - 1) {
		enum op_attribute which = (enum op_attribute)__builtin_ctz(attributes);
		const struct attribute_info *info = &rows[which];

		if (info->kind == ATTRIBUTE_KIND_LIST) {
			r = read_list(c, which, !listed, attr, f);
			listed = true;
		} else {
			r = kinds[info->kind].read(c, info->name, (char *)attr + info->offset, f);
		}
	}
	return r;
}
