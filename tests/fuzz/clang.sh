#!/bin/sh
# Names a clang that has libFuzzer, or says what is missing and fails.
for clang in ${CLANG:-clang} clang-19 clang-16 clang-14; do
	command -v "$clang" >/dev/null || continue
	echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n); int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { (void)b; return n > 1UL << 40; }' |
		"$clang" -fsanitize=fuzzer,address,undefined -xc - -o /dev/null 2>/dev/null || continue
	echo "$clang"
	exit 0
done
echo "no clang with libFuzzer is here; apt-get install clang libclang-rt-dev" >&2
exit 1
