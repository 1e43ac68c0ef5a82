/* fusiond --detach: the daemon goes to the background once it serves. */
#pragma once

/*
 * Returns in a process of its own session, with its words in the file `log` and no descriptor of its parent's. The parent waits, and
 * ends: 0 once the daemon serves (see notify_open()), else with the last line of the log on standard error.
 * The descriptor that tells it, or -1 with the cause on standard error.
 */
int detach(const char *log);
