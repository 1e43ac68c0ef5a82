/* A page about a graph, or the last graphs of a session; see report.h. */
#include "report.h"

#include <errno.h>
#include <math.h>

#include "client/json.h"

enum {
	/* Kernels up to which each tells everything at once. */
	OPEN_MOST = 4,
	PREFIX_TEXT = 48,
	PERCENT = 100,
};

static const char style[] =
	".fr{--ink:#1b1f24;--dim:#4d5661;--page:#fff;--rim:#d0d7de;--soft:#f4f6f8;--time:#3b78c3;--memory:#2f8f63;--arithmetic:#b9632a;"
	"font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1180px;margin:0 auto;padding:12px 16px 40px;overflow-wrap:anywhere}"
	".fr h1{font-size:24px;line-height:1.25;margin:12px 0 4px}.fr h2{font-size:19px;margin:28px 0 8px}.fr p{margin:4px 0 10px}"
	".fr .dim{color:var(--dim)}.fr a{color:inherit}"
	".fr .facts{display:flex;flex-wrap:wrap;gap:8px;margin:12px 0;padding:0;list-style:none}"
	".fr .facts li{border:1px solid var(--rim);border-radius:8px;padding:6px 12px;background:var(--soft)}"
	".fr .facts b{display:block;font-size:19px;line-height:1.3}"
	".fr .scroll{overflow:auto;border:1px solid var(--rim);border-radius:8px;max-height:82vh;background:var(--page)}"
	".fr .scroll:focus-visible,.fr summary:focus-visible,.fr a:focus-visible{outline:3px solid var(--time);outline-offset:1px}"
	".fr .zoom{display:inline-flex;align-items:center;gap:4px;margin:0 14px 8px 0}"
	".fr .scroll svg{display:block;margin:0 auto}"
	".fr .fit:checked~.scroll>svg{width:100%;height:auto;max-width:max-content}"
	".fr .half:checked~.scroll>svg{zoom:.5}"
	".fr .rows{margin:0;padding:0;list-style:none}"
	".fr .rows.long{max-height:60vh;overflow:auto}"
	".fr .row{display:grid;grid-template-columns:minmax(7em,15em) 1fr 7.5em;gap:10px;align-items:center;padding:1px 6px}"
	".fr .row a{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}.fr .row span:last-child{text-align:right;white-space:nowrap}"
	".fr .track{background:var(--soft);border-radius:3px;height:14px;position:relative;overflow:hidden}"
	".fr .bar{position:absolute;top:0;bottom:0;min-width:2px;border-radius:3px;background:var(--time)}"
	".fr .bar.memory{background:var(--memory)}.fr .bar.arithmetic{background:var(--arithmetic)}"
	".fr .kernel{border:1px solid var(--rim);border-radius:8px;margin:8px 0;background:var(--page)}"
	".fr .kernel>summary{padding:7px 12px;cursor:pointer;background:var(--soft);border-radius:8px}.fr .kernel>div{padding:4px 12px 10px}"
	".fr .kernel>div:target{outline:3px solid var(--time);border-radius:8px}"
	".fr .swatch{display:inline-block;width:.8em;height:.8em;border-radius:3px;margin-right:6px;background:hsl(var(--hue) 55% 62%)}"
	".fr .bounds{display:grid;grid-template-columns:max-content minmax(60px,1fr) max-content;gap:3px 10px;align-items:center;max-width:640px;margin:8px 0}"
	".fr table{border-collapse:collapse;width:100%;margin:6px 0}.fr th,.fr td{text-align:left;padding:3px 10px 3px 0;vertical-align:top;border-bottom:1px solid var(--rim)}"
	".fr th{font-weight:600;color:var(--dim)}.fr code,.fr pre{font:13px/1.45 ui-monospace,monospace}"
	".fr pre{overflow:auto;max-height:60vh;background:var(--soft);border:1px solid var(--rim);border-radius:8px;padding:8px;overflow-wrap:normal}"
	".fr details details>summary{cursor:pointer;padding:3px 0}"
	"@media(max-width:600px){.fr{padding:8px 8px 32px;font-size:14px}.fr .row{grid-template-columns:8em 1fr 6em;gap:6px}"
	".fr .apart thead{display:none}.fr .apart tr{display:block;border-bottom:1px solid var(--rim);padding:4px 0}.fr .apart td{display:block;border:0;padding:0}}"
	"@media(prefers-color-scheme:dark){.fr{--ink:#e6e9ec;--dim:#a9b3bd;--page:#14171a;--rim:#3a4148;--soft:#1e2328;--time:#5b9be0;--memory:#46b582;--arithmetic:#dd8449}}";

