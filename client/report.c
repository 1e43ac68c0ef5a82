/* Explanations as pages and pictures: what of client/report/ is for everybody. */
#include <errno.h>
#include <stdlib.h>

#include "error.h"
#include "client/json.h"
#include "client/report/report.h"

static int put_picture(FILE *to, const cJSON *json) {
	const cJSON *graphs = json_item(json, "graphs");
	struct report_pictures *pictures;
	struct report_graph g;
	int r = report_graph_read(&g, graphs ? cJSON_GetArrayItem(graphs, 0) : json);

	pictures = r ? NULL : report_pictures_new(&g);
	r = pictures ? report_picture(to, pictures) : -ENOMEM;
	report_pictures_free(pictures);
	report_graph_free(&g);
	return r;
}

static int put_report(FILE *to, const char *explanation, const cJSON *json, const char *title, enum fusion_report_form form) {
	if (form == FUSION_REPORT_PICTURE)
		return put_picture(to, json);
	return report_page(to, explanation, json, title ? title : "Fusion report", form == FUSION_REPORT_PAGE);
}

static int check_report(const char *explanation, enum fusion_report_form form, cJSON **jsonp, struct fault *f) {
	if (!explanation)
		return fault_set(f, FAULT_ARGUMENT, "report: no explanation is given");
	if (form > FUSION_REPORT_PICTURE)
		return fault_set(f, FAULT_ARGUMENT, "report: there is no form %u", (unsigned)form);
	*jsonp = cJSON_Parse(explanation);
	if (!cJSON_IsObject(*jsonp))
		return fault_set(f, FAULT_ARGUMENT, "report: the explanation is not what explain answers, a JSON object");
	return 0;
}

/* The text, or NULL and the failure. */
static char *make_report(const char *explanation, const cJSON *json, const char *title, enum fusion_report_form form, int *failedp) {
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int failed = to ? put_report(to, explanation, json, title, form) : -ENOMEM;

	if (to && fclose(to) && !failed)
		failed = -ENOMEM;
	*failedp = failed;
	if (!failed)
		return text;
	free(text);
	return NULL;
}

char *fusion_report(const char *explanation, const char *title, enum fusion_report_form form) {
	cJSON *json = NULL;
	char *text = NULL;
	struct fault f;
	int failed = check_report(explanation, form, &json, &f);

	if (!failed)
		text = make_report(explanation, json, title, form, &failed);
	cJSON_Delete(json);
	if (failed)
		error_report(failed, &f);
	return text;
}
