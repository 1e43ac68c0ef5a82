/* See scene.h. */
#include "scene.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/json.h"

enum {
	OP_LEAST = 56, OP_MARGIN = 18, OP_ACROSS = 14, OP_DOWN = 20,
	KERNEL_LEAST = 120, KERNEL_ACROSS = 26, KERNEL_DOWN = 34, KERNEL_CLOSED = 58,
	/* Columns within a kernel, of about fifteen layers; of kernels, a few screens. */
	KERNEL_TALL = 840, PICTURE_TALL = 6000,
	/* Times that what is known of views is handed on: they are few behind each other. */
	VIEW_PASSES = 8,
};

/* Of a character, on the average: of names in bold, of the rest. */
#define NAME_WIDTH 7.0
#define TEXT_WIDTH 6.3

/* ---- which kernel a node is drawn in ---- */

static bool is_made_in_place(const struct report_node *n) {
	return !n->inputs && (!strcmp(n->op, "fill") || !strcmp(n->op, "arange"));
}

/* Of what costs no kernel: the kernel it comes from, through others of its kind. */
static bool spread_sources(const struct report_graph *g, unsigned *from) {
	bool changed = false;

	for (unsigned i = 0; i < g->nodes; i++)
		for (unsigned k = 0; !from[i] && k < g->node[i].inputs; k++) {
			from[i] = from[g->node[i].input[k]];
			changed |= from[i] != 0;
		}
	return changed;
}

/* A view of what a kernel computes that the same kernel reads is drawn in it, too. */
static bool spread_views(const struct report_graph *g, const unsigned *from, unsigned *box) {
	bool changed = false;

	for (unsigned i = 0; i < g->nodes; i++)
		for (unsigned k = 0; box[i] && k < g->node[i].inputs; k++) {
			unsigned input = g->node[i].input[k];

			if (box[input] || from[input] != box[i])
				continue;
			box[input] = box[i];
			changed = true;
		}
	return changed;
}

/* Numbers that only one kernel reads are made in it. */
static int place_numbers(const struct report_graph *g, unsigned *box) {
	unsigned *reader = calloc(g->nodes + 1u, sizeof *reader);

	if (!reader)
		return -ENOMEM;
	for (unsigned i = 0; i < g->nodes; i++)
		for (unsigned k = 0; k < g->node[i].inputs; k++) {
			unsigned input = g->node[i].input[k], mine = box[i] ? box[i] : g->kernels + 1;

			reader[input] = !reader[input] || reader[input] == mine ? mine : g->kernels + 1;
		}
	for (unsigned i = 0; i < g->nodes; i++)
		if (!box[i] && is_made_in_place(&g->node[i]) && reader[i] <= g->kernels)
			box[i] = reader[i];
	free(reader);
	return 0;
}

static int choose_kernels(const struct report_graph *g, unsigned *box) {
	unsigned *from = calloc(g->nodes + 1u, sizeof *from);

	if (!from)
		return -ENOMEM;
	for (unsigned i = 0; i < g->nodes; i++)
		from[i] = box[i] = g->node[i].kernel;
	for (unsigned i = 0; i < VIEW_PASSES && spread_sources(g, from); i++)
		continue;
	for (unsigned i = 0; i < VIEW_PASSES && spread_views(g, from, box); i++)
		continue;
	free(from);
	return place_numbers(g, box);
}

/* ---- what all pictures of a graph have ---- */

/* Boxes are numbered from 0: kernels, then nodes. */
static unsigned box_of(const void *pictures, unsigned node) {
	const struct report_pictures *p = pictures;

	return p->kernel_of[node] ? p->kernel_of[node] - 1 : p->g->kernels + node;
}

static void find_leaving(struct report_pictures *p) {
	const struct report_graph *g = p->g;

	for (unsigned i = 0; i < g->nodes; i++) {
		p->leaves[i] |= g->node[i].output;
		for (unsigned k = 0; k < g->node[i].inputs; k++)
			if (box_of(p, g->node[i].input[k]) != box_of(p, i))
				p->leaves[g->node[i].input[k]] = true;
	}
}