struct page {
	FILE *to;
	const struct report_graph *g;
	struct report_pictures *pictures;
	double longest_us, sum_us;
	unsigned measured, timed;         /* kernels */
	unsigned computed;                /* operations that are a kernel's */
};

/* ---- the sum of it ---- */

static void fact(const struct page *p, const char *number, const char *words) {
	fprintf(p->to, "<li><b>%s</b> %s</li>\n", number, words);
}

static void put_kernels_fact(const struct page *p) {
	double unfused = json_number(p->g->json, "unfused_kernel_count");
	char text[REPORT_WORDS], number[REPORT_WORDS], words[2 * REPORT_WORDS];

	snprintf(words, sizeof words, "for %s; without fusion %s", report_count(p->computed, "operation", text), report_count(unfused, "", number));
	fact(p, report_count(p->g->kernels, "kernel", text), unfused > 0 ? words : "");
}

static void put_facts(const struct page *p) {
	const cJSON *json = p->g->json;
	double moved = json_number(json, "bytes_moved"), saved = json_number(json, "bytes_not_moved"), arrays = json_number(json, "buffers_eliminated");
	char a[REPORT_WORDS], b[REPORT_WORDS], words[3 * REPORT_WORDS];

	fputs("<ul class=\"facts\">\n", p->to);
	put_kernels_fact(p);
	if (p->sum_us > 0) {
		if (p->measured && p->measured < p->timed)
			snprintf(words, sizeof words, "on the device, of which %s measured, the rest estimated", report_count(p->measured, "kernel", b));
		else
			snprintf(words, sizeof words, "on the device, %s", p->measured ? "measured" : "estimated");
		fact(p, report_time(p->sum_us, a), words);
	}
	if (moved > 0)
		fact(p, report_bytes(moved, a), "of memory moved");
	if (saved > 0) {
		snprintf(words, sizeof words, "not moved: %.1f %% less, and %s never stored", PERCENT * saved / (moved + saved), report_count(arrays, "array", b));
		fact(p, report_bytes(saved, a), words);
	}
	if (json_number(json, "peak_bytes") > 0)
		fact(p, report_bytes(json_number(json, "peak_bytes"), a), "of temporaries and results at once, at most");
	if (json_number(json, "runs") > 0)
		fact(p, report_count(json_number(json, "runs"), "run", a), "of this graph");
	fputs("</ul>\n", p->to);
	/* Of operations that were sent before. */
	if (*json_text(json, "note")) {
		fputs("<p>", p->to);
		report_put_text(p->to, json_text(json, "note"));
		fputs("</p>\n", p->to);
	}
}

/* ---- the picture ---- */

static void put_zoom(const struct page *p, const char *class, const char *words, bool chosen) {
	const char *prefix = p->g->prefix;

	fprintf(p->to, "<input type=\"radio\" class=\"%s\" name=\"%szoom\" id=\"%s%s\"%s> <label class=\"zoom\" for=\"%s%s\">%s</label>\n", class, prefix, prefix, class,
		chosen ? " checked" : "", prefix, class, words);
}

static int put_picture(const struct page *p) {
	bool large = report_is_large(p->g);
	int r;

	fprintf(p->to, "<h2>Picture</h2>\n<p class=\"dim\">%s Thick lines are arrays in memory, from above to below; what has a thick rim is a result.</p>\n<div>\n",
		large ? "A box is a kernel; its operations are drawn where the kernel is told of." : "Each box round operations is one kernel.");
	put_zoom(p, "full", "full size", !large);
	put_zoom(p, "half", "half", false);
	put_zoom(p, "fit", "as wide as the page", large);
	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the graph\">\n", p->to);
	r = report_picture(p->to, p->pictures);
	fputs("</div>\n</div>\n", p->to);
	return r;
}

/* ---- the timeline ---- */

