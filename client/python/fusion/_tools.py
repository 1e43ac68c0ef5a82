"""What a person asks of the daemon: settings for a while, how an expression would run, a picture of it, what happened so far."""
from __future__ import annotations

import contextlib
import json
import os
import time

from . import _core
from ._base import _default, as_device, as_dtype, default_real, set_default_real
from ._errors import ArgumentError, LimitError

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Callable, Iterator, Sequence

    from ._array import Array
    from ._base import Device, DType
    from ._graph import Picture

__all__ = ["benchmark_pattern", "can_fuse", "cancel", "config", "define_op", "define_pattern", "explain", "flush", "forget_pattern", "graph", "operations", "opportunities", "patterns",
           "recent", "report", "settings", "stats", "sync", "writable"]


def _text(value):
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def config(settings: dict[str, Any] | None = None, /, *, device: Device | str | int | None = None,
           default_real: DType | str | type | None = None, **named: Any) -> Iterator[None]:
    """Settings of this session while the block runs: config(enabled=False), config({"fusion.pattern.linear": "no"}).

    A name without a dot is one of "fusion."; see fusiond.conf(5). default_real: the type of numbers with a fraction.
    """
    context = as_device(device).context
    wanted = {**(settings or {}), **{f"fusion.{name}": value for name, value in named.items()}}
    before = json.loads(context.settings(False))
    unknown = [name for name in wanted if name not in before]
    if unknown:
        raise ArgumentError(f"config: there is no setting {', '.join(unknown)} of a session: they are {', '.join(before)}")
    real = _real()
    done = []
    try:
        if default_real is not None:
            set_default_real(default_real)
        for name, value in wanted.items():
            context.configure(name, _text(value))
            done.append(name)
        yield
    finally:
        for name in reversed(done):
            context.configure(name, before[name])
        if default_real is not None:
            set_default_real(real)


def _real():
    return default_real()


def settings(*, device: Device | str | int | None = None) -> dict[str, Any]:
    """The settings of this session, by name."""
    return json.loads(as_device(device).context.settings(False))


def sync(*, device: Device | str | int | None = None) -> None:
    """Waits until all that was recorded has run."""
    as_device(device).context.sync()


def flush(*, device: Device | str | int | None = None) -> None:
    """Sends what was recorded, without waiting."""
    as_device(device).context.flush()


def cancel(*, device: Device | str | int | None = None) -> None:
    """What was sent and not begun is not run: its arrays fail."""
    as_device(device).context.cancel()


def stats(*, device: Device | str | int | None = None, whole_daemon: bool = False) -> dict[str, Any]:
    """Counters of this session, or of the daemon: kernels before and after fusion, bytes not moved, patterns..."""
    return json.loads(as_device(device).context.stats(whole_daemon))


def patterns(*, device: Device | str | int | None = None) -> Any:
    """The fusion patterns of this session, and on which devices each is on."""
    return json.loads(as_device(device).context.patterns())


def operations(*, device: Device | str | int | None = None) -> Any:
    """What the daemon's administrator defined: names, operands, whether they are ready, or why not."""
    return json.loads(as_device(device).context.operations())


class Benchmark(dict):
    """What a pattern was measured to take; as a dict what fusionctl bench pattern --json gives."""

    def __repr__(self) -> str:
        operands = ", ".join(f"{one['name']} {one['type']}" for one in self["operands"])
        lines = [f"{self['pattern']}: {self['text']}; {operands}",
                 f"{self['kernels']} kernel{'' if self['kernels'] == 1 else 's'}, without fusion {self['unfused_kernels']}; {'the same' if self['same_bits'] else 'other'} bits"]
        for name in ("device", "wall"):
            if name in self:
                t = self[name]
                lines.append(f"{name}: fused {t['fused_us']:.1f} us, median {t['fused_median_us']:.1f}; unfused {t['unfused_us']:.1f}, median "
                             f"{t['unfused_median_us']:.1f}; {t['speedup']:.2f} times as fast, median {t['median_speedup']:.2f}")
        return "\n".join(lines)


def benchmark_pattern(name: str, size: int | None = None, *, dtype: DType | str | type | None = None,
                      shapes: Sequence[Sequence[int]] | None = None, dtypes: Sequence[DType | str | type] | None = None,
                      seconds: float | None = None, device: Device | str | int | None = None) -> Benchmark:
    """Measures how fast a pattern, built in or defined, runs now, fused and as one kernel an operation: best and median, and their quotient.

    Operands are squares of `size` (256), mostly, of `dtype` (float32), or of the shapes given, each of `dtype` or its own of `dtypes`. It waits for
    kernels to be built, then measures for `seconds` (2), in a session of its own that has this one's settings and patterns.
    """
    of = None if dtype is None else as_dtype(dtype)
    if dtypes is not None and (shapes is None or len(dtypes) != len(shapes)):
        raise ArgumentError("benchmark_pattern: dtypes are those of shapes, as many")
    types = [as_dtype(one) for one in dtypes] if dtypes is not None else [of or as_dtype("float32")] * len(shapes or ())
    if shapes is not None and (size is not None or (dtypes is not None and dtype is not None)):
        raise ArgumentError("benchmark_pattern: where shapes are given, no size is wanted, and dtype or dtypes")
    if shapes is None and of is as_dtype("bool"):
        raise ArgumentError("benchmark_pattern: of bool a pattern is measured with the shapes of its operands")
    operands = tuple(zip(types, (tuple(shape) for shape in shapes or ())))
    for number, what, kind in ((size, "size", int), (seconds, "seconds", (int, float))):
        if number is not None and (not isinstance(number, kind) or isinstance(number, bool)):
            raise TypeError(f"benchmark_pattern: {what} is {number!r}, not {'an integer' if kind is int else 'a number'}")
        if number is not None and not number > 0:
            raise ArgumentError(f"benchmark_pattern: {what} is {number!r}, not above 0")
    return Benchmark(json.loads(as_device(device).context.benchmark(name, size or 0, of, operands, float(seconds or 0))))


