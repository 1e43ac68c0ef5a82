/*
 * A picture's boxes and lines, with their places: scene.c makes it, picture.c draws it.
 *
 * Kernels and what belongs to none are laid out as boxes; the operations of a kernel within its box. Where an array enters or leaves
 * a kernel there is a port, a place on the box's edge.
 */
#pragma once

#include "layers.h"

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

/*
 * Of a graph, whichever of its pictures is made, and the room that each is made in: a large graph has one more for each kernel, and none of
 * those may take time for the whole graph.
 */
struct report_pictures {
	const struct report_graph *g;
	unsigned *kernel_of;              /* of each node: the kernel it is drawn in, from 1; REPORT_NONE: it stands alone */
	struct layers_list members;       /* the nodes of each box: of kernels, then of each node that stands alone */
	unsigned boxes;
	bool *leaves;                     /* of each node: somebody outside its box reads it, or it is a result */
	/* Room. */
	unsigned looks, *seen;            /* times that a box's reads were looked at; of each node: the last at which it was among them */
	unsigned *local;                  /* of each node: its item in the layout under way */
	double *out_at;                   /* of each node: where its array leaves its box, from the box's middle */
	struct scene_box *node, *kernel;
};

struct scene {
	const struct report_graph *g;
	struct report_pictures *p;
	enum scene_scope scope;
	unsigned only;                    /* a kernel, alone, with its members; REPORT_NONE: all */
	struct scene_box *node, *kernel;  /* the pictures', until another scene is made; width 0: not drawn */
	struct scene_line *line;
	unsigned lines, room;
	double width, height;
};

/* 0 or -ENOMEM; scene_free() also on failure. */
int scene_make(struct scene *s, struct report_pictures *p, enum scene_scope scope, unsigned only);
void scene_free(struct scene *s);
