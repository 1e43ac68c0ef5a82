"""NumPy as the oracle of what shares memory: random programs (programs.py) run with `import fusion` and with NumPy.

usage: run.py [--programs N] [--seed N] [--only SEED] [--jobs N]

Every number read out, every array that is alive at the end and every line refused must be the same: bits, element types, shapes. What fusion refuses and NumPy
does not is counted by its reason, and may be at most MOST_REFUSED of all programs. A program that fails is cut down to the lines that fail, and printed as a script.
"""
import argparse
import collections
import multiprocessing
import os
import re
import sys
import tempfile
import traceback

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
sys.path.append(HERE)
import programs
from private_daemon import BUILD, CACHES, Daemon

MOST_REFUSED = 0.05
SHOWN = 12              # failures that are cut down and printed
CHUNK = 25              # programs that a process is given at once


class Refused(Exception):
    """fusion refused a line that NumPy took."""


class Wrong(Exception):
    """Something differs."""


# ---- what a line may call ----


def names_of(lib, said, kept):
    """The names of a program's lines. said: what is read out; kept: arrays whose memory was looked at, and what it held."""
    mine = lib is not np

    def C(value):
        return value if mine else np.array(value, order="C", copy=True) if not isinstance(value, np.ndarray) else value.copy()

    def hold(x):
        if mine:
            seen = np.asarray(x)
            kept.append((seen, seen.copy()))
        said.append(np.asarray(x).copy())

    def lend(x, value):
        if not mine:
            x[...] = value
            return
        with lib.writable(x) as memory:
            np.asarray(memory)[...] = value

    def refused(f):
        try:
            f()
        except (IndexError, ValueError, TypeError, ArithmeticError) as error:
            if mine and not str(error):
                raise Wrong("an error without a sentence") from error
            return
        raise Wrong("the line was taken")
    return {"lib": lib, "np": np, "C": C, "out": said.append, "hold": hold, "lend": lend, "refused": refused}


def run(lines, lib):
    """Everything that can be seen of a program: what it reads out, and its arrays at the end."""
    said, kept = [], []
    space = names_of(lib, said, kept)
    with np.errstate(all="ignore"):
        for line in lines:
            before = len(said)
            try:
                exec(line, space)
            except Wrong:
                raise Wrong(f"{line}: refused by NumPy alone") from None
            except Exception as error:
                raise Refused(f"{line}: {type(error).__name__}: {error}") from error
            for value in said[before:]:
                yield line, value
    for name, value in space.items():
        if name[0] == "v":
            yield name, np.asarray(value)
    for seen, copy in kept:
        if seen.tobytes() != copy.tobytes():
            raise Wrong("memory that numpy.asarray() gave was written to")


def same(want, got):
    if isinstance(want, np.ndarray):
        return isinstance(got, np.ndarray) and want.dtype == got.dtype and want.shape == got.shape and want.tobytes() == got.tobytes()
    return type(want) is type(got) and want == got


def compare(lines, lib):
    """Raises Wrong, or Refused, where the program is not the same in both."""
    wanted = list(run(lines, np))
    got = run(lines, lib)
    for what, want in wanted:
        where, value = next(got)
        if not same(want, value):
            raise Wrong(f"{where}: {value!r} where NumPy has {want!r}" if where == what else f"{where} where NumPy has {what}")
    for where, _ in got:
        raise Wrong(f"{where} beyond the end")


# ---- a failing program, cut down ----


def fails(lines, lib):
    try:
        list(run(lines, np))
    except Exception:
        return None             # no program any more
    try:
        compare(lines, lib)
    except Wrong as error:
        return str(error)
    except Exception:
        return None
    return None


