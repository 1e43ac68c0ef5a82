/* What a program's shared object exports: its main(), which the Makefile renames. */
#include "sim.h"

extern int program_main(int argc, char **argv);

SIM_API sim_entry_function sim_entry;

int sim_entry(int argc, char **argv) {
	return program_main(argc, argv);
}