static int begin(struct report_pictures *p, const struct report_graph *g) {
	size_t room = g->nodes + 1u;

	*p = (struct report_pictures){ .g = g, .boxes = g->kernels + g->nodes, .kernel_of = calloc(room, sizeof *p->kernel_of),
		.leaves = calloc(room, sizeof *p->leaves), .seen = calloc(room, sizeof *p->seen), .local = calloc(room, sizeof *p->local),
		.out_at = calloc(room, sizeof *p->out_at), .node = calloc(room, sizeof *p->node), .kernel = calloc(g->kernels + 1u, sizeof *p->kernel) };
	if (!p->kernel_of || !p->leaves || !p->seen || !p->local || !p->out_at || !p->node || !p->kernel)
		return -ENOMEM;
	if (choose_kernels(g, p->kernel_of) || layers_list(&p->members, p->boxes, g->nodes, box_of, p))
		return -ENOMEM;
	find_leaving(p);
	return 0;
}

struct report_pictures *report_pictures_new(const struct report_graph *g) {
	struct report_pictures *p = calloc(1, sizeof *p);

	if (!p || !begin(p, g))
		return p;
	report_pictures_free(p);
	return NULL;
}

void report_pictures_free(struct report_pictures *p) {
	if (!p)
		return;
	free(p->kernel_of);
	layers_list_free(&p->members);
	free(p->leaves);
	free(p->seen);
	free(p->local);
	free(p->out_at);
	free(p->node);
	free(p->kernel);
	free(p);
}

/* ---- a picture under way ---- */

struct making {
	struct scene *s;
	const struct report_graph *g;
	struct report_pictures *p;
	struct layers outer;
	unsigned room;
};

static void free_edges(struct layers *l) {
	for (unsigned e = 0; l->edge && e < l->edges; e++)
		free(l->edge[e].point);
	free(l->edge);
	free(l->item);
}

/* ---- sizes ---- */

static double text_width(const char *text, unsigned most, double each) {
	return fmin((double)strlen(text), most) * each;
}

static double op_width(const struct report_node *n) {
	double width = fmax(text_width(n->op, SCENE_OP_TEXT, NAME_WIDTH), text_width(n->type, SCENE_OP_TEXT, TEXT_WIDTH)) + OP_MARGIN;

	return fmax(width, OP_LEAST);
}

static double head_width(const struct report_kernel *k) {
	/* Its number stands before the name; the time has a word behind. */
	double name = text_width(report_kernel_name(k), SCENE_KERNEL_TEXT, NAME_WIDTH) + 5 * NAME_WIDTH;

	if (!k->nodes)
		name = fmax(name, text_width(json_text(k->json, "purpose"), SCENE_KERNEL_TEXT, TEXT_WIDTH));
	return fmax(name + 2 * SCENE_EDGE, KERNEL_LEAST + 2 * SCENE_EDGE);
}

/* ---- lines ---- */

/* The array with room for one more than `count`; NULL, and it is as it was, where there is no memory. */
static void *with_room(void *array, unsigned count, unsigned *roomp, size_t each) {
	unsigned room = 2 * *roomp + 16;

	if (count < *roomp)
		return array;
	array = realloc(array, room * each);
	if (array)
		*roomp = room;
	return array;
}

static int keep_line(struct scene *s, struct layers_edge *e, double x, double y, bool memory) {
	struct scene_line *line = with_room(s->line, s->lines, &s->room, sizeof *line);

	if (!line)
		return -ENOMEM;
	s->line = line;
	for (unsigned i = 0; i < e->points; i++) {
		e->point[i].x += x;
		e->point[i].y += y;
	}
	s->line[s->lines++] = (struct scene_line){ e->point, e->points, memory };
	e->point = NULL;
	return 0;
}

/* A line's `room` edges: another, or NULL. */
static struct layers_edge *add_edge(struct layers *l, unsigned *roomp, unsigned from, unsigned to, unsigned line) {
	struct layers_edge *edge = with_room(l->edge, l->edges, roomp, sizeof *edge);

	if (!edge)
		return NULL;
	l->edge = edge;
	edge = &l->edge[l->edges++];
	*edge = (struct layers_edge){ .from = from, .to = to, .line = line };
	return edge;
}

/* An array that a box reads: the line's end is found with the layout of both. */
static int add_read(struct making *m, unsigned node, unsigned box, double to_at) {
	struct layers_edge *e = add_edge(&m->outer, &m->room, box_of(m->p, node), box, node);

	if (!e)
		return -ENOMEM;
	e->to_at = to_at;
	return 0;
}

