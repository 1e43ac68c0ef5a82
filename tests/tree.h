/*
 * Folders of tests, with all that daemons, caches and drivers left in them.
 */
#pragma once

#include <ftw.h>
#include <stdio.h>

/* Descriptors of a walk: deeper folders are opened again. */
enum { TREE_DESCRIPTORS = 16 };

static inline int tree_remove_entry(const char *path, const struct stat *status, int type, struct FTW *at) {
	(void)status;
	(void)type;
	(void)at;
	return remove(path);
}

/* What is not there, or cannot go, stays; links are removed, not followed. */
static inline void tree_remove(const char *path) {
	nftw(path, tree_remove_entry, TREE_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}
