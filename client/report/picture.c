/* Scenes as SVG; see report.h. */
#include "scene.h"

#include <math.h>

#include "client/json.h"

enum {
	MARGIN = 8,
	/* Operations beyond which kernels are drawn closed, each with a picture of its own. */
	OPERATIONS_MOST = 200,
	CORNER = 6,
	NAME_DOWN = 15, SECOND_DOWN = 29, THIRD_DOWN = 46,
};

/* Lines of text, colours of kernels by their hue; what is dark where the reader's other windows are. */
const char report_picture_style[] =
	".fr-picture{font:12px system-ui,sans-serif;max-width:none;--ink:#1b1f24;--dim:#4d5661;--page:#fff;--line:#6b7682;--op:#fff;--free:#f0f2f4;"
	"--sat:62%;--light:92%;--rim:45%;--rims:50%}"
	".fr-picture text{fill:var(--ink);stroke:none}"
	".fr-picture .fr-name{font-weight:600}"
	".fr-picture .fr-dim{fill:var(--dim);font-size:11px}"
	".fr-picture .fr-line{fill:none;stroke:var(--line);stroke-width:1}"
	".fr-picture .fr-memory{stroke-width:1.6;stroke:var(--ink)}"
	".fr-picture marker path{fill:var(--ink);stroke:none}"
	".fr-picture .fr-op rect{fill:var(--op);stroke:var(--line)}"
	".fr-picture .fr-free rect{fill:var(--free);stroke:var(--line);stroke-dasharray:4 3}"
	".fr-picture .fr-output rect{stroke-width:2.5;stroke:var(--ink)}"
	".fr-picture .fr-kernel>rect{fill:hsl(var(--hue) var(--sat) var(--light));stroke:hsl(var(--hue) var(--rim) var(--rims))}"
	".fr-picture .fr-head{pointer-events:none}"
	".fr-picture .fr-head text{paint-order:stroke;stroke:hsl(var(--hue) var(--sat) var(--light));stroke-width:4px;stroke-linejoin:round}"
	".fr-picture a:focus-visible .fr-kernel>rect,.fr-picture a:hover .fr-kernel>rect{stroke-width:3}"
	".fr-h0{--hue:212}.fr-h1{--hue:28}.fr-h2{--hue:120}.fr-h3{--hue:330}.fr-h4{--hue:265}.fr-h5{--hue:50}.fr-h6{--hue:178}.fr-h7{--hue:5}"
	"@media(prefers-color-scheme:dark){.fr-picture{--ink:#e6e9ec;--dim:#a9b3bd;--page:#14171a;--line:#8a949e;--op:#22272c;--free:#1b1f23;"
	"--sat:32%;--light:19%;--rims:58%}}";

bool report_is_large(const struct report_graph *g) {
	return g->nodes > OPERATIONS_MOST;
}

/* ---- lines ---- */

/* Down along a curve, else straight. */
static void draw_on(FILE *to, struct layers_point a, struct layers_point b) {
	double half = (a.y + b.y) / 2;

	if (a.y == b.y || a.x == b.x)
		fprintf(to, "L%.1f %.1f", b.x, b.y);
	else
		fprintf(to, "C%.1f %.1f %.1f %.1f %.1f %.1f", a.x, half, b.x, half, b.x, b.y);
}

static void draw_line(FILE *to, const struct scene *s, const struct scene_line *line) {
	fprintf(to, "<path class=\"fr-line%s\" d=\"M%.1f %.1f", line->memory ? " fr-memory" : "", line->point[0].x, line->point[0].y);
	for (unsigned i = 1; i < line->points; i++)
		draw_on(to, line->point[i - 1], line->point[i]);
	fprintf(to, "\"%s%s%s/>\n", line->memory ? " marker-end=\"url(#" : "", line->memory ? s->g->prefix : "", line->memory ? "arrow)\"" : "");
}

/* ---- operations ---- */

static void draw_text(FILE *to, const char *class, double x, double y, const char *text, unsigned most) {
	fprintf(to, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", class, x, y);
	report_put_start(to, text, most);
	fputs("</text>", to);
}

static void draw_title(FILE *to, const struct report_node *n) {
	fputs("<title>", to);
	report_put_text(to, n->op);
	fputs(" ", to);
	report_put_text(to, n->type);
	if (*n->at) {
		fputs(" at ", to);
		report_put_text(to, n->at);
	}
	fputs(n->output ? ", a result</title>" : "</title>", to);
}

static void draw_node(FILE *to, const struct scene *s, unsigned node) {
	const struct report_node *n = &s->g->node[node];
	const struct scene_box *b = &s->node[node];

	fprintf(to, "<g class=\"fr-op%s%s\" id=\"%sop-%u\">", n->kernel ? "" : " fr-free", n->output ? " fr-output" : "", s->g->prefix, n->id);
	draw_title(to, n);
	fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\"/>", b->x, b->y, b->width, b->height, n->kernel ? CORNER : SCENE_OP_HEIGHT / 2);
	draw_text(to, "fr-name", b->x + b->width / 2, b->y + NAME_DOWN, n->op, SCENE_OP_TEXT);
	draw_text(to, "fr-dim", b->x + b->width / 2, b->y + SECOND_DOWN, n->type, SCENE_OP_TEXT);
	fputs("</g>\n", to);
}

