"""A daemon of the tests' own, ended with them."""
import os
import subprocess
import sys

import pytest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests"))
from private_daemon import Daemon

_daemon = None


def pytest_configure(config):
    global _daemon
    # As who runs the tests wants it: kernels that are built, or (`always`) bytecode and generic kernels, which nobody waits for.
    _daemon = Daemon(settings=[f"fusion.interpreter={os.environ.get('FUSIOND_FUSION_INTERPRETER', 'off')}"]).__enter__()
    os.environ["FUSION_SOCKET"] = _daemon.socket
    os.environ.pop("FUSION_DEVICE", None)


def pytest_unconfigure(config):
    global _daemon
    if _daemon:
        import fusion
        fusion._base.shutdown()
        _daemon.__exit__()
        _daemon = None


def pytest_terminal_summary(terminalreporter):
    """The line that tests/check.sh counts by."""
    counts = {what: len(terminalreporter.stats.get(what, ())) for what in ("passed", "failed", "error", "skipped")}
    for report in terminalreporter.stats.get("skipped", ()):
        terminalreporter.write_line(f"skipped {report.nodeid.replace('::', ' ')}: {report.longrepr[-1]}")
    terminalreporter.write_line(f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed, {counts['skipped']} skipped")


@pytest.fixture
def run_python():
    """Runs a program in a process of its own: (exit status, what it printed)."""
    def run(program, **environment):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout + done.stderr
    return run
