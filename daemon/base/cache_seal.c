/* See cache_seal.h. A seal is a text, a line a file: its checksum, a space, its path in the entry. */
#include "cache_seal.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cache_entry.h"
#include "str.h"

enum {
	SEAL_PIECE = 65536,
};

/* By which the seal has its name in the entry. */
static const struct cache_key seal_key = { 1, 0 };
static const char seal_name[] = "00000000000000000000000000000001";

/* Left out: what drivers write whenever they look, and what is text for people. */
static const char *const bookkeeping[] = { "last_accessed", "build.log" };

static bool is_sealed_file(const char *name) {
	for (size_t i = 0; i < sizeof bookkeeping / sizeof *bookkeeping; i++)
		if (!strcmp(name, bookkeeping[i]))
			return false;
	/* Nor the seal, or one that is being written. */
	return strncmp(name, seal_name, sizeof seal_name - 1) != 0;
}

/* ---- walking ---- */

/* path: below the entry. 0 goes on. */
typedef int seal_visit(void *user, const FTSENT *file, const char *path);

static int visit(const FTSENT *f, size_t skip, seal_visit *function, void *user) {
	if (f->fts_info == FTS_F && is_sealed_file(f->fts_name))
		return function(user, f, f->fts_path + skip);
	/* Whatever is no file and no folder a driver has not made. */
	return f->fts_info == FTS_DNR || f->fts_info == FTS_ERR || f->fts_info == FTS_NS ? -f->fts_errno : 0;
}

/* The entry may be a link to a folder (cache_room.c). */
static int walk(const char *entry, seal_visit *function, void *user) {
	char *const paths[] = { (char *)(uintptr_t)entry, NULL };
	FTS *all = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	const FTSENT *f;
	int r = all ? 0 : -errno;

	while (!r && (f = fts_read(all)))
		r = visit(f, strlen(entry) + 1, function, user);
	if (all)
		fts_close(all);
	return r;
}

/* ---- checksums ---- */

static int add_pieces(int fd, XXH3_state_t *state) {
	unsigned char piece[SEAL_PIECE];
	ssize_t n;

	while ((n = read(fd, piece, sizeof piece)))
		if (n > 0)
			XXH3_128bits_update(state, piece, (size_t)n);
		else if (errno != EINTR)
			return -errno;
	return 0;
}

static int add_line(struct str *text, const FTSENT *file, const char *path) {
	XXH3_state_t state;
	XXH128_hash_t h;
	int fd = open(file->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), r;

	if (fd < 0)
		return -errno;
	XXH3_128bits_reset(&state);
	r = add_pieces(fd, &state);
	close(fd);
	h = XXH3_128bits_digest(&state);
	str_printf(text, "%016" PRIx64 "%016" PRIx64 " %s\n", h.high64, h.low64, path);
	return r;
}

/* ---- checking ---- */

struct seal {
	const char *text;
	bool removes;                /* what the seal does not know */
	size_t right;                /* lines of it that were found as they are */
};

/* Is there such a line? Or, of path alone, one of that file? */
static bool has_line(const char *text, const char *line) {
	size_t length = strlen(line);

	for (const char *at = text; (at = strstr(at, line)); at++)
		if ((at == text || at[-1] == '\n' || line[0] == ' ') && at[length - 1] == '\n')
			return true;
	return false;
}

static bool knows(const char *text, const char *path) {
	struct str line = { 0 };
	bool known;

	str_printf(&line, " %s\n", path);
	known = !str_finish(&line) && has_line(text, str_text(&line));
	str_free(&line);
	return known;
}

static int check_file(void *user, const FTSENT *file, const char *path) {
	struct seal *s = user;
	struct str line = { 0 };
	int r;

	if (!knows(s->text, path))
		return s->removes && unlink(file->fts_accpath) ? -EBADMSG : 0;
	r = add_line(&line, file, path);
	if (!r)
		r = str_finish(&line);
	if (!r && !has_line(s->text, str_text(&line)))
		r = -EBADMSG;
	s->right += !r;
	str_free(&line);
	return r;
}

static size_t count_lines(const char *text) {
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Of malloc; a text that ends. */
static int load_seal(const char *entry, char **textp) {
	void *bytes = NULL;
	size_t size;
	int r = cache_entry_peek(entry, &seal_key, &bytes, &size);

	/* The entry is the folder: a file there is none. */
	if (r)
		return r == -ENOTDIR || r == -ELOOP ? -ENOENT : r;
	if (!memchr(bytes, 0, size)) {
		free(bytes);
		return -EBADMSG;
	}
	*textp = bytes;
	return 0;
}

static int check(const char *entry, bool removes) {
	struct seal s = { .removes = removes };
	char *text = NULL;
	int r = load_seal(entry, &text);

	if (r)
		return r;
	s.text = text;
	r = walk(entry, check_file, &s);
	if (!r && s.right != count_lines(text))
		r = -EBADMSG;
	free(text);
	return r;
}

int cache_seal_check(const char *entry) {
	return check(entry, true);
}

int cache_seal_look(const char *entry) {
	return check(entry, false);
}

/* ---- sealing ---- */

struct renewal {
	const char *was;
	struct timespec since;
	struct str is;
	bool changed;
};

static bool is_fresh(const struct stat *file, const struct timespec *since) {
	const struct timespec *made = &file->st_mtim;

	return made->tv_sec > since->tv_sec || (made->tv_sec == since->tv_sec && made->tv_nsec >= since->tv_nsec);
}

static int renew_file(void *user, const FTSENT *file, const char *path) {
	struct renewal *n = user;
	size_t begin = n->is.length;
	int r = add_line(&n->is, file, path);

	if (!r)
		r = str_finish(&n->is);
	if (r || has_line(n->was, str_text(&n->is) + begin))
		return r;
	n->changed = true;
	return is_fresh(file->fts_statp, &n->since) ? 0 : -EBADMSG;
}

static int write_seal(const char *entry, const struct str *text) {
	if (!text->length)
		return -ENOENT;
	/* With the zero at the end. */
	return cache_entry_write(entry, &seal_key, str_text(text), text->length + 1);
}

int cache_seal_renew(const char *entry, const struct timespec *since) {
	struct renewal n = { .since = *since };
	char *text = NULL;
	bool none = load_seal(entry, &text);
	int r;

	n.was = none ? "" : text;
	r = walk(entry, renew_file, &n);
	if (!r && (none || n.changed))
		r = write_seal(entry, &n.is);
	str_free(&n.is);
	free(text);
	return r;
}
