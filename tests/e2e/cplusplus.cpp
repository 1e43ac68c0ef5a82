// What fusion.hpp promises: values, ownership, places, errors. Compiled without a warning by each compiler and standard, see cplusplus.sh; prints
// what failed, and is silent otherwise. With NO_EXCEPTIONS: what is different where errors are codes.
#include <fusion.hpp>

#include <cmath>
#include <cstring>
#include <iostream>
#include <string>

static int failures;

#define CLAIM(what) ((what) ? (void)0 : (void)(failures++, std::cout << __LINE__ << ": " #what "\n"))

static std::string here(int line) {
	return std::string(__FILE__) + ":" + std::to_string(line) + ")";
}

static bool ends(const std::string &text, const std::string &end) {
	return text.size() >= end.size() && !text.compare(text.size() - end.size(), end.size(), end);
}

static void values(const fusion::context &c) {
	fusion::array x = fusion::from(c, { 2, 2 }, std::vector<float>{ 1, 2, 3, 4 });
	fusion::array y = x * 2.0 + 1.0, z = 1 / x - y % 2;

	CLAIM((fusion::read<float>(y) == std::vector<float>{ 3, 5, 7, 9 }));
	CLAIM((fusion::read<float>(-x + x) == std::vector<float>(4)));
	CLAIM((fusion::read<float>(z) == std::vector<float>{ 0, -0.5f, 1 / 3.0f - 1, -0.75f }));
	CLAIM((fusion::read<std::uint8_t>(x > 2) == std::vector<std::uint8_t>{ 0, 0, 1, 1 }));
	CLAIM((fusion::read<std::uint8_t>((x > 2) & (x < 4)) == std::vector<std::uint8_t>{ 0, 0, 1, 0 }));
	CLAIM((fusion::read<float>(matmul(x, transpose(x))) == std::vector<float>{ 5, 11, 11, 25 }));
	CLAIM((fusion::read<float>(sum(x, { 0 })) == std::vector<float>{ 4, 6 }));
	CLAIM(fusion::item<float>(sum(x)) == 10);
	CLAIM((sum(x, { 1 }, true).dims() == fusion::shape{ 2, 1 }));
	CLAIM((fusion::read<float>(where(gt(x, 2), x, sqrt(x * x) * 10)) == std::vector<float>{ 10, 20, 3, 4 }));
	CLAIM(cast(x, FUSION_F64).dtype() == FUSION_F64 && fusion::dtype_of<std::int16_t>() == FUSION_I16 && fusion::dtype_of<long long>() == FUSION_I64);
	CLAIM((fusion::read<std::int64_t>(fusion::arange(c, FUSION_I64, 3)) == std::vector<std::int64_t>{ 0, 1, 2 }));
	CLAIM((fusion::read<double>(reshape(fusion::full(c, FUSION_F64, { 1, 2 }, 5), { -1 })) == std::vector<double>{ 5, 5 }));
	x += y;
	x -= 1;
	CLAIM((fusion::read<float>(x) == std::vector<float>{ 3, 6, 9, 12 }));
}

static void ownership(const fusion::context &c) {
	fusion::array a = fusion::arange(c, FUSION_F32, 3), b = a, d;
	fusion_array *name = a.get();

	CLAIM(b.get() == name && !d);
	d = std::move(a);
	CLAIM(!a && d.get() == name);
	b += 1;
	CLAIM(b.get() != name && fusion::item<float>(sum(d)) == 3 && fusion::item<float>(sum(b)) == 6);
	const fusion::array &same = d;
	d = same;
	CLAIM(d.get() == name);
	(fusion_release)(d.release());
	CLAIM(!d);
}

static void gradients(const fusion::context &c) {
	fusion::array w = fusion::from(c, { 2 }, std::vector<double>{ 3, -1 });

	fusion::watch(w);
	std::vector<fusion::array> g = fusion::grad(sum(square(w)), { w });
	CLAIM((fusion::read<double>(g[0]) == std::vector<double>{ 6, -2 }));
}

/* Of a function that calls twice for its caller. */
static fusion::array twice(const fusion::array &x, const fusion::array &y, fusion::place p = fusion::place::current()) {
	fusion::at at(p);

	return (x + 1) * y;
}

static void errors(const fusion::context &c) {
	fusion::array x = fusion::arange(c, FUSION_F32, 3), y = fusion::arange(c, FUSION_F32, 4);
	int line = 0;

#ifdef FUSION_NO_EXCEPTIONS
	fusion::array bad = x + y; line = __LINE__;
	CLAIM(!bad && (fusion_error_code)() == FUSION_E_SHAPE && ends((fusion_error)(), here(line)));
	CLAIM(!exp(bad) && fusion::read<float>(bad).empty());
	CLAIM((fusion_error_code)() == FUSION_E_SHAPE);
	(fusion_error_clear)();
	CLAIM(fusion::read<double>(x).empty()); line = __LINE__;
	CLAIM((fusion_error_code)() == FUSION_E_DTYPE && ends((fusion_error)(), here(line)));
	CLAIM(fusion::item<std::int32_t>(sum(x)) == 0);
	(fusion_error_clear)();
	CLAIM(fusion::item<float>(fusion::array()) == 0 && (fusion_error_code)() == FUSION_E_ARGUMENT);
	(fusion_error_clear)();
	CLAIM(!fusion::from(c, { 3 }, std::vector<float>{ 1, 2 })); line = __LINE__;
	CLAIM((fusion_error_code)() == FUSION_E_SHAPE && ends((fusion_error)(), here(line)));
	(fusion_error_clear)();
#else
	try {
		line = __LINE__ + 1;
		fusion::array bad = x + y;
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_SHAPE && !std::strcmp(e.name(), "SHAPE") && ends(e.what(), here(line)));
	}
	try {
		line = __LINE__ + 1;
		twice(x, y);
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(ends(e.what(), here(line)));
	}
	try {
		line = __LINE__ + 1;
		x *= y;
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(ends(e.what(), here(line)) && x.elements() == 3);
	}
	try {
		/* As many bytes, of another type. */
		fusion::item<std::int32_t>(sum(x));
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_DTYPE);
	}
	try {
		line = __LINE__ + 1;
		fusion::from(c, { 3 }, std::vector<float>{ 1, 2 });
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_SHAPE && ends(e.what(), here(line)));
	}
	try {
		fusion::read<double>(x);
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_DTYPE);
	}
	/* An error that was caught is none of an empty array's. */
	try {
		line = __LINE__ + 1;
		y = max(fusion::array());
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_ARGUMENT && std::strstr(e.what(), "max") && ends(e.what(), here(line)));
	}
	try {
		line = __LINE__ + 1;
		fusion::array().dims();
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_ARGUMENT && ends(e.what(), here(line)) && !(fusion_error_code)());
	}
	try {
		line = __LINE__ + 1;
		fusion::item<float>(fusion::array());
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_ARGUMENT && ends(e.what(), here(line)));
	}
	try {
		fusion::from(c, { INT64_MAX, INT64_MAX }, std::vector<float>{ 1 });
		CLAIM(!"an exception");
	} catch (const fusion::error &e) {
		CLAIM(e.code() == FUSION_E_OVERFLOW);
	}
#endif
	(void)line;
	CLAIM(fusion::item<float>(sum(x)) == 3);
	(void)twice;
}

int main() {
	fusion::context first, c(std::move(first));

	CLAIM(!first && c && std::strlen(c.device()) > 0);
	values(c);
	ownership(c);
	gradients(c);
	errors(c);
	CLAIM(!c.sync());
	return failures != 0;
}
