/* Certificates for tests of clients on other machines, in a folder of their own: made by openssl, removed by who made them. */
#pragma once

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char keys[64];

static const char script[] =
	"cd \"$KEYS\" || exit 1\n"
	"new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
	"authority() { openssl req -x509 $new -keyout $1.key -out $1.pem -subj /CN=authority -days 2; }\n"
	"certificate() {\n"
	"	openssl req $new -keyout $1.key -out request.pem -subj /CN=$1 &&\n"
	"	openssl x509 -req -in request.pem -CA $2.pem -CAkey $2.key -CAcreateserial -out $1.pem -days 2\n"
	"}\n"
	/* The one way to an end in the past is refused by openssl 3.5, the other is not known to those before 3.4. */
	"late() { openssl x509 -req -in request.pem -CA authority.pem -CAkey authority.key -CAcreateserial -out late.pem \"$@\"; }\n"
	"{ authority authority && authority other && certificate 127.0.0.1 authority && certificate alice authority &&\n"
	"certificate mallory authority && certificate stranger other &&\n"
	"openssl req $new -keyout late.key -out request.pem -subj /CN=alice &&\n"
	"{ late -days -1 || late -not_before 20200101000000Z -not_after 20200102000000Z; } } 2>/dev/null >&2\n";

static const char *key_file(const char *name, const char *ending) {
	static char text[64][256];
	static unsigned next;
	char *one = text[next++ % 64];

	snprintf(one, sizeof text[0], "%s/%s.%s", keys, name, ending);
	return one;
}

/* "127.0.0.1" is the daemon's, "alice" is in the table of users, "mallory" is not, "stranger" is of another authority. */
static bool make_keys(void) {
	const struct passwd *user = getpwuid(geteuid());
	FILE *users;

	snprintf(keys, sizeof keys, "/tmp/fusion-keys-XXXXXX");
	if (!mkdtemp(keys) || setenv("KEYS", keys, 1) || system(script))
		return false;
	users = fopen(key_file("users", "conf"), "w");
	if (!users)
		return false;
	fprintf(users, "# USER NAME\n%s alice # one of us\n", user ? user->pw_name : "0");
	return !fclose(users);
}

/* 0 where nothing is left. */
static int keys_remove(void) {
	char command[96];

	snprintf(command, sizeof command, "rm -rf %s", keys);
	return system(command);
}
