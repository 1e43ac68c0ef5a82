/* The demonstration's private daemon is the benchmark's too: one source, compiled into each program. */
#include "client/examples/demo/private_daemon.c"
