/*
 * The sessions of all engines that the caller may see, gathered and sorted; for clients and top.
 */
#pragma once

#include "client/fusionctl/control.h"
#include "client/fusionctl/print.h"

/* *jsonp, to be deleted: an array of objects as CLIENTS answers them, with `engine`, `user` and `command`. sort: a column or NULL. */
int clients_ask(const struct control *c, cJSON **jsonp, struct fault *f) FAULT_MUST_USE;
/* Largest first, names in their order. */
cJSON *clients_sort(cJSON *clients, const char *column);
/* The columns, and one row of each client. */
void clients_table(struct print_table *t, const cJSON *clients);
enum {
	CLIENTS_COLUMNS = 9,
};
/* The columns' names, as --sort takes them. */
extern const char *const clients_columns[CLIENTS_COLUMNS];
