/*
 * One process makes an array, another one computes with it where it lies, and writes an answer into it.
 *
 *     share
 *
 * The token goes over a pipe: whoever has it has the array. The second process is started before the first opens a
 * context, because contexts do not survive fork().
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fusion.h>

enum {
	ELEMENTS = 1 << 20,
	LIFETIME_MS = 60000,
};

static int fail(const char *who) {
	fprintf(stderr, "%s: %s\n", who, fusion_error());
	return EXIT_FAILURE;
}

/* Computes the mean in place of the other process, and puts it into the first element. */
static int reader(int pipe_end) {
	struct fusion_token token;
	fusion_context *c;
	fusion_array *a, *m;
	float mean, *memory;

	if (read(pipe_end, &token, sizeof token) != sizeof token || fusion_open(&c, NULL))
		return fail("reader");
	a = fusion_import(c, &token);
	m = fusion_mean(a, 0, NULL, false);
	if (fusion_read(m, &mean, sizeof mean) || fusion_map(a, FUSION_MAP_WRITE, (void **)&memory))
		return fail("reader");
	memory[0] = mean;
	fusion_unmap(a);
	if (fusion_sync(c))
		return fail("reader");
	fusion_release(m);
	fusion_release(a);
	fusion_close(c);
	return EXIT_SUCCESS;
}

static int writer(int pipe_end, pid_t other) {
	struct fusion_token token;
	fusion_context *c;
	fusion_array *a;
	float *memory;
	int status;

	if (fusion_open(&c, NULL))
		return fail("writer");
	a = fusion_arange(c, FUSION_F32, ELEMENTS, 0, 1);
	if (fusion_export(a, FUSION_SHARE_READ_WRITE, LIFETIME_MS, &token))
		return fail("writer");
	if (write(pipe_end, &token, sizeof token) != sizeof token || waitpid(other, &status, 0) != other || status)
		return EXIT_FAILURE;
	if (fusion_map(a, FUSION_MAP_READ, (void **)&memory))
		return fail("writer");
	printf("the mean of 0 to %d is %g\n", ELEMENTS - 1, (double)memory[0]);
	fusion_unmap(a);
	fusion_release(a);
	fusion_close(c);
	return EXIT_SUCCESS;
}

int main(void) {
	int ends[2];
	pid_t other;

	if (pipe(ends) || (other = fork()) < 0)
		return EXIT_FAILURE;
	if (!other)
		return reader(ends[0]);
	close(ends[0]);
	return writer(ends[1], other);
}