/* ---- within a kernel ---- */

/* Its nodes, then a port for each array that enters, then one for each that leaves. */
struct inside {
	struct layers l;
	unsigned room, nodes, enters;
	unsigned *entering;               /* nodes */
};

static int inside_begin(struct making *m, struct inside *in, unsigned box) {
	unsigned first = m->p->members.start[box], reads = 0;

	*in = (struct inside){ .nodes = m->p->members.start[box + 1] - first };
	for (unsigned i = 0; i < in->nodes; i++)
		reads += m->g->node[m->p->members.item[first + i]].inputs;
	in->l = (struct layers){ .item = calloc(2u * in->nodes + reads + 1, sizeof *in->l.item), .lines = 2 * in->nodes + reads + 1, .across = OP_ACROSS,
		.down = OP_DOWN, .tall = KERNEL_TALL };
	in->entering = calloc(reads + 1u, sizeof *in->entering);
	if (!in->l.item || !in->entering)
		return -ENOMEM;
	for (unsigned i = 0; i < in->nodes; i++) {
		unsigned node = m->p->members.item[first + i];

		m->p->local[node] = i;
		in->l.item[i] = (struct layers_item){ .width = op_width(&m->g->node[node]), .height = SCENE_OP_HEIGHT };
	}
	in->l.items = in->nodes;
	return 0;
}

static unsigned port_of(struct making *m, struct inside *in, unsigned node) {
	if (m->p->seen[node] != m->p->looks) {
		m->p->seen[node] = m->p->looks;
		in->l.item[in->l.items].first = true;
		m->p->local[node] = in->l.items++;
		in->entering[in->enters++] = node;
	}
	return m->p->local[node];
}

static int inside_reads(struct making *m, struct inside *in, unsigned box) {
	m->p->looks++;
	for (unsigned i = 0; i < in->nodes; i++) {
		const struct report_node *n = &m->g->node[m->p->members.item[m->p->members.start[box] + i]];

		for (unsigned k = 0; k < n->inputs; k++) {
			unsigned input = n->input[k];
			unsigned from = box_of(m->p, input) == box ? m->p->local[input] : port_of(m, in, input);

			if (!add_edge(&in->l, &in->room, from, i, from))
				return -ENOMEM;
		}
	}
	return 0;
}

static int inside_leaves(struct making *m, struct inside *in, unsigned box) {
	for (unsigned i = 0; i < in->nodes; i++) {
		if (!m->p->leaves[m->p->members.item[m->p->members.start[box] + i]])
			continue;
		in->l.item[in->l.items].last = true;
		if (!add_edge(&in->l, &in->room, i, in->l.items++, i))
			return -ENOMEM;
	}
	return 0;
}

static void place_box(struct scene_box *b, const struct layers_item *at) {
	*b = (struct scene_box){ at->x, at->y, at->width, at->height };
}

/* The layout is within [0, width]; the box's middle is what lines outside are told from. */
static int inside_tell(struct making *m, struct inside *in, unsigned box) {
	double middle = in->l.width / 2;
	unsigned port = in->nodes + in->enters;
	int r = 0;

	for (unsigned i = 0; !r && i < in->enters; i++)
		r = add_read(m, in->entering[i], box, in->l.item[in->nodes + i].x - middle);
	for (unsigned i = 0; i < in->nodes; i++) {
		unsigned node = m->p->members.item[m->p->members.start[box] + i];

		place_box(&m->s->node[node], &in->l.item[i]);
		if (m->p->leaves[node])
			m->p->out_at[node] = in->l.item[port++].x - middle;
	}
	return r;
}

/* Lines within are kept as they lie in the box; move_inside() moves them. */
static int lay_out_inside(struct making *m, unsigned box, struct inside *in) {
	int r = inside_begin(m, in, box);

	if (!r)
		r = inside_reads(m, in, box);
	if (!r)
		r = inside_leaves(m, in, box);
	if (!r)
		r = layers_place(&in->l);
	return r ? r : inside_tell(m, in, box);
}

static void inside_end(struct inside *in) {
	free_edges(&in->l);
	free(in->entering);
}

/* ---- boxes ---- */

