#!/usr/bin/python3
"""
Reads a trace of Perfetto's by https://perfetto.dev/docs/reference/trace-packet-proto, without our code, and holds it to what
trace_processor wants: slices of one track nest, each track has a name and a process, each process has a name.
"""
import sys


def fields(data):
    """The fields of a message, as (number, value): an int, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 0x7f) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            assert key & 7 in (1, 2), key
            size = 8 if key & 7 == 1 else varint()
            assert at + size <= len(data)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def message(data):
    """Fields that come once, by their numbers."""
    return dict(fields(data))


packets = [message(value) for number, value in fields(open(sys.argv[1], 'rb').read()) if number == 1]
processes, tracks, slices, names = {}, {}, {}, set()
for packet in packets:
    assert packet[10] == 1
    if 60 in packet:
        track = message(packet[60])
        if 3 in track:
            processes[track[1]] = message(track[3])
        else:
            assert track[1] not in tracks
            tracks[track[1]] = (track[2].decode(), track[5])
    else:
        event = message(packet[11])
        stack = slices.setdefault(event[11], [])
        if event[9] == 1:
            annotations = [message(value) for number, value in fields(packet[11]) if number == 4]
            stack.append(packet[8])
            assert event[22].decode() == tracks[event[11]][0] and annotations
            names.add((event[22].decode(), event[23].decode()))
            assert all(a[10] and (5 in a) != (6 in a) for a in annotations)
        else:
            # Each slice is closed before the next one of its track begins.
            assert event[9] == 2 and packet[8] >= stack.pop() and not stack
assert not any(slices.values()) and slices.keys() <= tracks.keys()
assert {process for _, process in tracks.values()} <= processes.keys()
assert all(process[1] == uuid and process[6] for uuid, process in processes.items())
assert {('device', 'map: mul tanh'), ('device', 'bytecode: mul tanh')} & names and ('launch', 'mul tanh') in names and ('request', 'SUBMIT') in names, names
assert {'request', 'window', 'plan', 'launch', 'run', 'device'} <= {name for name, _ in tracks.values()}, tracks
print('right')
