/* protocol/ring: bytes through shared memory, between peers of whom one may lie. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/ring.h"
#include "tests/suite.h"

enum {
	SLOTS = 8,
	MOST = 100000,
	PROCESS_BYTES = 8 << 20,
};

/* The linker leads malloc() here, so that a test can make it fail. */
static size_t refused_from = SIZE_MAX;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size) {
	return size < refused_from ? __real_malloc(size) : NULL;
}

static void *memory;
static struct ring out, in;
static struct ring_frame frame;

static void setup(void) {
	memory = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	out = ring_requests(memory);
	in = ring_requests(memory);
	frame = (struct ring_frame){ .bytes = NULL };
}

static void teardown(void) {
	free(frame.bytes);
	munmap(memory, RING_BYTES);
}

static uint32_t room(void) {
	uint32_t n = 0;

	ck_assert_int_eq(ring_room(&out, &n), 0);
	return n;
}

static uint32_t left(void) {
	uint32_t n = 0;

	ck_assert_int_eq(ring_left(&in, &n), 0);
	return n;
}

static void publish(void) {
	ck_assert(!ring_publish(&out, RING_ANY_SLOT));
}

static int take(void) {
	return ring_take(&in, &frame, SLOTS, MOST, 0);
}

static void put_head(uint32_t slot, uint32_t size) {
	struct ring_head h = { .slot = slot, .size = size };

	ring_put(&out, &h, sizeof h);
	publish();
}

START_TEST(a_new_ring_is_empty_and_has_all_its_room) {
	ck_assert_uint_eq(room(), RING_REQUEST_BYTES);
	ck_assert_uint_eq(left(), 0);
	ck_assert_int_eq(take(), 0);
}
END_TEST

START_TEST(what_is_not_published_is_not_seen) {
	ring_put(&out, "abc", 3);
	ck_assert_uint_eq(left(), 0);
	publish();
	ck_assert_uint_eq(left(), 3);
}
END_TEST

START_TEST(a_full_ring_has_no_room_until_it_is_read) {
	static char bytes[RING_REQUEST_BYTES];

	ring_put(&out, bytes, sizeof bytes);
	publish();
	ck_assert_uint_eq(room(), 0);
	ck_assert_uint_eq(left(), RING_REQUEST_BYTES);
	ring_get(&in, bytes, 100);
	ck_assert_uint_eq(room(), 0);
	ck_assert(!ring_consume(&in));
	ck_assert_uint_eq(room(), 100);
}
END_TEST

/* Positions begin just below 2^32, so both they and the ring wrap. */
START_TEST(bytes_stay_in_order_where_positions_wrap) {
	uint8_t wrote = 0, read = 0, bytes[1000];

	out.position = out.shown = in.position = in.shown = UINT32_MAX - 5000;
	atomic_store(&out.shared->written, out.position);
	atomic_store(&out.shared->read, in.position);
	for (int i = 0; i < 1000; i++) {
		uint32_t size = (uint32_t)(i * 7919) % sizeof bytes;

		for (uint32_t k = 0; k < size; k++)
			bytes[k] = wrote++;
		ring_put(&out, bytes, size);
		publish();
		ring_get(&in, bytes, size);
		ck_assert(!ring_consume(&in));
		for (uint32_t k = 0; k < size; k++)
			if (bytes[k] != read++)
				ck_abort_msg("piece %d, byte %u", i, k);
	}
}
END_TEST

START_TEST(a_position_that_no_peer_can_have_is_an_error) {
	static const uint32_t written[] = { RING_REQUEST_BYTES + 1, UINT32_MAX, 1U << 31 };
	static const uint32_t read[] = { 1, RING_REQUEST_BYTES, 1U << 31 };
	uint32_t n;

	for (int i = 0; i < 3; i++) {
		atomic_store(&in.shared->written, written[i]);
		ck_assert_int_eq(ring_left(&in, &n), -EPROTO);
		ck_assert_int_eq(take(), -EPROTO);
		atomic_store(&out.shared->read, read[i]); /* more than was written */
		ck_assert_int_eq(ring_room(&out, &n), -EPROTO);
	}
}
END_TEST

START_TEST(our_own_position_is_not_read_from_the_memory) {
	ring_put(&out, "abcdef", 6);
	publish();
	atomic_store(&out.shared->written, 1000);
	ck_assert_uint_eq(room(), RING_REQUEST_BYTES - 6);
	ring_put(&out, "ghi", 3);
	publish();
	ck_assert_uint_eq(left(), 9);
}
END_TEST

