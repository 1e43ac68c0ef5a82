/* daemon/base/config: one table, four sources, and sentences that say where a value stood. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/rules.h"
#include "daemon/base/traits.h"
#include "tests/suite.h"

static char path[64];

static void write_file(const char *text) {
	FILE *file;
	int fd;

	strcpy(path, "/tmp/test_config_XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	file = fdopen(fd, "w");
	fputs(text, file);
	fclose(file);
}

static int load(struct config *c, struct config_source *s, struct fault *f) {
	s->file = path;
	return config_load(c, s, f);
}

static void remove_file(void) {
	unlink(path);
	unsetenv("FUSIOND_FUSION_WINDOW_US");
	unsetenv("FUSIOND_DOOR_MODE");
}

START_TEST(every_standard_value_reads_as_its_own_row_says) {
	struct config c;
	struct fault f;

	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		char name[CONFIG_TEXT];

		snprintf(name, sizeof name, "%s.%s", s->section, s->name);
		config_standard(&c);
		ck_assert_msg(config_set(&c, name, s->standard, &f) == 0, "%s: %s", name, f.text);
		ck_assert_ptr_eq(config_find(name, strlen(name)), s);
	}
}
END_TEST

START_TEST(every_value_prints_as_text_that_reads_back) {
	struct config c, d;

	config_standard(&c);
	config_standard(&d);
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		struct str text = { 0 };
		char name[CONFIG_TEXT];
		struct fault f;

		snprintf(name, sizeof name, "%s.%s", s->section, s->name);
		config_print(&c, s, &text);
		ck_assert_msg(config_set(&d, name, str_text(&text), &f) == 0, "%s", f.text);
		str_free(&text);
	}
	ck_assert_mem_eq(&c, &d, sizeof c);
}
END_TEST

START_TEST(every_pattern_has_a_switch) {
	struct config_source s = { 0 };
	struct config c;
	struct fault f;

	config_standard(&c);
	for (enum pattern p = 1; p < PATTERN_COUNT; p++)
		ck_assert_uint_eq(c.fusion_pattern[p], UINT64_MAX);
	write_file("[fusion]\npattern.linear = off\npattern.horizontal = gpu\n");
	setenv("FUSIOND_FUSION_PATTERN_ATTENTION", "cpu", 1);
	ck_assert_int_eq(load(&c, &s, &f), 0);
	unsetenv("FUSIOND_FUSION_PATTERN_ATTENTION");
	ck_assert_uint_eq(c.fusion_pattern[PATTERN_linear], 0);
	ck_assert_uint_eq(c.fusion_pattern[PATTERN_horizontal], DEVICES_OF(STRATEGY_GPU));
	ck_assert_uint_eq(c.fusion_pattern[PATTERN_attention], DEVICES_OF(STRATEGY_CPU));
	ck_assert_uint_eq(c.fusion_pattern[PATTERN_linear_residual], UINT64_MAX);
	remove_file();
}
END_TEST

START_TEST(file_then_environment_then_flags_and_the_later_wins) {
	struct config_source s = { 0 };
	struct config c;
	struct fault f;

	write_file("[fusion]\nwindow_us = 1ms\nwindow_ops = 7\n[door]\nmode = 0600\n[limits]\nuser_bytes = "
		   "2G\n");
	setenv("FUSIOND_FUSION_WINDOW_US", "2ms", 1);
	setenv("FUSIOND_DOOR_MODE", "0640", 1);
	ck_assert_int_eq(config_flag(&s, "fusion.window_us=3ms"), 0);
	ck_assert_int_eq(load(&c, &s, &f), 0);
	ck_assert_uint_eq(c.fusion_window_us, 3000);
	ck_assert_uint_eq(c.door_mode, 0640);
	ck_assert_uint_eq(c.fusion_window_ops, 7);
	ck_assert_uint_eq(c.limits_user_bytes, UINT64_C(2) << 30);
	remove_file();
}
END_TEST

static void refused(const char *text, int code, const char *where, const char *what) {
	struct config_source s = { 0 };
	struct config c;
	struct fault f = { 0 };

	write_file(text);
	ck_assert_int_eq(load(&c, &s, &f), code);
	ck_assert_msg(strstr(f.text, path) != NULL, "%s", f.text);
	ck_assert_msg(strstr(f.text, where) != NULL, "%s does not say %s", f.text, where);
	ck_assert_msg(strstr(f.text, what) != NULL, "%s does not say %s", f.text, what);
	remove_file();
}

START_TEST(a_bad_value_is_refused_with_its_file_and_line) {
	refused("# one\n\n[fusion]\nwindow_us = soon\n", FAULT_ARGUMENT, ":4:", "fusion.window_us is 'soon'");
	refused("[door]\nmode = 0999\n", FAULT_ARGUMENT, ":2:", "door.mode");
	refused("[fusion]\nenabled = perhaps\n", FAULT_ARGUMENT, ":2:", "yes or no");
}
END_TEST

START_TEST(an_unknown_name_is_refused_with_its_file_and_line) {
	refused("[fusion]\nwindow = 3\n", FAULT_ARGUMENT, ":2:", "there is no setting fusion.window");
	refused("[fusion]\nwindow_su = 3\n", FAULT_ARGUMENT, ":2:", "do you mean fusion.window_us?");
	refused("[fusion]\npattern.liner = no\n", FAULT_ARGUMENT, ":2:", "do you mean fusion.pattern.linear?");
	refused("[user:root]\nfusion.enable = no\n", FAULT_ARGUMENT, ":2:", "do you mean fusion.enabled?");
	refused("[nothing]\nhere = 3\n", FAULT_ARGUMENT, ":2:", "nothing.here");
}
END_TEST

START_TEST(a_line_that_is_no_setting_is_refused) {
	refused("[fusion]\nthis is no setting\n", FAULT_SYNTAX, ":2:", "[section]");
}
END_TEST

START_TEST(a_value_beyond_its_limits_is_refused_with_them) {
	refused("[fusion]\nwindow_ops = 0\n", FAULT_ARGUMENT, ":2:", "the least is 1");
	refused("[device]\nbuilders = 65\n", FAULT_ARGUMENT, ":2:", "the most 64");
}
END_TEST

START_TEST(a_number_that_overflows_is_refused) {
	struct config c;
	struct fault f;

	config_standard(&c);
	ck_assert_int_eq(config_set(&c, "limits.user_bytes", "99999999999999999999", &f), FAULT_ARGUMENT);
	ck_assert_int_eq(config_set(&c, "limits.user_bytes", "99999999999T", &f), FAULT_ARGUMENT);
	ck_assert_int_eq(config_set(&c, "limits.user_bytes", "-1", &f), FAULT_ARGUMENT);
	ck_assert_int_eq(config_set(&c, "limits.user_bytes", "", &f), FAULT_ARGUMENT);
}
END_TEST

START_TEST(a_text_that_is_too_long_is_refused) {
	char long_path[CONFIG_TEXT + 10];
	struct config c;
	struct fault f;

	memset(long_path, 'a', sizeof long_path);
	long_path[sizeof long_path - 1] = 0;
	config_standard(&c);
	ck_assert_int_eq(config_set(&c, "door.socket", long_path, &f), FAULT_ARGUMENT);
}
END_TEST

START_TEST(a_bad_variable_and_a_bad_flag_are_named) {
	struct config_source s = { 0 };
	struct config c;
	struct fault f;

	write_file("");
	setenv("FUSIOND_FUSION_WINDOW_US", "x", 1);
	ck_assert_int_eq(load(&c, &s, &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "FUSIOND_FUSION_WINDOW_US"));
	unsetenv("FUSIOND_FUSION_WINDOW_US");
	ck_assert_int_eq(config_flag(&s, "fusion.enabled"), 0);
	ck_assert_int_eq(load(&c, &s, &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "section.name=value"));
	remove_file();
}
END_TEST

START_TEST(a_named_file_that_is_missing_is_refused) {
	struct config_source s = { .file = "/nonexistent/fusiond.conf" };
	struct config c;
	struct fault f;

	ck_assert_int_eq(config_load(&c, &s, &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "/nonexistent/fusiond.conf"));
}
END_TEST

START_TEST(the_service_managers_folders_come_first) {
	struct config c;
	struct fault f;

	config_standard(&c);
	setenv("RUNTIME_DIRECTORY", "/run/here", 1);
	setenv("CACHE_DIRECTORY", "/var/cache/here", 1);
	ck_assert_int_eq(config_resolve(&c, &f), 0);
	ck_assert_str_eq(c.door_socket, "/run/here/door");
	ck_assert_str_eq(c.cache_dir, "/var/cache/here");
	unsetenv("RUNTIME_DIRECTORY");
	unsetenv("CACHE_DIRECTORY");
}
END_TEST

START_TEST(help_names_every_setting) {
	struct str text = { 0 };

	config_help(&text);
	for (unsigned i = 0; i < config_settings(); i++) {
		char name[CONFIG_TEXT];

		snprintf(name, sizeof name, "%s.%s=", config_setting(i)->section, config_setting(i)->name);
		ck_assert_ptr_nonnull(strstr(str_text(&text), name));
	}
	str_free(&text);
}
END_TEST

/* ---- users and groups ---- */

