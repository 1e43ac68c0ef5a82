#!/usr/bin/env python3
"""Hostile clients, as users of their own, against a daemon: others are served meanwhile and get what is right, nobody else is refused, and nothing
is kept once they have gone.

Each attack is a function that runs in a process of another user until it returns, is refused or a bound is reached, or a generator: all that it yields is held
for HELD_S more. Meanwhile the victim computes, who is a plain user as well. Times are printed, never asserted.

usage: hostile.py SOCKET SUPERVISOR_PID [ATTACK...]
"""
import contextlib
import json
import os
import random
import signal
import socket
import struct
import sys
import time

import protocol_client as p

EXPLAIN, CAN_FUSE, REPLAY, DEFINE, STATS, EXPORT, IMPORT, MADE, RECENT = 9, 11, 7, 6, 10, 14, 15, 35, 22
DOOR_KILL = 8
SHARE_READ, SHARE_WRITE = 1, 2
FIRST_UID, VICTIM_UID = 61000, 60999
MOST_OPS = 16384
# What ends an attack that hangs; nothing else hangs on it.
BOUND_S = 600
# A share outlives who made it by so much: long enough to have sessions end before.
LIFETIME_US = 1000000
# So long what an attack yields is held.
HELD_S = 2
# Rounds until the victim's graph runs by a kernel of its own, and those that tell how fast it is by itself.
WARM_ROUNDS, QUIET_ROUNDS = 200, 100
# Of so many attacks a slice takes one: some take a minute.
ATTACKS_OF = 4

# ---- attacks ----


def graph(seed, count=MOST_OPS):
    """The largest batch: f32[8, 8], elementwise, that no other seed makes."""
    rng = random.Random(seed)
    ops = [[p.FILL, p.F32, [8, 8], p.f32_bits(1 / (i + 1))] for i in range(8)]
    while len(ops) < count:
        a, b = (len(ops) - 1 - rng.randrange(8) for _ in range(2))
        ops.append([p.ADD if rng.random() < 0.5 else p.MUL, a, b])
    return ops


def tolerate(function, *arguments):
    """A refusal is what is wanted; a broken connection ends the attack."""
    try:
        return function(*arguments)
    except p.Fault:
        return None


def new_graphs(path):
    """The second waits until the kernels of the first are built; those of the second nobody waits for any more."""
    c = p.Client(path)
    for seed, count in enumerate((500, MOST_OPS)):
        tolerate(c.submit, graph(os.getuid() + seed, count), [(count - 1, p.handle(seed, 1))])


def explanations(path):
    c = p.Client(path)
    for seed in range(2):
        ops = graph(seed)
        tolerate(c.ask, EXPLAIN, ops, [MOST_OPS - 1], 4 * seed)
        tolerate(c.ask, CAN_FUSE, ops, [MOST_OPS - 1], 10, 11)


def gone_in_the_midst(path):
    """Sessions that end while their graphs are planned, explained and run."""
    for seed in range(6):
        c = p.Client(path)
        c.requests, c.seq = 1, 1
        fields = [EXPLAIN, c.session, c.secret, graph(seed), [MOST_OPS - 1], 4] if seed % 2 else \
            [p.SUBMIT, c.session, c.secret, 1, 0, graph(seed), [MOST_OPS - 1, p.handle(0, 1)], []]
        frame = struct.pack(">I", 1 | 1 << 31) + p.pack(fields)
        c.stream.sendall(b"\1" + struct.pack(">Q", len(frame)) + frame)
        time.sleep(random.random() / 50)
        c.door.close()
        c.stream.close()


def deaf(path):
    """Asks, and reads no answer."""
    for _ in range(4):
        c = p.Client(path)
        c.stream.settimeout(1)
        frame = struct.pack(">I", 1 | 1 << 31) + p.pack([EXPLAIN, c.session, c.secret, graph(3, 2000), [1999], 4])
        try:
            for _ in range(16):
                c.stream.sendall(b"\1" + struct.pack(">Q", len(frame)) + frame)
        except OSError:
            pass
        yield c


