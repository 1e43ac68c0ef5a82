/* fusionctl report: what explain tells, of a text graph or the last graphs of a session, as a page for a browser. */
#include <stdlib.h>

#include "control.h"
#include "output.h"
#include "client/json.h"

#define REPORT_SCHEMA "fusionctl.report/1"

/* Sources that are too long for an answer are left out. */
static int ask(const struct control *c, char **textp, struct fault *f) {
	int r = control_explain(c, FUSION_EXPLAIN_NODES | FUSION_EXPLAIN_OWN_SOURCE, textp, f);

	return r == FAULT_LIMIT ? control_explain(c, FUSION_EXPLAIN_NODES, textp, f) : r;
}

static void tell(const struct control *c, const char *path) {
	cJSON *json, *files;

	if (!c->json)
		return;
	json = control_json(REPORT_SCHEMA);
	files = cJSON_AddArrayToObject(json, "files");
	cJSON_AddItemToArray(files, cJSON_CreateString(path));
	control_print_json(json);
}

int report_command(const struct control *c) {
	struct control asked = *c;
	const char *path = c->word[0];
	char *text = NULL, *page = NULL;
	struct fault f;
	bool writing;
	int r;

	asked.word[0] = c->word[1];
	asked.last = !asked.word[0];
	r = output_refuse(c, path, true, &f);
	if (!r)
		r = ask(&asked, &text, &f);
	if (!r) {
		page = fusion_report(text, asked.word[0] ? asked.word[0] : "What ran last", FUSION_REPORT_PAGE);
		r = page ? control_write(path, page, FAULT_FILE, &f) : text_library_fault(&f);
	}
	if (!r)
		tell(c, path);
	writing = page != NULL;
	free(page);
	free(text);
	return r ? output_fail(c, r, writing, &f) : FUSIONCTL_OK;
}