static void put_timeline(const struct page *p) {
	char text[REPORT_WORDS];
	double at = 0;

	if (!(p->sum_us > 0))
		return;
	fprintf(p->to, "<h2>Timeline</h2>\n<p class=\"dim\">Kernels in the order of their launches, each as long as it was %s, and nothing between.</p>\n",
		p->measured == p->timed ? "measured to take at best" : p->measured ? "measured to take at best, else estimated" : "estimated to take");
	fprintf(p->to, "<ol class=\"rows%s\"%s>\n", p->g->kernels > 2 * OPEN_MOST ? " long" : "",
		p->g->kernels > 2 * OPEN_MOST ? " tabindex=\"0\" role=\"region\" aria-label=\"Timeline\"" : "");
	for (unsigned i = 0; i < p->g->kernels; i++) {
		const struct report_kernel *k = &p->g->kernel[i];

		fprintf(p->to, "<li class=\"row\"><a href=\"#%skernel-%u\">%u: ", p->g->prefix, i + 1, i + 1);
		report_put_text(p->to, report_kernel_name(k));
		fprintf(p->to, "</a><span class=\"track\"><span class=\"bar\" style=\"left:%.3f%%;width:%.3f%%\"></span></span><span>%s%s</span></li>\n",
			PERCENT * at / p->sum_us, PERCENT * k->time_us / p->sum_us, k->time_us > 0 ? report_time(k->time_us, text) : "not known",
			p->measured && !k->measured && k->time_us > 0 ? "*" : "");
		at += k->time_us;
	}
	fprintf(p->to, "</ol>\n%s", p->measured && p->measured < p->timed ? "<p class=\"dim\">* estimated</p>\n" : "");
}

/* ---- kernels ---- */

static void put_bound(const struct page *p, const char *class, const char *what, double us) {
	char text[REPORT_WORDS];

	if (us > 0)
		fprintf(p->to, "<span>%s</span><span class=\"track\"><span class=\"bar %s\" style=\"left:0;width:%.2f%%\"></span></span><span>%s</span>\n", what, class,
			fmin(PERCENT * us / p->longest_us, PERCENT), report_time(us, text));
}

/* Its time beside what it cannot be faster than: what moving its memory and its arithmetic take at the device's measured rates. */
static void put_bounds(const struct page *p, const struct report_kernel *k) {
	double memory = json_number(k->json, "memory_us"), arithmetic = json_number(k->json, "arithmetic_us");
	double bound = fmax(memory, arithmetic), start = json_number(k->json, "estimated_us") - bound;

	if (!(k->time_us > 0))
		return;
	fputs("<div class=\"bounds\">\n", p->to);
	put_bound(p, "", k->measured ? "measured" : "estimated", k->time_us);
	if (k->measured)
		put_bound(p, "", "estimated", json_number(k->json, "estimated_us"));
	put_bound(p, "memory", "memory alone", memory);
	put_bound(p, "arithmetic", "arithmetic alone", arithmetic);
	if (bound > 0)
		put_bound(p, "", "its start", start);
	fputs("</div>\n", p->to);
	if (bound > 0)
		fprintf(p->to, "<p>Bound by %s: at the rates measured for this device that takes %.0f %% of the time %s.</p>\n",
			start > bound ? "its start" : memory > arithmetic ? "memory" : "arithmetic",
			fmin(PERCENT * fmax(bound, start) / k->time_us, PERCENT), k->measured ? "measured" : "estimated");
}

static void put_speedup(const struct page *p, const cJSON *kernel, const char *name, const char *word) {
	if (json_number(kernel, name) > 0)
		fprintf(p->to, ", %s %.3g times as fast", word, json_number(kernel, name));
}

static void put_moved(const struct page *p, const struct report_kernel *k) {
	double arrays = json_number(k->json, "buffers_eliminated");
	char a[REPORT_WORDS], b[REPORT_WORDS];

	fprintf(p->to, "<p>Reads %s, writes %s.", report_bytes(json_number(k->json, "bytes_read"), a), report_bytes(json_number(k->json, "bytes_written"), b));
	if (json_number(k->json, "bytes_saved") > 0) {
		fprintf(p->to, " Fusing saves %s and %s that %s never stored", report_bytes(json_number(k->json, "bytes_saved"), a), report_count(arrays, "array", b),
			arrays == 1 ? "is" : "are");
		put_speedup(p, k->json, "estimated_speedup", "estimated");
		put_speedup(p, k->json, "measured_speedup", "measured");
		fputs(".", p->to);
	}
	fputs("</p>\n", p->to);
}

/* A sentence of the explanation, where there is one. */
static void put_said(const struct page *p, const char *before, const char *text) {
	if (!*text)
		return;
	fprintf(p->to, "<p>%s", before);
	report_put_text(p->to, text);
	fputs("</p>\n", p->to);
}

static void put_cell(const struct page *p, const char *text) {
	fputs("<td>", p->to);
	report_put_text(p->to, text);
	fputs("</td>", p->to);
}

