/*
 * The report of an explanation: what fusion_explain() or fusion_recent() answered, as one page of HTML or a picture.
 *
 * read.c makes a graph of the JSON, scene.c boxes and lines of it, for which layers.c and order.c find places, picture.c draws them as SVG,
 * page.c writes what stands about the picture. All text of the explanation is hostile: it leaves this folder by words.c alone, through
 * report_put_text() and report_put_start(). The page holds no script, asks for nothing, and says so in its Content-Security-Policy.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- the graph, read.c ---- */

enum { REPORT_NONE = 0 };

struct report_node {
	const char *op, *type, *at;       /* at "": not known */
	unsigned id;                      /* by which others name it */
	double number;                    /* by which kernels do; below 0: none does */
	unsigned kernel;                  /* from 1; REPORT_NONE: it costs none */
	bool output;
	unsigned *input, inputs;          /* nodes, by their place in report_graph.node */
};

struct report_kernel {
	const cJSON *json;
	unsigned nodes;                   /* that name it as theirs */
	double time_us;                   /* measured where it was, else estimated; 0: not known */
	bool measured;
};

/* Kernel k is kernel[k - 1]. It points into the JSON. */
struct report_graph {
	const cJSON *json;
	struct report_node *node;
	struct report_kernel *kernel;
	unsigned nodes, kernels;
	const char *prefix;               /* of the names of its elements, apart from others' of the same page */
	bool links;                       /* the picture's boxes lead to what the page tells of them */
};

/* 0 or -ENOMEM; what is missing or makes no sense in the JSON is left out. report_graph_free() also on failure. */
int report_graph_read(struct report_graph *g, const cJSON *json);
void report_graph_free(struct report_graph *g);

/* What a kernel is called: its pattern, else its root. */
const char *report_kernel_name(const struct report_kernel *k);

/* ---- places, layers.c ---- */

struct layers_item {
	double width, height;
	bool first, last;                 /* it stands in the first layer, where no line may come to it; in the last, where none may leave it */
	double x, y;                      /* found: the corner at the top and left */
};

struct layers_point {
	double x, y;
};

/* A line from one item down to another; where several begin at one item, they share what they can. */
struct layers_edge {
	unsigned from, to;
	double from_at, to_at;            /* where it leaves and enters, from the middle of the item */
	unsigned line;                    /* below layers.lines: edges of one line have one `from` and `from_at` */
	struct layers_point *point;       /* found: where it goes; to be freed */
	unsigned points;
};

struct layers {
	struct layers_item *item;
	struct layers_edge *edge;
	unsigned items, edges, lines;
	double across, down;              /* between items, between layers */
	double tall;                      /* layers are put in columns about as tall; 0: in one */
	double width, height;             /* found */
};

/*
 * Finds places: items in layers, each below those that lines come from; where lines make a circle, some go up. 0 or -ENOMEM.
 */
int layers_place(struct layers *l);

/* ---- SVG, picture.c ---- */

/* Colours of kernels, in turn: classes fr-h0 and on. */
enum { REPORT_HUES = 8 };

/* Are there more operations than one picture holds and stays legible? */
bool report_is_large(const struct report_graph *g);
/* The pictures of a graph, which is to stay while they are made. NULL: no memory. */
struct report_pictures *report_pictures_new(const struct report_graph *g);
void report_pictures_free(struct report_pictures *p);
/* An SVG element: kernels with their operations in them, of a large graph as closed boxes. 0 or -ENOMEM. */
int report_picture(FILE *to, struct report_pictures *p);
/* Of one kernel's operations. */
int report_kernel_picture(FILE *to, struct report_pictures *p, unsigned kernel);
/* The style that the elements want. */
extern const char report_picture_style[];

/* ---- words, words.c ---- */

enum { REPORT_WORDS = 48 };

/* For HTML and XML, also within attributes: characters that either gives a meaning to are escaped; what people are not to be shown (protocol/utf8.h),
 * but for ends of lines and tabs, is replaced. */
void report_put_text(FILE *to, const char *text);
/* No more than so many characters of it, with an ellipsis where it is cut. */
void report_put_start(FILE *to, const char *text, unsigned most);
/* Each returns text. */
char *report_time(double us, char text[static REPORT_WORDS]);
char *report_bytes(double bytes, char text[static REPORT_WORDS]);
/* "1 kernel", "1,234 kernels". */
char *report_count(double count, const char *what, char text[static REPORT_WORDS]);

/* ---- HTML, page.c ---- */

/*
 * A document, or what may stand within one; json is what `explanation` holds. Within one, elements are named after the text, so that two
 * explanations do not share names; where they are equal they do, and links lead into the first, which says the same. 0 or -ENOMEM.
 */
int report_page(FILE *to, const char *explanation, const cJSON *json, const char *title, bool whole);