/* ---- kernels ---- */

static void draw_purpose(FILE *to, const struct report_kernel *k, const struct scene_box *b) {
	fprintf(to, "<text class=\"fr-dim\" x=\"%.1f\" y=\"%.1f\">", b->x + SCENE_EDGE, b->y + THIRD_DOWN);
	report_put_start(to, json_text(k->json, "purpose"), SCENE_KERNEL_TEXT);
	fputs("</text>", to);
}

/* Above the lines, with a rim that keeps them off. */
static void draw_head(FILE *to, const struct scene *s, unsigned kernel) {
	const struct report_kernel *k = &s->g->kernel[kernel];
	const struct scene_box *b = &s->kernel[kernel];
	char text[REPORT_WORDS];

	fprintf(to, "<g class=\"fr-head fr-h%u\"><text class=\"fr-name\" x=\"%.1f\" y=\"%.1f\">%u: ", kernel % REPORT_HUES, b->x + SCENE_EDGE, b->y + NAME_DOWN, kernel + 1);
	report_put_start(to, report_kernel_name(k), SCENE_KERNEL_TEXT);
	fprintf(to, "</text>");
	if (k->time_us > 0)
		fprintf(to, "<text class=\"fr-dim\" x=\"%.1f\" y=\"%.1f\">%s %s</text>", b->x + SCENE_EDGE, b->y + SECOND_DOWN, report_time(k->time_us, text),
			k->measured ? "measured" : "estimated");
	if (!k->nodes)
		draw_purpose(to, k, b);
	else if (s->scope == SCENE_KERNELS)
		fprintf(to, "<text class=\"fr-dim\" x=\"%.1f\" y=\"%.1f\">%s</text>", b->x + SCENE_EDGE, b->y + THIRD_DOWN, report_count(k->nodes, "operation", text));
	fputs("</g>\n", to);
}

static void draw_kernel(FILE *to, const struct scene *s, unsigned kernel) {
	const struct scene_box *b = &s->kernel[kernel];
	bool links = s->g->links && !s->only;

	if (links)
		fprintf(to, "<a href=\"#%skernel-%u\">", s->g->prefix, kernel + 1);
	fprintf(to, "<g class=\"fr-kernel fr-h%u\"", kernel % REPORT_HUES);
	if (!s->only)
		fprintf(to, " id=\"%sbox-%u\"", s->g->prefix, kernel + 1);
	fprintf(to, "><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\"/>", b->x, b->y, b->width, b->height, CORNER);
	fprintf(to, "</g>%s\n", links ? "</a>" : "");
}

/* ---- the picture ---- */

static void draw_begin(FILE *to, const struct scene *s) {
	double width = ceil(s->width) + 2 * MARGIN, height = ceil(s->height) + 2 * MARGIN;

	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fr-picture\" viewBox=\"-%d -%d %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"group\" aria-label=\"",
		MARGIN, MARGIN, width, height, width, height);
	if (s->only)
		fprintf(to, "The operations of kernel %u\">\n", s->only);
	else
		fprintf(to, "%u operations in %u kernels; the lists of this report tell the same in words\">\n", s->g->nodes, s->g->kernels);
	if (!s->g->links)
		fprintf(to, "<style>%s</style>\n", report_picture_style);
	if (!s->only)
		fprintf(to, "<defs><marker id=\"%sarrow\" markerWidth=\"7\" markerHeight=\"7\" refX=\"6\" refY=\"3.5\" orient=\"auto\" markerUnits=\"userSpaceOnUse\">"
			    "<path d=\"M0 0L7 3.5L0 7z\"/></marker></defs>\n", s->g->prefix);
}

static void draw_nodes(FILE *to, const struct scene *s) {
	const struct layers_list *members = &s->p->members;

	for (unsigned i = s->only ? members->start[s->only - 1] : 0; s->only && i < members->start[s->only]; i++)
		draw_node(to, s, members->item[i]);
	for (unsigned i = 0; !s->only && i < s->g->nodes; i++)
		if (s->node[i].width > 0)
			draw_node(to, s, i);
}

/* What is drawn later lies above: boxes of kernels, lines, operations. */
static void draw(FILE *to, const struct scene *s) {
	unsigned first = s->only ? s->only - 1 : 0, end = s->only ? s->only : s->g->kernels;

	draw_begin(to, s);
	for (unsigned i = first; i < end; i++)
		draw_kernel(to, s, i);
	for (unsigned i = 0; i < s->lines; i++)
		draw_line(to, s, &s->line[i]);
	for (unsigned i = first; i < end; i++)
		draw_head(to, s, i);
	draw_nodes(to, s);
	fputs("</svg>\n", to);
}

static int make_and_draw(FILE *to, struct report_pictures *p, enum scene_scope scope, unsigned only) {
	struct scene s;
	int r = scene_make(&s, p, scope, only);

	if (!r)
		draw(to, &s);
	scene_free(&s);
	return r;
}

int report_picture(FILE *to, struct report_pictures *p) {
	return make_and_draw(to, p, report_is_large(p->g) ? SCENE_KERNELS : SCENE_WHOLE, REPORT_NONE);
}

int report_kernel_picture(FILE *to, struct report_pictures *p, unsigned kernel) {
	return make_and_draw(to, p, SCENE_WHOLE, kernel);
}
