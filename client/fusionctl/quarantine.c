/* fusionctl quarantine: the graphs and users that ended engines. Asked at the door itself, so that it works while an engine is down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/control.h"
#include "client/fusionctl/print.h"
#include "client/json.h"

static void print_graph(const cJSON *g) {
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];

	printf("%s  user %.0f, %s, ended %s, %s for %s, on %s\n", json_text(g, "graph"), json_number(g, "uid"),
		print_counted(json_number(g, "operations"), "operation", a), print_counted(json_number(g, "ended"), "engine", b),
		cJSON_IsTrue(json_item(g, "refused")) ? "refused" : "runs alone", print_seconds(json_number(g, "expires_s"), c),
		json_text(g, "device"));
}

static void print_user(const cJSON *u) {
	char text[PRINT_TEXT];

	printf("user %.0f  graphs ended %s, %.0f of them alone", json_number(u, "uid"), print_counted(json_number(u, "ended"), "engine", text),
		json_number(u, "ended_alone"));
	if (cJSON_IsTrue(json_item(u, "refused")))
		printf(", refused for %s", print_seconds(json_number(u, "expires_s"), text));
	printf("\n");
}

static void print_graphs(const cJSON *json) {
	const cJSON *g;

	if (!cJSON_GetArraySize(json_item(json, "graphs")))
		printf("no graph is suspected of having ended an engine\n");
	cJSON_ArrayForEach(g, json_item(json, "graphs"))
		print_graph(g);
	cJSON_ArrayForEach(g, json_item(json, "users"))
		print_user(g);
}

int quarantine_command(const struct control *c) {
	bool lists = !c->word[0] || !strcmp(c->word[0], "list");
	char *text = NULL;
	struct fault f;
	int r = control_ask_quarantine(c->socket, !lists, &text, &f);

	if (!r && (lists || c->json))
		r = control_show(c, text, print_graphs, &f);
	free(text);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}