static void put_operations(const struct page *p, const cJSON *list) {
	const cJSON *one;

	if (!cJSON_GetArraySize(list))
		return;
	fputs("<table><thead><tr><th scope=\"col\">operation</th><th scope=\"col\">type</th><th scope=\"col\">place</th></tr></thead><tbody>\n", p->to);
	cJSON_ArrayForEach(one, list) {
		fputs("<tr>", p->to);
		put_cell(p, json_text(one, "op"));
		put_cell(p, json_text(one, "type"));
		put_cell(p, json_text(one, "at"));
		fputs("</tr>\n", p->to);
	}
	fputs("</tbody></table>\n", p->to);
}

static void put_source(const struct page *p, const char *source) {
	if (!*source)
		return;
	fputs("<details><summary>source, OpenCL C</summary><pre tabindex=\"0\">", p->to);
	report_put_text(p->to, source);
	fputs("</pre></details>\n", p->to);
}

static int put_own_picture(const struct page *p, unsigned kernel) {
	int r;

	if (!report_is_large(p->g) || !p->g->kernel[kernel].nodes)
		return 0;
	fputs("<details><summary>picture of its operations</summary><div class=\"scroll\" tabindex=\"0\">\n", p->to);
	r = report_kernel_picture(p->to, p->pictures, kernel + 1);
	fputs("</div></details>\n", p->to);
	return r;
}

static void put_summary(const struct page *p, unsigned kernel) {
	const struct report_kernel *k = &p->g->kernel[kernel];
	unsigned operations = (unsigned)cJSON_GetArraySize(json_item(k->json, "operations"));
	char text[REPORT_WORDS];
	const cJSON *named;

	fprintf(p->to, "<summary><span class=\"swatch fr-h%u\"></span><b>%u: ", kernel % REPORT_HUES, kernel + 1);
	report_put_text(p->to, report_kernel_name(k));
	cJSON_ArrayForEach(named, json_item(k->json, "named")) {
		fputs(", ", p->to);
		report_put_text(p->to, cJSON_IsString(named) ? named->valuestring : "?");
	}
	fprintf(p->to, "</b> <span class=\"dim\">%s", report_count(operations, "operation", text));
	if (k->time_us > 0)
		fprintf(p->to, ", %s %s", report_time(k->time_us, text), k->measured ? "measured" : "estimated");
	if (json_number(k->json, "bytes_saved") > 0)
		fprintf(p->to, ", %s saved", report_bytes(json_number(k->json, "bytes_saved"), text));
	fputs("</span></summary>\n", p->to);
}

static int put_kernel(const struct page *p, unsigned kernel) {
	const struct report_kernel *k = &p->g->kernel[kernel];
	int r;

	fprintf(p->to, "<details class=\"kernel\"%s>", p->g->kernels <= OPEN_MOST ? " open" : "");
	put_summary(p, kernel);
	fprintf(p->to, "<div id=\"%skernel-%u\">\n", p->g->prefix, kernel + 1);
	put_said(p, "", json_text(k->json, "purpose"));
	put_bounds(p, k);
	put_moved(p, k);
	put_said(p, "Runs as ", json_text(k->json, "runs_as"));
	put_said(p, "Launches wait until it is built: ", json_text(k->json, "waits_because"));
	put_operations(p, json_item(k->json, "operations"));
	r = put_own_picture(p, kernel);
	put_source(p, json_text(k->json, "source"));
	fputs("</div></details>\n", p->to);
	return r;
}

static int put_kernels(const struct page *p) {
	int r = 0;

	fputs("<h2>Kernels</h2>\n", p->to);
	if (!p->g->kernels)
		fputs("<p>No kernel runs.</p>\n", p->to);
	for (unsigned i = 0; !r && i < p->g->kernels; i++)
		r = put_kernel(p, i);
	return r;
}

/* ---- what was not fused ---- */

static void put_end(const struct page *p, const cJSON *note, const char *op, const char *at, const char *id) {
	fprintf(p->to, "<td><a href=\"#%sop-%.0f\">", p->g->prefix, json_number(note, id));
	report_put_text(p->to, json_text(note, op));
	fputs("</a>", p->to);
	if (*json_text(note, at)) {
		fputs(" <span class=\"dim\">at ", p->to);
		report_put_text(p->to, json_text(note, at));
		fputs("</span>", p->to);
	}
	fputs("</td>", p->to);
}

