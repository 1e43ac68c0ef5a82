"""The class of arrays: what _core.Array has no time-critical reason to have in C."""
from __future__ import annotations

from . import _core, _functions
from ._base import as_device, bfloat16, bool as truth, default_real, float32
from ._index import getitem, setitem
from ._store import stored as _stored
from ._told import told_all
from ._views import is_row_major

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Iterator, Sequence

    from ._base import Device, DType


class Array(_core.Array):
    """An array of one element type on a device of the daemon.

    Lazy: operations are recorded and run when values are wanted - by bool(), int(), float(), print(), numpy.asarray() - or
    after a thousand of them. x[...] = y and x += y write to x and to all arrays that share memory with it, as in NumPy.
    numpy.asarray(x) is the array's own shared memory, for reading, as it is then: later writes do not change it.
    """

    __slots__ = ()
    __array_ufunc__ = None
    __hash__ = None     # type: ignore[assignment]

    __getitem__ = getitem
    __setitem__ = setitem

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
            raise ValueError(f"version {api_version!r} of the array API standard is not known")
        import fusion
        return fusion

    def __imatmul__(self, other: Array) -> Array:
        made = self @ other
        if made.shape != self.shape:
            raise ValueError("in-place @: the result's shape is not the array's")
        self[...] = made
        return self

    def __delitem__(self, key: Any) -> None:
        raise TypeError("del: an array keeps its elements; those that are to stay, x[...], are another array")

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("an array without dimensions cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Array | bool | int | float) -> bool:
        return bool(_functions.any(self == value))

    def __repr__(self) -> str:
        from ._print import text
        return text(self)

    def __str__(self) -> str:
        from ._print import values
        return values(self, "")

    def __format__(self, how: str) -> str:
        if how and self.ndim:
            raise TypeError(f"format: only an array without dimensions is a number, which {how!r} is for; this one has the shape {self.shape}")
        return format(self.item(), how) if how else str(self)

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        return other // self, other % self

    def __copy__(self) -> Array:
        return _core.same(self)

    def __deepcopy__(self, memo: Any) -> Array:
        return _core.same(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (_core.to_bytes(self), self.dtype, self.shape)

    # ---- between libraries ----

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy
        source = _core.cast(self, float32) if self.dtype is bfloat16 else self
        made = numpy.asarray(memoryview(source)) if source.size else numpy.empty(source.shape, source.dtype.name)
        made = made.reshape(source.shape)
        if dtype is not None and made.dtype != dtype:
            return made.astype(dtype)
        return made.copy() if copy else made

    def __dlpack__(self, /, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[Any, int] | None = None, copy: bool | None = None) -> Any:
        if stream not in (None, -1):
            raise BufferError("__dlpack__: host memory has no streams")
        if dl_device is not None and tuple(map(int, dl_device)) != (1, 0):
            raise BufferError(f"__dlpack__: the array can be had in host memory, (1, 0), not on {dl_device}")
        versioned = max_version is not None and max_version[0] >= 1
        if copy is False and not versioned:
            raise BufferError("__dlpack__: without a copy the memory is for reading alone, which only DLPack 1.0 can say")
        return _core.to_dlpack(self, versioned, bool(copy))

    def __dlpack_device__(self, /) -> tuple[int, int]:
        return 1, 0

    def to_device(self, device: Device | str | int, /, *, stream: None = None) -> Array:
        """The array on another device; itself where it is there."""
        if stream is not None:
            raise ValueError("to_device: there are no streams to name")
        if isinstance(device, str) and device == "cpu":
            return self
        device = as_device(device)
        if device == self.device:
            return self
        return _core.from_bytes(device.context, self.dtype, self.shape, _core.to_bytes(self))

    # ---- properties and methods ----

    @property
    def T(self) -> Array:
        """The matrix transposed. A view."""
        if self.ndim != 2:
            raise ValueError(f"T: an array of shape {self.shape} is no matrix; mT transposes the last two axes")
        return _functions.matrix_transpose(self)

    @property
    def mT(self) -> Array:
        """The last two axes swapped. A view."""
        return _functions.matrix_transpose(self)

    def astype(self, dtype: DType | str | type, /, *, copy: bool = True) -> Array:
        """The array in another element type."""
        return _functions.astype(self, dtype, copy=copy)

    def item(self, *index: Any) -> bool | int | float:
        """The element at an index, or at a place in the order of rows, or the only one, as a Python number. Waits."""
        if not index:
            return _core.Array.item(_core.reshape(self, ()) if self.ndim and self.size == 1 else self)
        if len(index) == 1 and isinstance(index[0], tuple):
            index = index[0]
        if len(index) == 1:
            return _core.Array.item(self.flatten()[index[0]])
        if len(index) != self.ndim:
            raise ValueError(f"item: {len(index)} indices of an array of {self.ndim} axes")
        return _core.Array.item(self[index])

    def copy(self) -> Array:
        """Another array of the same elements, which shares no memory with this one."""
        return _core.same(self)

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """The same elements under another shape. A view."""
        return _functions.reshape(self, shape[0] if len(shape) == 1 else shape)      # type: ignore[arg-type]

    def flatten(self) -> Array:
        """The elements in a vector; not a view."""
        return _core.reshape(self, (self.size,))

    def ravel(self) -> Array:
        """The elements in a vector. A view where they lie side by side."""
        return _functions.reshape(self, (self.size,), copy=not is_row_major(self))

    def transpose(self, *axes: int | Sequence[int]) -> Array:
        """The axes in another order, or reversed. A view."""
        order: Any = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return _functions.permute_dims(self, order or tuple(reversed(range(self.ndim))))

    def sum(self, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None, out: Array | None = None,
            keepdims: bool = False) -> Array:
        """See fusion.sum."""
        return _stored(_functions.sum(self, axis=axis, dtype=dtype, keepdims=keepdims), out, "sum")

    def prod(self, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None, out: Array | None = None,
            keepdims: bool = False) -> Array:
        """See fusion.prod."""
        return _stored(_functions.prod(self, axis=axis, dtype=dtype, keepdims=keepdims), out, "prod")

    def mean(self, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None, out: Array | None = None,
             keepdims: bool = False) -> Array:
        """See fusion.mean."""
        return _stored(_functions.mean(_of_type(self, dtype), axis=axis, keepdims=keepdims), out, "mean")

    def var(self, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None, out: Array | None = None,
            ddof: int | float = 0, keepdims: bool = False, *, correction: int | float | None = None) -> Array:
        """See fusion.var; ddof is NumPy's name of correction."""
        less = ddof if correction is None else correction
        return _stored(_functions.var(_of_type(self, dtype), axis=axis, correction=less, keepdims=keepdims), out, "var")

    def std(self, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None, out: Array | None = None,
            ddof: int | float = 0, keepdims: bool = False, *, correction: int | float | None = None) -> Array:
        """See fusion.std; ddof is NumPy's name of correction."""
        less = ddof if correction is None else correction
        return _stored(_functions.std(_of_type(self, dtype), axis=axis, correction=less, keepdims=keepdims), out, "std")

    def max(self, axis: int | tuple[int, ...] | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """See fusion.max."""
        return _stored(_functions.max(self, axis=axis, keepdims=keepdims), out, "max")

    def min(self, axis: int | tuple[int, ...] | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """See fusion.min."""
        return _stored(_functions.min(self, axis=axis, keepdims=keepdims), out, "min")

    def all(self, axis: int | tuple[int, ...] | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """See fusion.all."""
        return _stored(_functions.all(self, axis=axis, keepdims=keepdims), out, "all")

    def any(self, axis: int | tuple[int, ...] | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """See fusion.any."""
        return _stored(_functions.any(self, axis=axis, keepdims=keepdims), out, "any")

    def argmax(self, axis: int | tuple[int, ...] | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """See fusion.argmax."""
        return _stored(_functions.argmax(self, axis=axis, keepdims=keepdims), out, "argmax")

    def argmin(self, axis: int | tuple[int, ...] | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """See fusion.argmin."""
        return _stored(_functions.argmin(self, axis=axis, keepdims=keepdims), out, "argmin")

    # ---- by NumPy's names ----

    def dot(self, b: Any, out: Array | None = None) -> Array:
        """See fusion.numpy.dot."""
        return _numpy().dot(self, b, out)

    def cumsum(self, axis: int | None = None, dtype: DType | str | type | None = None, out: Array | None = None) -> Array:
        """See fusion.numpy.cumsum."""
        return _numpy().cumsum(self, axis, dtype, out)

    def cumprod(self, axis: int | None = None, dtype: DType | str | type | None = None, out: Array | None = None) -> Array:
        """See fusion.numpy.cumprod."""
        return _numpy().cumprod(self, axis, dtype, out)

    def clip(self, min: Any = None, max: Any = None, out: Array | None = None) -> Array:
        """See fusion.numpy.clip."""
        return _numpy().clip(self, out=out, min=min, max=max)

    def round(self, decimals: int = 0, out: Array | None = None) -> Array:
        """See fusion.numpy.round."""
        return _numpy().round(self, decimals, out)

    def argsort(self, axis: int | None = -1) -> Array:
        """See fusion.numpy.argsort."""
        return _numpy().argsort(self, axis)

    def sort(self, axis: int = -1) -> None:
        """In place, along an axis."""
        self[...] = _functions.sort(self, axis=axis)

    def fill(self, value: Any) -> None:
        """In place, with one value."""
        self[...] = value

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """See fusion.numpy.swapaxes. A view."""
        return _numpy().swapaxes(self, axis1, axis2)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Array:
        """See fusion.squeeze. A view."""
        return _functions.squeeze(self, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        """See fusion.numpy.repeat."""
        return _numpy().repeat(self, repeats, axis)

    def take(self, indices: Any, axis: int | None = None, out: Array | None = None) -> Array:
        """See fusion.numpy.take."""
        return _numpy().take(self, indices, axis, out)

    def nonzero(self) -> tuple[Array, ...]:
        """See fusion.nonzero. Waits."""
        return _functions.nonzero(self)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """See fusion.numpy.diagonal."""
        return _numpy().diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """See fusion.numpy.trace."""
        return _numpy().trace(self, offset, axis1, axis2)


told_all([name for name in vars(Array) if not name.startswith("_")], Array, "fusion")


def _numpy() -> Any:
    """What only these methods need is imported with the first of them."""
    from . import numpy
    return numpy


def _of_type(x, dtype):
    """Of truths their share is meant, as in NumPy."""
    if dtype is None and x.dtype is truth:
        dtype = default_real()
    return x if dtype is None else _functions.astype(x, dtype, copy=False)


def _restore(data, dtype, shape):
    return _core.from_bytes(as_device(None).context, dtype, shape, data)
