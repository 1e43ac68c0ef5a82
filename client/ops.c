/*
 * The elementwise operations of fusion_ops.h: a line of protocol/ops.def is a function here.
 */
#include "record.h"

#define UNARY(id, name, ...)                                                                                 \
	fusion_array *fusion_##name(fusion_array *a) {                                                       \
		return record_unary(OP_##name, a);                                                           \
	}
#define BINARY(id, name, ...)                                                                                \
	fusion_array *fusion_##name(fusion_array *a, fusion_array *b) {                                      \
		return record_binary(OP_##name, a, b);                                                       \
	}                                                                                                    \
	fusion_array *fusion_##name##_scalar(fusion_array *a, double b) {                                    \
		return record_binary_scalar(OP_##name, a, b);                                                \
	}                                                                                                    \
	fusion_array *fusion_scalar_##name(double a, fusion_array *b) {                                      \
		return record_scalar_binary(OP_##name, a, b);                                                \
	}
#define TERNARY(id, name, ...)                                                                               \
	fusion_array *fusion_##name(fusion_array *a, fusion_array *b, fusion_array *c) {                     \
		return record_ternary(OP_##name, a, b, c);                                                   \
	}
#include "protocol/ops.def"
