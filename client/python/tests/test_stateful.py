"""Calls of the package in any order, with objects whose own code raises, returns nonsense, writes to the arrays that it is used with, lets go of them, or
calls the package again; on several threads at once. Whatever they do, a call ends with a value or with an exception that says something, what an object raised
comes out as it was, and the session works afterwards. Crashes are what AddressSanitizer finds: the job address_python.

HYPOTHESIS_SECONDS=600 goes on for so long, with other programs each time; without it the programs are the same in every run.
"""
import gc
import os
import threading
import time

import numpy as np
import pytest

import fusion as xp

hypothesis = pytest.importorskip("hypothesis", reason="python3-hypothesis is not installed")
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

SECONDS = float(os.environ.get("HYPOTHESIS_SECONDS", "0"))
EXAMPLES, STEPS = 16, 25
THREADS = 3
HELD = 12
# What a call may end with, beside what an object raised.
EXPECTED = (TypeError, ValueError, IndexError, OverflowError, BufferError, ZeroDivisionError, AttributeError, RuntimeError, MemoryError, xp.FusionError, Warning)
DTYPES = ["bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64"]


class Mine(BaseException):
    """What hostile objects raise."""


class Hostile:
    """An object that does `what` whenever it is asked for anything, then answers."""

    def __init__(self, machine, what, answer):
        self.machine, self.what, self.answer, self.left = machine, what, answer, 4

    def act(self):
        arrays = self.machine.arrays
        if self.what == "raise":
            raise Mine()
        if self.left <= 0:          # or it would ask itself for ever
            return self.answer
        self.left -= 1
        if self.what == "release":
            arrays.clear()
            gc.collect()
        elif self.what == "write":
            for x in list(arrays):
                if x.dtype is not xp.bool:
                    x[...] = 3
        elif self.what == "call" and arrays:
            (arrays[0] + 1).tolist()
            xp.flush()
        elif self.what == "clear":
            for values in self.machine.lists:
                values.clear()
        elif self.what == "again" and arrays:
            arrays[0] + self
        return self.answer

    def __index__(self):
        return self.act()

    def __float__(self):
        return self.act()

    def __len__(self):
        return self.act()

    def __bool__(self):
        return self.act()

    def __iter__(self):
        return iter([self.act(), self])

    def __getitem__(self, key):
        return self.act()

    def __array__(self, dtype=None, copy=None):
        return self.act()

    def __dlpack__(self, **how):
        return self.act()

    def __dlpack_device__(self):
        return self.act()

    def __eq__(self, other):
        return self.act()

    def __hash__(self):
        return 1

    def __complex__(self):
        return self.act()

    def item(self):
        return self.act()

    def __enter__(self):
        return self.act()


class Number(Hostile):
    """One that looks like a scalar of NumPy."""
    __array_interface__ = None
    ndim = 0


class Long(int):
    """An integer that is one, and more."""

    def __new__(cls, hostile):
        made = super().__new__(cls, hostile.answer if isinstance(hostile.answer, int) else 1)
        made.of = hostile
        return made

    def __index__(self):
        return self.of.act()

    __int__ = __float__ = __bool__ = __index__


class Sequence(list):
    """A list that is as long as it says."""

    def __init__(self, hostile):
        super().__init__([1, hostile, 2])
        self.of = hostile

    def __len__(self):
        return self.of.act()

    def __iter__(self):
        self.of.act()
        return super().__iter__()


ANSWERS = st.one_of(st.integers(-4, 6), st.sampled_from([2**63, 2**64, -2**63 - 1, 10**40, 1.5, float("nan"), float("inf"), "text", None, (), [], b"bytes", (1, 2), object(),
                                                         np.ones((2, 3)), np.zeros(0), np.array("text"), True]))
ACTIONS = st.sampled_from(["raise", "answer", "answer", "release", "write", "call", "clear", "again"])
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
WHICH = st.integers(0, HELD)

