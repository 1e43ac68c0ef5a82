/* daemon/serve: where there is no memory for a fault of its own, an array still has one. */
#include <check.h>
#include <stdlib.h>

#include "daemon/serve/handles.h"
#include "tests/suite.h"

/* The linker leads malloc() here, so that a test can make it fail. */
static bool refused;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size) {
	return refused ? NULL : __real_malloc(size);
}

START_TEST(an_array_has_a_fault_without_memory_for_one) {
	static const struct tensor_type type;
	struct fault f;
	struct array *a = array_new(&type);

	ck_assert_ptr_nonnull(a);
	fault_set(&f, FAULT_LOST, "it is gone");
	for (unsigned i = 0; i < 100; i++) {
		refused = true;
		array_poison(a, poison_new(&f, 1, 2));
		refused = false;
		ck_assert_ptr_nonnull(array_poisoned(a));
		ck_assert_int_eq(array_poisoned(a)->fault.code, FAULT_MEMORY);
	}
	array_poison(a, poison_new(&f, 1, 2));
	ck_assert_int_eq(array_poisoned(a)->fault.code, FAULT_LOST);
	array_unref(a);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("serve_poison");
	TCase *t = tcase_create("serve_poison");

	tcase_add_test(t, an_array_has_a_fault_without_memory_for_one);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
