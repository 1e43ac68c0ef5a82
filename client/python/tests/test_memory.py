"""What a program may do meanwhile: objects whose own code writes to the arrays they are used with, lists that change while they
are read, buffers that lie, buffers that are kept, threads that read what others write."""
import ctypes
import gc
import threading

import numpy as np
import pytest

import fusion as xp

MANY = 200


# ---- one element is a copy, as NumPy has it ----


def swap(x):
    t = x[0]
    x[0] = x[1]
    x[1] = t


def add_in_place(x):
    s = x[0]
    s += x[1]


def keep_an_element(x):
    kept = [x[i] for i in range(3)]
    x[:] = 7
    x[0] = kept[2]


def iterate(x):
    kept = list(x)
    x[:] = kept[::-1]


def scale_by_the_first(x):
    first = x[0]
    for i in range(3):
        x[i] = x[i] * first + x[i]


@pytest.mark.parametrize("program", [swap, add_in_place, keep_an_element, iterate, scale_by_the_first])
def test_an_element_is_a_copy(program):
    a = np.array([2, 3, 5])
    x = xp.asarray(a)
    program(a)
    program(x)
    assert x.tolist() == a.tolist()


@pytest.mark.parametrize("key", [(1, 2), (-1, 0), (np.int64(0), 1), (1, ...), (..., 1, 2), (1, 2, None), (slice(1, 2), 2), 1])
def test_a_part_is_a_view_where_numpy_has_one(key):
    a = np.arange(12.0).reshape(3, 4)
    x = xp.asarray(a)
    part, got = a[key], x[key]
    a[...] = -1
    x[...] = -1
    assert np.asarray(got).tolist() == np.asarray(part).tolist()


def test_an_array_without_axes_is_copied_by_an_empty_key():
    x = xp.asarray(1.0)
    copied, seen = x[()], x[...]
    x += 1
    assert float(copied) == 1 and float(seen) == 2