static struct fault f;

/* Any value that differs from the standard. */
static const char *other_value(const struct setting *s) {
	switch (s->type) {
	case SETTING_BOOL:
	case SETTING_DEVICES:
		return strcmp(s->standard, "no") != 0 ? "no" : "yes";
	case SETTING_TEXT:
		return "hold=least";
	default:
		return strcmp(s->standard, "1") != 0 ? "1" : "2";
	}
}

/* By the table, for all there are and will be: where it applies says who may have it. */
START_TEST(what_applies_to_users_may_be_said_of_them_and_nothing_else) {
	const struct rule_subject who = { .uid = 1234 };
	struct rules rules = { 0 };
	struct config c, general;
	unsigned said = 0;

	config_standard(&c);
	general = c;
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		bool may = s->applies == SETTING_USER || s->applies == SETTING_SESSION;
		size_t size = setting_size(s);
		const char *value = other_value(s);
		char name[CONFIG_TEXT], number[CONFIG_TEXT];
		int r;

		snprintf(number, sizeof number, "%llu", (unsigned long long)s->min + 1);
		if (s->type == SETTING_COUNT && s->min > 1)
			value = number;
		snprintf(name, sizeof name, "user:1234.%s.%s", s->section, s->name);
		r = rules_set(&rules, name, value, "here", &f);
		ck_assert_msg(r == (may ? 0 : FAULT_ARGUMENT), "%s=%s: %d %s", name, value, r, r ? f.text : "");
		said += may;
		rules_apply(&rules, &who, &c);
		ck_assert_msg(may == (memcmp((char *)&c + s->offset, (char *)&general + s->offset, size) != 0), "%s", name);
	}
	ck_assert_uint_eq(rules_apply(&rules, &who, &c), said);
	ck_assert_uint_gt(said, 20);
	rules_clear(&rules);
}
END_TEST

