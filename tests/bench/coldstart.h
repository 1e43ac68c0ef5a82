/* What the parts of the coldstart workload share; see coldstart.c. */
#pragma once

#include "bench.h"

enum {
	COLDSTART_CLIENTS = 4,
	COLDSTART_EACH = 50,
	COLDSTART_GRAPHS = COLDSTART_CLIENTS * COLDSTART_EACH,
	COLDSTART_ROWS = 256,
	COLDSTART_COLUMNS = 256,
	COLDSTART_BYTES = COLDSTART_ROWS * COLDSTART_COLUMNS * (int)sizeof(float),
};

/* What a client is told: goes over its graphs once more. It answers by a pass; at the end of its input it ends. */
#define COLDSTART_AGAIN 'a'

/* The part of the workload that is no workload's first result. */
#define COLDSTART_NEW_GRAPHS "new_graphs"

struct coldstart_pass {
	double seconds[COLDSTART_EACH];      /* of each graph's call */
	int differ;                          /* results of other bits than the first ones */
};

struct coldstart_inputs {
	fusion_array *x, *y;                 /* [ROWS, COLUMNS] */
	fusion_array *w;                     /* [COLUMNS, COLUMNS] */
	fusion_array *b;                     /* [COLUMNS] */
};

/* The result, [ROWS, COLUMNS], of a graph; each number below COLDSTART_GRAPHS is a graph of another structure. */
fusion_array *coldstart_graph(int number, const struct coldstart_inputs *in);
