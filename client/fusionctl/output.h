/* Files that commands write: graph, report, trace. */
#pragma once

#include "client/fusionctl/control.h"

/*
 * FAULT_ARGUMENT where writing would end what nobody meant to give: a text graph, and for a page (of HTML) what is there and is none; or where
 * the file is standard output, on which JSON is wanted.
 */
int output_refuse(const struct control *c, const char *path, bool page, struct fault *f) FAULT_MUST_USE;
/* control_fail(), and where the file could not be written that exit code. */
int output_fail(const struct control *c, int r, bool writing, const struct fault *f);