def cut_down(lines, lib):
    size = max(1, len(lines) // 2)
    while size:
        at, before = 0, len(lines)
        while at < len(lines):
            fewer = lines[:at] + lines[at + size:]
            if fails(fewer, lib):
                lines = fewer
            else:
                at += size
        # Once more with single lines, as long as that takes any away: some are needed by later ones alone.
        size = size // 2 if size > 1 else len(lines) < before
    return lines


SCRIPT = """import numpy as np, fusion
def C(value): return value if lib is fusion else np.array(value, order="C")
def lend(x, value):
    if lib is np: x[...] = value; return
    with fusion.writable(x) as memory: np.asarray(memory)[...] = value
def refused(f):
    try: f()
    except (IndexError, ValueError, TypeError, ArithmeticError): return
    print("taken")
out = print
hold = lambda x: print(np.asarray(x))
for lib in (np, fusion):
    print(lib.__name__)
"""


def script(lines):
    made = "\n".join("    " + line for line in lines)
    return f"{SCRIPT}{made}\n    for name in sorted(n for n in dir() if n[0] == 'v' and n[1:].isdigit()): print(name, np.asarray(globals()[name]).tolist()); del globals()[name]"


# ---- many ----


def reason(error):
    """What was refused, without its numbers and names."""
    return re.sub(r"\[.*\]|\(.*\)|-?\d+(\.\d+)?", "#", str(error).split(": ", 1)[1])[:110]


_lib = _daemon = None


def _begin():
    global _lib, _daemon
    os.environ.setdefault(CACHES, tempfile.gettempdir())
    _daemon = Daemon(settings=["fusion.interpreter=always"]).__enter__()
    os.environ["FUSION_SOCKET"] = _daemon.socket
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import fusion
    _lib = fusion


def one(seed, show):
    """('ok' | 'refused' | 'failed', a reason, lines)"""
    lines = programs.make(seed, names_of(np, [], []))
    try:
        compare(lines, _lib)
    except Refused as error:
        return "refused", reason(error), len(lines)
    except Wrong as error:
        if not show:
            return "failed", str(error), len(lines)
        least = cut_down(lines, _lib)
        return "failed", f"{fails(least, _lib) or error}\n{script(least)}", len(lines)
    except Exception:
        return "failed", traceback.format_exc() + script(lines), len(lines)
    return "ok", "", len(lines)


def some(seeds):
    shown, made = 0, []
    for seed in seeds:
        made.append((seed,) + one(seed, shown < SHOWN))
        shown += made[-1][1] == "failed"
    return made


def _work(seeds, results):
    _begin()
    for chunk in iter(seeds.get, None):
        results.put(some(chunk))
    _lib._base.shutdown()
    _daemon.__exit__()
    results.put(None)


def spread(seeds, jobs):
    """The results of all seeds, in their order, from some processes with a daemon each."""
    context = multiprocessing.get_context("fork")
    chunks, results = context.Queue(), context.Queue()
    for at in range(0, len(seeds), CHUNK):
        chunks.put(seeds[at:at + CHUNK])
    for _ in range(jobs):
        chunks.put(None)
    workers = [context.Process(target=_work, args=(chunks, results)) for _ in range(jobs)]
    for w in workers:
        w.start()
    made, ended = [], 0
    while ended < jobs:
        got = results.get()
        ended += got is None
        made += got or []
    for w in workers:
        w.join()
    return sorted(made)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.only is not None:
        print("\n".join(programs.make(options.only, names_of(np, [], []))))
    seeds = [options.only] if options.only is not None else list(range(options.seed, options.seed + options.programs))
    made = spread(seeds, options.jobs)
    counts = collections.Counter(what for _, what, _, _ in made)
    failed = [(seed, text) for seed, what, text, _ in made if what == "failed"]
    for seed, text in failed[:SHOWN]:
        print(f"FAILED --only {seed}: {text}\n")
    reasons = collections.Counter(text for _, what, text, _ in made if what == "refused")
    for text, count in reasons.most_common():
        print(f"refused {count} times, first --only {next(s for s, w, t, _ in made if t == text)}: {text}")
    lines = sum(n for _, _, _, n in made)
    print(f"note: {len(made)} programs of {lines} lines from seed {seeds[0]}: {counts['ok']} the same, {counts['refused']} refused, {counts['failed']} failed")
    if counts["refused"] > MOST_REFUSED * len(made):
        counts["failed"] += 1
        print(f"FAILED: more than {MOST_REFUSED:.0%} refused")
    print(f"{counts['ok']} passed, {counts['failed']} failed")
    return bool(counts["failed"])


if __name__ == "__main__":
    sys.exit(main())
