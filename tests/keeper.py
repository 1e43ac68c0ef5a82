"""Stands in for a service manager that keeps descriptors: runs a daemon, takes what it hands over, and gives that to the next one.

usage: keeper.py NOTIFY_SOCKET STATE PROGRAM [ARGUMENT...]

A daemon that refuses its configuration (exit status 78), or fails before one was ever ready, is not started again: the keeper ends with that status.
SIGHUP ends the daemon and starts it again, SIGUSR1 kills it first, SIGTERM ends it for good. STATE is a file with the names of what is kept, one a
line, written anew with each change. STATE.times gets a line "EVENT MS PROCESSOR_MS" when a daemon is started, ready, told to end and has ended, and when
one that was told to end failed: the monotonic clock, and what the daemon and its processes have had of the processors.

With KEEPER_LISTEN=PATH it does what a socket unit asks for, too: the socket is there before and after each daemon, which is started once somebody connects.
"""
import ctypes
import os
import select
import signal
import socket
import sys
import time

path, state, command = sys.argv[1], sys.argv[2], sys.argv[3:]
listener = None
kept = []               # (name, descriptor), in the order in which they came
told = {"next": None}   # the signal for the daemon
seen = {"ready": False}
EX_CONFIG = 78

signal.signal(signal.SIGHUP, lambda *_: told.update(next=(signal.SIGTERM, True)))
signal.signal(signal.SIGUSR1, lambda *_: told.update(next=(signal.SIGKILL, True)))
signal.signal(signal.SIGTERM, lambda *_: told.update(next=(signal.SIGTERM, False)))

notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(path)
notify.settimeout(0.02)
if "KEEPER_LISTEN" in os.environ:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.environ.pop("KEEPER_LISTEN"))
    os.chmod(listener.getsockname(), 0o640)
    listener.listen(4096)


def write_state():
    with open(state + ".new", "w") as file:
        file.write("".join(name + "\n" for name, _ in kept))
    os.rename(state + ".new", state)


def processor_ms(pid):
    """Of a daemon and its children, those that have ended among them."""
    ticks = 0
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            processes = [pid, *file.read().split()]
        for process in processes:
            with open(f"/proc/{process}/stat") as file:
                ticks += sum(int(word) for word in file.read().rpartition(")")[2].split()[11:15])
    except OSError:
        pass
    return 1000 * ticks // os.sysconf("SC_CLK_TCK")


def note(event):
    os.write(times, f"{event} {time.monotonic_ns() // 1000000} {processor_ms(pid)}\n".encode())


def take_message():
    try:
        text, descriptors, _, _ = socket.recv_fds(notify, 4096, 8)
    except (TimeoutError, InterruptedError):
        return False
    fields = dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)
    name = fields.get("FDNAME", "stored")
    if fields.get("READY") == "1":
        note("ready")
        seen["ready"] = True
    if fields.get("FDSTORE") == "1":
        kept.extend((name, fd) for fd in descriptors)
    else:
        for fd in descriptors:
            os.close(fd)
    if fields.get("FDSTOREREMOVE") == "1":
        for each, fd in kept:
            if each == name:
                os.close(fd)
        kept[:] = [(each, fd) for each, fd in kept if each != name]
    if "FDSTORE" in fields or "FDSTOREREMOVE" in fields:
        write_state()
    return True


def start():
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    # From 3 on, whatever lies there now.
    passed = [*([("door", listener.fileno())] if listener else []), *kept]
    high = [os.dup2(fd, 1000 + i, inheritable=False) for i, (_, fd) in enumerate(passed)]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i, inheritable=True)
    os.environ["NOTIFY_SOCKET"] = path
    if high:
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=":".join(name for name, _ in passed))
    os.execv(command[0], command)


def group_lives(pid):
    """Of the daemon that has ended; what it has left is this process's to collect."""
    try:
        while os.waitpid(-pid, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    try:
        os.killpg(pid, 0)
        return True
    except ProcessLookupError:
        return False


def await_client():
    """False where the keeper is to end before somebody came."""
    while listener and not select.select([listener], [], [], 0.02)[0]:
        if told["next"]:
            return told["next"][1]
    return True


PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
write_state()
times = os.open(state + ".times", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
if not await_client():
    sys.exit(0)
pid, again = start(), True
note("started")
restarted = asked = False
while True:
    take_message()
    if told["next"]:
        number, again = told["next"]
        told["next"] = None
        restarted = again
        note("told")
        asked = number == signal.SIGTERM
        os.kill(pid, number)
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        continue
    # As a service manager does: nothing of it is left when the next one starts.
    if group_lives(pid):
        os.killpg(pid, signal.SIGKILL)
    while group_lives(pid):
        time.sleep(0.005)
    # What it said last.
    while take_message():
        pass
    note("ended")
    if asked and status:
        note("failed")
    asked = False
    if not again:
        sys.exit(os.waitstatus_to_exitcode(status))
    code = os.waitstatus_to_exitcode(status)
    if code == EX_CONFIG or (code and not seen["ready"] and not restarted):
        sys.exit(code if code > 0 else 1)
    # It has ended by itself.
    if listener and not status and told["next"] is None and not restarted and not await_client():
        sys.exit(0)
    restarted = False
    pid = start()
    note("started")
