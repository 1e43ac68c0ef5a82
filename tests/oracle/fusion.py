"""libfusion for the tests, through ctypes: as thin as it can be, every operation by its name in ops.def.

    with fusion.Daemon(strategy="gpu") as daemon, daemon.open(fusion=False) as context:
        a = context.array("f32", numpy.ones((3, 4), "f4"))
        print(context.op("add", a, a).read())

Data are NumPy arrays of the storage types of reference.STORAGE (f16 and bf16 as uint16). A Daemon lives in a
folder of its own with its socket and its cache of kernels, and dies with the process that made it. Errors of the
library are raised as FusionError with the code's name and the sentence.
"""
import contextlib
import ctypes
import os
import sys

import numpy as np

from reference import STORAGE
from tables import ATTRIBUTES, DTYPE_BY_ID, DTYPES, ERRORS, OPS, ROOT

sys.path.append(os.path.join(ROOT, "tests"))
import private_daemon
from private_daemon import BUILD, CACHES

END = -(1 << 63)
RESERVED = 8        # FUSION_RESERVED
_pointer = ctypes.c_void_p
_dims = ctypes.POINTER(ctypes.c_int64)
_axes = ctypes.POINTER(ctypes.c_int)
_arrays = ctypes.POINTER(_pointer)
callback_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


# A busy machine takes minutes for a kernel: this only ends what hangs.
TIMEOUT_MS = 20 * 60 * 1000


class _Options(ctypes.Structure):
    _fields_ = [("socket", ctypes.c_char_p), ("name", ctypes.c_char_p), ("fusion", ctypes.c_int),
                ("debug", ctypes.c_int), ("batch_ops", ctypes.c_uint32), ("timeout_ms", ctypes.c_uint32),
                ("device", ctypes.c_char_p), ("authority", ctypes.c_char_p), ("certificate", ctypes.c_char_p),
                ("key", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * RESERVED)]


def _attribute_fields():
    """struct fusion_attributes: a member for each row of attributes.def; axes and lists have a length before them."""
    kinds = {"FLAG": ctypes.c_bool, "REAL": ctypes.c_double, "WHOLE": ctypes.c_int64, "DTYPE": ctypes.c_int}
    fields, listed = [], False
    for a in sorted(ATTRIBUTES.values(), key=lambda a: a.id):
        if a.kind == "AXES":
            fields += [("axis_count", ctypes.c_int), (a.name, _axes)]
        elif a.kind == "LIST":
            fields += ([] if listed else [("rank", ctypes.c_int)]) + [(a.name, _dims)]
            listed = True
        else:
            fields.append((a.name, kinds[a.kind]))
    return fields + [("reserved", ctypes.c_uint64 * RESERVED)]


class _Attributes(ctypes.Structure):
    _fields_ = _attribute_fields()


