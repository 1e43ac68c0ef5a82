#!/usr/bin/env python3
"""A client of fusiond in Python without libraries, written from fusion-protocol(7) alone: it connects, uploads, runs, reads, meets
errors, and goes. Numbers of messages, operations, types and errors are those of the page.

usage: protocol_client.py SOCKET
"""
import array
import mmap
import os
import socket
import struct
import sys

# ---- msgpack ----


def pack(value):
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value < 128:
            return bytes([value])
        return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, dict):
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))


class Unpacker:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        if self.at > len(self.data):
            raise ValueError("the text ends early")
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def value(self):
        tag = self.number("B")
        if tag < 0x80:
            return tag
        if tag >= 0xe0:
            return tag - 0x100
        if tag < 0x90:
            return self.pairs(tag & 0xf)
        if tag < 0xa0:
            return [self.value() for _ in range(tag & 0xf)]
        if tag < 0xc0:
            return self.take(tag & 0x1f).decode()
        if tag in (0xc2, 0xc3):
            return tag == 0xc3
        if tag in range(0xc4, 0xc7):
            return self.take(self.number("BHI"[tag - 0xc4]))
        if tag in range(0xcc, 0xd4):
            return self.number("BHIQbhiq"[tag - 0xcc])
        if tag in range(0xd9, 0xdc):
            return self.take(self.number("BHI"[tag - 0xd9])).decode()
        if tag in (0xdc, 0xdd):
            return [self.value() for _ in range(self.number("HI"[tag - 0xdc]))]
        if tag in (0xde, 0xdf):
            return self.pairs(self.number("HI"[tag - 0xde]))
        raise ValueError(f"no value begins with {tag:#x}")

    def pairs(self, count):
        return {self.value(): self.value() for _ in range(count)}


def unpack(data):
    u = Unpacker(data)
    value = u.value()
    if u.at != len(data):
        raise ValueError("something follows the value")
    return value


# ---- the protocol ----

DOOR_HELLO, DOOR_ARENA_NEW, DOOR_ARENA_GET, DOOR_STATUS = 1, 2, 3, 4
SUBMIT, WAIT, READ, CONFIGURE = 1, 2, 3, 12
F32 = 11
ADD, MUL, TANH, REDUCE_SUM, LOAD, FILL = 64, 66, 7, 128, 160, 161
ERROR_SHAPE, ERROR_HANDLE, ERROR_OPERATION, ERROR_ARGUMENT, ERROR_CONNECT = 2, 7, 16, 1, 13
ALIGNMENT, SLACK = 128, 256


class Fault(Exception):
    def __init__(self, answer):
        super().__init__(answer[2])
        self.code, self.rest = answer[1], answer[3:]


