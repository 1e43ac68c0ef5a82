/* Between libFuzzer and a target; see fuzz.h. */
#include "fuzz.h"

#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "daemon/base/log.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void fuzz_claim_failed(const char *file, int line, const char *format, ...) {
	va_list arguments;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	abort();
}

static char folder[64];

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
	(void)s;
	(void)kind;
	(void)at;
	return remove(path);
}

static void remove_folder(void) {
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
	if (*folder)
		return folder;
	snprintf(folder, sizeof folder, "/tmp/fuzz-XXXXXX");
	if (!mkdtemp(folder))
		abort();
	atexit(remove_folder);
	return folder;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN);
	log_open("fuzz");
	/* What is said of hostile bytes at will is no news. */
	if (!getenv("FUZZ_LOG"))
		log_set_level(LOG_LEVEL_ERROR);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct fuzz_bytes b = { data, data + size };

	fuzz_one(&b);
	return 0;
}
