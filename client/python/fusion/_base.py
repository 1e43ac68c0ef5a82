"""Element types, errors, devices and sessions: what everything else of the package stands on."""
import builtins
import os
import threading

from . import _core

# ---- element types ----


class DType:
    """An element type; there is one object of each."""

    __slots__ = ("name", "kind", "bits")

    def __init__(self, name, kind, bits):
        self.name, self.kind, self.bits = name, kind, bits

    def __repr__(self):
        return f"fusion.{self.name}"

    def __str__(self):
        return self.name

    def __reduce__(self):
        return _dtype_named, (self.name,)

    @property
    def itemsize(self):
        return self.bits // 8


DTYPES = tuple(DType(*row) for row in _core.DTYPES)
_by_name = {d.name: d for d in DTYPES}
(bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64) = DTYPES


def _dtype_named(name):
    return _by_name[name]


def as_dtype(d):
    """An element type from one, its name, a type of Python or a dtype of NumPy."""
    if isinstance(d, DType) or d is None:
        return d
    if isinstance(d, type) and d in (builtins.bool, int, float):
        return bool if d is builtins.bool else int64 if d is int else default_real()
    if d is complex or "complex" in str(d):
        raise DTypeError(f"{d}: complex numbers are not supported: no device of fusion computes with them")
    name = d if isinstance(d, str) else getattr(d, "name", getattr(d, "__name__", None))
    found = _by_name.get(name)
    if found is None:
        raise TypeError(f"{d!r} is not an element type of fusion: they are {', '.join(_by_name)}")
    return found


# ---- errors ----


class FusionError(Exception):
    """What libfusion or the daemon refuses. Its text names the operation, the shapes and the caller's line."""


# By the names of errors.def: what Python calls such an error.
_KINDS = {
    "ARGUMENT": ValueError, "SHAPE": ValueError, "DTYPE": TypeError, "RANK": ValueError, "OVERFLOW": OverflowError,
    "MEMORY": MemoryError, "CONNECT": ConnectionError, "TIMEOUT": TimeoutError, "ARITY": TypeError, "NONFINITE": ArithmeticError,
    "SYNTAX": ValueError, "TOKEN": PermissionError,
}


def _error_class(name, doc):
    kind = _KINDS.get(name, RuntimeError)
    title = {"DTYPE": "DType", "NONFINITE": "NonFinite"}.get(name, name.capitalize()) + "Error"
    return type(title, (FusionError, kind), {"__doc__": doc[0].upper() + doc[1:] + ".", "__module__": "fusion"})


ERRORS = {name: _error_class(name, doc) for name, (_, doc) in _core.ERRORS.items()}
ArgumentError, ShapeError, DTypeError = ERRORS["ARGUMENT"], ERRORS["SHAPE"], ERRORS["DTYPE"]

# ---- devices and sessions ----

_lock = threading.RLock()
_devices = {}          # name and number asked for -> Device
_by_context = {}       # number of a context -> Device
_all = None
_pid = os.getpid()     # a child of fork() leaves the sessions of its parent alone


class Device:
    """A device of the daemon. The session with it is opened when it is first needed."""

    def __init__(self, which=None):
        self._which, self._context = which, None

    @property
    def context(self):
        if self._context is None:
            with _lock:
                if self._context is None:
                    self._context = _core.Context(device=self._which)
                    _by_context[self._context.number] = self
        return self._context

    @property
    def name(self):
        return self.context.device

    def __repr__(self):
        return f"<fusion device {self.name}>"

    def __eq__(self, other):
        return self is other or isinstance(other, Device) and self.name == other.name and None in (self._which, other._which)

    def __hash__(self):
        return hash(self.name)


_default = Device()


def _device_of(number):
    return _by_context[number]


def as_device(device):
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
    raise TypeError(f"{device!r} is not a device")


def devices():
    """The devices of the daemon."""
    global _all
    import json
    if _all is None:
        status = json.loads(_default.context.stats(True))
        count = max(1, len(status.get("devices", [])))
        _all = (_default,) if count == 1 else tuple(as_device(i) for i in range(count))
    return _all


def default_real():
    """The type of numbers with a fraction where nothing else is said: float64, float32 where the device has none."""
    return _real[0]


_real = [float64]


def set_default_real(dtype):
    """The type of numbers with a fraction where nothing else is said, from here on, for all threads."""
    dtype = as_dtype(dtype)
    if dtype not in (float32, float64):
        raise DTypeError("the default floating-point type is float32 or float64")
    _core.default_real(dtype)
    _real[0] = dtype


def shutdown():
    """Ends the sessions: the interpreter does so at its end."""
    _core.listen(False)
    for device in list(_by_context.values()):
        if _pid == os.getpid():
            device._context.close()