def recent(*, device: Device | str | int | None = None) -> Any:
    """How the last graphs of this session ran, the newest first, as fusionctl explain --last tells it."""
    return json.loads(as_device(device).context.recent())


def define_op(name: str, text: str | None = None, *, device: Device | str | int | None = None) -> Callable[..., Array]:
    """Defines an operation by an expression, and gives it as a function: swish = define_op("swish2", "a * sigmoid(b * a)"); swish(x, y).

    Without a text, one that the daemon's administrator has defined: gives its function. Attributes are named: f(x, axes=-1). See fusion-ops(7).
    """
    word = name.split("(")[0].strip()
    if text is not None:
        as_device(device).context.define(name, text)
    else:
        text = _defined(word, operations(device=device))

    def operation(*arrays: Array, **attributes: Any) -> Array:
        return _core.call(None, word, arrays, attributes)
    operation.__name__ = operation.__qualname__ = word
    operation.__doc__ = text
    return operation


_CALLABLE = ("text", "body")      # the third kind is a pattern


def _defined(word, common):
    for one in common:
        if one["name"] == word and one["kind"] in _CALLABLE:
            return one.get("doc")
    names = ", ".join(one["name"] for one in common if one["kind"] in _CALLABLE) or "none"
    raise ArgumentError(f"define_op: no text is given, and the administrator has defined no operation {word}: there are {names}")


def define_pattern(name: str, text: str, *, device: Device | str | int | None = None) -> None:
    """Defines a fusion pattern: wherever the expression arises it is counted and named. See libfusion(3)."""
    as_device(device).context.define(name, text, True)


def forget_pattern(name: str, *, device: Device | str | int | None = None) -> None:
    """Takes back what define_pattern() defined; what runs ends as it began."""
    as_device(device).context.forget(name)


class Explanation(dict):
    """How the daemon would run something; as a dict what fusionctl explain --json gives. A notebook shows it as a page (see report())."""

    def _repr_html_(self) -> str:
        from ._graph import PART, drawn
        return drawn(self, PART)

    def _repr_svg_(self) -> str:
        from ._graph import PICTURE, drawn
        return drawn(self, PICTURE)

    def __repr__(self) -> str:
        kernels, unfused, moved, saved = (self[name] for name in ("kernel_count", "unfused_kernel_count", "bytes_moved", "bytes_not_moved"))
        less = f", and {100 * saved / (moved + saved):.1f} % less memory is moved" if moved + saved else ""
        fewer = f": {100 * (1 - kernels / unfused):.1f} % fewer{less}" if unfused > kernels else ""
        lines = [f"{_count(kernels, 'kernel')}; without fusion {unfused}{fewer}"]
        if "note" in self:
            lines.append(self["note"])
        if self["buffers_eliminated"]:
            lines.append(f"{_count(self['buffers_eliminated'], 'fewer array')} to store, {_bytes(saved)} less to move")
        for shared in self.get("shared_launches", ()):
            speed = f", estimated {_speed(shared['estimated_speedup'])}" if "estimated_speedup" in shared else ""
            lines.append(f"  kernels {', '.join(str(k - 1) for k in shared['kernels'])} share a launch: {shared['pattern']}{speed}")
        for i, kernel in enumerate(self["kernels"]):
            ops = ", ".join(f"{op['op']} {op['type']}" for op in kernel.get("operations", ()))
            name = f" {kernel['pattern']}" if kernel.get("pattern") else ""
            lines.append(f"  {i}: {kernel['root']}{name}: {ops or kernel.get('purpose', '')}")
            if ops and "purpose" in kernel:
                lines.append(f"     {kernel['purpose']}")
            if "runs_as" in kernel:
                lines.append(f"     runs as {kernel['runs_as']} since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(kernel['runs_since_us'] / 1e6))}")
        for left in self.get("not_fused", ()):
            lines.append(f"  not fused: {_operation(left, 'producer')} into {_operation(left, 'consumer')}: {left['reason']}")
        return "\n".join(lines)


def _count(number, word):
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _bytes(number):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            break
        number /= 1024
    return f"{number:.{0 if number == int(number) or number >= 100 else 1 if number >= 10 else 2}f} {unit}"


def _speed(ratio):
    return "as fast" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times as fast"