def memory(path):
    """Arenas as large as may be, again and again, through sessions that end: what is charged to nobody is taken from all."""
    for size in (1 << 40, 256 << 20, 1 << 20):
        c = p.Client(path)
        for _ in range(3):
            try:
                answer, descriptors = c.ask_door(p.DOOR_ARENA_NEW, size)
            except p.Fault:
                break
            for d in descriptors:
                # Nor may it be made smaller under the daemon.
                try:
                    os.ftruncate(d, 0)
                    sys.exit("an arena was cut")
                except OSError:
                    pass
                os.close(d)
        c.door.close()


def sessions(path):
    """As many as there are, and half of them are left to the system."""
    held = []
    try:
        for _ in range(400):
            held.append(p.Client(path))
    except (p.Fault, OSError):
        pass
    for c in held[::2]:
        c.door.close()
    yield held


def silent(path):
    """Connections that say nothing, or half a word."""
    held = []
    for i in range(300):
        try:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(path)
            if i % 2:
                s.send(b"\xdd\0\0")
            held.append(s)
        except OSError:
            break
    yield held


def descriptors(path):
    """Packets with descriptors that nobody wants: sockets whose close waits for bytes that are never read."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    for _ in range(5):
        sender = socket.socket()
        sender.connect(listener.getsockname())
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
        sender.setblocking(False)
        try:
            while True:
                sender.send(bytes(1 << 16))
        except BlockingIOError:
            pass
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(5)
        s.connect(path)
        try:
            socket.send_fds(s, [p.pack([p.DOOR_HELLO, 1, 0, "x", {}])], [sender.fileno()] * 8)
            s.recv(1 << 16)
        except OSError:
            pass
        s.close()
        # This process's own close is not to wait.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.close()


def strangers(path):
    """Sessions, arenas and tokens of others."""
    c = p.Client(path)
    for session in range(1, c.session + 20):
        for secret in (bytes(16), c.secret):
            if session == c.session:
                continue
            own = c.session, c.secret
            c.session, c.secret = session, secret
            if tolerate(c.ask, p.WAIT, 0):
                sys.exit("another session answered")
            c.session, c.secret = own
    for arena in range(200):
        if tolerate(c.ask_door, p.DOOR_ARENA_GET, arena):
            sys.exit("an arena of another session was handed out")
        tolerate(c.submit, [[p.LOAD, p.F32, [4], arena, 0], [p.TANH, 0]], [(1, p.handle(arena, 1))])
    for session in range(1, c.session + 20):
        if session != c.session and tolerate(c.ask_door, DOOR_KILL, session):
            sys.exit("another user's session was ended")
        if session != c.session and tolerate(c.ask, RECENT, session, 0):
            sys.exit("another user's graphs were told")
    for _ in range(200):
        if tolerate(c.ask, IMPORT, c.seq, os.urandom(16), p.handle(1 << 16, 1)):
            sys.exit("a token was guessed")


def nonsense(path):
    """Bytes of all kinds where frames are expected, and frames that promise more than there is."""
    rng = random.Random(1)
    for i in range(30):
        c = p.Client(path)
        c.stream.settimeout(5)
        good = p.pack([p.SUBMIT, c.session, c.secret, 1, 0, graph(i, 50), [49, p.handle(0, 1)], []])
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 8)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        size = rng.choice((len(bad) + 4, 1 << 62, 4, 0, 5 << 20))
        try:
            c.stream.sendall(b"\1" + struct.pack(">Q", size) + struct.pack(">I", 1 | 1 << 31) + bad)
            c.stream.recv(1 << 16)
        except OSError:
            pass
        c.door.close()
        c.stream.close()


def long_lists(path):
    """Frames of as many values as may be."""
    c = p.Client(path)
    for i in range(2):
        tolerate(c.submit, [], [], range(i, 800000))
        tolerate(c.submit, graph(i), [(n, p.handle(i * MOST_OPS + n, 1)) for n in range(MOST_OPS)])
        tolerate(c.ask, MADE, list(range(MOST_OPS)), 63)


def names(path):
    """Names and options that reach the log, the names where a session ends that ran something."""
    for text in ("\n<0>kernel: forged", "\x1b[2J", "a" * 4000, "\u202e", "%s%n%s%n"):
        for options in ({}, {"fusion.weight": text}, {text: "1"}):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(5)
            s.connect(path)
            try:
                s.send(p.pack([p.DOOR_HELLO, 1, 0, text, options]))
                s.recv(1 << 16)
            except OSError:
                pass
            s.close()
        c = tolerate(p.Client, path, {}, text)
        if c:
            c.submit([[p.FILL, p.F32, [4], 0], [p.TANH, 0]], [(1, p.handle(0, 1))])
            c.read(p.handle(0, 1))
            c.door.close()


def killed(path):
    """Killed in the midst, with much of everything."""
    for seed in range(2):
        child = os.fork()
        if not child:
            c = p.Client(path)
            c.new_arena(64 << 20)
            tolerate(c.submit, graph(seed + 50), [(n, p.handle(n, 1)) for n in range(0, MOST_OPS, 2)])
            while True:
                tolerate(c.ask, EXPLAIN, graph(seed, 3000), [2999], 4)
        time.sleep(0.5 + random.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def recorded(path):
    """Recorded graphs, many and large, of wrong types, run on what is not there; shares of all that is; and statistics in between."""
    c = p.Client(path)

    def change(message, *fields):
        c.seq += 1
        return tolerate(c.ask, message, c.seq, *fields)

    square = [p.F32, [8, 8]]
    for capture in range(20):
        ops = [[p.ADD, -1, -2], *([p.MUL, i, -1] for i in range(capture * 50))]
        change(DEFINE, capture, [square, square], ops, [len(ops) - 1])
        change(DEFINE, capture, [square] * 300, [[p.ADD, -1, -1 - 299]], [0, 0, 7])
        change(DEFINE, 1 << 40, [[200, [1 << 40] * 9]], ops, [0])
    for slot in range(50):
        c.submit([[p.FILL, p.F32, [8, 8], p.f32_bits(slot)]], [(0, p.handle(slot, 1))])
        a, b = p.handle(slot, 1), p.handle(1000 + slot, 1)
        change(REPLAY, 0, slot, [a, a], [b], [])
        change(REPLAY, 1 << 20, slot, [a, p.handle(slot, 99)], [a, a], [a, a])
        change(REPLAY, 0, 1 << 40, [], [], [])
        for rights in (SHARE_READ, SHARE_READ | SHARE_WRITE, 255):
            tolerate(c.ask, EXPORT, c.seq, a, p.handle(2000 + slot, rights), rights, LIFETIME_US)
        tolerate(c.ask, STATS, slot % 3)


ATTACKS = [new_graphs, explanations, gone_in_the_midst, deaf, memory, sessions, silent, descriptors, strangers, nonsense, long_lists, names, killed, recorded]

# ---- who is served meanwhile ----


@contextlib.contextmanager
def as_victim():
    """Whose connections these are the system tells by when they were made."""
    os.setegid(VICTIM_UID)
    os.seteuid(VICTIM_UID)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Victim:
    def __init__(self, path):
        with as_victim():
            self.client = p.Client(path)
        self.rounds = 0

    def round(self):
        """The sum of two numbers and what a graph of its own says, in a new handle; returns how long that took."""
        start = time.monotonic()
        self.rounds += 1
        value, h = float(self.rounds % 1000), p.handle(0, self.rounds)
        self.client.submit([[p.FILL, p.F32, [16], p.f32_bits(value)], [p.ADD, 0, 0]], [(1, h)])
        got = self.client.read(h)[0]
        self.client.submit([], [], [h])
        if got != [2 * value] * 16:
            sys.exit(f"FAIL the victim got {got[:2]} in place of {2 * value}")
        return time.monotonic() - start


def begin_attack(attack, path, uid):
    """In a process of that user."""
    child = os.fork()
    if child:
        return child
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    signal.alarm(BOUND_S)
    try:
        held = attack(path)
        if held is not None:
            held = list(held)
            time.sleep(HELD_S)
    except (OSError, p.Fault, ConnectionError, ValueError) as e:
        print(f"note: {attack.__name__} ended with: {str(e)[:100]}")
    sys.stdout.flush()
    os._exit(0)


# ---- what is kept ----


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(n) for n in f.read().split()]


def engine_of(supervisor):
    for pid in children(supervisor):
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            line = f.read().split(b"\0")
        if b"engine" in os.path.basename(line[0]) and not any(a.startswith(b"--worker") for a in line):
            return pid
    sys.exit("FAIL the engine has gone")


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def arenas_mapped(pid):
    with open(f"/proc/{pid}/maps") as f:
        return sum("memfd:fusion" in line for line in f)


def ask_status(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    s.send(p.pack([p.DOOR_STATUS]))
    status = json.loads(p.unpack(s.recv(1 << 20))[1])
    s.close()
    return status


def state(path, supervisor):
    status = ask_status(path)
    engine = engine_of(supervisor)
    return {"engine": engine, "sessions": len(status["sessions"]), "descriptors of the supervisor": descriptors_of(supervisor),
            "descriptors of the engine": descriptors_of(engine), "mappings": arenas_mapped(engine)}


def settles(path, supervisor, before, victim):
    """Workers and spare memory come and go: until nothing is more than it was, in vain for no longer than the bound."""
    end = time.monotonic() + BOUND_S
    while True:
        after = state(path, supervisor)
        more = {k: (before[k], v) for k, v in after.items() if (v != before[k] if k == "engine" else v > before[k])}
        if not more or time.monotonic() > end:
            return more
        victim.round()
        time.sleep(0.2)


def percentile(times, part):
    return 1000 * sorted(times)[min(len(times) - 1, int(part * len(times)))]


def of_slice():
    """The names of the attacks of this run: all, unless there are slices."""
    which, _, of = os.environ.get("FUSION_SLICE", "").partition("/")
    return [a.__name__ for i, a in enumerate(ATTACKS) if not of or (i - int(which)) % ATTACKS_OF == 0]


def main():
    path, supervisor = sys.argv[1], int(sys.argv[2])
    wanted = sys.argv[3:] or of_slice()
    os.environ["HOME"] = "/nonexistent"
    os.setgroups([])
    victim = Victim(path)
    if [s["uid"] for s in ask_status(path)["sessions"]] != [VICTIM_UID]:
        sys.exit("FAIL the victim is not the user that it should be")
    for _ in range(WARM_ROUNDS):
        victim.round()
    quiet = [victim.round() for _ in range(QUIET_ROUNDS)]
    passed = failed = 0
    for i, attack in enumerate(a for a in ATTACKS if a.__name__ in wanted):
        before = state(path, supervisor)
        child = begin_attack(attack, path, FIRST_UID + i)
        times, status = [victim.round()], None
        while status is None:
            times.append(victim.round())
            ended, code = os.waitpid(child, os.WNOHANG)
            status = code if ended else None
        # Who comes now is let in.
        other = Victim(path)
        other.round()
        other.client.door.close()
        other.client.stream.close()
        more = settles(path, supervisor, before, victim)
        print(f"note: {attack.__name__}: {len(times)} rounds of the victim, p99 {percentile(times, 0.99):.1f} ms, longest {1000 * max(times):.1f} ms; quiet p99 {percentile(quiet, 0.99):.1f} ms")
        if more or status:
            failed += 1
            print(f"FAIL {attack.__name__}: status {status}, kept (before, after): {more}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