static int size_kernel(struct making *m, unsigned box, struct layers_item *item, struct inside *in) {
	int r;

	item->width = head_width(&m->g->kernel[box]);
	item->height = KERNEL_CLOSED;
	if (m->s->scope == SCENE_KERNELS || m->p->members.start[box] == m->p->members.start[box + 1])
		return 0;
	r = lay_out_inside(m, box, in);
	item->width = fmax(item->width, in->l.width + 2 * SCENE_EDGE);
	item->height = SCENE_HEAD + in->l.height + SCENE_EDGE;
	return r;
}

/* Kernels that are closed, and nodes that stand alone, are read at the middle. */
static int add_plain_reads(struct making *m, unsigned box) {
	m->p->looks++;
	for (unsigned i = m->p->members.start[box]; i < m->p->members.start[box + 1]; i++) {
		const struct report_node *n = &m->g->node[m->p->members.item[i]];

		for (unsigned k = 0; k < n->inputs; k++) {
			unsigned input = n->input[k];

			if (box_of(m->p, input) == box || m->p->seen[input] == m->p->looks)
				continue;
			m->p->seen[input] = m->p->looks;
			if (add_read(m, input, box, 0))
				return -ENOMEM;
		}
	}
	return 0;
}

/* A kernel that tells no operations begins those of the next that does. */
static int add_begun(struct making *m, unsigned box) {
	const struct report_graph *g = m->g;
	unsigned next = box;

	while (next < g->kernels && !cJSON_GetArraySize(json_item(g->kernel[next].json, "operations")))
		next++;
	return next == box || next == g->kernels || add_edge(&m->outer, &m->room, box, next, g->nodes + box) ? 0 : -ENOMEM;
}

/* A kernel that computes only a part of an operation, which another finishes: what it reads for it, and who goes on. */
static int add_parts(struct making *m, unsigned box) {
	const struct report_graph *g = m->g;
	const cJSON *one;

	cJSON_ArrayForEach(one, json_item(g->kernel[box].json, "operations")) {
		double number = cJSON_HasObjectItem(one, "node") ? json_number(one, "node") : -1;

		for (unsigned i = 0; number >= 0 && i < g->nodes; i++) {
			if (g->node[i].number != number || box_of(m->p, i) == box)
				continue;
			for (unsigned k = 0; k < g->node[i].inputs; k++)
				if (box_of(m->p, g->node[i].input[k]) != box && add_read(m, g->node[i].input[k], box, 0))
					return -ENOMEM;
			if (!add_edge(&m->outer, &m->room, box, box_of(m->p, i), g->nodes + box))
				return -ENOMEM;
		}
	}
	return 0;
}

static int size_boxes(struct making *m, struct inside *in) {
	const struct report_graph *g = m->g;
	int r = 0;

	for (unsigned box = 0; !r && box < m->p->boxes; box++) {
		bool empty = m->p->members.start[box] == m->p->members.start[box + 1];

		if (box < g->kernels)
			r = size_kernel(m, box, &m->outer.item[box], &in[box]);
		else if (!empty)
			m->outer.item[box] = (struct layers_item){ .width = op_width(&g->node[box - g->kernels]), .height = SCENE_OP_HEIGHT };
		if (!r && (box >= g->kernels || m->s->scope == SCENE_KERNELS))
			r = add_plain_reads(m, box);
		if (!r && box < g->kernels && empty)
			r = add_parts(m, box);
		if (!r && box < g->kernels)
			r = add_begun(m, box);
	}
	return r;
}

/* Boxes that there are none of have no lines and no size: what is left of them is taken out before places are found. */
static void close_ranks(struct making *m, unsigned *item) {
	unsigned items = 0, edges = 0;

	for (unsigned i = 0; i < m->p->boxes; i++) {
		item[i] = m->outer.item[i].width > 0 ? items : m->p->boxes;
		if (m->outer.item[i].width > 0)
			m->outer.item[items++] = m->outer.item[i];
	}
	for (unsigned e = 0; e < m->outer.edges; e++) {
		struct layers_edge edge = m->outer.edge[e];

		if (item[edge.from] == m->p->boxes || item[edge.to] == m->p->boxes || edge.from == edge.to)
			continue;
		if (edge.line < m->g->nodes)
			edge.from_at = m->p->out_at[edge.line];
		edge.from = item[edge.from];
		edge.to = item[edge.to];
		m->outer.edge[edges++] = edge;
	}
	m->outer.items = items;
	m->outer.edges = edges;
}

/* ---- where everything is ---- */

