# Sourced by scripts that begin with tests/claims.sh: the releases before this one, as their tags name them, and trees of them that are built.
# CHECK_RELEASES="COMMIT ..." names others, to try what will only be met once there is a tag.

# releases COUNT: the last tags in the history, the newest first; one a line.
releases() {
	if [ -n "${CHECK_RELEASES:-}" ]; then
		printf '%s\n' $CHECK_RELEASES
		return
	fi
	git tag --merged HEAD --sort=-version:refname 2>/dev/null | grep -Ex 'v?[0-9]+\.[0-9]+\.[0-9]+' | head -n "$1" || true
}

# release_tree RELEASE: its folder in $tree, with its own build/ in it. It is built once, by whichever script wants it first.
release_tree() {
	commit=$(git rev-parse --verify -q "$1^{commit}")
	tree=$(realpath "$build")/releases/$commit
	mkdir -p "${tree%/*}"
	(
		flock 9
		[ ! -e "$tree/built" ] || exit 0
		# Others than the last ones are wanted no more.
		for old in "${tree%/*}"/*/; do
			case " $(git rev-parse $(releases 2)) " in *"$(basename "$old")"*) ;; *) rm -rf "$old" ;; esac
		done
		rm -rf "$tree"
		mkdir "$tree"
		git archive "$commit" | tar -x -C "$tree"
		# What a later compiler warns of is no concern here. The flags of the make that runs this are for another tree.
		env -u MAKEFLAGS -u MAKELEVEL make -s -j"$(nproc)" -C "$tree" WARNINGS= all >"$tree.log" 2>&1 9>&- || {
			tail -20 "$tree.log"
			exit 1
		}
		touch "$tree/built"
	) 9>"${tree%/*}/lock"
}
