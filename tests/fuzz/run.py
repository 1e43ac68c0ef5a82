"""Runs fuzz targets: `make fuzz` one for a time, `make check` all that are kept and more of one in turn.

usage: run.py BUILD fuzz TARGET SECONDS
       run.py BUILD check TURN
       run.py BUILD keep TARGET

Inputs that are kept lie in tests/fuzz/corpus/TARGET.tar.xz, those found here in BUILD/corpus/TARGET; what fails in BUILD/found. `keep` makes the
smallest set of both that reaches as much the kept ones.
"""
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# A target that takes so long for one input hangs; of memory each has less than a tenth of it.
INPUT_SECONDS, MEMORY_MB = 120, 3000
# In check, of the target whose turn it is: a second or two; the planner's inputs are dear, and so are sessions with a daemon, which every run of check
# has.
RUNS, ALWAYS = 200000, ("api",)
RUNS_OF = {"plan": 1500, "api": 800, "session": 300, "config": 1500, "kept": 3000, "text": 5000, "catalogue": 3000, "remote": 20000, "nng": 50000}


def kept(target, folder):
    path = f"{HERE}/corpus/{target}.tar.xz"
    if os.path.exists(path):
        with tarfile.open(path) as tar:
            for i, member in enumerate(tar.getmembers()):
                with open(f"{folder}/{i}", "wb") as f:
                    f.write(tar.extractfile(member).read())
    return folder


def seeds(build, target, folder):
    if os.path.exists(f"{build}/fuzz-seeds"):
        subprocess.run([f"{build}/fuzz-seeds", target, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return folder


def run(build, target, *arguments):
    """The target's end and what it said: how many runs, and edges."""
    found = f"{build}/found"
    os.makedirs(found, exist_ok=True)
    command = [f"{build}/fuzz/{target}", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={found}/{target}-", "-print_final_stats=1"]
    p = subprocess.run(command + list(arguments), stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    edges = re.findall(r"cov: (\d+)", p.stderr)
    runs = re.findall(r"stat::number_of_executed_units: *(\d+)", p.stderr)
    return p.returncode, f"{runs[-1] if runs else 0} inputs, {edges[-1] if edges else 0} edges", p.stderr


def fuzz(build, target, seconds):
    mine = f"{build}/corpus/{target}"
    os.makedirs(mine, exist_ok=True)
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        before = len(os.listdir(mine))
        status, said, text = run(build, target, f"-max_total_time={seconds}", mine, kept(target, a), seeds(build, target, b))
    print(f"{target}: {said}, {len(os.listdir(mine)) - before} new, " + ("nothing found" if not status else "FOUND"))
    if status:
        print(text[-6000:])
    return status


def keep(build, target):
    mine = f"{build}/corpus/{target}"
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b, tempfile.TemporaryDirectory() as least:
        subprocess.run([f"{build}/fuzz/{target}", "-merge=1", "-use_counters=0", least, kept(target, a), mine, seeds(build, target, b)], stderr=subprocess.DEVNULL, check=True)
        os.makedirs(f"{HERE}/corpus", exist_ok=True)
        with tarfile.open(f"{HERE}/corpus/{target}.tar.xz", "w:xz") as tar:
            for name in sorted(os.listdir(least)):
                with open(f"{least}/{name}", "rb") as f:
                    data = f.read()
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        print(f"{target}: {len(os.listdir(least))} inputs kept")
    return 0


def check(build, turn):
    targets = sorted(os.listdir(f"{build}/fuzz"))
    passed = failed = 0
    for i, target in enumerate(targets):
        with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as mine:
            more = [f"-runs={RUNS_OF.get(target, RUNS)}", f"-seed={turn + 1}", mine] if i == turn % len(targets) or target in ALWAYS else ["-runs=0"]
            status, said, text = run(build, target, *more, kept(target, a))
        print(f"note: {target}: {said}")
        passed += not status
        failed += bool(status)
        if status:
            print(text[-6000:])
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    build, what, *rest = sys.argv[1:]
    if what == "check":
        sys.exit(bool(check(build, int(rest[0] or 0))))
    sys.exit(fuzz(build, rest[0], int(rest[1])) if what == "fuzz" else keep(build, rest[0]))
