/*
 * A picture's boxes and lines, with their places: scene.c makes it, picture.c draws it.
 *
 * Kernels and what belongs to none are laid out as boxes; the operations of a kernel within its box. Where an array enters or leaves
 * a kernel there is a port, a place on the box's edge.
 */
#pragma once

#include "report.h"

enum scene_scope {
	SCENE_WHOLE,                      /* kernels with their operations in them */
	SCENE_KERNELS,                    /* kernels as boxes */
};

enum {
	SCENE_EDGE = 10,                  /* between a kernel's box and what is in it */
	SCENE_HEAD = 38,                  /* two lines of text */
	SCENE_OP_HEIGHT = 36,
	SCENE_OP_TEXT = 30,               /* characters of an operation's or a type's name */
	SCENE_KERNEL_TEXT = 34,
};

struct scene_line {
	struct layers_point *point;
	unsigned points;
	bool memory;                      /* an array that is stored */
};

struct scene_box {
	double x, y, width, height;
};

struct scene {
	const struct report_graph *g;
	enum scene_scope scope;
	unsigned only;                    /* a kernel, alone; REPORT_NONE: all */
	unsigned *box;                    /* of each node: the kernel it is drawn in, from 1; REPORT_NONE: it stands alone */
	struct scene_box *node, *kernel;  /* width 0: not drawn */
	struct scene_line *line;
	unsigned lines, room;
	double width, height;
};

/* 0 or -ENOMEM; scene_free() also on failure. */
int scene_make(struct scene *s, const struct report_graph *g, enum scene_scope scope, unsigned only);
void scene_free(struct scene *s);
