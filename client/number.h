/* What numbers for people have in common, in reports and in fusionctl; how many digits they have differs there. */
#pragma once

/* "1,234,567" of the digits "1234567", and the end: to has room for a third more. Returns where the text ends. */
char *number_thousands(const char *digits, char *to);
/* So many of the largest unit of bytes that there is a whole one of. */
double number_bytes(double bytes, const char **unitp);
