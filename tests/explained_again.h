/*
 * What libfusion tells of a graph before it runs must be what it tells after that, while the same is recorded, and of what was recorded: kernels, their
 * operations and what they gain, in explain and in opportunities.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "client/fusionctl/text_record.h"

/* Where operations stand in a list depends on what else is in it: inputs are data of the same list, or not. */
static inline int explained_comparable(const char *key) {
	static const char *const same[] = { "root", "form", "pattern", "named", "purpose", "dims", "operations", "op", "type", "bytes_read", "bytes_written", "bytes_saved",
		"buffers_eliminated", "estimated_us", "estimated_speedup", "estimated_gain_us", "kernels_before", "kernel" };

	for (size_t i = 0; !key || i < sizeof same / sizeof *same; i++)
		if (!key || !strcmp(key, same[i]))
			return 1;
	return 0;
}

static inline void explained_strip(cJSON *json) {
	cJSON *next;

	for (cJSON *one = json->child; one; one = next) {
		next = one->next;
		if (explained_comparable(one->string))
			explained_strip(one);
		else
			cJSON_Delete(cJSON_DetachItemViaPointer(json, one));
	}
}

/* One list of an answer, as a text; takes the answer. NULL: the library's error. */
static inline char *explained_list(char *text, const char *name) {
	cJSON *json = text ? cJSON_Parse(text) : NULL, *list = cJSON_GetObjectItemCaseSensitive(json, name);
	char *told = NULL;

	if (list) {
		explained_strip(list);
		told = cJSON_PrintUnformatted(list);
	}
	cJSON_Delete(json);
	free(text);
	return told;
}

/* Of a graph: what explain and opportunities have told. */
struct explained {
	char *kernels, *gains;
};

static inline void explained_free(struct explained *e) {
	free(e->kernels);
	free(e->gains);
	*e = (struct explained){ 0 };
}

static inline int explained_arrays(struct explained *e, fusion_context *c, const struct text *t, fusion_array **output, struct fault *f) {
	e->kernels = explained_list(fusion_explain(c, (int)t->outputs, output, 0), "kernels");
	if (e->kernels)
		e->gains = explained_list(fusion_opportunities(c, (int)t->outputs, output), "opportunities");
	return e->gains ? 0 : text_library_fault(f);
}

static inline int explained_capture(struct explained *e, fusion_capture *capture, struct fault *f) {
	e->kernels = explained_list(fusion_explain_capture(capture, 0), "kernels");
	if (e->kernels)
		e->gains = explained_list(fusion_explain_capture(capture, FUSION_EXPLAIN_OPPORTUNITIES), "opportunities");
	return e->gains ? 0 : text_library_fault(f);
}

static inline int explained_compare(const struct explained *before, const struct explained *now, const char *when, struct fault *f) {
	if (strcmp(before->kernels, now->kernels) != 0)
		return fault_set(f, FAULT_INTERNAL, "explained %s: %.400s; before it ran: %.400s", when, now->kernels, before->kernels);
	if (strcmp(before->gains, now->gains) != 0)
		return fault_set(f, FAULT_INTERNAL, "opportunities %s: %.400s; before it ran: %.400s", when, now->gains, before->gains);
	return 0;
}

static inline int explained_again(const struct explained *before, fusion_context *c, const struct text *t, fusion_array **output, const char *when, struct fault *f) {
	struct explained now = { 0 };
	int r = explained_arrays(&now, c, t, output, f);

	if (!r)
		r = explained_compare(before, &now, when, f);
	explained_free(&now);
	return r;
}

static inline int explained_recording(const struct explained *before, fusion_context *c, const struct text *t, fusion_array **output, struct fault *f) {
	struct explained now = { 0 };
	fusion_capture *capture;
	int r = explained_again(before, c, t, output, "while it is recorded", f);

	capture = r ? NULL : fusion_capture_end(c, (int)t->outputs, output);
	if (!r && !capture)
		return text_library_fault(f);
	if (r)
		return r;
	r = explained_capture(&now, capture, f);
	if (!r)
		r = explained_compare(before, &now, "of what was recorded", f);
	explained_free(&now);
	fusion_capture_free(capture);
	return r;
}

/* Records it once more. A text that defines patterns cannot be, nor one with an output that is an input. */
static inline int explained_recorded(const struct explained *before, fusion_context *c, const struct text *t, struct fault *f) {
	fusion_array **output = calloc(t->outputs + 1, sizeof *output);
	int r = output ? 0 : -ENOMEM;

	for (unsigned i = 0; i < t->outputs; i++)
		if (t->statement[t->output[i]].op == OP_load)
			r = EALREADY;
	if (r || t->patterns) {
		free(output);
		return r < 0 ? r : 0;
	}
	r = fusion_capture_begin(c, 0, NULL) ? text_library_fault(f) : text_record(t, c, output, f);
	if (!r)
		r = explained_recording(before, c, t, output, f);
	if (r)
		fusion_capture_abort(c);
	for (unsigned i = 0; i < t->outputs; i++)
		fusion_release(output[i]);
	free(output);
	return r;
}
