"""A daemon of the tests' own, on its own socket and cache folder, ended with them.

Programs are looked for in $FUSION_BUILD, else in build/. What the driver compiled is kept where FUSION_DRIVER_CACHE says, as in
tests/driver_cache.h.
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
BUILD = os.path.abspath(os.environ.get("FUSION_BUILD", os.path.join(ROOT, "build")))
START_SECONDS = 240      # for whatever ends by itself: a first start builds kernels on a busy machine


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Daemon:
    def __init__(self, *settings):
        self.folder = tempfile.mkdtemp(prefix="fusion-python-")
        self.socket = os.path.join(self.folder, "door")
        cache = os.path.join(self.folder, "cache")
        os.mkdir(cache)
        if "FUSION_DRIVER_CACHE" in os.environ:
            os.symlink(os.path.abspath(os.environ["FUSION_DRIVER_CACHE"]), os.path.join(cache, "driver"))
        command = [os.path.join(BUILD, "fusiond"), "--config", "/dev/null", "--socket", self.socket, "--cache-dir", cache]
        for setting in ("device.memory=2G", "device.measure=no", "fusion.interpreter=off", *settings):
            command += ["--set", setting]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("FUSIOND_", "NOTIFY_", "FUSION_"))}
        environment.update(HOME=self.folder, XDG_RUNTIME_DIR=self.folder, TMPDIR=self.folder)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                            preexec_fn=_die_with_parent)
        self._await_door()

    def _await_door(self):
        limit = time.monotonic() + START_SECONDS
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                try:
                    probe.connect(self.socket)
                    return
                except OSError:
                    pass
            if self.process.poll() is not None or time.monotonic() > limit:
                with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
                    raise RuntimeError(f"fusiond does not start: {log.read()}")
            time.sleep(0.02)

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_daemon = None


def pytest_configure(config):
    global _daemon
    _daemon = Daemon()
    os.environ["FUSION_SOCKET"] = _daemon.socket
    os.environ.pop("FUSION_DEVICE", None)


def pytest_unconfigure(config):
    global _daemon
    if _daemon:
        import fusion
        fusion._base.shutdown()
        _daemon.end()
        _daemon = None


def pytest_terminal_summary(terminalreporter):
    """The line that tests/check.sh counts by."""
    counts = {what: len(terminalreporter.stats.get(what, ())) for what in ("passed", "failed", "error")}
    terminalreporter.write_line(f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed")


@pytest.fixture
def run_python():
    """Runs a program in a process of its own: (exit status, what it printed)."""
    def run(program, **environment):
        import sys
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout + done.stderr
    return run