UNARY = [xp.abs, xp.negative, xp.sqrt, xp.logical_not, xp.isnan, xp.signbit, xp.unique_values, xp.nonzero, xp.argsort, xp.sum, xp.any, xp.mean, xp.flip, xp.squeeze, xp.ceil,
         lambda x: x.T, lambda x: x.tolist(), repr, str, lambda x: x.item(), float, int, bool, len, list, hash, lambda x: np.asarray(x).copy(), lambda x: memoryview(x).tobytes(),
         lambda x: np.from_dlpack(x), xp.explain, lambda x: x.wait(), lambda x: x.copy(), lambda x: x.ravel(), lambda x: x.__reduce__(), xp.nn.softmax, lambda x: format(x, "3d")]
WITH = [lambda x, o: x + o, lambda x, o: o - x, lambda x, o: x ** o, lambda x, o: x @ o, lambda x, o: x == o, lambda x, o: o < x, lambda x, o: x[o], lambda x, o: x[o, ...],
        lambda x, o: x[o:], lambda x, o: x[::o], lambda x, o: x[[o]], lambda x, o: x[[0, o]], lambda x, o: x.__setitem__(..., o), lambda x, o: x.__setitem__(o, 1),
        lambda x, o: x.__setitem__((o, o), o), lambda x, o: x.__iadd__(o), lambda x, o: xp.reshape(x, (o, -1)), lambda x, o: xp.reshape(x, o), lambda x, o: xp.sum(x, axis=o),
        lambda x, o: xp.sum(x, axis=(o,)), lambda x, o: xp.permute_dims(x, (o, 0)), lambda x, o: xp.concat([x, o]), lambda x, o: xp.stack([o, x], axis=o), lambda x, o: xp.take(x, o),
        lambda x, o: xp.where(x, o, o), lambda x, o: xp.clip(x, o, o), lambda x, o: xp.broadcast_to(x, (o, 2)), lambda x, o: xp.roll(x, o, axis=o), lambda x, o: xp.tile(x, (o,)),
        lambda x, o: xp.repeat(x, o), lambda x, o: xp.expand_dims(x, axis=o), lambda x, o: x.astype(o), lambda x, o: x.to_device(o), lambda x, o: xp.full_like(x, o), lambda x, o: o in x,
        lambda x, o: xp.cumulative_sum(x, axis=o), lambda x, o: xp.sort(x, axis=o), lambda x, o: xp.nn.layer_norm(x, o, o), lambda x, o: xp.searchsorted(x, o), lambda x, o: xp.isin(x, o),
        lambda x, o: xp.diff(x, n=o), lambda x, o: xp.unstack(x, axis=o), lambda x, o: x.__dlpack__(max_version=o), lambda x, o: x.__array__(o), lambda x, o: xp.nextafter(x, o),
        lambda x, o: xp.tensordot(x, x, axes=o), lambda x, o: xp.flip(x, axis=o), lambda x, o: xp.moveaxis(x, o, 0), lambda x, o: xp.take_along_axis(x, o, axis=o)]
FROM = [xp.asarray, lambda o: xp.asarray([o, 1]), lambda o: xp.asarray([[1, 2], o]), lambda o: xp.asarray(o, dtype="int8"), lambda o: xp.asarray([1, o], dtype="float16"), xp.from_dlpack,
        xp.zeros, lambda o: xp.full((2, o), o), lambda o: xp.full(3, o), lambda o: xp.arange(o), lambda o: xp.arange(0, o, o), lambda o: xp.linspace(0, o, num=o), lambda o: xp.eye(o),
        lambda o: xp.ones((o,), dtype=o), lambda o: xp.as_device(o), lambda o: xp.random.uniform(o), lambda o: xp.jit(lambda x: o)(xp.ones(2)), lambda o: xp.jit(lambda x: x + o)(xp.ones(2)),
        lambda o: xp.jit(lambda x: x * 2)(o), lambda o: xp.grad(lambda x: xp.sum(x * o))(xp.ones(2)), lambda o: xp.grad(lambda x: o)(xp.ones(2)), lambda o: xp.result_type(o, "int8"),
        lambda o: xp.meshgrid(o), lambda o: xp.concat(o), lambda o: xp.concat([o, o]), lambda o: xp.broadcast_arrays(xp.ones(2), o), lambda o: xp.explain(o)]


