/*
 * libfusion in C++17 and later. Header only, and thin: each function is the one of fusion.h with that name, whose description holds.
 *
 *     fusion::context c;
 *     fusion::array x = fusion::from(c, { 2, 2 }, std::vector<float>{ 1, 2, 3, 4 });
 *     std::vector<float> y = fusion::read<float>(tanh(x * 2.0 + 1.0));
 *
 * Ownership: a context or array is released by its destructor. Copying an array takes one more reference to the same array, moving takes
 * none; contexts only move. An empty one (default-constructed, or moved from) is NULL to the library. What has no function here is called by get():
 * fusion::array(fusion_pad(x.get(), ...)) takes the new reference over. Scopes of fusion.h release what is made in them, so they are not for arrays of this header.
 *
 * Errors are exceptions of the class fusion::error, with the library's sentence; fusion_error() has none of them any more. With -fno-exceptions, or where FUSION_NO_EXCEPTIONS is
 * defined, they are what they are in C: a function that returns an array returns an empty one, others return a code, and fusion_error() tells.
 *
 * Each call notes the line it stands in, operators too: by what compilers of C++17 have in the place of std::source_location.
 */
#ifndef FUSION_HPP
#define FUSION_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "fusion.h"

#if !defined(FUSION_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define FUSION_NO_EXCEPTIONS
#endif