static uint64_t weight_of(const struct rules *r, uid_t uid, gid_t one, gid_t other) {
	const gid_t group[] = { one, other };
	const struct rule_subject who = { .uid = uid, .group = group, .groups = 2 };
	struct config c;

	config_standard(&c);
	c.fusion_weight = 50;
	rules_apply(r, &who, &c);
	return c.fusion_weight;
}

START_TEST(a_user_goes_over_groups_and_the_last_line_over_others) {
	struct rules r = { 0 };

	ck_assert_int_eq(rules_add(&r, "user:7", "fusion.weight", "1", "a", &f), 0);
	ck_assert_int_eq(rules_add(&r, "group:1000", "fusion.weight", "2", "b", &f), 0);
	ck_assert_int_eq(rules_add(&r, "group:2000", "fusion.weight", "3", "c", &f), 0);
	ck_assert_uint_eq(weight_of(&r, 7, 1000, 2000), 1);
	ck_assert_uint_eq(weight_of(&r, 8, 1000, 3000), 2);
	ck_assert_uint_eq(weight_of(&r, 8, 1000, 2000), 3);
	ck_assert_uint_eq(weight_of(&r, 8, 2000, 1000), 3);
	ck_assert_uint_eq(weight_of(&r, 8, 3000, 4000), 50);
	/* A number is no name: user 1000 is not group 1000. */
	ck_assert_uint_eq(weight_of(&r, 1000, 3000, 4000), 50);
	ck_assert_int_eq(rules_add(&r, "group:1000", "fusion.weight", "4", "d", &f), 0);
	ck_assert_uint_eq(weight_of(&r, 8, 1000, 2000), 4);
	/* What was said before of the same is gone, so nothing grows however often it changes. */
	ck_assert_uint_eq(r.count, 3);
	rules_clear(&r);
}
END_TEST

START_TEST(names_with_points_are_cut_at_the_setting) {
	struct rules r = { 0 };

	ck_assert_int_eq(rules_set(&r, "user:no.such.user.fusion.pattern.linear", "no", "here", &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "no user \"no.such.user\""));
	ck_assert_int_eq(rules_set(&r, "user:7.fusion.pattern.linear", "no", "here", &f), 0);
	ck_assert_int_eq(rules_set(&r, "user:7", "no", "here", &f), FAULT_ARGUMENT);
	ck_assert_int_eq(rules_set(&r, "user:.fusion.weight", "1", "here", &f), FAULT_ARGUMENT);
	ck_assert_int_eq(rules_set(&r, "user:4294967295.fusion.weight", "1", "here", &f), FAULT_ARGUMENT);
	ck_assert_int_eq(rules_set(&r, "user:-1.fusion.weight", "1", "here", &f), FAULT_ARGUMENT);
	ck_assert_uint_eq(r.count, 1);
	rules_clear(&r);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("config");
	TCase *tests = tcase_create("config");

	tcase_add_test(tests, every_standard_value_reads_as_its_own_row_says);
	tcase_add_test(tests, every_value_prints_as_text_that_reads_back);
	tcase_add_test(tests, every_pattern_has_a_switch);
	tcase_add_test(tests, file_then_environment_then_flags_and_the_later_wins);
	tcase_add_test(tests, a_bad_value_is_refused_with_its_file_and_line);
	tcase_add_test(tests, an_unknown_name_is_refused_with_its_file_and_line);
	tcase_add_test(tests, a_line_that_is_no_setting_is_refused);
	tcase_add_test(tests, a_value_beyond_its_limits_is_refused_with_them);
	tcase_add_test(tests, a_number_that_overflows_is_refused);
	tcase_add_test(tests, a_text_that_is_too_long_is_refused);
	tcase_add_test(tests, a_bad_variable_and_a_bad_flag_are_named);
	tcase_add_test(tests, a_named_file_that_is_missing_is_refused);
	tcase_add_test(tests, the_service_managers_folders_come_first);
	tcase_add_test(tests, help_names_every_setting);
	tcase_add_test(tests, what_applies_to_users_may_be_said_of_them_and_nothing_else);
	tcase_add_test(tests, a_user_goes_over_groups_and_the_last_line_over_others);
	tcase_add_test(tests, names_with_points_are_cut_at_the_setting);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
