/*
 * The first inputs of a target, into a folder: for the planner the text graphs, as tests/fuzz/program.h has them, once for each
 * machine.
 *
 * usage: seeds TARGET FOLDER
 */
#include <dirent.h>

#include "tests/fuzz/program.h"

static int seed_leaf(struct graph *g, void *buffer, const struct tensor_type *t, const struct view *v, uint32_t *nodep);
static int seed_op(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr, uint32_t note, uint32_t *nodep,
	struct fault *f);

/* What makes a graph of a text is asked to make bytes as well. */
#define graph_leaf seed_leaf
#define graph_op seed_op
#include "tests/text_graph.h"
#undef graph_leaf
#undef graph_op

static struct str out;
static struct program program = { .out = &out };
static bool fits;

static void begin(unsigned op) {
	uint8_t b = (uint8_t)op;

	program_byte(&program, &b);
}

/* The newest value that is this node. */
static void put_ago(uint32_t node) {
	uint8_t ago = 0;

	while (ago < program.values && program.value[program.values - 1 - ago] != node)
		ago++;
	fits = fits && ago < program.values;
	program_byte(&program, &ago);
}

static void keep(uint32_t node) {
	fits = fits && program.values < PROGRAM_VALUES;
	program_keep(&program, node);
}

static int seed_leaf(struct graph *g, void *buffer, const struct tensor_type *t, const struct view *v, uint32_t *nodep) {
	struct op_attr a = { .dtype = t->dtype, .rank = t->rank };
	int r = graph_leaf(g, buffer, t, v, nodep);
	uint8_t form = 0;

	memcpy(a.dims, t->dims, sizeof a.dims);
	begin(OP_load);
	program_attr(&program, OP_load, &a);
	program_byte(&program, &form);
	keep(*nodep);
	return r;
}

static int seed_op(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr, uint32_t note, uint32_t *nodep,
	struct fault *f) {
	struct op_attr a = attr ? *attr : (struct op_attr){ 0 };
	int r = graph_op(g, op, arity, in, attr, note, nodep, f);
	uint8_t more = (uint8_t)(arity - op_least(op));

	if (r)
		return r;
	begin(op);
	if (op_least(op) != op_info(op)->arity)
		program_byte(&program, &more);
	for (unsigned i = 0; i < arity; i++)
		put_ago(in[i]);
	program_attr(&program, op, &a);
	keep(*nodep);
	return 0;
}

static void write_seed(const char *folder, const char *name, unsigned how) {
	char path[512];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s.%u", folder, name, how);
	file = fopen(path, "w");
	if (!file)
		abort();
	fputc((int)how, file);
	fwrite(out.text, 1, out.length, file);
	fclose(file);
}

static bool seed_graph(const char *path) {
	struct graph *g;
	struct fault f;
	struct text *t;
	bool made;

	if (text_load(path, &t, &f))
		return false;
	if (graph_new(&g))
		abort();
	str_clear(&out);
	program.g = g;
	program.values = 0;
	fits = true;
	made = !text_graph_make(t, g, &f);
	for (uint32_t i = 0; made && i < graph_outputs(g); i++) {
		begin(PROGRAM_OUTPUT);
		put_ago(graph_output_at(g, i)->node);
	}
	graph_free(g);
	text_free(t);
	return made && fits;
}

static int each_graph(const char *folder) {
	struct dirent **entry;
	int count = scandir("tests/graphs", &entry, NULL, alphasort), made = 0;

	for (int i = 0; i < count; i++) {
		char path[512];

		snprintf(path, sizeof path, "tests/graphs/%s", entry[i]->d_name);
		if (strstr(path, ".fz") && seed_graph(path)) {
			write_seed(folder, entry[i]->d_name, 96 + 8 + (unsigned)made % 5);
			write_seed(folder, entry[i]->d_name, 64 + 8 + (unsigned)(made + 2) % 5);
			made++;
		}
		free(entry[i]);
	}
	free(entry);
	fprintf(stderr, "%d text graphs\n", made);
	return made ? 0 : 1;
}

int main(int argc, char **argv) {
	if (argc != 3 || strcmp(argv[1], "plan") != 0)
		return 2;
	return each_graph(argv[2]);
}
