/* Processes of this machine, by their number. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Has it ended? Also where its parent has not asked for it yet. False where that cannot be known. */
bool process_ended(pid_t pid);
