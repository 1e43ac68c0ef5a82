/* fusionctl explain: which operations of a text graph go into which kernel, and why not fewer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"

enum {
	INDENT = 4,
};

static const char *text_of(const cJSON *object, const char *name) {
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	return text ? text : "";
}

static double number_of(const cJSON *object, const char *name) {
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

static void print_summary(const cJSON *json) {
	char a[PRINT_TEXT], b[PRINT_TEXT];
	double kernels = number_of(json, "kernel_count");

	printf("%s kernel%s; without fusion %s\n", print_count(kernels, a), kernels == 1 ? "" : "s",
		print_count(number_of(json, "unfused_kernel_count"), b));
	if (number_of(json, "buffers_eliminated") > 0)
		printf("%s arrays are never stored, %s of memory are not moved\n",
			print_count(number_of(json, "buffers_eliminated"), a),
			print_bytes(number_of(json, "bytes_not_moved"), b));
}

static void print_dims(const cJSON *dims) {
	const cJSON *extent;
	const char *between = " over ";

	cJSON_ArrayForEach(extent, dims) {
		printf("%s%.0f", between, extent->valuedouble);
		between = " x ";
	}
}

static void print_operations(const cJSON *operations) {
	struct print_table *t = print_table_new(2);
	const cJSON *one;

	cJSON_ArrayForEach(one, operations) {
		print_table_cell(t, text_of(one, "op"), false);
		print_table_cell(t, text_of(one, "type"), false);
	}
	print_table_end(t, INDENT);
}

static void print_kernel(const cJSON *kernel, unsigned number) {
	const char *form = text_of(kernel, "form");
	char a[PRINT_TEXT], b[PRINT_TEXT];

	printf("\nkernel %u: %s%s%s", number, text_of(kernel, "root"), !strcmp(form, "plain") ? "" : " by ",
		!strcmp(form, "plain") ? "" : form);
	print_dims(cJSON_GetObjectItemCaseSensitive(kernel, "dims"));
	printf("; reads %s, writes %s; estimated %.3g us", print_bytes(number_of(kernel, "bytes_read"), a),
		print_bytes(number_of(kernel, "bytes_written"), b), number_of(kernel, "estimated_us"));
	if (number_of(kernel, "measured_us") > 0)
		printf(", measured %.3g us", number_of(kernel, "measured_us"));
	putchar('\n');
	if (*text_of(kernel, "pattern"))
		printf("  %s: saves %s of memory traffic, %s arrays\n", text_of(kernel, "pattern"),
			print_bytes(number_of(kernel, "bytes_saved"), a),
			print_count(number_of(kernel, "buffers_eliminated"), b));
	print_operations(cJSON_GetObjectItemCaseSensitive(kernel, "operations"));
	if (*text_of(kernel, "source"))
		printf("\n%s", text_of(kernel, "source"));
}

static void print_reasons(const cJSON *notes) {
	struct print_table *t;
	const cJSON *one;

	if (!cJSON_GetArraySize(notes))
		return;
	printf("\nnot fused:\n");
	t = print_table_new(4);
	cJSON_ArrayForEach(one, notes) {
		print_table_cell(t, text_of(one, "producer_op"), false);
		print_table_cell(t, "->", false);
		print_table_cell(t, text_of(one, "consumer_op"), false);
		print_table_cell(t, text_of(one, "reason"), false);
	}
	print_table_end(t, INDENT);
}

static int print_explanation(const struct control *c, const char *text, struct fault *f) {
	cJSON *json = cJSON_Parse(text);
	const cJSON *kernel;
	unsigned number = 0;

	if (!json)
		return fault_set(f, FAULT_PROTOCOL, "the answer of the daemon is no JSON");
	if (c->json) {
		puts(text);
	} else {
		print_summary(json);
		cJSON_ArrayForEach(kernel, cJSON_GetObjectItemCaseSensitive(json, "kernels")) {
			print_kernel(kernel, ++number);
		}
		print_reasons(cJSON_GetObjectItemCaseSensitive(json, "not_fused"));
	}
	cJSON_Delete(json);
	return 0;
}

int explain_command(const struct control *c) {
	struct control_graph g;
	char *text = NULL;
	struct fault f;
	int r = control_graph_open(c, &g, &f);

	if (!r) {
		text = fusion_explain(g.context, (int)g.text->outputs, g.output, c->source);
		r = text ? print_explanation(c, text, &f) : text_library_fault(&f);
	}
	free(text);
	control_graph_close(&g);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
