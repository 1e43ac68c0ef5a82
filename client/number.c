/* Numbers for people; see number.h. */
#include "number.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

char *number_thousands(const char *digits, char *to) {
	for (size_t left = strlen(digits); left; left--) {
		*to++ = *digits++;
		if (left > 1 && left % 3 == 1)
			*to++ = ',';
	}
	*to = '\0';
	return to;
}

double number_bytes(double bytes, const char **unitp) {
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t unit = 0;

	while (fabs(bytes) >= 1024 && unit + 1 < sizeof units / sizeof *units) {
		bytes /= 1024;
		unit++;
	}
	*unitp = units[unit];
	return bytes;
}