_PROTOTYPES = {
    "error_code": (ctypes.c_int, []),
    "error": (ctypes.c_char_p, []),
    "error_clear": (None, []),
    "open": (ctypes.c_int, [ctypes.POINTER(_pointer), ctypes.POINTER(_Options)]),
    "close": (None, [_pointer]),
    "device": (ctypes.c_char_p, [_pointer]),
    "configure": (ctypes.c_int, [_pointer, ctypes.c_char_p, ctypes.c_char_p]),
    "flush": (ctypes.c_int, [_pointer]),
    "sync": (ctypes.c_int, [_pointer]),
    "from": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, _pointer]),
    "create": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, ctypes.POINTER(_pointer)]),
    "full": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, ctypes.c_double]),
    "full_int": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, ctypes.c_int64]),
    "scalar": (_pointer, [_pointer, ctypes.c_int, ctypes.c_double]),
    "arange": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_double, ctypes.c_double]),
    "retain": (_pointer, [_pointer]),
    "release": (None, [_pointer]),
    "dtype_of": (ctypes.c_int, [_pointer]),
    "rank": (ctypes.c_int, [_pointer]),
    "dims": (_dims, [_pointer]),
    "bytes": (ctypes.c_size_t, [_pointer]),
    "version": (ctypes.c_uint64, [_pointer]),
    "read": (ctypes.c_int, [_pointer, _pointer, ctypes.c_size_t]),
    "wait": (ctypes.c_int, [_pointer]),
    "map": (ctypes.c_int, [_pointer, ctypes.c_int, ctypes.POINTER(_pointer)]),
    "unmap": (ctypes.c_int, [_pointer]),
    "read_callback": (ctypes.c_int, [_pointer, _pointer, ctypes.c_size_t, callback_type, _pointer]),
    "read_begin": (_pointer, [_pointer, _pointer, ctypes.c_size_t]),
    "future_fd": (ctypes.c_int, [_pointer]),
    "future_finish": (ctypes.c_int, [_pointer]),
    "copy_into": (ctypes.c_int, [_pointer, _pointer]),
    "fill_into": (ctypes.c_int, [_pointer, ctypes.c_double]),
    "cast": (_pointer, [_pointer, ctypes.c_int]),
    "copy": (_pointer, [_pointer]),
    "reshape": (_pointer, [_pointer, ctypes.c_int, _dims]),
    "permute": (_pointer, [_pointer, _axes]),
    "transpose": (_pointer, [_pointer]),
    "broadcast": (_pointer, [_pointer, ctypes.c_int, _dims]),
    "slice": (_pointer, [_pointer, _dims, _dims, _dims]),
    "flip": (_pointer, [_pointer, ctypes.c_int, _axes]),
    "windows": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]),
    "random_uniform": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, ctypes.c_uint64]),
    "random_normal": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, ctypes.c_uint64]),
    "random_bernoulli": (_pointer, [_pointer, ctypes.c_int, _dims, ctypes.c_double, ctypes.c_uint64]),
    "random_integers": (_pointer, [_pointer, ctypes.c_int, ctypes.c_int, _dims, ctypes.c_int64, ctypes.c_int64,
                                   ctypes.c_uint64]),
    "dropout": (_pointer, [_pointer, ctypes.c_double, ctypes.c_uint64]),
    "concat": (_pointer, [ctypes.c_int, _arrays, ctypes.c_int]),
    "stack": (_pointer, [ctypes.c_int, _arrays, ctypes.c_int]),
    "pad": (_pointer, [_pointer, _dims, _dims, _pointer]),
    "split": (ctypes.c_int, [_pointer, ctypes.c_int, _dims, ctypes.c_int, _arrays]),
    "tile": (_pointer, [_pointer, _dims]),
    "repeat": (_pointer, [_pointer, ctypes.c_int64, ctypes.c_int]),
    "roll": (_pointer, [_pointer, ctypes.c_int64, ctypes.c_int]),
    "take": (_pointer, [_pointer, _pointer, ctypes.c_int]),
    "take_along": (_pointer, [_pointer, _pointer, ctypes.c_int]),
    "flatnonzero": (_pointer, [_pointer]),
    "put_along": (_pointer, [_pointer, _pointer, _pointer, ctypes.c_int]),
    "add_along": (_pointer, [_pointer, _pointer, _pointer, ctypes.c_int]),
    "sort": (_pointer, [_pointer, ctypes.c_int, ctypes.c_bool]),
    "argsort": (_pointer, [_pointer, ctypes.c_int, ctypes.c_bool]),
    "topk": (ctypes.c_int, [_pointer, ctypes.c_int64, ctypes.c_int, ctypes.c_bool, _arrays, _arrays]),
    "searchsorted": (_pointer, [_pointer, _pointer, ctypes.c_bool]),
    "nonzero": (ctypes.c_int, [_pointer, _arrays]),
    "unique": (ctypes.c_int, [_pointer, _arrays, _arrays, _arrays, _arrays]),
    "matmul": (_pointer, [_pointer, _pointer]),
    "call": (_pointer, [_pointer, ctypes.c_char_p, ctypes.c_int, _arrays, ctypes.POINTER(_Attributes)]),
    "watch": (ctypes.c_int, [_pointer]),
    "unwatch": (ctypes.c_int, [_pointer]),
    "grad": (ctypes.c_int, [_pointer, _pointer, _arrays, ctypes.c_int, _arrays]),
    "vjp": (ctypes.c_int, [ctypes.c_int, _arrays, _arrays, ctypes.c_int, _arrays, _arrays, ctypes.c_uint]),
    "stop_gradient": (_pointer, [_pointer]),
    "no_grad_begin": (None, []),
    "no_grad_end": (ctypes.c_int, []),
    "checkpoint_begin": (None, []),
    "checkpoint_end": (ctypes.c_int, []),
    "kept_bytes": (ctypes.c_int, [_pointer, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)]),
    "sgd": (ctypes.c_int, [ctypes.c_int, _arrays, _arrays, _arrays, _pointer, _arrays]),
    "adam": (ctypes.c_int, [ctypes.c_int, _arrays, _arrays, _arrays, _arrays, _pointer, _pointer, _arrays]),
    "adamw": (ctypes.c_int, [ctypes.c_int, _arrays, _arrays, _arrays, _arrays, _pointer, _pointer, _arrays]),
    "define_op": (ctypes.c_int, [_pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
    "capture_begin": (ctypes.c_int, [_pointer, ctypes.c_int, _arrays]),
    "capture_end": (_pointer, [_pointer, ctypes.c_int, _arrays]),
    "replay": (ctypes.c_int, [_pointer, _arrays, _arrays]),
    "capture_free": (None, [_pointer]),
    "stats": (_pointer, [_pointer, ctypes.c_bool]),
    "explain": (_pointer, [_pointer, ctypes.c_int, _arrays, ctypes.c_bool]),
}


def _add_operations():
    for op in OPS.values():
        if op.elementwise:
            _PROTOTYPES[op.name] = (_pointer, [_pointer] * op.arity)
        if op.kind == "BINARY":
            _PROTOTYPES[f"{op.name}_scalar"] = (_pointer, [_pointer, ctypes.c_double])
            _PROTOTYPES[f"scalar_{op.name}"] = (_pointer, [ctypes.c_double, _pointer])
        if op.kind == "REDUCE":
            _PROTOTYPES[op.name] = (_pointer, [_pointer, ctypes.c_int, _axes, ctypes.c_bool])
        if op.kind == "SCAN":
            _PROTOTYPES[op.name] = (_pointer, [_pointer, ctypes.c_int])


def _load():
    library = ctypes.CDLL(os.path.join(BUILD, "libfusion.so"))
    functions = {}
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, f"fusion_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions


_add_operations()
call = _load()
_libc = ctypes.CDLL(None)
_libc.free.argtypes = [_pointer]
_CODE_NAMES = {number: name for name, number in ERRORS.items()}


class FusionError(Exception):
    """`code` is a name of errors.def, `sentence` what fusion_error() says."""

    def __init__(self, code, sentence):
        super().__init__(f"{code}: {sentence}")
        self.code, self.sentence = code, sentence


def _failure():
    number, sentence = call["error_code"](), (call["error"]() or b"").decode()
    call["error_clear"]()
    return FusionError(_CODE_NAMES.get(number, f"code {number}"), sentence)


def _checked(code):
    if code:
        raise _failure()


def _list(kind, values):
    values = list(values)
    return (kind * max(1, len(values)))(*values)


def _int64s(values):
    return _list(ctypes.c_int64, values)


class Array:
    """A reference to a fusion_array, released when Python forgets it."""

    def __init__(self, context, pointer):
        if not pointer:
            raise _failure()
        self.context, self.pointer = context, pointer

    def __del__(self):
        self.release()

    def release(self):
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            call["release"](pointer)

    @property
    def dtype(self):
        return DTYPE_BY_ID[call["dtype_of"](self.pointer)]

    @property
    def shape(self):
        dims = call["dims"](self.pointer)
        return tuple(dims[d] for d in range(call["rank"](self.pointer)))

    @property
    def version(self):
        return call["version"](self.pointer)

    def _memory(self):
        return np.empty(self.shape, STORAGE[self.dtype])

    def read(self):
        """The elements, as they lie in memory."""
        memory = self._memory()
        _checked(call["read"](self.pointer, memory.ctypes.data, memory.nbytes))
        return memory

    def read_begin(self):
        """A function that waits for the elements and returns them."""
        memory = self._memory()
        future = call["read_begin"](self.pointer, memory.ctypes.data, memory.nbytes)
        if not future:
            raise _failure()

        def finish():
            _checked(call["future_finish"](future))
            return memory
        return finish

    def wait(self):
        _checked(call["wait"](self.pointer))

    def map(self, mode):
        """The array's own memory; valid until unmap()."""
        memory = _pointer()
        _checked(call["map"](self.pointer, {"read": 1, "write": 2}[mode], ctypes.byref(memory)))
        size = call["bytes"](self.pointer)
        bytes_of = (ctypes.c_uint8 * size).from_address(memory.value) if size else bytearray()
        return np.frombuffer(bytes_of, STORAGE[self.dtype]).reshape(self.shape)

    def unmap(self):
        _checked(call["unmap"](self.pointer))

    def copy_into(self, source):
        _checked(call["copy_into"](self.pointer, source.pointer))

    def fill_into(self, value):
        _checked(call["fill_into"](self.pointer, value))


class Capture:
    def __init__(self, context, pointer, outputs):
        if not pointer:
            raise _failure()
        self.context, self.pointer, self.outputs = context, pointer, outputs

    def __del__(self):
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            call["capture_free"](pointer)

    def replay(self, inputs):
        results = (_pointer * max(1, self.outputs))()
        _checked(call["replay"](self.pointer, _list(_pointer, [a.pointer for a in inputs]), results))
        return [Array(self.context, results[i]) for i in range(self.outputs)]


class Context:
    def __init__(self, path, name="oracle", fusion=None, debug=None, batch_ops=0, timeout_ms=TIMEOUT_MS, device=None):
        switch = {None: 0, True: 1, False: 2}
        options = _Options(path.encode(), name.encode(), switch[fusion], switch[debug], batch_ops, timeout_ms,
                           device and device.encode())
        pointer = _pointer()
        _checked(call["open"](ctypes.byref(pointer), ctypes.byref(options)))
        self.pointer = pointer.value

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        pointer, self.pointer = self.pointer, None
        if pointer:
            call["close"](pointer)

    def flush(self):
        _checked(call["flush"](self.pointer))

    def sync(self):
        _checked(call["sync"](self.pointer))

    def configure(self, name, value):
        _checked(call["configure"](self.pointer, name.encode(), value.encode()))

    @property
    def device(self):
        return call["device"](self.pointer).decode()

    def array(self, dtype, data):
        data = np.ascontiguousarray(data).reshape(np.shape(data))
        if data.dtype != STORAGE[dtype]:
            raise TypeError(f"{data.dtype} is not how {dtype} is stored")
        return Array(self, call["from"](self.pointer, DTYPES[dtype].id, data.ndim, _int64s(data.shape), data.ctypes.data))

    def create(self, dtype, data):
        """As array(), filled in place through fusion_create()."""
        memory = _pointer()
        data = np.asarray(data)
        a = Array(self, call["create"](self.pointer, DTYPES[dtype].id, data.ndim, _int64s(data.shape), ctypes.byref(memory)))
        if data.nbytes:
            ctypes.memmove(memory.value, np.ascontiguousarray(data).ctypes.data, data.nbytes)
        a.unmap()
        return a

    def full(self, dtype, shape, value):
        return Array(self, call["full"](self.pointer, DTYPES[dtype].id, len(shape), _int64s(shape), value))

    def full_int(self, dtype, shape, value):
        return Array(self, call["full_int"](self.pointer, DTYPES[dtype].id, len(shape), _int64s(shape), value))

    def scalar(self, dtype, value):
        return Array(self, call["scalar"](self.pointer, DTYPES[dtype].id, value))

    def arange(self, dtype, count, start, step):
        return Array(self, call["arange"](self.pointer, DTYPES[dtype].id, count, start, step))

    def op(self, name, *operands):
        """An elementwise operation or matmul."""
        return Array(self, call[name](*[a.pointer for a in operands]))

    def call(self, name, *operands, **attributes):
        """A composite; operands that are absent are None."""
        given = _Attributes()
        for key, value in attributes.items():
            if key == "axes":
                given.axis_count, given.axes = len(value or ()), _list(ctypes.c_int, value) if value is not None else None
            elif ATTRIBUTES[key].kind == "LIST":
                given.rank = len(value)
                setattr(given, key, _int64s(value))
            else:
                setattr(given, key, DTYPES[value].id if key == "dtype" else value)
        pointers = _list(_pointer, [a and a.pointer for a in operands])
        return Array(self, call["call"](self.pointer, name.encode(), len(operands), pointers, ctypes.byref(given)))

    def op_scalar(self, name, a, value):
        return Array(self, call[f"{name}_scalar"](a.pointer, value))

    def scalar_op(self, name, value, b):
        return Array(self, call[f"scalar_{name}"](value, b.pointer))

    def reduce(self, name, a, axes=None, keepdims=False):
        return Array(self, call[name](a.pointer, len(axes or ()), _list(ctypes.c_int, axes) if axes else None, keepdims))

    def scan(self, name, a, axis):
        return Array(self, call[name](a.pointer, axis))

    def cast(self, a, dtype):
        return Array(self, call["cast"](a.pointer, DTYPES[dtype].id))

    def copy(self, a):
        return Array(self, call["copy"](a.pointer))

    def reshape(self, a, shape):
        return Array(self, call["reshape"](a.pointer, len(shape), _int64s(shape)))

    def permute(self, a, axes):
        return Array(self, call["permute"](a.pointer, _list(ctypes.c_int, axes) if axes is not None else None))

    def transpose(self, a):
        return Array(self, call["transpose"](a.pointer))

    def broadcast(self, a, shape):
        return Array(self, call["broadcast"](a.pointer, len(shape), _int64s(shape)))

    def slice(self, a, ranges):
        """ranges: one Python slice for each axis."""
        start, stop = ([END if getattr(r, side) is None else getattr(r, side) for r in ranges] for side in ("start", "stop"))
        step = [1 if r.step is None else r.step for r in ranges]
        return Array(self, call["slice"](a.pointer, _int64s(start), _int64s(stop), _int64s(step)))

    def flip(self, a, axes):
        return Array(self, call["flip"](a.pointer, len(axes), _list(ctypes.c_int, axes)))

    def windows(self, a, axis, size, step=1, dilation=1):
        return Array(self, call["windows"](a.pointer, axis, size, step, dilation))

    def gather(self, name, a, index, axis):
        """take or take_along"""
        return Array(self, call[name](a.pointer, index.pointer, axis))

    def flatnonzero(self, a):
        return Array(self, call["flatnonzero"](a.pointer))

    def scatter(self, name, a, index, updates, axis):
        """put_along or add_along"""
        return Array(self, call[name](a.pointer, index.pointer, updates.pointer, axis))

    def sort(self, name, a, axis, descending=False):
        """sort or argsort"""
        return Array(self, call[name](a.pointer, axis, descending))

    def topk(self, a, k, axis, largest=True):
        """values and places"""
        made = (_pointer * 2)()
        _checked(call["topk"](a.pointer, k, axis, largest, made, ctypes.cast(ctypes.byref(made, ctypes.sizeof(_pointer)), _arrays)))
        return Array(self, made[0]), Array(self, made[1])

    def nonzero(self, a):
        made = (_pointer * len(a.shape))()
        _checked(call["nonzero"](a.pointer, made))
        return [Array(self, p) for p in made]

    def unique(self, a, wanted=(True,) * 4):
        """values, places of the first ones, places of the values, counts; None for what is not wanted."""
        made = [(_pointer * 1)() if w else None for w in wanted]
        _checked(call["unique"](a.pointer, *made))
        return [Array(self, m[0]) if m else None for m in made]

    def searchsorted(self, a, values, right=False):
        return Array(self, call["searchsorted"](a.pointer, values.pointer, right))

    def random(self, name, dtype, shape, *arguments):
        """random_uniform, random_normal (seed), random_integers (low, high, seed); random_bernoulli has no type."""
        first = [DTYPES[dtype].id] if dtype else []
        return Array(self, call[name](self.pointer, *first, len(shape), _int64s(shape), *arguments))

    def dropout(self, a, probability, seed):
        return Array(self, call["dropout"](a.pointer, probability, seed))

    def join(self, name, arrays, axis):
        """concat or stack"""
        return Array(self, call[name](len(arrays), _list(_pointer, [a.pointer for a in arrays]), axis))

    def pad(self, a, margins, value=None):
        low, high = ([m[i] for m in margins] for i in (0, 1))
        return Array(self, call["pad"](a.pointer, _int64s(low), _int64s(high), value.pointer if value else None))

    def split(self, a, extents, axis):
        results = (_pointer * max(1, len(extents)))()
        _checked(call["split"](a.pointer, len(extents), _int64s(extents), axis, results))
        return [Array(self, results[i]) for i in range(len(extents))]

    def tile(self, a, times):
        return Array(self, call["tile"](a.pointer, _int64s(times)))

    def repeat(self, a, times, axis):
        return Array(self, call["repeat"](a.pointer, times, axis))

    def roll(self, a, by, axis):
        return Array(self, call["roll"](a.pointer, by, axis))

    def watch(self, *arrays):
        for a in arrays:
            _checked(call["watch"](a.pointer))

    def unwatch(self, a):
        _checked(call["unwatch"](a.pointer))

    def grad(self, y, inputs, seed=None):
        """The gradients by the inputs; what led to y is used up."""
        made = (_pointer * len(inputs))()
        _checked(call["grad"](y.pointer, seed and seed.pointer, _list(_pointer, [a.pointer for a in inputs]), len(inputs), made))
        return [Array(self, p) for p in made]

    def vjp(self, outputs, seeds, inputs, keep=False, watch=False):
        made = (_pointer * len(inputs))()
        pointers = _list(_pointer, [s and s.pointer for s in seeds]) if seeds else None
        _checked(call["vjp"](len(outputs), _list(_pointer, [y.pointer for y in outputs]), pointers, len(inputs),
                             _list(_pointer, [a.pointer for a in inputs]), made, keep + 2 * watch))
        return [Array(self, p) for p in made]

    def stop_gradient(self, a):
        return Array(self, call["stop_gradient"](a.pointer))

    def update(self, rule, parts, gradients, options, step=None, new=False):
        """One step of sgd, adam or adamw. parts: lists of parameters, then of velocities or of averages; step: adam's counter.
        They are given new values, or with `new` the new arrays are returned: part after part, then the counter."""
        lists = [_list(_pointer, [a.pointer for a in part]) for part in [parts[0], gradients, *parts[1:]]]
        lists += [None] * (rule == "sgd" and len(parts) == 1)
        made = (_pointer * (len(parts) * len(gradients) + 1))() if new else None
        numbers = (ctypes.c_double * (len(options) + RESERVED))(*options)
        _checked(call[rule](len(gradients), *lists, *([step.pointer] if step else []), numbers, made))
        return [Array(self, p) for p in made[:len(made) - (step is None)]] if new else None

    @contextlib.contextmanager
    def checkpoint(self):
        call["checkpoint_begin"]()
        try:
            yield
        finally:
            _checked(call["checkpoint_end"]())

    @contextlib.contextmanager
    def no_grad(self):
        call["no_grad_begin"]()
        try:
            yield
        finally:
            _checked(call["no_grad_end"]())

    def kept_bytes(self):
        """Now, and the most so far."""
        now, peak = ctypes.c_uint64(), ctypes.c_uint64()
        _checked(call["kept_bytes"](self.pointer, ctypes.byref(now), ctypes.byref(peak)))
        return now.value, peak.value

    def define_op(self, name, text, gradients=None):
        texts = (ctypes.c_char_p * 8)(*[t and t.encode() for t in gradients]) if gradients else None
        _checked(call["define_op"](self.pointer, name.encode(), text.encode(), texts))

    def capture_begin(self, inputs):
        _checked(call["capture_begin"](self.pointer, len(inputs), _list(_pointer, [a.pointer for a in inputs])))

    def capture_end(self, outputs):
        pointers = _list(_pointer, [a.pointer for a in outputs])
        return Capture(self, call["capture_end"](self.pointer, len(outputs), pointers), len(outputs))

    def _text(self, pointer):
        if not pointer:
            raise _failure()
        text = ctypes.string_at(pointer).decode()
        _libc.free(pointer)
        return text

    def stats(self, whole_daemon=False):
        return self._text(call["stats"](self.pointer, whole_daemon))

    def explain(self, arrays, source=False):
        return self._text(call["explain"](self.pointer, len(arrays), _list(_pointer, [a.pointer for a in arrays]), source))


class Daemon(private_daemon.Daemon):
    def open(self, **options):
        return Context(self.socket, **options)