# ---- recordings end, whatever happens in them ----


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, Odd, xp.StateError])
def test_what_is_raised_within_jit_comes_out_as_it_was(error):
    raised = error("mine")

    def fails(x):
        y = x * 2
        if y is not None:
            raise raised
    with pytest.raises(error) as seen:
        xp.jit(fails)(xp.ones(3))
    assert seen.value is raised
    assert (xp.ones(3) * 2).tolist() == [2, 2, 2] and xp.jit(lambda x: x + 1)(xp.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("returned", [3, "text", object(), [1.5], {"a": {2}}, (None, 1j)])
def test_what_jit_cannot_return_is_named(returned):
    with pytest.raises(TypeError, match="jit: the function returned"):
        xp.jit(lambda x: returned)(xp.ones(3))
    assert xp.ones(2).tolist() == [1, 1]


def test_jit_returns_what_the_function_does():
    def f(x, y):
        return {"sum": x + y, "parts": [x * y, (x - y, None)]}
    for _ in range(2):
        made = xp.jit(f)(xp.asarray([3.0, 4.0]), xp.asarray([1.0, 2.0]))
        assert made["sum"].tolist() == [4, 6] and made["parts"][0].tolist() == [3, 8]
        assert made["parts"][1][0].tolist() == [2, 2] and made["parts"][1][1] is None
    nothing = xp.jit(lambda x: None)
    assert nothing(xp.ones(3)) is None and nothing(xp.ones(3)) is None


def test_jit_within_jit_is_one_graph():
    inner = xp.jit(lambda x: x * 2)
    outer = xp.jit(lambda x: inner(x) + inner(x + 1))
    assert outer(xp.asarray([1.0])).tolist() == [6] and inner(xp.asarray([1.0])).tolist() == [2]


@pytest.mark.parametrize("ask", [bool, float, int, lambda x: x.tolist(), lambda x: np.asarray(x), repr, lambda x: x.wait()])
def test_a_value_asked_for_within_jit_is_an_error_that_says_what_to_do(ask):
    def asks(x):
        return x * 2 if ask(xp.sum(x)) else x
    with pytest.raises(xp.StateError, match=r"where\(\).*test_memory.py"):
        xp.jit(asks)(xp.ones(3))
    assert float(xp.sum(xp.ones(3))) == 3


def test_jit_names_an_argument_that_is_no_array():
    with pytest.raises(TypeError, match="argument 1 is int"):
        xp.jit(lambda x, n: x * n)(xp.ones(3), 2)
    with pytest.raises(TypeError, match="without arguments"):
        xp.jit(lambda: xp.ones(3))()


# ---- memory lent for writing ----


def test_a_buffer_kept_past_the_block_writes_to_nobody():
    x = xp.zeros(1000)
    with xp.writable(x) as memory:
        kept = np.asarray(memory)
        kept[:] = 1
    others = [xp.full(1000, float(i)) for i in range(20)]
    xp.sync()
    kept[:] = -5
    assert x.tolist() == [1.0] * 1000
    for i, other in enumerate(others):
        assert other.tolist() == [float(i)] * 1000
    del memory
    assert kept.tolist() == [-5.0] * 1000


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_every_type_and_shape_is_lent(dtype, shape):
    x = xp.ones(shape, dtype=dtype)
    with xp.writable(x) as memory:
        assert memory.nbytes == x.nbytes
        if dtype != "bfloat16":
            assert memory.shape == shape
            np.asarray(memory)[...] = 0
    assert not np.any(np.asarray(x)) or dtype == "bfloat16"


def test_a_block_that_raises_writes_nothing():
    x = xp.ones(3)
    with pytest.raises(ZeroDivisionError):
        with xp.writable(x) as memory:
            np.asarray(memory)[:] = 5
            1 / 0
    assert x.tolist() == [1, 1, 1]


KEPT = """
import numpy as np
import fusion as xp
x, y = xp.zeros(1 << 16), xp.ones(1 << 16)
with xp.writable(x) as memory:
    kept = np.asarray(memory)
seen = np.asarray(y)
for device in list(xp._base._by_context.values()):
    device._context.close()
kept[:] = 3
print(kept.sum(), seen.sum())
del x, y, memory
kept[:] = 4
print(kept.sum(), seen.sum())
"""


def test_buffers_outlive_the_session(run_python):
    status, printed = run_python(KEPT)
    assert (status, printed.split()) == (0, ["196608.0", "65536.0", "262144.0", "65536.0"]), (status, printed)


ENDED = """
import os, subprocess
import numpy as np
import fusion as xp
y = xp.ones(1 << 16)
seen = np.asarray(y)
subprocess.run([os.environ["FUSION_BUILD"] + "/fusionctl", "kill", f"pid={os.getpid()}"], check=True, capture_output=True)
try:
    while True:
        float(xp.ones(3)[0])
except xp.LostError as error:
    print("administrator" in str(error), seen.sum())
"""


def test_what_is_mapped_stays_when_the_session_is_ended(run_python):
    status, printed = run_python(ENDED)
    assert (status, printed.split()) == (0, ["True", "65536.0"]), (status, printed)


# ---- operands whose own code writes ----


class Writes:
    """A number that gives `target` another value, and has the garbage of it collected, whenever it is asked what it is."""

    def __init__(self, target, number):
        self.target, self.number = target, number

    def write(self):
        self.target[...] = xp.asarray(np.random.rand(*self.target.shape))
        gc.collect()
        return self.number

    def __index__(self):
        return self.write()

    __int__ = __index__

    def __float__(self):
        return float(self.write())


class Float(float):
    def __new__(cls, target, number):
        made = super().__new__(cls, number)
        made.of = Writes(target, number)
        return made

    def __float__(self):
        return float(self.of.write())


class Int(int):
    def __new__(cls, target, number):
        made = super().__new__(cls, number)
        made.of = Writes(target, number)
        return made

    def __index__(self):
        return self.of.write()

    __int__ = __index__

    def __float__(self):
        return float(self.of.write())


class Scalar:
    """What looks like a scalar of NumPy."""
    ndim = 0
    __array_interface__ = None

    def __init__(self, target, number):
        self.of = Writes(target, number)

    def item(self):
        return self.of.write()


CALLS = [
    lambda x: x + Float(x, 2.0), lambda x: Float(x, 2.0) * x, lambda x: x + Int(x, 2), lambda x: Int(x, 2) - x,
    lambda x: x / Scalar(x, 2.0), lambda x: Scalar(x, 2) + x, lambda x: xp.where(x > 0, Float(x, 1.0), x),
    lambda x: xp.clip(x, Scalar(x, 0.0), Float(x, 1.0)), lambda x: xp.reshape(x, (Writes(x, 12),)),
    lambda x: xp.permute_dims(x, (Writes(x, 1), 0)), lambda x: xp.sum(x, axis=Writes(x, 0)), lambda x: xp.flip(x, axis=Writes(x, 0)),
    lambda x: x[Writes(x, 1)], lambda x: x[Writes(x, 0):Writes(x, 2)], lambda x: xp.take(x, xp.asarray([0, 1]), axis=Writes(x, 0)),
    lambda x: xp.roll(x, Writes(x, 1), axis=0), lambda x: xp.broadcast_to(x, (Writes(x, 2), 3, 4)),
    lambda x: xp.concat([x, x], axis=Writes(x, 0)), lambda x: xp.cumulative_sum(x, axis=Writes(x, 0)),
    lambda x: xp.sort(x, axis=Writes(x, 0)), lambda x: xp.tile(x, (Writes(x, 1), 2)), lambda x: xp.nn.softmax(x, Writes(x, 0)),
]


@pytest.mark.parametrize("call", CALLS)
def test_operands_may_write_to_the_array(call):
    for _ in range(20):
        x = xp.asarray(np.random.rand(3, 4))
        try:
            made = call(x)
        except TypeError:       # a form that this function does not take
            return
        assert np.all(np.isfinite(np.asarray(made)))


class Empties:
    def __init__(self, lists):
        self.lists = lists

    def __bool__(self):
        for values in self.lists:
            values.clear()
        gc.collect()
        return True

    def __index__(self):
        return int(bool(self))

    def __float__(self):
        return float(bool(self))


@pytest.mark.parametrize("dtype", [xp.bool, xp.int64, xp.uint8, xp.float32, xp.float64, xp.bfloat16])
def test_a_list_that_its_elements_empty_is_an_error(dtype):
    for depth in (1, 2, 3):
        lists = []
        values = lists
        for _ in range(depth - 1):
            values.append([])
            values = values[0]
        values.extend([Empties([lists, values]), 2, 3])
        for _ in range(depth - 1):
            lists.append([2, 3, 4]) if depth == 2 else None
        with pytest.raises((RuntimeError, ValueError, IndexError, TypeError)):
            xp.asarray(lists, dtype=dtype)


# ---- buffers that lie ----


class Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
                ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p)]


