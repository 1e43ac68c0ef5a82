"""Stands in for a service manager that keeps descriptors: runs a daemon, takes what it hands over, and gives that to the next one.

usage: keeper.py NOTIFY_SOCKET STATE PROGRAM [ARGUMENT...]

SIGHUP ends the daemon and starts it again, SIGUSR1 kills it first, SIGTERM ends it for good. STATE is a file with the names of what is kept, one a
line, written anew with each change.
"""
import os
import signal
import socket
import sys
import time

path, state, command = sys.argv[1], sys.argv[2], sys.argv[3:]
kept = []               # (name, descriptor), in the order in which they came
told = {"next": None}   # the signal for the daemon

signal.signal(signal.SIGHUP, lambda *_: told.update(next=(signal.SIGTERM, True)))
signal.signal(signal.SIGUSR1, lambda *_: told.update(next=(signal.SIGKILL, True)))
signal.signal(signal.SIGTERM, lambda *_: told.update(next=(signal.SIGTERM, False)))

notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(path)
notify.settimeout(0.02)


def write_state():
    with open(state + ".new", "w") as file:
        file.write("".join(name + "\n" for name, _ in kept))
    os.rename(state + ".new", state)


def take_message():
    try:
        text, descriptors, _, _ = socket.recv_fds(notify, 4096, 8)
    except (TimeoutError, InterruptedError):
        return False
    fields = dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)
    name = fields.get("FDNAME", "stored")
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
    high = [os.dup2(fd, 1000 + i, inheritable=False) for i, (_, fd) in enumerate(kept)]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i, inheritable=True)
    os.environ["NOTIFY_SOCKET"] = path
    if high:
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=":".join(name for name, _ in kept))
    os.execv(command[0], command)


def group_lives(pid):
    try:
        os.killpg(pid, 0)
        return True
    except ProcessLookupError:
        return False


write_state()
pid, again = start(), True
while True:
    take_message()
    if told["next"]:
        number, again = told["next"]
        told["next"] = None
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
    if not again:
        sys.exit(os.waitstatus_to_exitcode(status))
    pid = start()
