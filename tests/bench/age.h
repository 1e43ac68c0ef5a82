/* What a daemon's age costs; see age.c. 0, or -1 with a sentence on standard error. */
#pragma once

#include <signal.h>
#include <stdbool.h>

int age(const char *fusiond, bool json, const char *const *part, int parts, const volatile sig_atomic_t *stop);
/* Is it a number of kernels? */
bool age_is_part(const char *name);