START_TEST(a_frame_comes_as_it_was_sent) {
	put_head(3, 5);
	ring_put(&out, "hello", 5);
	publish();
	ck_assert_int_eq(take(), 1);
	ck_assert_uint_eq(frame.head.slot, 3);
	ck_assert_uint_eq(frame.head.size, 5);
	ck_assert_mem_eq(frame.bytes, "hello", 5);
}
END_TEST

START_TEST(a_frame_longer_than_the_ring_comes_in_pieces) {
	static uint8_t bytes[MOST];
	uint32_t done = 0;
	int r = 0;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 31);
	put_head(0, sizeof bytes);
	while (!r) {
		uint32_t n = room();

		if (n > sizeof bytes - done)
			n = (uint32_t)sizeof bytes - done;
		ring_put(&out, bytes + done, n);
		publish();
		done += n;
		r = take();
		ck_assert(!ring_consume(&in));
	}
	ck_assert_int_eq(r, 1);
	ck_assert_uint_eq(done, sizeof bytes);
	ck_assert_mem_eq(frame.bytes, bytes, sizeof bytes);
}
END_TEST

START_TEST(even_its_head_may_come_byte_by_byte) {
	struct ring_head h = { .slot = 1, .size = 1 };

	for (size_t i = 0; i < sizeof h; i++) {
		ck_assert_int_eq(take(), 0);
		ring_put(&out, (uint8_t *)&h + i, 1);
		publish();
	}
	ck_assert_int_eq(take(), 0);
	ring_put(&out, "x", 1);
	publish();
	ck_assert_int_eq(take(), 1);
	ck_assert_uint_eq(frame.bytes[0], 'x');
}
END_TEST

START_TEST(a_head_that_claims_nonsense_is_refused) {
	static const struct ring_head bad[] = { { 0, 0 }, { 0, MOST + 1 }, { 0, UINT32_MAX }, { SLOTS, 1 }, { UINT32_MAX, 1 } };

	put_head(bad[_i].slot, bad[_i].size);
	ck_assert_int_eq(take(), -EPROTO);
	ck_assert_ptr_null(frame.bytes);
}
END_TEST

START_TEST(a_frame_that_found_no_memory_comes_later) {
	put_head(3, 5000);
	refused_from = 5000;
	ck_assert_int_eq(take(), -ENOMEM);
	ck_assert_int_eq(take(), -ENOMEM);
	refused_from = SIZE_MAX;
	ck_assert_int_eq(take(), 0);
	for (int i = 0; i < 1000; i++)
		ring_put(&out, "hello", 5);
	publish();
	ck_assert_int_eq(take(), 1);
	ck_assert_uint_eq(frame.head.slot, 3);
	ck_assert_mem_eq(frame.bytes + 4990, "hellohello", 10);
}
END_TEST

START_TEST(a_reader_is_told_of_slots_that_it_awaits) {
	ck_assert(!ring_reader_sleeps(&in, 1U << 3));
	ring_put(&out, "a", 1);
	ck_assert(!ring_publish(&out, 1U << 2));
	ck_assert(ring_waiting(&in));
	ring_put(&out, "b", 1);
	ck_assert(ring_publish(&out, 1U << 3));
	ck_assert(ring_reader_sleeps(&in, 1U << 3)); /* whatever is there is read before it sleeps */
}
END_TEST

START_TEST(a_reader_that_comes_to_heed_all_is_told_of_all) {
	ck_assert(!ring_reader_heeds(&in, RING_ANY_SLOT));
	ck_assert(!ring_reader_sleeps(&in, 1U << 3));
	ck_assert(ring_reader_heeds(&in, RING_ANY_SLOT));
	ring_put(&out, "a", 1);
	ck_assert(ring_publish(&out, 1U << 2));
}
END_TEST

START_TEST(a_reader_that_comes_to_heed_a_slot_is_told_of_that_too) {
	ck_assert(!ring_reader_sleeps(&in, 1U << 3));
	ck_assert(ring_reader_heeds(&in, 1U << 2));
	ring_put(&out, "a", 1);
	ck_assert(!ring_publish(&out, 1U << 1));
	ring_put(&out, "b", 1);
	ck_assert(ring_publish(&out, 1U << 2));
	/* It has been told. */
	ck_assert(!ring_reader_heeds(&in, 1U << 1));
}
END_TEST

