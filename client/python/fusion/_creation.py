"""Arrays from values of Python, from other libraries, and from nothing."""
from __future__ import annotations

import builtins
import math
import operator

from . import _core
from ._base import as_device, as_dtype, bool as truth, default_real, int64, number, real as real_number, uint64, whole
from ._errors import DTypeError
from ._functions import _array
from ._index import _broadcast_shapes

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Sequence

    from ._array import Array
    from ._base import Device, DType

__all__ = ["arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
           "ones", "ones_like", "tril", "triu", "zeros", "zeros_like"]


def asarray(obj: Any, /, *, dtype: DType | str | type | None = None, device: Device | str | int | None = None,
            copy: bool | None = None) -> Array:
    """An array of numbers, nested lists, an array, or anything with the buffer protocol or DLPack.

    What is not a fusion array is copied once, into memory that the daemon shares (`copy=False` refuses that). An
    array stays itself unless another type or device is asked for, or a copy.
    """
    dtype = as_dtype(dtype)
    if isinstance(obj, _core.Array):
        if copy is False and (dtype not in (None, obj.dtype) or device is not None and as_device(device) != obj.device):
            raise ValueError("asarray: another type or device needs a copy, and copy=False forbids one")
        made: Any = obj if device is None else obj.to_device(device)      # type: ignore[attr-defined]
        if dtype is not None and made.dtype is not dtype:
            made = _core.cast(made, dtype)
        return _core.same(made) if made is obj and copy else made
    if copy is False:
        raise ValueError("asarray: what is not a fusion array is copied into shared memory, and copy=False forbids it")
    context = as_device(device).context
    if isinstance(obj, (builtins.bool, int, float, list, tuple)):
        if isinstance(obj, (list, tuple)) and _holds_arrays(obj):
            return _of_arrays(obj, dtype, device)
        return _core.from_sequence(context, obj, dtype)
    if isinstance(obj, complex):
        raise DTypeError(f"asarray: obj is {obj!r}: complex numbers are not supported: no device of fusion computes with them")
    made = _from_object(obj, context)
    return made if dtype is None or made.dtype is dtype else _core.cast(made, dtype)


def _from_object(obj, context):
    # A single one lends its memory as bytes.
    if getattr(getattr(obj, "dtype", None), "kind", None) in ("m", "M"):
        raise DTypeError(f"asarray: no element type of fusion holds {obj.dtype}: y.view('int64') makes integers of it in NumPy")
    try:
        return _core.from_buffer(context, obj)
    except (TypeError, BufferError):
        if isinstance(obj, (bytes, bytearray, memoryview)) or type(obj).__module__ == "numpy" or not hasattr(obj, "__dlpack__"):
            if hasattr(obj, "__array__") and type(obj).__module__ != "numpy":
                return _core.from_buffer(context, obj.__array__())
            if not isinstance(obj, (bytes, bytearray, memoryview)) and not hasattr(obj, "__array_interface__"):
                raise TypeError(f"asarray: obj, of {type(obj).__name__}, is no number, list, array or buffer") from None
            raise
    return _from_capsule(obj, context)


def _holds_arrays(obj):
    while isinstance(obj, (list, tuple)):
        if not obj:
            return False
        for entry in obj:
            if isinstance(entry, _core.Array) or hasattr(entry, "__array__"):
                return True
        obj = obj[0]
    return False


def _of_arrays(obj, dtype, device):
    parts = [asarray(entry, dtype=dtype, device=device) for entry in obj]
    return _core.stack(parts, 0)


def from_dlpack(x: Any, /, *, device: Device | str | int | None = None, copy: bool | None = None) -> Array:
    """An array of another library's, copied once into shared memory: the daemon cannot read other memory."""
    if isinstance(x, _core.Array):
        return asarray(x, device=device, copy=copy)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack: x is of {type(x).__name__}, which has no __dlpack__()")
    if copy is False:
        raise BufferError("from_dlpack: the tensor has to be copied into memory that the daemon shares, and copy=False forbids it")
    return _from_capsule(x, as_device(device).context)


def _from_capsule(x, context):
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__()
    return _core.from_dlpack(context, capsule)