def lying(form, itemsize, shape):
    """A memoryview that says of 64 bytes what it is told to say."""
    memory = ctypes.create_string_buffer(64)
    extents = (ctypes.c_ssize_t * len(shape))(*shape)
    strides = (ctypes.c_ssize_t * len(shape))(*([itemsize] * len(shape)))
    made = Buffer(buf=ctypes.addressof(memory), len=64, itemsize=itemsize, readonly=1, ndim=len(shape), format=form.encode(), shape=extents,
                  strides=strides)
    from_buffer = ctypes.pythonapi.PyMemoryView_FromBuffer
    from_buffer.restype, from_buffer.argtypes = ctypes.py_object, [ctypes.POINTER(Buffer)]
    return from_buffer(ctypes.byref(made)), (memory, extents, strides, made)


@pytest.mark.parametrize("form, itemsize, shape", [("d", 4, (16,)), ("f", 8, (8,)), ("b", 8, (8,)), ("q", 1, (64,)), ("?", 4, (16,)),
                                                  ("d", 8, (1 << 40,)), ("d", 8, (9,)), ("d", 8, (7,)), ("e", 4, (16,))])
def test_a_buffer_that_does_not_hold_what_it_says_is_refused(form, itemsize, shape):
    view, kept = lying(form, itemsize, shape)
    with pytest.raises((BufferError, TypeError)):
        xp._core.from_buffer(xp.as_device(None).context, view)
    del view, kept


@pytest.mark.parametrize("kind", [ctypes.c_long, ctypes.c_ulong, ctypes.c_int, ctypes.c_longlong, ctypes.c_short, ctypes.c_double])
def test_arrays_of_ctypes_are_what_their_elements_are(kind):
    assert xp.asarray((kind * 3)(1, 2, 3)).tolist() == [1, 2, 3]


# ---- threads ----


def run_together(*functions):
    errors, barrier = [], threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        try:
            function()
        except BaseException as error:      # noqa: for the main thread
            errors.append(error)
    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_threads_read_one_array():
    for _ in range(20):
        x = xp.ones((64, 64)) * 3

        def look():
            for _ in range(5):
                assert np.asarray(x).sum() == 3 * 64 * 64
        run_together(*[look] * 4)


READS = [lambda x: x.tolist(), lambda x: float(xp.sum(x)), lambda x: xp._core.to_bytes(x), lambda x: x.wait(), lambda x: np.asarray(x).sum(),
         lambda x: memoryview(x).nbytes, lambda x: xp.unique_values(x), lambda x: xp.nonzero(x), lambda x: xp.explain(x + 1),
         lambda x: np.from_dlpack(x), lambda x: repr(x), lambda x: xp.nextafter(x, x)]


@pytest.mark.parametrize("read", READS)
def test_a_thread_reads_what_another_writes(read):
    x, done = xp.ones((16, 16)), threading.Event()

    def write():
        try:
            for i in range(MANY):
                x[...] = float(i)
                if i % 16 == 0:
                    gc.collect()
        finally:
            done.set()

    def look():
        while not done.is_set():
            read(x)
    run_together(write, look, look)


# ---- other interpreters ----

SECOND = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
def refused():
    other = interpreters.create()
    try:
        told = interpreters.run_string(other, "import fusion")
    except Exception as error:
        told = error
    assert told is not None and "fusion" in str(told), told
    interpreters.destroy(other)
if FIRST:
    refused()
import fusion as xp
x = xp.ones(3)
refused()
print((x * 2).tolist(), float(xp.sum(x)))
try:
    float(xp.sum(xp.ones((2, 3)) @ xp.ones(2)))
except xp.ShapeError:
    print("told")
"""


@pytest.mark.parametrize("first", [False, True])
def test_a_second_interpreter_is_refused_and_harms_nobody(run_python, first):
    status, printed = run_python(SECOND.replace("FIRST", str(first)))
    assert status == 0 and printed.split("\n")[:2] == ["[2.0, 2.0, 2.0] 3.0", "told"], (status, printed)


# No extension of the stable interface is loaded there.
FREE = """
import sys, sysconfig
asked = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else asked(name)
sys.modules["fusion._core"] = None
import fusion
"""


def test_python_without_the_interpreters_lock_is_refused(run_python):
    status, printed = run_python(FREE)
    assert status and "ImportError: fusion does not support free-threaded Python" in printed, printed