class Client:
    def __init__(self, path, options=None, name="protocol_client"):
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.settimeout(120)
        self.door.connect(path)
        answer, _ = self.ask_door(DOOR_HELLO, 1, 0, name, options or {})
        self.features, self.session, self.secret, self.url, self.device = answer[2:7]
        self.arenas, self.seq, self.requests = {}, 0, 0
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stream.settimeout(120)
        self.stream.connect(self.url.removeprefix("ipc://"))
        self.stream.sendall(struct.pack(">4sHH", b"\0SP\0", 0x30, 0))
        if self.receive(8) != struct.pack(">4sHH", b"\0SP\0", 0x31, 0):
            raise ValueError("the engine is no rep0")

    def ask_door(self, *message):
        self.door.send(pack(list(message)))
        data, descriptors, _, _ = socket.recv_fds(self.door, 1 << 18, 4)
        answer = unpack(data)
        if answer[0] == 0:
            raise Fault(answer)
        return answer, descriptors

    def receive(self, count):
        data = b""
        while len(data) < count:
            part = self.stream.recv(count - len(data))
            if not part:
                raise ConnectionError("the engine hung up")
            data += part
        return data

    def ask(self, message, *fields):
        self.requests += 1
        head = struct.pack(">I", self.requests | 1 << 31)
        frame = head + pack([message, self.session, self.secret, *fields])
        self.stream.sendall(b"\1" + struct.pack(">Q", len(frame)) + frame)
        kind, size = struct.unpack(">BQ", self.receive(9))
        answer = self.receive(size)
        if kind != 1 or answer[:4] != head:
            raise ValueError("this is no answer to the request")
        answer = unpack(answer[4:])
        if answer[0] == 0:
            raise Fault(answer)
        return answer

    def map_arena(self, answer, descriptors):
        arena, size = answer[1:3]
        self.arenas[arena] = mmap.mmap(descriptors[0], size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(descriptors[0])
        return arena

    def new_arena(self, size):
        return self.map_arena(*self.ask_door(DOOR_ARENA_NEW, size))

    def submit(self, operations, outputs=(), releases=()):
        self.seq += 1
        return self.ask(SUBMIT, self.seq, 0, operations, [n for pair in outputs for n in pair], list(releases))[2]

    def read(self, handle):
        arena, offset, size, freed = self.ask(READ, self.seq, handle)[1:5]      # later versions may say more
        if arena not in self.arenas:
            self.map_arena(*self.ask_door(DOOR_ARENA_GET, arena))
        return array.array("f", self.arenas[arena][offset:offset + size]).tolist(), freed


def handle(slot, generation):
    return generation << 32 | slot


def f32_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


# ---- what it does ----

done = []


def check(claim, truth):
    if not truth:
        sys.exit(f"FAIL {claim}")
    done.append(claim)


def refused(code, function, *arguments):
    try:
        function(*arguments)
    except Fault as f:
        return f.code == code and len(str(f)) > 10
    return False


def main():
    path = sys.argv[1]
    c = Client(path)
    check("a session begins", c.session > 0 and len(c.secret) == 16 and c.url.startswith("ipc:///") and c.device)

    # Two arrays of 3 and 2 x 3 numbers, side by side in an arena of ours.
    arena = c.new_arena(4096)
    x, y = [1.0, -2.0, 3.0], [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    memory = c.arenas[arena]
    memory[0:12] = array.array("f", x).tobytes()
    memory[ALIGNMENT:ALIGNMENT + 24] = array.array("f", y).tobytes()
    check("an arena has room behind its arrays", len(memory) >= ALIGNMENT + 24 + SLACK)
    a, b, total = handle(0, 1), handle(1, 1), handle(2, 1)
    c.submit([[LOAD, F32, [3], arena, 0], [LOAD, F32, [2, 3], arena, ALIGNMENT], [MUL, 0, 1], [REDUCE_SUM, 2, 0b10, False]],
        [(0, a), (2, b), (3, total)])
    product = [p * q for p, q in zip(x + x, y)]
    check("what was uploaded is computed and read", c.read(b)[0] == product)
    check("a reduction gives sums of rows", c.read(total)[0] == [sum(product[:3]), sum(product[3:])])
    check("an array is read twice", c.read(b)[0] == product)

    # Handles are operands, a scalar broadcasts; the first array is released, its memory told as free.
    more = handle(3, 1)
    freed = c.submit([[FILL, F32, [], f32_bits(10.0)], [ADD, -1 - a, 0]], [(1, more)], [a])
    values, told = c.read(more)
    check("handles are operands", values == [11.0, 8.0, 13.0])
    freed += told + c.ask(WAIT, c.seq)[2]
    check("memory that nothing uses is told", [freed[i:i + 2] for i in range(0, len(freed), 2)].count([arena, 0]) == 1)
    check("a released handle is refused", refused(ERROR_HANDLE, c.read, a))

    # Faults: each names what is wrong, and the session goes on.
    check("shapes that do not fit are refused", refused(ERROR_SHAPE, c.submit, [[ADD, -1 - more, -1 - total]], [(0, handle(4, 1))]))
    check("an operation that does not exist is refused", refused(ERROR_OPERATION, c.submit, [[250, -1 - more]]))
    try:
        c.submit([[TANH, -1 - more], [ADD, 0, -1 - total]], [(0, handle(5, 1))])
    except Fault as f:
        check("the operation to blame is told", f.code == ERROR_SHAPE and f.rest == [c.seq, 1])
    check("a setting that does not exist is refused", refused(ERROR_ARGUMENT, c.ask, CONFIGURE, "fusion.nothing", "1"))
    faults = c.ask(WAIT, c.seq)[3]
    check("faults of batches are told by WAIT too", isinstance(faults, list))
    check("the session goes on", c.read(more)[0] == [11.0, 8.0, 13.0])

    # A stale generation, and another session's secret.
    c.submit([[TANH, -1 - more]], [(0, handle(0, 2))])
    check("a stale handle is refused", refused(ERROR_HANDLE, c.read, a))
    other = Client(path, {"fusion.enabled": "no"})
    other.secret = c.secret
    check("a secret is a session's own", refused(ERROR_CONNECT, other.ask, WAIT, 0))
    other.door.close()

    # One batch after the other, none waited for before the reads.
    for i in range(8):
        c.submit([[FILL, F32, [4], f32_bits(float(i))]], [(0, handle(10 + i, 1))])
    check("many results are read", all(c.read(handle(10 + i, 1))[0] == [float(i)] * 4 for i in range(8)))
    c.door.close()
    print(f"{len(done)} passed, 0 failed")


if __name__ == "__main__":
    main()
