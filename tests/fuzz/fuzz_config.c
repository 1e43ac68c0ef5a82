/*
 * What an administrator writes: the configuration, operations of everybody, users of other machines. Whatever a file says, it is read, or refused with a sentence
 * that names it; what was read of a setting is written and read again as the same.
 */
#include "fuzz.h"

#include <unistd.h>
#include <sys/stat.h>

#include "daemon/base/config.h"
#include "daemon/base/operation_file.h"
#include "daemon/base/rules.h"
#include "daemon/base/str.h"
#include "daemon/gateway/gateway.h"

enum { PATH = 256 };

static char path[PATH];

static const char *written(const char *name, struct fuzz_bytes b) {
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
	f = fopen(path, "we");
	claim(f && fwrite(b.at, 1, fuzz_left(&b), f) == fuzz_left(&b) && !fclose(f), "%s is not written", path);
	return path;
}

static void refused(int r, const struct fault *f) {
	claim(r >= 0 && f->code == r && strstr(f->text, path), "%d, and the sentence \"%s\"", r, f->text);
}

static void try_config(struct fuzz_bytes b) {
	static struct config c;
	static struct config_origins o;
	struct config_source s = { .file = written("fusiond.conf", b) };
	struct rules rules = { 0 };
	struct fault f = { 0 };
	int r = config_load_told(&c, &o, &rules, &s, &f);

	if (r)
		refused(r, &f);
	for (unsigned i = 0; i < rules.count; i++)
		claim(rules_find(&rules, &(struct rule_subject){ .uid = rules.rule[i].group ? 1 : rules.rule[i].id, .group = &rules.rule[i].id, .groups = 1 },
			      rules.rule[i].setting), "a rule is not found");
	if (!r)
		rules_apply(&rules, &(struct rule_subject){ .uid = 0 }, &c);
	rules_clear(&rules);
}

static void try_operations(struct fuzz_bytes b) {
	struct operation_source *list = NULL;
	char folder[PATH];

	snprintf(folder, sizeof folder, "%s/operations", fuzz_folder());
	mkdir(folder, 0700);
	written("operations/a.op", b);
	claim(!operation_files_read(folder, &list), "no memory");
	for (const struct operation_source *s = list; s; s = s->next) {
		if (s->fault.code)
			refused(s->fault.code, &s->fault);
		claim(s->fault.code || *s->name, "a definition without a name");
		claim(s->fault.code || s->arity <= EXPR_OPERANDS, "an arity of %u", s->arity);
		claim(operation_source_equal(s, s) && operation_source_hash(s) == operation_source_hash(s), "it is another than itself");
	}
	operation_sources_free(list);
}

static void try_users(struct fuzz_bytes b) {
	struct fault f = { 0 };
	int r = users_check(written("users", b), &f);

	if (r)
		refused(r, &f);
}

void fuzz_one(struct fuzz_bytes *b) {
	static void (*const tries[])(struct fuzz_bytes b) = { try_config, try_operations, try_users };
	unsigned which = fuzz_below(b, sizeof tries / sizeof *tries);

	tries[which](*b);
}