class Calls(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.arrays, self.lists, self.buffers = [], [], []

    # ---- what a call may do ----

    def try_call(self, call, *operands):
        """Calls it, and keeps the arrays of its result."""
        try:
            made = call(*operands)
        except Mine:
            return
        except SystemError:
            raise
        except EXPECTED as error:
            assert str(error) or isinstance(error, (MemoryError, AttributeError, OverflowError)), f"{type(error)} without a sentence"
            return
        for x in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(x, xp.Array) and x.size < 1000:
                self.arrays.append(x)
        del self.arrays[:-HELD]

    def pick(self, which):
        return self.arrays[which % len(self.arrays)] if self.arrays else xp.ones((2, 3))

    def odd(self, kind, what, answer):
        hostile = (Number if kind == 1 else Hostile)(self, what, answer)
        if kind == 2:
            return Long(hostile)
        if kind == 3:
            return Sequence(hostile)
        if kind == 4:
            values = [1, hostile, 2.5]
            self.lists.append(values)
            return values
        return hostile

    # ---- calls ----

    @rule(shape=SHAPES, dtype=st.sampled_from(DTYPES))
    def make(self, shape, dtype):
        self.try_call(lambda: xp.ones(shape, dtype=dtype))

    @rule(which=WHICH, call=st.sampled_from(UNARY))
    def one(self, which, call):
        self.try_call(call, self.pick(which))

    @rule(which=WHICH, other=WHICH, call=st.sampled_from(WITH))
    def two(self, which, other, call):
        self.try_call(call, self.pick(which), self.pick(other))

    @rule(which=WHICH, call=st.sampled_from(WITH), kind=st.integers(0, 4), what=ACTIONS, answer=ANSWERS)
    def with_hostile(self, which, call, kind, what, answer):
        self.try_call(call, self.pick(which), self.odd(kind, what, answer))

    @rule(call=st.sampled_from(FROM), kind=st.integers(0, 4), what=ACTIONS, answer=ANSWERS)
    def from_hostile(self, call, kind, what, answer):
        self.try_call(call, self.odd(kind, what, answer))

    @rule(which=WHICH, call=st.sampled_from(WITH), answer=ANSWERS)
    def with_nonsense(self, which, call, answer):
        self.try_call(call, self.pick(which), answer)

    @rule(which=WHICH)
    def let_go(self, which):
        if self.arrays:
            del self.arrays[which % len(self.arrays)]

    @rule(which=WHICH, writes=st.booleans())
    def hold(self, which, writes):
        x = self.pick(which)
        if writes and x.dtype is not xp.bfloat16:
            with xp.writable(x) as memory:
                seen = np.asarray(memory)
                seen[...] = 1
        else:
            seen = np.asarray(x)
        self.buffers.append((seen, seen.tobytes()))
        del self.buffers[:-HELD]

    @rule(calls=st.lists(st.tuples(WHICH, st.sampled_from(WITH), st.integers(0, 4), ACTIONS, ANSWERS), min_size=1, max_size=6))
    def together(self, calls):
        """The same calls on several threads, which share the arrays."""
        errors = []

        def run():
            try:
                for which, call, kind, what, answer in calls:
                    # Another thread may have emptied it in between.
                    arrays = list(self.arrays) or [xp.ones((2, 3))]
                    self.try_call(call, arrays[which % len(arrays)], self.odd(kind, what, answer))
            except BaseException as error:      # noqa: for the main thread
                errors.append(error)
        threads = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    @invariant()
    def what_was_lent_for_reading_stays(self):
        for seen, held in self.buffers:
            assert seen.tobytes() == held

    def teardown(self):
        assert (xp.ones(3) + 1).tolist() == [2, 2, 2]


HOW = dict(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)


def test_any_calls_in_any_order():
    run_state_machine_as_test(Calls, settings=settings(derandomize=not SECONDS, **HOW))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        run_state_machine_as_test(Calls, settings=settings(**HOW))