START_TEST(a_reader_that_sleeps_is_told_once) {
	ck_assert(!ring_reader_sleeps(&in, RING_ANY_SLOT));
	ring_put(&out, "a", 1);
	ck_assert(ring_publish(&out, RING_ANY_SLOT));
	ring_put(&out, "b", 1);
	ck_assert(!ring_publish(&out, RING_ANY_SLOT));
	ck_assert(ring_reader_sleeps(&in, RING_ANY_SLOT)); /* there is something: it must not */
	ring_reader_awake(&in);
	ring_put(&out, "c", 1);
	ck_assert(!ring_publish(&out, RING_ANY_SLOT));
}
END_TEST

START_TEST(a_writer_that_waits_for_room_is_told_once) {
	static char bytes[RING_REQUEST_BYTES];

	ring_put(&out, bytes, sizeof bytes);
	publish();
	ck_assert(!ring_writer_sleeps(&out, 0));
	ck_assert(!ring_consume(&in)); /* nothing was read */
	ring_get(&in, bytes, 10);
	ck_assert(ring_consume(&in));
	ring_get(&in, bytes, 10);
	ck_assert(!ring_consume(&in));
	ck_assert(ring_writer_sleeps(&out, 0)); /* there is room: it must not */
}
END_TEST

/* Sends bytes as fast as it can, sleeping where there is no room. */
static void write_all(void) {
	uint32_t n, read;

	for (uint32_t done = 0; done < PROCESS_BYTES;) {
		uint8_t bytes[777];

		read = atomic_load(&out.shared->read);
		if (ring_room(&out, &n))
			_exit(1);
		if (!n && !ring_writer_sleeps(&out, 0))
			ring_wait(&out.shared->read, read, 1000000);
		if (n > sizeof bytes)
			n = sizeof bytes;
		if (n > PROCESS_BYTES - done)
			n = PROCESS_BYTES - done;
		for (uint32_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)((done + i) * 7 >> 3);
		ring_put(&out, bytes, n);
		if (ring_publish(&out, RING_ANY_SLOT))
			ring_wake(&out.shared->written);
		done += n;
	}
	_exit(0);
}

START_TEST(two_processes_wake_each_other) {
	pid_t pid = fork();
	uint32_t n;
	int status;

	if (!pid)
		write_all();
	for (uint32_t done = 0; done < PROCESS_BYTES; done += n) {
		uint8_t bytes[1000];

		ck_assert_int_eq(ring_left(&in, &n), 0);
		if (!n && !ring_reader_sleeps(&in, RING_ANY_SLOT))
			ring_wait(&in.shared->written, in.position, 1000000);
		if (n > sizeof bytes)
			n = sizeof bytes;
		ring_get(&in, bytes, n);
		if (ring_consume(&in))
			ring_wake(&in.shared->read);
		for (uint32_t i = 0; i < n; i++)
			if (bytes[i] != (uint8_t)((done + i) * 7 >> 3))
				ck_abort_msg("byte %u", done + i);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("ring");
	TCase *tests = tcase_create("ring");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, a_new_ring_is_empty_and_has_all_its_room);
	tcase_add_test(tests, what_is_not_published_is_not_seen);
	tcase_add_test(tests, a_full_ring_has_no_room_until_it_is_read);
	tcase_add_test(tests, bytes_stay_in_order_where_positions_wrap);
	tcase_add_test(tests, a_position_that_no_peer_can_have_is_an_error);
	tcase_add_test(tests, our_own_position_is_not_read_from_the_memory);
	tcase_add_test(tests, a_frame_comes_as_it_was_sent);
	tcase_add_test(tests, a_frame_longer_than_the_ring_comes_in_pieces);
	tcase_add_test(tests, even_its_head_may_come_byte_by_byte);
	tcase_add_loop_test(tests, a_head_that_claims_nonsense_is_refused, 0, 5);
	tcase_add_test(tests, a_frame_that_found_no_memory_comes_later);
	tcase_add_test(tests, a_reader_is_told_of_slots_that_it_awaits);
	tcase_add_test(tests, a_reader_that_comes_to_heed_all_is_told_of_all);
	tcase_add_test(tests, a_reader_that_comes_to_heed_a_slot_is_told_of_that_too);
	tcase_add_test(tests, a_reader_that_sleeps_is_told_once);
	tcase_add_test(tests, a_writer_that_waits_for_room_is_told_once);
	tcase_add_test(tests, two_processes_wake_each_other);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
