"""Two daemons on one cache folder, of which one or the other is killed while it builds, again and again.

Every round runs a graph that neither has seen on both, and kills the engine or the whole daemon of one of them at a random moment. The
other one must give the right result; so must the killed one once it is back. At the end the cache is read whole, and a daemon that
has never been killed gives every result again from it. Arithmetic is of small integers, so results are exact.

KILLS (6), SEED (1): make check-cache does 200.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("FUSION_BUILD", "build")
KILLS = int(os.environ.get("KILLS", "6"))
SEED = int(os.environ.get("SEED", "1"))
ELEMENTS = 8
OPERATIONS = 5
# A build takes so long on an idle machine; the moment of the kill is chosen within twice that.
BUILD_SECONDS = 0.4
WAIT_SECONDS = 1200

STEPS = {
    "add {} 3": lambda a: a + 3,
    "sub {} 7": lambda a: a - 7,
    "mul {} 2": lambda a: a * 2,
    "neg {}": lambda a: -a,
    "abs {}": abs,
    "relu {}": lambda a: max(a, 0),
    "maximum {} 5": lambda a: max(a, 5),
    "minimum {} 9": lambda a: min(a, 9),
}


class Daemon:
    """One that is started again when it was killed."""

    def __init__(self, root, name):
        self.socket = f"{root}/{name}"
        self.cache = f"{root}/cache"
        self.log = open(f"{root}/{name}.log", "a")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [f"{BUILD}/fusiond", "--config", "/dev/null", "--socket", self.socket, "--cache-dir", self.cache, "--set",
             "device.measure=no"], stdout=self.log, stderr=self.log)

    def ask(self, *arguments):
        return subprocess.run([f"{BUILD}/fusionctl", "--socket", self.socket, *arguments], capture_output=True, text=True)

    def status(self):
        answer = self.ask("--json", "status")
        return json.loads(answer.stdout) if answer.returncode in (0, 4) else None

    def await_ready(self, killed=None):
        """The process of its engine, which is not the killed one: the supervisor may not know of its end yet."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            status = self.status()
            if status and status["engines"][0]["state"] == "ready" and status["engines"][0]["pid"] != killed:
                return status["engines"][0]["pid"]
            if self.process.poll() is not None:
                self.start()
            time.sleep(0.02)
        raise SystemExit(f"the daemon at {self.socket} is not ready after {WAIT_SECONDS} s")

    def run(self, path):
        return subprocess.Popen([f"{BUILD}/fusionctl", "--socket", self.socket, "--json", "run", path],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.log.close()


def new_graph(rng, root, number):
    """A chain that no other round has, with what it gives."""
    names = [rng.choice(list(STEPS)) for _ in range(OPERATIONS)]
    values = [rng.randrange(-20, 20) for _ in range(ELEMENTS)]
    lines = [f"v0 = input f32[{ELEMENTS}] = " + " ".join(map(str, values))]
    for i, name in enumerate(names):
        lines.append(f"v{i + 1} = " + name.format(f"v{i}"))
        values = [STEPS[name](v) for v in values]
    path = f"{root}/{number}.fz"
    with open(path, "w") as file:
        file.write("\n".join(lines + [f"output v{OPERATIONS}", ""]))
    return path, values


def result(process):
    """The values, or the sentence of the error."""
    out, err = process.communicate()
    if process.returncode:
        return err.strip()
    return json.loads(out)["outputs"][0]["values"]


def kill(rng, daemon, engine):
    time.sleep(rng.random() * 2 * BUILD_SECONDS)
    try:
        if rng.random() < 0.7:
            os.kill(engine, signal.SIGKILL)
        else:
            daemon.process.kill()
            daemon.process.wait()
    except ProcessLookupError:
        pass


def one_round(rng, daemons, path, want):
    """The failures of a round."""
    victim, other = rng.sample(daemons, 2)
    engine = victim.await_ready()
    other.await_ready()
    running = {daemon: daemon.run(path) for daemon in daemons}
    kill(rng, victim, engine)
    got = result(running[other])
    if got != want:
        return [f"{path}: beside the one that was killed: {got}, not {want}"]
    result(running[victim])
    victim.await_ready(engine)
    got = result(victim.run(path))
    return [] if got == want else [f"{path}: after the kill: {got}, not {want}"]


def check_cache(daemon):
    answer = subprocess.run([f"{BUILD}/fusiond", "--cache", "verify", "--config", "/dev/null", "--cache-dir", daemon.cache],
                            capture_output=True, text=True)
    damaged = json.loads(answer.stdout)["damaged"]["count"]
    return [f"{damaged} entries of the cache are damaged"] if damaged else []


def main():
    rng = random.Random(SEED)
    failures, graphs = [], []
    with tempfile.TemporaryDirectory() as root:
        daemons = [Daemon(root, "one"), Daemon(root, "two")]
        for daemon in daemons:
            daemon.start()
        for number in range(KILLS):
            graphs.append(new_graph(rng, root, number))
            failures += one_round(rng, daemons, *graphs[-1])
        for daemon in daemons:
            daemon.stop()
        failures += check_cache(daemons[0])
        last = Daemon(root, "last")
        last.start()
        last.await_ready()
        for path, want in graphs:
            got = result(last.run(path))
            if got != want:
                failures.append(f"{path}: from the cache: {got}, not {want}")
        last.stop()
    for failure in failures:
        print("FAIL", failure)
    print(f"{3 * KILLS + 1 - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