static void put_apart(const struct page *p) {
	const cJSON *list = json_item(p->g->json, "not_fused"), *one;
	char text[REPORT_WORDS];
	int count = cJSON_GetArraySize(list);

	if (!count)
		return;
	fprintf(p->to, "<h2>Not fused</h2>\n<details%s><summary>%s, and why each is two kernels</summary>\n<table class=\"apart\"><thead><tr><th scope=\"col\">operation</th>"
		       "<th scope=\"col\">with</th><th scope=\"col\">because</th></tr></thead><tbody>\n",
		count <= 5 * OPEN_MOST ? " open" : "", report_count(count, "pair", text));
	cJSON_ArrayForEach(one, list) {
		fputs("<tr>", p->to);
		put_end(p, one, "producer_op", "producer_at", "producer_id");
		put_end(p, one, "consumer_op", "consumer_at", "consumer_id");
		put_cell(p, json_text(one, "reason"));
		fputs("</tr>\n", p->to);
	}
	fputs("</tbody></table></details>\n", p->to);
}

/* ---- a graph ---- */

static void add_up(struct page *p) {
	for (unsigned i = 0; i < p->g->kernels; i++) {
		const struct report_kernel *k = &p->g->kernel[i];

		p->computed += k->nodes;
		p->sum_us += k->time_us;
		p->timed += k->time_us > 0;
		p->measured += k->measured;
		p->longest_us = fmax(p->longest_us, fmax(k->time_us, json_number(k->json, "estimated_us")));
	}
}

static int put_graph(FILE *to, const cJSON *json, const char *prefix) {
	struct report_graph g;
	struct page p = { .to = to, .g = &g };
	int r = report_graph_read(&g, json);

	g.prefix = prefix;
	g.links = true;
	if (!r) {
		p.pictures = report_pictures_new(&g);
		r = p.pictures ? 0 : -ENOMEM;
	}
	if (!r) {
		add_up(&p);
		put_facts(&p);
		r = put_picture(&p);
	}
	if (!r) {
		put_timeline(&p);
		r = put_kernels(&p);
	}
	if (!r)
		put_apart(&p);
	report_pictures_free(p.pictures);
	report_graph_free(&g);
	return r;
}

/* ---- all graphs ---- */

/* FNV-1a. */
static unsigned hash_of(const char *text) {
	unsigned hash = 2166136261U;

	for (const char *c = text; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619U;
	return hash;
}

static int put_session(FILE *to, const cJSON *json, const cJSON *graphs, const char *prefix) {
	const cJSON *one;
	unsigned number = 0;
	int r = 0;

	fputs("<p>The last graphs of ", to);
	report_put_text(to, json_text(json, "name"));
	fprintf(to, ", session %.0f, process %.0f; the newest is open.</p>\n", json_number(json, "session"), json_number(json, "pid"));
	if (!cJSON_GetArraySize(graphs))
		fputs("<p>It has run nothing.</p>\n", to);
	cJSON_ArrayForEach(one, graphs) {
		char own[PREFIX_TEXT + REPORT_WORDS], a[REPORT_WORDS], b[REPORT_WORDS];

		number++;
		snprintf(own, sizeof own, "%sg%u-", prefix, number);
		fprintf(to, "<details class=\"kernel\"%s><summary><b>graph %u</b> <span class=\"dim\">%s, %s</span></summary><div>\n", number == 1 ? " open" : "", number,
			report_count(cJSON_GetArraySize(json_item(one, "kernels")), "kernel", a),
			report_count(json_number(one, "runs"), "run", b));
		r = put_graph(to, one, own);
		fputs("</div></details>\n", to);
		if (r)
			break;
	}
	return r;
}

static void put_document(FILE *to, const char *title) {
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<title>", to);
	report_put_text(to, title);
	fputs("</title>\n<style>:root{color-scheme:light dark}body{margin:0}@media(prefers-color-scheme:dark){body{background:#14171a}}</style>\n</head>\n<body>\n", to);
}

int report_page(FILE *to, const char *explanation, const cJSON *json, const char *title, bool whole) {
	const cJSON *graphs = json_item(json, "graphs");
	char prefix[PREFIX_TEXT] = "";
	int r;

	if (whole)
		put_document(to, title);
	else
		snprintf(prefix, sizeof prefix, "r%x-", hash_of(explanation));
	fprintf(to, "<style>%s%s</style>\n<%s class=\"fr\">\n", style, report_picture_style, whole ? "main" : "div");
	if (whole) {
		fputs("<h1>", to);
		report_put_text(to, title);
		fputs("</h1>\n", to);
	}
	r = graphs ? put_session(to, json, graphs, prefix) : put_graph(to, json, prefix);
	fprintf(to, "</%s>\n%s", whole ? "main" : "div", whole ? "</body>\n</html>\n" : "");
	return r;
}
