/*
 * What remote.* says, tried without serving anybody: addresses and ports, whose limits hold, the lines of remote.users, and whether
 * certificates, key and authority read and belong together. So a start, a reload and fusiond --check find the same.
 */
#include "gateway.h"

#include <stdio.h>
#include <string.h>

#include "client/link.h"

bool gateway_uses_tls(const struct config *c) {
	return strstr(c->remote_listen, "tls+tcp://") != NULL;
}

int gateway_keys(const struct config *c, struct link_keys **keysp, struct fault *f) {
	const struct link_files files = { .authority = c->remote_authority, .certificate = c->remote_certificate, .key = c->remote_key };

	*keysp = NULL;
	return gateway_uses_tls(c) ? link_keys_new(&files, true, keysp, f) : 0;
}

static int placed(int r, const struct config_origins *o, unsigned setting, struct fault *f) {
	return r > 0 ? config_place(o, setting, f) : r;
}

/* The file that the sentence names is one of three; what names none is about remote.listen, which wants them. */
static unsigned to_blame(const struct config *c, const struct fault *f) {
	if (strstr(f->text, "key ") && *c->remote_key && strstr(f->text, c->remote_key))
		return SETTING_NUMBER_remote_key;
	if (*c->remote_certificate && strstr(f->text, c->remote_certificate))
		return SETTING_NUMBER_remote_certificate;
	if (*c->remote_authority && strstr(f->text, c->remote_authority))
		return SETTING_NUMBER_remote_authority;
	return SETTING_NUMBER_remote_listen;
}

int gateway_check(const struct config *c, const struct config_origins *o, struct link_keys **keysp, struct fault *f) {
	int r = placed(listeners_check(c, f), o, SETTING_NUMBER_remote_listen, f);

	*keysp = NULL;
	if (!r && *c->remote_plain_user)
		r = placed(remote_user_find(c->remote_plain_user, NULL, f), o, SETTING_NUMBER_remote_plain_user, f);
	if (!r && *c->remote_users)
		r = users_check(c->remote_users, f);
	if (!r) {
		r = gateway_keys(c, keysp, f);
		if (r > 0)
			r = placed(r, o, to_blame(c, f), f);
	}
	return r;
}
