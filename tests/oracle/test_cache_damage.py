"""Every file of the cache cut to half, emptied, filled with noise or with zeros, one at a time: the first result comes, and is right.

A daemon fills a cache folder and ends; each round takes a copy of that, damages one file of it, of ours or of the driver's, and starts a daemon
there, which must give every graph's result. No result may be later than that of a build. Arithmetic is of small integers, so results are exact.

CASES (8) of all, SEED (by default the commit's slice): make check-cache does 500, each file in every way before any comes again.
"""
import os
import random
import shutil
import sys
import tempfile

from test_cache_kill import BUILD, Daemon, result
import subprocess

CASES = int(os.environ.get("CASES", "8"))
SEED = int(os.environ.get("SEED", os.environ.get("FUSION_SLICE", "1").split("/")[0]))

GRAPHS = {
    "x = input f32[2] = 1 -2\ny = neg x\nz = add y 1\noutput z\n": [0, 3],
    "x = input f32[2,3] = 1 2 3 4 5 6\ny = sum x axes=1\noutput y\n": [6, 15],
    "x = input f32[2,2] = 1 2 3 4\ny = matmul x x\noutput y\n": [7, 10, 15, 22],
}


def damage_half(content, rng):
    return content[:len(content) // 2]


def damage_empty(content, rng):
    return b""


def damage_noise(content, rng):
    return rng.randbytes(len(content))


def damage_some(content, rng):
    """A page of it, as a disk loses them; the sizes and most of what a loader looks at stay."""
    if not content:
        return b"x"
    at = rng.randrange(len(content)) & ~4095
    page = content[at:at + 4096]
    return content[:at] + rng.randbytes(len(page)) + content[at + len(page):]


def damage_zeros(content, rng):
    return bytes(len(content))


WAYS = [damage_half, damage_empty, damage_noise, damage_some, damage_zeros]


def files_of(folder):
    found = []
    for path, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(path, name), folder) for name in names]
    return sorted(found)


def run_all(daemon, paths):
    """Sentences about what was wrong; the engine's generation."""
    wrong = []
    daemon.await_ready()
    for path, want in paths.items():
        got = result(daemon.run(path))
        if got != want:
            wrong.append(f"{os.path.basename(path)} gave {got}, not {want}")
    status = daemon.status()
    return wrong, status["engines"][0]["generation"] if status else 0


def in_folder(root, name, paths):
    daemon = Daemon(root, name)
    daemon.cache = f"{root}/cache"
    daemon.start()
    try:
        return run_all(daemon, paths)
    except SystemExit as error:
        return [str(error)], 0
    finally:
        daemon.stop()


def one_case(root, paths, name, way, rng):
    shutil.rmtree(f"{root}/cache", ignore_errors=True)
    shutil.copytree(f"{root}/whole", f"{root}/cache", symlinks=True)
    path = f"{root}/cache/{name}"
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(way(content, rng))
    wrong, generation = in_folder(root, "door", paths)
    return [f"{name}, {way.__name__}: {one}" for one in wrong], generation


def chosen(names, rng):
    """File by file in a random order, each with another way every time."""
    pairs = []
    for turn in range(len(WAYS)):
        pairs += [(name, WAYS[(i + turn) % len(WAYS)]) for i, name in enumerate(sorted(names))]
    by_turn = [pairs[i:i + len(names)] for i in range(0, len(pairs), len(names))]
    for turn in by_turn:
        rng.shuffle(turn)
    return [pair for turn in by_turn for pair in turn]


def main():
    # The driver's cache is of this test alone: it is damaged.
    for name in ("FUSION_DRIVER_CACHE", "POCL_CACHE_DIR"):
        os.environ.pop(name, None)
    os.environ.setdefault("FUSIOND_FUSION_INTERPRETER", "off")
    rng = random.Random(SEED)
    failures, ended, passed = [], 0, 0
    with tempfile.TemporaryDirectory() as root:
        paths = {}
        for i, (text, want) in enumerate(GRAPHS.items()):
            path = f"{root}/{i}.fz"
            with open(path, "w") as file:
                file.write(text)
            paths[path] = want
        wrong, _ = in_folder(root, "first", paths)
        if wrong:
            raise SystemExit("; ".join(wrong))
        os.rename(f"{root}/cache", f"{root}/whole")
        names = files_of(f"{root}/whole")
        cases = chosen(names, rng)
        cases = [cases[i % len(cases)] for i in range(CASES)]
        for name, way in cases:
            wrong, generation = one_case(root, paths, name, way, rng)
            failures += wrong
            passed += not wrong
            ended += generation > 1
    for failure in failures:
        print("FAIL", failure)
    print(f"note: {len(cases)} damages to {len(names)} files, of {len(names) * len(WAYS)} kinds; {ended} of them ended an engine")
    print(f"{passed} passed, {len(cases) - passed} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
