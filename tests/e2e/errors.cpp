// Two files of a program, of which one has exceptions: what each is told of an error is its own (fusion.hpp). No daemon is needed.
#include <fusion.hpp>

static const char *const nowhere = "/nowhere/door";

#ifdef OTHER

bool codes_are_codes();
bool codes_are_codes() {
	fusion_options options = {};

	options.socket = nowhere;
	fusion::context c(options);
	bool failed = !c && fusion_error_code() == FUSION_E_CONNECT;

	fusion_error_clear();
	return failed;
}

#else

bool codes_are_codes();

int main() {
	fusion_options options = {};
	bool thrown = false;

	options.socket = nowhere;
	try {
		fusion::context c(options);
	} catch (const fusion::error &e) {
		thrown = e.code() == FUSION_E_CONNECT;
	}
	return thrown && codes_are_codes() ? 0 : 1;
}

#endif