def _shape(shape, what):
    try:
        if isinstance(shape, (str, bytes, bytearray)):
            raise TypeError
        return (operator.index(shape),) if hasattr(shape, "__index__") else tuple(operator.index(extent) for extent in shape)
    except TypeError:
        raise TypeError(f"{what}: the shape is {shape!r}; it is an integer, or a tuple of integers") from None


def _count(num, what):
    num = whole(num, f"{what}: num")
    if num < 0:
        raise ValueError(f"{what}: num is {num}, below 0")
    if num >= 1 << 63:
        raise OverflowError(f"{what}: num is {num}, which is too large")
    return num


def _value(fill_value, what):
    """The number, or array, that is to fill another array."""
    fill_value = number(fill_value)
    if isinstance(fill_value, complex):
        raise DTypeError(f"{what}: complex numbers are not supported: no device of fusion computes with them")
    if not isinstance(fill_value, (builtins.bool, int, float, _core.Array)):
        raise TypeError(f"{what}: fill_value is {fill_value!r}, neither a number nor a fusion array")
    return fill_value


def full(shape: int | Sequence[int], fill_value: Array | bool | int | float, *, dtype: DType | str | type | None = None,
         device: Device | str | int | None = None) -> Array:
    """An array of one value. Nothing is stored until something needs it stored."""
    dtype, fill_value = as_dtype(dtype), _value(fill_value, "full")
    if isinstance(fill_value, _core.Array):
        value = fill_value if dtype is None else _core.cast(fill_value, dtype)
        return _core.broadcast(value, _shape(shape, "full"))
    if dtype is None:
        dtype = truth if isinstance(fill_value, builtins.bool) else int64 if isinstance(fill_value, int) else default_real()
    return as_device(device).context.full(dtype, _shape(shape, "full"), fill_value)


def zeros(shape: int | Sequence[int], *, dtype: DType | str | type | None = None,
          device: Device | str | int | None = None) -> Array:
    """An array of zeros."""
    return as_device(device).context.full(as_dtype(dtype) or default_real(), _shape(shape, "zeros"), 0)


def ones(shape: int | Sequence[int], *, dtype: DType | str | type | None = None,
         device: Device | str | int | None = None) -> Array:
    """An array of ones."""
    return as_device(device).context.full(as_dtype(dtype) or default_real(), _shape(shape, "ones"), 1)


def empty(shape: int | Sequence[int], *, dtype: DType | str | type | None = None,
          device: Device | str | int | None = None) -> Array:
    """An array whose values are not said: zeros."""
    return zeros(shape, dtype=dtype, device=device)


def _like(x, value, dtype, device, what):
    _array(x, what)
    return (x.device if device is None else as_device(device)).context.full(as_dtype(dtype) or x.dtype, x.shape, value)


def zeros_like(x: Array, /, *, dtype: DType | str | type | None = None,
               device: Device | str | int | None = None) -> Array:
    """Zeros in the shape of x."""
    return _like(x, 0, dtype, device, "zeros_like")


def ones_like(x: Array, /, *, dtype: DType | str | type | None = None,
              device: Device | str | int | None = None) -> Array:
    """Ones in the shape of x."""
    return _like(x, 1, dtype, device, "ones_like")


def empty_like(x: Array, /, *, dtype: DType | str | type | None = None,
               device: Device | str | int | None = None) -> Array:
    """An array in the shape of x whose values are not said: zeros."""
    return _like(x, 0, dtype, device, "empty_like")


def full_like(x: Array, /, fill_value: Array | bool | int | float, *, dtype: DType | str | type | None = None,
              device: Device | str | int | None = None) -> Array:
    """One value in the shape of x."""
    fill_value = _value(fill_value, "full_like")
    if isinstance(fill_value, _core.Array):
        fill_value = asarray(fill_value, dtype=as_dtype(dtype) or _array(x, "full_like").dtype, device=x.device if device is None else device)
        return _core.broadcast(fill_value, x.shape)
    return _like(x, fill_value, dtype, device, "full_like")