namespace fusion {
/* A program may have files of both kinds: by one name the linker would keep one of the two bodies for all. */
#ifdef FUSION_NO_EXCEPTIONS
inline namespace codes {
#else
inline namespace exceptions {
#endif

/* ---- places ---- */

/*
 * A line of the caller's source; the same class by every standard, as units of several may be linked together. What tells a file's name and a
 * line, like std::source_location, is one, too.
 */
class place {
	const char *file_ = nullptr;
	int line_ = 0;

public:
	constexpr place() noexcept = default;
	constexpr place(const char *file, int line) noexcept : file_(file), line_(line) {}
	template <class Location, class = decltype(std::declval<const Location &>().file_name())>
	constexpr place(const Location &l) noexcept : file_(l.file_name()), line_(static_cast<int>(l.line())) {}
	static constexpr place current(const char *file = __builtin_FILE(), int line = __builtin_LINE()) noexcept { return place(file, line); }
	constexpr const char *file_name() const noexcept { return file_; }
	constexpr int line() const noexcept { return line_; }
};

/* While it lives, calls of this thread are noted as if they stood where it was made: for functions that make several calls for their caller. */
class at {
public:
	explicit at(place p = place::current()) noexcept { fusion_at(p.file_name(), p.line()); }
	~at() { fusion_at(nullptr, 0); }
	at(const at &) = delete;
	at &operator=(const at &) = delete;
};

/* ---- errors ---- */

class error : public std::runtime_error {
	int code_;

public:
	error(int code, const char *sentence) : std::runtime_error(sentence), code_(code) {}
	/* FUSION_E_..., and "SHAPE" for FUSION_E_SHAPE. */
	int code() const noexcept { return code_; }
	const char *name() const noexcept { return (fusion_code_name)(code_); }
};

namespace detail {

inline void here(const place &p) noexcept { (fusion_here)(p.file_name(), p.line()); }

/* What was thrown has been told: it is not the error of what is asked of an empty array later. */
inline int check(int code) {
#ifndef FUSION_NO_EXCEPTIONS
	if (code) {
		error e(code, (fusion_error)());

		(fusion_error_clear)();
		throw e;
	}
#endif
	return code;
}

template <class T> T *made(T *name) {
	if (!name)
		check((fusion_error_code)());
	return name;
}

/* Is it an array? Of an empty one that an earlier failure made, the first error stays. */
inline bool given(const fusion_array *name) {
	if (!name) {
		int earlier = (fusion_error_code)();

		check(earlier ? earlier : (fusion_refuse)(FUSION_E_ARGUMENT, "the array is empty"));
	}
	return name != nullptr;
}

} // namespace detail

/* ---- contexts ---- */

class context {
	fusion_context *name_ = nullptr;

public:
	explicit context(const fusion_options &options = {}, place p = place::current()) {
		detail::here(p);
		detail::check((fusion_open)(&name_, &options));
	}
	context(context &&other) noexcept : name_(std::exchange(other.name_, nullptr)) {}
	context &operator=(context &&other) noexcept {
		std::swap(name_, other.name_);
		return *this;
	}
	~context() {
		if (name_)
			(fusion_close)(name_);
	}
	explicit operator bool() const noexcept { return name_ != nullptr; }
	fusion_context *get() const noexcept { return name_; }
	const char *device(place p = place::current()) const {
		detail::here(p);
		return detail::made((fusion_device)(name_));
	}
	int configure(const char *setting, const char *value, place p = place::current()) {
		detail::here(p);
		return detail::check((fusion_configure)(name_, setting, value));
	}
	int flush(place p = place::current()) {
		detail::here(p);
		return detail::check((fusion_flush)(name_));
	}
	int sync(place p = place::current()) {
		detail::here(p);
		return detail::check((fusion_sync)(name_));
	}
};

/* ---- arrays ---- */

using shape = std::vector<std::int64_t>;

/* FUSION_F32 for float, and so on. */
template <class T> constexpr fusion_dtype dtype_of() {
	static_assert(std::is_arithmetic_v<T>, "arrays hold numbers and bool");
	if constexpr (std::is_same_v<T, bool>)
		return FUSION_BOOL;
	else if constexpr (std::is_floating_point_v<T>) {
		static_assert(sizeof(T) == 4 || sizeof(T) == 8, "of floating-point types C++ shares float and double with the library");
		return sizeof(T) == 4 ? FUSION_F32 : FUSION_F64;
	} else if constexpr (std::is_signed_v<T>)
		return sizeof(T) == 1 ? FUSION_I8 : sizeof(T) == 2 ? FUSION_I16 : sizeof(T) == 4 ? FUSION_I32 : FUSION_I64;
	else
		return sizeof(T) == 1 ? FUSION_U8 : sizeof(T) == 2 ? FUSION_U16 : sizeof(T) == 4 ? FUSION_U32 : FUSION_U64;
}

class array;

/* An operand of a call, and where the call stands: made of an array as it is passed. It lives as long as the call, and owns nothing. */
class operand {
	fusion_array *name_;
	place place_;

public:
	inline operand(const array &a, place p = place::current()) noexcept;
	/* Notes the place, and gives the array. */
	fusion_array *take() const noexcept {
		detail::here(place_);
		return name_;
	}
	fusion_array *get() const noexcept { return name_; }
};

/* The same of a number. */
class number {
	double value_;
	place place_;

public:
	number(double value, place p = place::current()) noexcept : value_(value), place_(p) {}
	double take() const noexcept {
		detail::here(place_);
		return value_;
	}
};

class array {
	fusion_array *name_ = nullptr;

	template <class T> T told(T value, place p) const {
		if (!name_)
			detail::here(p);
		detail::given(name_);
		return value;
	}

public:
	array() noexcept = default;
	/* Takes over a reference. NULL is an error that has been reported: an exception, or an empty array. */
	explicit array(fusion_array *owned) : name_(detail::made(owned)) {}
	array(const array &other) : name_(other.name_ ? detail::made((fusion_retain)(other.name_)) : nullptr) {}
	array(array &&other) noexcept : name_(std::exchange(other.name_, nullptr)) {}
	array &operator=(array other) noexcept {
		std::swap(name_, other.name_);
		return *this;
	}
	~array() {
		if (name_)
			(fusion_release)(name_);
	}
	explicit operator bool() const noexcept { return name_ != nullptr; }
	fusion_array *get() const noexcept { return name_; }
	/* Gives the reference away; it is empty then. */
	fusion_array *release() noexcept { return std::exchange(name_, nullptr); }

	fusion_dtype dtype(place p = place::current()) const { return told((fusion_dtype_of)(name_), p); }
	int rank(place p = place::current()) const { return told((fusion_rank)(name_), p); }
	std::int64_t elements(place p = place::current()) const { return told((fusion_elements)(name_), p); }
	std::size_t bytes(place p = place::current()) const { return told((fusion_bytes)(name_), p); }
	shape dims(place p = place::current()) const {
		const std::int64_t *d = told((fusion_dims)(name_), p);

		return d ? shape(d, d + rank()) : shape();
	}

	inline array &operator+=(operand b);
	inline array &operator-=(operand b);
	inline array &operator*=(operand b);
	inline array &operator/=(operand b);
	inline array &operator+=(number b);
	inline array &operator-=(number b);
	inline array &operator*=(number b);
	inline array &operator/=(number b);
};

operand::operand(const array &a, place p) noexcept : name_(a.get()), place_(p) {}

/* ---- from memory and back ---- */

namespace detail {

inline array refused(int code, const char *sentence) {
	check((fusion_refuse)(code, sentence));
	return array();
}

/* Of what overflows the library says no. */
inline std::uint64_t elements_of(const shape &dims) {
	std::uint64_t n = 1;

	for (std::int64_t d : dims)
		n *= static_cast<std::uint64_t>(d);
	return n;
}

} // namespace detail

/* Copies row-major elements: as many as the shape has. */
template <class T> array from(const context &c, const shape &dims, const T *data, place p = place::current()) {
	detail::here(p);
	return array((fusion_from)(c.get(), dtype_of<T>(), static_cast<int>(dims.size()), dims.data(), data));
}
template <class T> array from(const context &c, const shape &dims, const std::vector<T> &data, place p = place::current()) {
	static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory: compare with a number, or pass a pointer to bool");
	detail::here(p);
	if (data.size() != detail::elements_of(dims))
		return detail::refused(FUSION_E_SHAPE, "from: there are not as many values as the shape has elements");
	return from(c, dims, data.data(), p);
}
inline array full(const context &c, fusion_dtype dtype, const shape &dims, double value, place p = place::current()) {
	detail::here(p);
	return array((fusion_full)(c.get(), dtype, static_cast<int>(dims.size()), dims.data(), value));
}
inline array arange(const context &c, fusion_dtype dtype, std::int64_t n, double start = 0, double step = 1, place p = place::current()) {
	detail::here(p);
	return array((fusion_arange)(c.get(), dtype, n, start, step));
}

namespace detail {
/* Is it what T holds? Else it is refused. */
template <class T> bool holds(fusion_array *name, const char *refusal) {
	fusion_dtype has = (fusion_dtype_of)(name);
	bool same = has == dtype_of<T>() || (has == FUSION_BOOL && std::is_same_v<T, std::uint8_t>);

	if (!given(name))
		return false;
	if (!same)
		refused(FUSION_E_DTYPE, refusal);
	return same;
}
} // namespace detail

/* Computes, and copies the elements: of T's type alone; bool as std::uint8_t. Without exceptions: empty where it failed. */
template <class T> std::vector<T> read(operand a) {
	static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory: read std::uint8_t");
	fusion_array *name = a.take();
	std::vector<T> values;

	if (!detail::holds<T>(name, "read: the array has another element type; cast() it first"))
		return values;
	values.resize(static_cast<std::size_t>((fusion_elements)(name)));
	if (detail::check((fusion_read)(name, values.data(), values.size() * sizeof(T))))
		values.clear();
	return values;
}
/* Of an array of one element, of T's type as above. Without exceptions: T() where it failed. */
template <class T> T item(operand a) {
	fusion_array *name = a.take();
	T value = T();

	if (detail::holds<T>(name, "item: the array has another element type; cast() it first"))
		detail::check((fusion_read)(name, &value, sizeof value));
	return value;
}
inline int wait(operand a) { return detail::check((fusion_wait)(a.take())); }

/* ---- operations ---- */

/* Elementwise functions, under the names of fusion-ops(7): exp(x), maximum(x, y), maximum(x, 0), where(c, x, y)... */
#define FUSION_HPP_UNARY(name) \
	inline array name(operand a) { return array((fusion_##name)(a.take())); }
#define FUSION_HPP_BINARY(name) \
	inline array name(operand a, const array &b) { return array((fusion_##name)(a.take(), b.get())); } \
	inline array name(operand a, double b) { return array((fusion_##name##_scalar)(a.take(), b)); } \
	inline array name(double a, operand b) { return array((fusion_scalar_##name)(a, b.take())); }
#define FUSION_HPP_TERNARY(name) \
	inline array name(operand a, const array &b, const array &c) { return array((fusion_##name)(a.take(), b.get(), c.get())); }
FUSION_UNARY_OPERATIONS(FUSION_HPP_UNARY)
FUSION_BINARY_OPERATIONS(FUSION_HPP_BINARY)
FUSION_TERNARY_OPERATIONS(FUSION_HPP_TERNARY)
#undef FUSION_HPP_UNARY
#undef FUSION_HPP_BINARY
#undef FUSION_HPP_TERNARY

/* Of == and != C++20 makes more than is meant of arrays: eq() and ne() are their functions. */
#define FUSION_HPP_OPERATOR(sign, name) \
	inline array operator sign(operand a, const array &b) { return name(a, b); } \
	inline array operator sign(operand a, double b) { return name(a, b); } \
	inline array operator sign(double a, operand b) { return name(a, b); }
FUSION_HPP_OPERATOR(+, add)
FUSION_HPP_OPERATOR(-, sub)
FUSION_HPP_OPERATOR(*, mul)
FUSION_HPP_OPERATOR(/, div)
FUSION_HPP_OPERATOR(%, remainder)
FUSION_HPP_OPERATOR(<, lt)
FUSION_HPP_OPERATOR(<=, le)
FUSION_HPP_OPERATOR(>, gt)
FUSION_HPP_OPERATOR(>=, ge)
#undef FUSION_HPP_OPERATOR
inline array operator&(operand a, const array &b) { return bitwise_and(a, b); }
inline array operator|(operand a, const array &b) { return bitwise_or(a, b); }
inline array operator^(operand a, const array &b) { return bitwise_xor(a, b); }
inline array operator-(operand a) { return neg(a); }
inline array operator~(operand a) { return bitwise_not(a); }

/* The array is another one then: others that shared it keep theirs. */
#define FUSION_HPP_ASSIGN(sign, name) \
	array &array::operator sign(operand b) { \
		fusion_array *other = b.take(); \
		return *this = array((fusion_##name)(name_, other)); \
	} \
	array &array::operator sign(number b) { \
		double value = b.take(); \
		return *this = array((fusion_##name##_scalar)(name_, value)); \
	}
FUSION_HPP_ASSIGN(+=, add)
FUSION_HPP_ASSIGN(-=, sub)
FUSION_HPP_ASSIGN(*=, mul)
FUSION_HPP_ASSIGN(/=, div)
#undef FUSION_HPP_ASSIGN

inline array cast(operand a, fusion_dtype dtype) { return array((fusion_cast)(a.take(), dtype)); }
inline array reshape(operand a, const shape &dims) { return array((fusion_reshape)(a.take(), static_cast<int>(dims.size()), dims.data())); }
inline array broadcast(operand a, const shape &dims) { return array((fusion_broadcast)(a.take(), static_cast<int>(dims.size()), dims.data())); }
inline array transpose(operand a) { return array((fusion_transpose)(a.take())); }
inline array matmul(operand a, const array &b) { return array((fusion_matmul)(a.take(), b.get())); }

/* Without axes: over all of them. */
#define FUSION_HPP_REDUCTION(name) \
	inline array name(operand a, const std::vector<int> &axes = {}, bool keepdims = false) { \
		return array((fusion_##name)(a.take(), static_cast<int>(axes.size()), axes.empty() ? nullptr : axes.data(), keepdims)); \
	}
FUSION_HPP_REDUCTION(sum)
FUSION_HPP_REDUCTION(max)
FUSION_HPP_REDUCTION(min)
FUSION_HPP_REDUCTION(mean)
FUSION_HPP_REDUCTION(prod)
FUSION_HPP_REDUCTION(any)
FUSION_HPP_REDUCTION(all)
#undef FUSION_HPP_REDUCTION

/* ---- gradients ---- */

inline int watch(operand a) { return detail::check((fusion_watch)(a.take())); }
/* Of y, or the sum of its elements, by each input. Without exceptions: empty where it failed. */
inline std::vector<array> grad(operand y, const std::vector<array> &inputs) {
	std::vector<fusion_array *> names, made(inputs.size());
	std::vector<array> gradients;

	names.reserve(inputs.size());
	gradients.reserve(inputs.size());
	for (const array &a : inputs)
		names.push_back(a.get());
	if (!detail::check((fusion_grad)(y.take(), nullptr, names.data(), static_cast<int>(names.size()), made.data())))
		for (fusion_array *g : made)
			gradients.emplace_back(g);
	return gradients;
}

} // inline namespace
} // namespace fusion

#endif
