/* What watching the daemon costs its clients; see watched.c. 0, or -1 with a sentence on standard error. */
#pragma once

#include <signal.h>
#include <stdbool.h>

int watched(const char *fusiond, bool json, const volatile sig_atomic_t *stop);