def _operation(note, which):
    place = note.get(f"{which}_at")
    return note[f"{which}_op"] + (f" at {place}" if place else "")


def _arrays(arrays, what):
    if not arrays:
        raise TypeError(f"{what}: no array")
    for a in arrays:
        if not isinstance(a, _core.Array):
            raise TypeError(f"{what}: not a fusion array, but {type(a)}")
    return tuple(arrays)


# Of FUSION_EXPLAIN_.
_SOURCE, _UNFUSED, _NODES, _OPPORTUNITIES, _OWN_SOURCE = 1, 2, 4, 8, 32


def _explained(asked, name, what):
    """Of arrays; or of a function of jit(), as it was recorded for the arrays that follow it."""
    recorded = getattr(asked[0], "_explained", None) if asked else None
    if recorded is not None:
        return json.loads(recorded(asked[1:], what))
    arrays = _arrays(asked, name)
    context = arrays[0].device.context
    return json.loads((context.opportunities if what == _OPPORTUNITIES else context.explain)(arrays, what))


def explain(*arrays: Array | Callable[..., Any], source: bool | str = False, unfused: bool = False) -> Explanation:
    """How the daemon runs what leads to these arrays: kernels, their operations, why others were left out. Runs nothing.

    What has run, explain(y) after print(y), is told as it ran, as long as it is known: fusion.explain_runs. Of a function of jit(), explain(f) or
    explain(f, x): the graph that was recorded, or is now, for these arguments.

    source: with the OpenCL C of each kernel; "all": with the library's functions, too, as the compiler gets it.
    """
    if isinstance(source, str) and source != "all":
        raise ValueError(f"explain: source is {source!r}, neither a truth nor 'all'")
    what = _NODES + (_SOURCE if source == "all" else _OWN_SOURCE if source else 0) + (_UNFUSED if unfused else 0)
    return Explanation(_explained(arrays, "explain", what))


class Answer(dict):
    """Whether two operations run in one kernel: true or false, and as a dict the reason, and the kernel and its gain or what is between."""

    def __bool__(self) -> bool:
        return self["fused"]

    def __repr__(self) -> str:
        if self:
            gain = f", estimated {_speed(self['estimated_speedup'])}" if "estimated_speedup" in self else ""
            operations = ", ".join(op["op"] for op in self["operations"])
            return f"yes: kernel {self['kernel'] - 1}, {self.get('pattern', self['root'])}, computes {operations}; {_bytes(self['bytes_saved'])} less to move{gain}"
        ends = " into ".join(_operation(self, end) for end in ("producer", "consumer") if end in self)
        return f"no: {ends}: {self['reason']}" if ends else f"no: {self['reason']}"


def can_fuse(first: Array, second: Array, *results: Array) -> Answer:
    """Would the operations that give these two arrays run in one kernel, in the plan that explain(*results) tells of, else explain(second)?"""
    arrays = _arrays((*results, first, second), "can_fuse")
    return Answer(json.loads(arrays[0].device.context.can_fuse(*arrays)))


def opportunities(*arrays: Array | Callable[..., Any]) -> Any:
    """What of these operations is fused, alone, the greatest gain first: pattern, operations, bytes saved, estimated gain. Of what explain() takes."""
    return _explained(arrays, "opportunities", _OPPORTUNITIES)


def graph(*arrays: Array | Callable[..., Any]) -> Picture:
    """A picture of what explain() takes: in a notebook as it is, else graph(x).svg and graph(x).save(name)."""
    from ._graph import Picture
    return Picture(explain(*arrays))


def report(what: Array | Explanation | Callable[..., Any], *others: Any) -> None:
    """report(y, "FILE.html"): one page of what explain() takes, or of what it told: a picture of operations and kernels, what bounds
    each, a timeline, sources, what was not fused. It holds all it needs, and runs nothing.
    """
    from ._graph import PAGE, drawn
    if not others or isinstance(others[-1], _core.Array):
        raise TypeError("report: the name of a file comes last: report(y, \"FILE.html\")")
    *arrays, name = (what, *others)
    told = what if isinstance(what, Explanation) and len(arrays) == 1 else _with_sources(arrays)
    page = drawn(told, PAGE, os.path.splitext(os.path.basename(os.fspath(name)))[0])
    with open(os.fspath(name), "w", encoding="utf-8") as file:
        file.write(page)


def _with_sources(asked):
    """Unless these are longer than an answer may be."""
    try:
        return Explanation(_explained(asked, "report", _NODES + _OWN_SOURCE))
    except LimitError:
        return Explanation(_explained(asked, "report", _NODES))


@contextlib.contextmanager
def writable(x: Array) -> Iterator[memoryview]:
    """with writable(x) as view: the elements as a buffer to write in; x has them when the block ends.

    numpy.asarray(view) is NumPy's way to write. Within the block it is memory that x gets without a copy, if nothing of it is
    kept; a buffer that outlives the block is memory of its own, and x gets a copy.
    """
    lent = _core.writable(x)
    view = memoryview(lent)
    yield view
    try:
        view.release()
    except BufferError:         # somebody has a part of it
        pass
    from ._views import write
    write(x, _core.written(lent))