def arange(start: int | float, /, stop: int | float | None = None, step: int | float = 1, *,
           dtype: DType | str | type | None = None, device: Device | str | int | None = None) -> Array:
    """start, start + step, ... below stop (above it where the step is negative)."""
    start, stop, step = number(start), number(stop), number(step)
    if stop is None:
        start, stop = 0, start
    if not step:
        raise ValueError("arange: the step is 0")
    exact = all(isinstance(v, int) for v in (start, stop, step))
    wanted = as_dtype(dtype) or (int64 if exact else default_real())
    context = as_device(device).context
    if not exact:
        count = max(0, math.ceil((stop - start) / step))
        return context.arange(wanted, count, start, step) if wanted.kind == "f" \
            else _core.cast(context.arange(default_real(), count, start, step), wanted)
    count = len(range(start, stop, step))       # type: ignore[arg-type]
    if wanted.kind == "f" or _holds(wanted, start) and _holds(wanted, step):
        return context.arange(wanted, count, start, step)
    # Wider than the numbers of a kernel's own, or negative among unsigned ones: in integers that wrap.
    places = context.arange(int64, count, 0, 1)
    if wanted is uint64 and start >= 0:
        return _core.add(_core.mul(_core.cast(places, wanted), step), start)
    return _core.cast(_core.add(_core.mul(places, step), start), wanted)


def _holds(dtype, v):
    """Whether a kernel's own number, a double, stands for v in the type."""
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return low <= v < 1 << (dtype.bits - (dtype.kind == "i")) and abs(v) <= 1 << 53


def linspace(start: int | float, stop: int | float, /, num: int, *, dtype: DType | str | type | None = None,
             device: Device | str | int | None = None, endpoint: bool = True) -> Array:
    """num numbers evenly apart from start to stop, with or without the end."""
    if isinstance(start, complex) or isinstance(stop, complex):
        raise DTypeError("linspace: complex numbers are not supported: no device of fusion computes with them")
    num = _count(num, "linspace")
    wanted = as_dtype(dtype) or default_real()
    real = wanted if wanted.kind == "f" else default_real()
    start, stop = real_number(start, "start"), real_number(stop, "stop")
    parts = num - 1 if endpoint else num
    context = as_device(device).context
    if not num:
        return context.full(wanted, (0,), 0)
    if parts < 1:
        made = context.full(real, (num,), start)
    else:
        places = context.arange(real, num, 0, 1)
        step = (stop - start) / parts
        if math.isinf(stop - start) or step == 0:
            share = _core.div(places, parts)
            made = _core.add(_core.mul(_core.sub(1.0, share), start), _core.mul(share, stop))
        else:
            made = _core.add(_core.mul(places, step), start)
        if endpoint:
            made = _core.where(_core.eq(places, num - 1), stop, made)
    return made if made.dtype is wanted else _core.cast(made, wanted)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | str | type | None = None,
        device: Device | str | int | None = None) -> Array:
    """A matrix of ones on the k-th diagonal and zeros elsewhere."""
    rows, k = whole(n_rows, "n_rows"), whole(k, "k")
    dims = (rows, rows if n_cols is None else whole(n_cols, "n_cols"))
    k = max(-dims[0] - 1, min(dims[1] + 1, k))
    return _core.call(as_device(device).context, "eye", (), {"dims": dims, "diagonal": k, "dtype": as_dtype(dtype) or default_real()})


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The matrices of x with zeros above the k-th diagonal."""
    return _triangle("tril", x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The matrices of x with zeros below the k-th diagonal."""
    return _triangle("triu", x, k)


def _triangle(name, x, k):
    _array(x, name)
    if x.ndim < 2:
        raise ValueError(f"{name}: an array of at least two dimensions is needed, not one of shape {x.shape}")
    return _core.call(None, name, (x,), {"diagonal": whole(k, "k")})


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Of n vectors the n arrays of their coordinates."""
    if any(_array(a, "meshgrid").ndim > 1 for a in arrays):
        raise ValueError("meshgrid: the arrays are vectors")
    if len({a.dtype for a in arrays}) > 1:
        raise ValueError("meshgrid: the arrays are of one element type")
    shaped = _apart(arrays, indexing)
    shape = _broadcast_shapes(*[a.shape for a in shaped])
    return tuple(_core.broadcast(a, shape) for a in shaped)


def _apart(arrays, indexing):
    """Each of the vectors along an axis of its own."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}, neither 'xy' nor 'ij'")
    place = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        place[0], place[1] = 1, 0
    return [_core.reshape(a, tuple(a.size if d == p else 1 for d in range(len(arrays)))) for a, p in zip(arrays, place)]
