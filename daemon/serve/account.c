/* Users; see account.h. */
#include "account.h"

#include <stdlib.h>

struct account *account_get(struct account **accountsp, uid_t uid) {
	struct account *a;

	HASH_FIND(hh, *accountsp, &uid, sizeof uid, a);
	if (!a) {
		a = calloc(1, sizeof *a);
		if (!a)
			return NULL;
		a->uid = uid;
		HASH_ADD(hh, *accountsp, uid, sizeof a->uid, a);
	}
	a->sessions++;
	return a;
}

void account_put(struct account **accountsp, struct account *a) {
	if (!a || --a->sessions)
		return;
	HASH_DELETE(hh, *accountsp, a);
	free(a);
}
