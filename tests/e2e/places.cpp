// Units of two standards in one program hand places and arrays to each other: the one with OTHER, as C++17, what the one with main(), as C++20,
// calls. See examples.sh.
#include <fusion.hpp>

int line_of(fusion::place p);
fusion::array made_by(const fusion::context &c, fusion::place p = fusion::place::current());

#ifdef OTHER
int line_of(fusion::place p) {
	return p.line();
}

fusion::array made_by(const fusion::context &c, fusion::place p) {
	fusion::at at(p);

	return fusion::full(c, FUSION_F32, { 2 }, 3);
}
#else
#if __has_include(<source_location>)
#include <source_location>
#endif

int main() {
	fusion::context c;
	bool right = line_of(fusion::place::current()) == __LINE__ && fusion::item<float>(sum(made_by(c))) == 6;

#ifdef __cpp_lib_source_location
	right = right && line_of(std::source_location::current()) == __LINE__;
#endif
	return !right;
}
#endif
