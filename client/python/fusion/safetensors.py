"""Files of the safetensors format: arrays by name, read straight from the mapped file into memory that the daemon shares."""
from __future__ import annotations

import json
import math
import mmap
import os
import struct

from . import _core
from ._base import (as_device, bfloat16, bool as truth, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32,
                    uint64)
from ._errors import ArgumentError
from ._told import told_all

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Mapping

    from ._array import Array
    from ._base import Device

__all__ = ["load", "save"]

_TYPES = {"BOOL": truth, "I8": int8, "U8": uint8, "I16": int16, "U16": uint16, "I32": int32, "U32": uint32, "I64": int64,
          "U64": uint64, "F16": float16, "BF16": bfloat16, "F32": float32, "F64": float64}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
# More than any model's header has; what is longer is not one.
HEADER_BYTES = 100 << 20


def load(name: str | os.PathLike[str], *, device: Device | str | int | None = None) -> dict[str, Array]:
    """A dict of the arrays in a file. Each is copied once, from the file into shared memory."""
    context = as_device(device).context
    with open(os.fspath(name), "rb") as file, _mapped(name, file) as memory:
        header, begin = _header(name, memory)
        with memoryview(memory) as view:
            return {key: _array(name, key, entry, view, begin, context) for key, entry in header.items() if key != "__metadata__"}


def _mapped(name, file):
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise ArgumentError(f"safetensors: {name} is empty") from None


def _header(name, memory):
    size = struct.unpack("<Q", memory[:8])[0] if len(memory) >= 8 else -1
    if not 2 <= size <= min(HEADER_BYTES, len(memory) - 8):
        raise ArgumentError(f"safetensors: {name} has no header of that format")
    try:
        header = json.loads(memory[8:8 + size])
    except (ValueError, RecursionError) as e:
        raise ArgumentError(f"safetensors: the header of {name} does not read: {e}") from None
    if not isinstance(header, dict):
        raise ArgumentError(f"safetensors: the header of {name} is no object of arrays by name")
    return header, 8 + size


def _entry(name, key, entry):
    """Element type, shape and place of an array, if they are of the form that they must be."""
    try:
        dtype, shape, (start, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise ArgumentError(f"safetensors: {key} in {name} does not say its dtype, shape and data_offsets") from None
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise ArgumentError(f"safetensors: {key} in {name} is of {dtype}, which fusion has no element type for")
    # True is an integer to Python, and the bytes of two negative extents are as many as they should be.
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in (*shape, start, stop)):
        raise ArgumentError(f"safetensors: the shape or the data_offsets of {key} in {name} are no counts")
    return _TYPES[dtype], shape, start, stop


def _array(name, key, entry, view, begin, context):
    dtype, shape, start, stop = _entry(name, key, entry)
    if not start <= stop <= len(view) - begin or stop - start != math.prod(shape) * dtype.itemsize:
        raise ArgumentError(f"safetensors: {key} in {name} lies outside of the file, or is not of its size")
    with view[begin + start:begin + stop] as part:
        return _core.from_bytes(context, dtype, shape, part)


def save(name: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Writes arrays, a dict by name, to a file."""
    if not hasattr(arrays, "items") or not all(isinstance(x, _core.Array) for _, x in arrays.items()):
        raise TypeError(f"save: arrays is of {type(arrays).__name__}, not a dict of fusion arrays by name")
    header, parts, at = {}, [], 0
    for key, x in arrays.items():
        header[key] = {"dtype": _NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        parts.append(x)
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.fspath(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for x in parts:
            file.write(_core.to_bytes(x))


told_all(__all__, globals(), __name__)
