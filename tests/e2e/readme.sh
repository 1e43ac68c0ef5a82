#!/bin/sh
# The documents for people who are new here: as short as they promise to be, links that lead somewhere, and examples that do what is said of them.
. "$(dirname "$0")/../claims.sh"
python=${PYTHON:-/usr/bin/python3}

# ---- words, links, figures ----

words() { [ "$(wc -w <"$1")" -le "$2" ] || { wc -w "$1" && false; }; }
claim the_readme_is_short 0 "" words README.md 900
claim the_architecture_is_short 0 "" words ARCHITECTURE.md 2200
claim the_guide_for_changers_is_short 0 "" words HACKING.md 1500

cat >"$root/links.py" <<'PYTHON'
# Says which links of Markdown files lead nowhere.
import os, re, sys
bad = [f"{path}: {link}" for path in sys.argv[1:] for link in re.findall(r"\]\(([^)#:]+)\)", open(path).read())
       if not os.path.exists(os.path.join(os.path.dirname(path), link))]
print("\n".join(bad))
sys.exit(bool(bad))
PYTHON
claim links_lead_somewhere 0 "" "$python" "$root/links.py" ./*.md docs/*.md docs/design/*.md client/python/README.md

cat >"$root/figures.py" <<'PYTHON'
# The table of the README is part of docs/PERFORMANCE.md, and no other document has measured times or rates.
import re, sys
def rows(path):
    table = {}
    for line in open(path):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.match(r"[a-z0-9_]+_\w+", cells[0]):
            table.setdefault(re.match(r"\w+", cells[0]).group(), []).append(cells)
    return table
all_rows, said, bad = rows("docs/PERFORMANCE.md"), rows("README.md"), []
for name, ((_, fused, unfused, jax, inductor),) in said.items():
    if not any(c[1:4] + c[5:6] == [fused, unfused, jax, inductor] for c in all_rows.get(name, [])):
        bad.append(f"README.md: {name} is not what docs/PERFORMANCE.md says")
for path in ["ARCHITECTURE.md", "HACKING.md", "client/python/README.md", "NEWS.md"]:
    for n, line in enumerate(open(path), 1):
        if re.search(r"\d ?(ms|us|[GT]B/s|[GT]FLOP/s)\b|\d\.\dx\b", line):
            bad.append(f"{path}:{n}: a figure: {line.strip()}")
print("\n".join(bad) or f"{len(said)} rows")
sys.exit(bool(bad) or not said)
PYTHON
claim figures_stand_in_one_place 0 "" "$python" "$root/figures.py"

# ---- the quick start, and the examples ----

start_on "$root/cache"
kernels() { "$build/fusionctl" stats --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["kernels_launched"])'; }
# example LANGUAGE: its block of the README.
example() { awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' README.md; }
claim the_quick_start_explains 0 "kernel" "$build/fusionctl" explain tests/graphs/chain.fz --source
claim without_the_library 0 "" sh -c "[ \$('$build/fusionctl' explain tests/graphs/chain.fz --source | wc -l) -le 120 ]"
command=$(sed -n 's/.*python3 -c "\(import fusion.*\)"$/\1/p' README.md)
claim the_quick_start_computes 0 "^9.848" env PYTHONPATH="$build/python" "$python" -c "$command"

example c >"$root/x.c"
cc -o "$root/x" "$root/x.c" -I"$(realpath client)" -I"$(realpath "$build/include")" -L"$build" -lfusion -Wl,-rpath,"$(realpath "$build")"
before=$(kernels)
claim the_example_in_c_computes 0 "^0.724698 -0.816946 0.851758$" "$root/x"
claim in_one_kernel 0 "" [ "$(($(kernels) - before))" = 1 ]

example python >"$root/x.py"
before=$(kernels)
claim the_same_in_python 0 "0.7246975.* -0.8169462.* 0.85175" env PYTHONPATH="$build/python" "$python" "$root/x.py"
claim in_one_kernel_too 0 "" [ "$(($(kernels) - before))" = 1 ]
stop

finish_claims
