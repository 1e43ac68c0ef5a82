"""Element types, errors, devices and sessions: what everything else of the package stands on."""
from __future__ import annotations

import builtins
import operator
import os
import threading

from . import _core
from ._errors import DTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, TypeAlias

    # What parameters of these names take.
    Axes: TypeAlias = "int | tuple[int, ...] | None"
    Type: TypeAlias = "DType | str | type | None"
    Like: TypeAlias = "Any"             # what asarray() takes

# ---- element types ----


class DType:
    """An element type; there is one object of each."""

    __slots__ = ("name", "kind", "bits")

    def __init__(self, name: str, kind: str, bits: int) -> None:
        self.name, self.kind, self.bits = name, kind, bits

    def __repr__(self) -> str:
        return f"fusion.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self):
        return _dtype_named, (self.name,)

    def __call__(self, value: Like = 0) -> Any:
        """A number of the type: an array without dimensions."""
        from ._creation import asarray
        try:
            return asarray(value, dtype=self)
        except Exception as e:
            from ._told import tell
            tell(e, DType.__call__, self.name, (self, value), {})
            raise

    def __eq__(self, other: object) -> builtins.bool:
        """Also a name, a type of Python or a dtype of NumPy that means the same."""
        if self is other or isinstance(other, DType) or other is None:
            return self is other
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def itemsize(self) -> int:
        return self.bits // 8


DTYPES = tuple(DType(*row) for row in _core.DTYPES)
_by_name = {d.name: d for d in DTYPES}
# What NumPy writes for them: "f4", "<f4".
_by_code = {f"{d.kind}{d.bits // 8}": d for d in DTYPES if d.name != "bfloat16"} | {"?": _by_name["bool"], "float": _by_name["float64"], "int": _by_name["int64"]}
(bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64) = DTYPES


def _dtype_named(name):
    return _by_name[name]


def as_dtype(d: Any) -> Any:
    """An element type from one, its name, a type of Python or a dtype of NumPy."""
    if isinstance(d, DType) or d is None:
        return d
    if isinstance(d, type) and d in (builtins.bool, int, float):
        return bool if d is builtins.bool else int64 if d is int else default_real()
    if d is complex or "complex" in str(d):
        raise DTypeError(f"{d}: complex numbers are not supported: no device of fusion computes with them")
    name = d if isinstance(d, str) else getattr(d, "name", getattr(d, "__name__", None))
    found = _by_name.get(name) or _by_code.get(name.lstrip("<=|")) if isinstance(name, str) else None
    if found is None:
        raise TypeError(f"dtype {d!r} is not an element type of fusion: they are {', '.join(_by_name)}")
    return found


def element_type(d: Any) -> DType:
    """as_dtype() of what may not be left out."""
    if d is None:
        raise TypeError("dtype None is not an element type of fusion")
    return as_dtype(d)


def number(v: Any) -> Any:
    """A number of Python from a scalar of NumPy; all else as it is."""
    return v.item() if hasattr(v, "__array_interface__") and not v.ndim else v


def shown(value: Any) -> str:
    """An argument as a few words, whatever its own are; of an array nothing that would have to be waited for."""
    if isinstance(value, _core.Array):
        return f"an array of shape {value.shape}"
    import reprlib
    return reprlib.repr(value).replace("\n", " ")


def whole(v: Any, name: str) -> int:
    """The integer that an argument of this name is."""
    if isinstance(v, type) or not hasattr(v, "__index__"):
        raise TypeError(f"{name} is {shown(v)}, not an integer")
    return operator.index(v)


def real(v: Any, name: str) -> float:
    """The number that an argument of this name is. Python would read one from a text."""
    if isinstance(v, (str, bytes, bytearray, type)) or not (hasattr(v, "__float__") or hasattr(v, "__index__")):
        raise TypeError(f"{name} is {shown(v)}, not a number")
    return float(v)


# ---- devices and sessions ----

_lock = threading.RLock()
_devices: dict[str, Device] = {}          # name and number asked for -> Device
_by_context: dict[int, Device] = {}       # number of a context -> Device
_all: tuple[Device, ...] | None = None
_pid = os.getpid()     # a child of fork() leaves the sessions of its parent alone


class Device:
    """A device of the daemon. The session with it is opened when it is first needed."""

    def __init__(self, which: str | None = None) -> None:
        if which is not None and not isinstance(which, str):
            raise TypeError(f"Device: which is {which!r}, not a name")
        self._which = which
        self._context: _core.Context | None = None

    @property
    def context(self) -> _core.Context:
        if self._context is None:
            with _lock:
                if self._context is None:
                    self._context = _core.Context(device=self._which)
                    _by_context[self._context.number] = self
        return self._context

    @property
    def name(self) -> str:
        return self.context.device

    def __repr__(self) -> str:
        return f"<fusion device {self.name}>"

    def __eq__(self, other: object) -> builtins.bool:
        return self is other or isinstance(other, Device) and self.name == other.name and None in (self._which, other._which)

    def __hash__(self) -> int:
        return hash(self.name)


_default = Device()


def _device_of(number):
    return _by_context[number]


def as_device(device: Device | str | int | None) -> Device:
    """A Device from one, a part of its name, its number, or None: the default one."""
    if device is None:
        return _default
    if isinstance(device, Device):
        return device
    if isinstance(device, (str, int)) and not isinstance(device, builtins.bool):
        with _lock:
            found = _devices.get(str(device))
            if found is None:
                found = Device(str(device))
                found.context       # an error where there is no such device
                _devices[str(device)] = found
            return found
    raise TypeError(f"device {device!r} is none: a device has a name and a number")


def devices() -> tuple[Device, ...]:
    """The devices of the daemon."""
    global _all
    import json
    if _all is None:
        status = json.loads(_default.context.stats(True))
        count = max(1, len(status.get("devices", [])))
        _all = (_default,) if count == 1 else tuple(as_device(i) for i in range(count))
    return _all


def default_real() -> DType:
    """The type of numbers with a fraction where nothing else is said: float64, float32 where the device has none."""
    return _real[0]


_real = [float64]


def set_default_real(dtype: DType | str | type) -> None:
    """The type of numbers with a fraction where nothing else is said, from here on, for all threads."""
    chosen = element_type(dtype)
    if chosen not in (float32, float64):
        raise DTypeError("the default floating-point type is float32 or float64")
    _core.default_real(chosen)
    _real[0] = chosen


def shutdown():
    """Ends the sessions: the interpreter does so at its end."""
    _core.listen(False)
    for device in list(_by_context.values()):
        if _pid == os.getpid():
            device._context.close()