static int move_inside(struct making *m, unsigned box, struct inside *in) {
	struct scene_box *k = &m->s->kernel[box];
	double x = k->x + (k->width - in->l.width) / 2, y = k->y + SCENE_HEAD;
	int r = 0;

	for (unsigned i = m->p->members.start[box]; i < m->p->members.start[box + 1]; i++) {
		m->s->node[m->p->members.item[i]].x += x;
		m->s->node[m->p->members.item[i]].y += y;
	}
	for (unsigned e = 0; !r && e < in->l.edges; e++) {
		struct layers_edge *edge = &in->l.edge[e];

		/* Those of ports reach the edge of the box. */
		if (edge->from >= in->nodes)
			edge->point[0].y = k->y - y;
		if (edge->to >= in->nodes)
			edge->point[edge->points - 1].y = k->y + k->height - y;
		r = keep_line(m->s, edge, x, y, false);
	}
	return r;
}

static int place_boxes(struct making *m, const unsigned *item, struct inside *in) {
	const struct report_graph *g = m->g;
	int r = 0;

	for (unsigned box = 0; !r && box < m->p->boxes; box++) {
		const struct layers_item *at = item[box] == m->p->boxes ? NULL : &m->outer.item[item[box]];
		struct scene_box *b = box < g->kernels ? &m->s->kernel[box] : &m->s->node[box - g->kernels];

		if (!at)
			continue;
		place_box(b, at);
		if (box < g->kernels && in[box].nodes)
			r = move_inside(m, box, &in[box]);
	}
	for (unsigned e = 0; !r && e < m->outer.edges; e++)
		r = keep_line(m->s, &m->outer.edge[e], 0, 0, true);
	m->s->width = m->outer.width;
	m->s->height = m->outer.height;
	return r;
}

/* What the last picture left in the room. */
static void clear(struct report_pictures *p) {
	memset(p->out_at, 0, p->g->nodes * sizeof *p->out_at);
	memset(p->node, 0, p->g->nodes * sizeof *p->node);
	memset(p->kernel, 0, p->g->kernels * sizeof *p->kernel);
}

static int make_all(struct making *m) {
	struct inside *in = calloc(m->g->kernels + 1u, sizeof *in);
	unsigned *item = calloc(m->p->boxes + 1u, sizeof *item);
	int r;

	clear(m->p);
	m->outer = (struct layers){ .item = calloc(m->p->boxes + 1u, sizeof *m->outer.item), .items = m->p->boxes, .lines = m->g->nodes + m->g->kernels,
		.across = KERNEL_ACROSS, .down = KERNEL_DOWN, .tall = PICTURE_TALL };
	r = in && item && m->outer.item ? size_boxes(m, in) : -ENOMEM;
	if (!r) {
		close_ranks(m, item);
		r = layers_place(&m->outer);
	}
	if (!r)
		r = place_boxes(m, item, in);
	for (unsigned i = 0; in && i < m->g->kernels; i++)
		inside_end(&in[i]);
	free(in);
	free(item);
	return r;
}

/* Its lines to other kernels lead nowhere and are not kept. */
static int make_one(struct making *m, unsigned kernel) {
	struct inside in = { 0 };
	struct layers_item item = { 0 };
	struct layers alone = { .item = &item, .items = 1, .across = KERNEL_ACROSS, .down = KERNEL_DOWN };
	int r = size_kernel(m, kernel, &item, &in);

	if (!r)
		r = layers_place(&alone);
	if (!r) {
		place_box(&m->s->kernel[kernel], &item);
		r = move_inside(m, kernel, &in);
	}
	m->s->width = alone.width;
	m->s->height = alone.height;
	inside_end(&in);
	return r;
}

int scene_make(struct scene *s, struct report_pictures *p, enum scene_scope scope, unsigned only) {
	struct making m = { .s = s, .g = p->g, .p = p };
	int r;

	*s = (struct scene){ .g = p->g, .p = p, .scope = scope, .only = only, .node = p->node, .kernel = p->kernel };
	r = only ? make_one(&m, only - 1) : make_all(&m);
	free_edges(&m.outer);
	return r;
}

void scene_free(struct scene *s) {
	for (unsigned i = 0; i < s->lines; i++)
		free(s->line[i].point);
	free(s->line);
	*s = (struct scene){ 0 };
}
