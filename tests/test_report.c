/* client/report: pages and pictures of explanations that nobody's daemon told: graphs of any form, text of any bytes, JSON that makes no sense. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUSION_NO_PLACES
#include "client/fusion.h"
#include "tests/suite.h"

static unsigned long long state = 1;

/* One in [0, below). */
static unsigned any(unsigned below) {
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(state >> 33) % below;
}

static unsigned count_of(const char *text, const char *what) {
	unsigned count = 0;

	for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
		count++;
	return count;
}

/* Of so many operations, each of which reads up to three others from `reach` before to as many behind it, in kernels of about eight. */
static char *random_explanation(unsigned nodes, unsigned reach) {
	unsigned kernels = nodes / 8 + 1;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(to);
	fprintf(to, "{\"kernels\":[");
	for (unsigned i = 0; i < kernels; i++)
		fprintf(to, "%s{\"root\":\"map\",\"estimated_us\":%u,\"operations\":[{\"node\":%u,\"op\":\"exp\",\"type\":\"f32[]\"}]}", i ? "," : "", any(90), any(nodes));
	fprintf(to, "],\"nodes\":[");
	for (unsigned i = 0; i < nodes; i++) {
		fprintf(to, "%s{\"id\":%u,\"node\":%u,\"op\":\"%s\",\"type\":\"f32[4]\",\"kernel\":%u,\"inputs\":[", i ? "," : "", i, i, any(5) ? "exp" : "fill",
			any(4) ? i / 8 + 1 : 0);
		for (unsigned k = any(4); k; k--)
			fprintf(to, "%d%s", (int)i - (int)any(2 * reach) + (int)reach, k > 1 ? "," : "");
		fprintf(to, "]}");
	}
	fprintf(to, "]}");
	ck_assert_int_eq(fclose(to), 0);
	return text;
}

/* Every operation and kernel is drawn once, whatever the lines do. */
static void expect_drawn(unsigned nodes, unsigned reach) {
	char *explanation = random_explanation(nodes, reach), *page = fusion_report(explanation, "any", FUSION_REPORT_PAGE);

	ck_assert_msg(page, "%s", fusion_error());
	ck_assert_uint_eq(count_of(page, "id=\"op-"), nodes);
	ck_assert_uint_eq(count_of(page, "id=\"box-"), nodes / 8 + 1);
	ck_assert_uint_eq(count_of(page, "id=\"kernel-"), nodes / 8 + 1);
	ck_assert_ptr_null(strstr(page, "nan"));
	ck_assert_ptr_null(strstr(page, "inf"));
	free(page);
	free(explanation);
}

START_TEST(every_graph_is_drawn_with_circles_and_without) {
	for (unsigned round = 0; round < 60; round++)
		expect_drawn(1 + any(round < 50 ? 60 : 500), 1 + any(20));
	expect_drawn(2000, 5);
	/* More lines across layers than anybody follows: they are straight. */
	expect_drawn(2000, 2000);
}
END_TEST

/* A byte of it turned into any other: refused by a sentence, or drawn. */
START_TEST(no_explanation_is_too_strange) {
	for (unsigned round = 0; round < 400; round++) {
		char *explanation = random_explanation(30, 6), *page;

		for (unsigned i = 1 + any(4); i; i--)
			explanation[any((unsigned)strlen(explanation))] = (char)(1 + any(255));
		page = fusion_report(explanation, "any", (enum fusion_report_form)any(3));
		ck_assert(page || *fusion_error());
		free(page);
		free(explanation);
	}
}
END_TEST

/* An explanation of one kernel of one operation of this name. */
static char *page_of(const char *name) {
	char text[512];

	snprintf(text, sizeof text, "{\"kernels\":[{\"root\":\"%s\",\"source\":\"%s\"}],\"nodes\":[{\"id\":0,\"op\":\"%s\",\"type\":\"\",\"at\":\"%s\",\"kernel\":1}]}",
		name, name, name, name);
	return fusion_report(text, name, FUSION_REPORT_PAGE);
}

START_TEST(no_text_becomes_an_element) {
	static const char *const names[] = { "<b>", "a&lt;b", "'x' onload=1", "\\\"><svg>", "\\u202eabc", "\\u0001", "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80",
		"\xf4\x90\x80\x80", "\xe2\x80", "]]>" };

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		char *page = page_of(names[i]), *plain = page_of("x");

		ck_assert_msg(page, "%s", fusion_error());
		for (const char *c = "<>\""; *c; c++)
			ck_assert_msg(count_of(page, (char[]){ *c, '\0' }) == count_of(plain, (char[]){ *c, '\0' }), "%s brings %c", names[i], *c);
		for (const char *c = page; *c; c++)
			ck_assert_msg((*c >= ' ' && *c < 0x7f) || *c == '\n' || *c == '\t', "%s brings the byte %d", names[i], *c);
		free(page);
		free(plain);
	}
}
END_TEST

/* Marks, embeddings and isolates of the direction of writing, separators, what has no width. */
START_TEST(no_text_turns_or_hides_what_stands_about_it) {
	static const unsigned codes[] = { 0x61c, 0x200e, 0x200f, 0x202a, 0x202e, 0x2066, 0x2069, 0x2028, 0x2029, 0x85, 0xad, 0x200b, 0x200d, 0x2060, 0xfeff };

	for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
		char name[16], *page;

		snprintf(name, sizeof name, "a\\u%04xb", codes[i]);
		page = page_of(name);
		ck_assert_msg(page, "%s", fusion_error());
		snprintf(name, sizeof name, "&#%u;", codes[i]);
		ck_assert_msg(!strstr(page, name) && strstr(page, "a&#65533;b"), "U+%04x", codes[i]);
		free(page);
	}
}
END_TEST

START_TEST(what_is_no_explanation_is_refused) {
	static const char *const texts[] = { "", "5", "[]", "{", "null" };

	for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
		ck_assert_ptr_null(fusion_report(texts[i], NULL, FUSION_REPORT_PAGE));
		ck_assert_ptr_nonnull(strstr(fusion_error(), "is not what explain answers"));
	}
	ck_assert_ptr_null(fusion_report(NULL, NULL, FUSION_REPORT_PAGE));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "no explanation is given"));
	ck_assert_ptr_null(fusion_report("{}", NULL, (enum fusion_report_form)9));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "there is no form 9"));
}
END_TEST

START_TEST(nothing_is_a_page_too) {
	char *page = fusion_report("{}", NULL, FUSION_REPORT_PAGE), *session = fusion_report("{\"graphs\":[],\"name\":\"x\"}", NULL, FUSION_REPORT_PAGE);

	ck_assert_ptr_nonnull(strstr(page, "No kernel runs"));
	ck_assert_ptr_nonnull(strstr(session, "It has run nothing"));
	free(page);
	free(session);
}
END_TEST

int main(void) {
	const TTest *const tests[] = { every_graph_is_drawn_with_circles_and_without, no_explanation_is_too_strange, no_text_becomes_an_element,
		no_text_turns_or_hides_what_stands_about_it, what_is_no_explanation_is_refused, nothing_is_a_page_too };
	Suite *s = suite_create("report");
	TCase *c = tcase_create("report");

	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return suite_run(s);
}
