"""NumPy's names and habits over arrays of fusion, for programs written for NumPy:

    import fusion.numpy as np

Arrays are those of fusion: lazy, and computed by the daemon. What fusion itself has by the names of the array API standard is here, too; this
module adds NumPy's own names, positional arguments, out=, and operands that are lists, numbers or arrays of NumPy.
"""
from __future__ import annotations

import builtins as _builtins
import math as _math

from .. import _core
from .._base import as_dtype as _as_dtype, bool as bool_, default_real as _default_real
from .._base import DType, bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from .._errors import *
from .._functions import (broadcast_shapes, can_cast, finfo, iinfo, isdtype, moveaxis, permute_dims, result_type, unique_all,
                          unique_counts, unique_inverse, unique_values)
from .._grad import *
from .._progress import *
from .._tools import *
from .._told import told_all as _told_all
from .. import nn
from . import linalg, random
from .create import *
from .elementwise import *
from .products import *
from .reduce import *
from .search import *
from .sets import *
from .shapes import *

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Sequence

e, euler_gamma, inf, nan, newaxis, pi = _math.e, 0.5772156649015329, _math.inf, _math.nan, None, _math.pi
bool = bool_
double, single, half, float_, int_, intp, uint, longlong, byte, ubyte, short, ushort, intc, uintc = (
    float64, float32, float16, float64, int64, int64, uint64, int64, int8, uint8, int16, uint16, int32, uint32)


def dtype(of: Any) -> DType:
    """The element type that a name, a code like "f4", a type of Python or a dtype of NumPy stands for."""
    return _default_real() if of is None else _as_dtype(of)


class _IsArray(type):
    def __instancecheck__(cls, x: object) -> _builtins.bool:
        return isinstance(x, _core.Array)


class ndarray(metaclass=_IsArray):
    """ndarray(shape, dtype) is empty(shape, dtype); every array of fusion is an instance."""

    def __new__(cls, shape: int | Sequence[int], dtype: DType | str | type = float) -> Any:
        return empty(shape, dtype)


_told_all([name for name in globals() if not name.startswith("_")], globals(), __name__)

if not TYPE_CHECKING:
    def __getattr__(name):
        import importlib        # not `from .`, which asks here
        return importlib.import_module("._absent", __name__).found(name, __name__, [n for n in globals() if not n.startswith("_")])
