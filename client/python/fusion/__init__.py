"""fusion: arrays on a device that the daemon fusiond owns, as the Python array API standard (2025.12) has them.

    import fusion as np

Operations are recorded and run, fused into few kernels, when a value is wanted. See fusion.nn for networks, fusion.grad for
gradients, fusion.random for random numbers, fusion.explain() for what the daemon makes of an expression.
"""
import math as _math
import os as _os

from . import _core
from ._base import (DTYPES as _DTYPES, ERRORS as _ERRORS, Device, DType, FusionError, _device_of, as_device, devices,
                    shutdown as _shutdown)
from ._base import (bfloat16, bool, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
from ._array import Array
from ._views import write as _write

_core.register(Array, _DTYPES, {**{_core.ERRORS[name][0]: error for name, error in _ERRORS.items()}, 0: FusionError},
               _write, _device_of, _os.path.dirname(__file__) + _os.sep)

_core.listen(True)

# The rows of the operation table by the standard's names.
from ._core import (abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert, bitwise_left_shift,
                    bitwise_or, bitwise_right_shift, bitwise_xor, ceil, copysign, cos, cosh, divide, equal, exp, expm1, floor,
                    floor_divide, greater, greater_equal, hypot, less, less_equal, log, log1p, log2, log10, logaddexp,
                    logical_and, logical_not, logical_or, logical_xor, maximum, minimum, multiply, negative, not_equal, pow,
                    reciprocal, remainder, round, sign, sin, sinh, sqrt, square, subtract, tan, tanh, trunc)
# ... and those that the standard does not have: the others are in nn.
from ._core import (clamp, elu, erf, exp2, fma, gelu, gelu_tanh, hardsigmoid, hardswish, leaky_relu, lerp, mish, relu, rsqrt, selu,
                    sigmoid, silu, softplus)
from ._creation import *
from ._functions import *
from ._info import __array_namespace_info__
from ._tools import *
from ._grad import *
from . import nn

__array_api_version__ = "2025.12"
__version__ = _core.VERSION

e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

globals().update({error.__name__: error for error in _ERRORS.values()})

import atexit as _atexit
_atexit.register(_shutdown)


_LATER = ("optim", "random", "safetensors")     # imported when they are first named


def __getattr__(name):
    if name in _LATER:
        import importlib
        return importlib.import_module("." + name, __name__)
    if name in ("complex64", "complex128", "cfloat", "cdouble"):
        raise AttributeError(f"fusion.{name}: complex numbers are not supported: no device of fusion computes with them")
    if name in ("fft", "linalg"):
        raise AttributeError(f"fusion.{name}: this extension of the standard is not provided")
    raise AttributeError(f"module 'fusion' has no attribute {name!r}")
