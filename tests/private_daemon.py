"""A fusiond of a test's own, for tests in Python: in a folder of its own with its socket and its cache of kernels.

    with Daemon(settings=["engine.slice_us=0"]) as daemon:
        ...daemon.socket

It dies with the process that made it. Programs are looked for in $FUSION_BUILD, else in build/.
"""
import ctypes
import fcntl
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("FUSION_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build")))
START_SECONDS = 1200     # only what hangs takes so long, however busy the machine is
STOP_SECONDS = 600
PR_SET_PDEATHSIG = 1
# A folder of caches of kernels, of which each daemon takes one that no other has at the time: drivers unpack machine
# code that we kept into theirs in place, so two at once may meet half a file.
CACHES = "FUSION_CACHES"
# What the driver kept itself of what it compiled, for all tests of a run: see tests/driver_cache.h.
DRIVER_CACHE = "FUSION_DRIVER_CACHE"
# The one setting of the environment that daemons of tests have: how their clients' requests travel, for runs of the same tests by nng.
TRANSPORT = "FUSIOND_FUSION_TRANSPORT"
# Whoever debugs a failure may keep the folder of the daemon.
KEEP = os.environ.get("FUSION_KEEP")


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Daemon:
    """A private fusiond. cache: a folder of kernels to share with other daemons; None: one of those in the folder that
    FUSION_CACHES names, without it one of its own, removed at the end."""

    def __init__(self, strategy=None, settings=(), cache=None):
        self.settings = list(settings)
        if strategy:
            self.settings.append(f"device.strategy={strategy}")
        self.cache = cache
        self.process = self.folder = self.lock = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="fusion-oracle-")
        self.socket = os.path.join(self.folder, "door")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _borrow(self, caches):
        for number in itertools.count():
            folder = os.path.join(caches, str(number))
            os.makedirs(folder, exist_ok=True)
            self.lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return folder
            except BlockingIOError:
                os.close(self.lock)

    def _choose_cache(self):
        if not self.cache and CACHES in os.environ:
            return self._borrow(os.environ[CACHES])
        return self.cache or os.path.join(self.folder, "cache")

    def _start(self):
        cache = self._choose_cache()
        os.makedirs(cache, exist_ok=True)
        driver = os.path.join(cache, "driver")
        if DRIVER_CACHE in os.environ and not os.path.lexists(driver):
            os.symlink(os.path.abspath(os.environ[DRIVER_CACHE]), driver)
        # Of a device with memory of its own the daemons of other tests want some, too. Plans by figures that come when
        # they come would be other plans from run to run; interpreters take a compiler some seconds.
        command = [os.path.join(BUILD, "fusiond"), "--config", "/dev/null", "--socket", self.socket, "--cache-dir", cache,
                   "--set", "device.memory=2G", "--set", "device.measure=no", "--set", "fusion.interpreter=off"]
        for setting in self.settings:
            command += ["--set", setting]
        environment = {**os.environ, "HOME": self.folder, "XDG_RUNTIME_DIR": self.folder, "TMPDIR": self.folder}
        # A sanitizer that the tests' own process runs under is not the daemon's: its driver would not bear it.
        for name in [n for n in environment if n.startswith(("FUSIOND_", "NOTIFY_", "LD_PRELOAD")) and n != TRANSPORT]:
            del environment[name]
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
                raise RuntimeError(f"fusiond does not start: {self.log()}")
            time.sleep(0.02)

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def __exit__(self, kind=None, error=None, trace=None):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
        if error:
            error.add_note(f"the daemon's log:\n{self.log()[-3000:]}")
        if KEEP:
            print(f"kept {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
