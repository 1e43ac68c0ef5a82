"""fusion: arrays on a device that the daemon fusiond owns, as the Python array API standard (2025.12) has them.

    import fusion as np

Operations are recorded and run, fused into few kernels, when a value is wanted. See fusion.nn for networks, fusion.grad for
gradients, fusion.random for random numbers, fusion.explain() for what the daemon makes of an expression.
"""
import math as _math
import os as _os

try:
    from . import _core
except ImportError as why:
    import sysconfig as _sysconfig
    if _sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError("fusion does not support free-threaded Python yet: use a build with the interpreter's lock") from why
    raise
from ._base import DTYPES as _DTYPES, Device, DType, _device_of, as_device, devices, shutdown as _shutdown
from ._base import (bfloat16, bool, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
from ._array import Array
from ._errors import *
from ._errors import BY_CODE as _BY_CODE
from ._views import write as _write

_core.register(Array, _DTYPES, _BY_CODE, _write, _device_of, _os.path.dirname(__file__) + _os.sep)

_core.listen(True)

from . import _creation, _errors, _functions, _grad, _progress, _rows, _tools, nn
from ._rows import *
from ._creation import *
from ._functions import *
from ._info import __array_namespace_info__
from ._tools import *
from ._progress import *
from ._grad import *

__array_api_version__ = "2025.12"
__version__ = _core.VERSION

e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

__all__ = ["Array", "Device", "DType", "__array_api_version__", "__array_namespace_info__", "__version__", "as_device", "bfloat16", "bool",
           "devices", "e", "float16", "float32", "float64", "inf", "int16", "int32", "int64", "int8", "nan", "newaxis", "nn", "optim",
           "pi", "random", "safetensors", "uint16", "uint32", "uint64", "uint8"]
__all__ += _rows.__all__
__all__ += _creation.__all__
__all__ += _functions.__all__
__all__ += _tools.__all__
__all__ += _progress.__all__
__all__ += _grad.__all__
__all__ += _errors.__all__

from ._told import told_all as _told_all

for _names in (_creation.__all__, _functions.__all__, _tools.__all__, _progress.__all__, _grad.__all__, ["as_device"]):
    _told_all(_names, globals(), __name__)

import atexit as _atexit
_atexit.register(_shutdown)

_LATER = ("optim", "random", "safetensors")     # imported when they are first named
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import optim, random, safetensors


# What others call it.
_OTHERS = {"absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
           "arctan2": "atan2", "arctanh": "atanh", "array": "asarray", "cat": "concat", "concatenate": "concat", "cumprod": "cumulative_prod",
           "cumsum": "cumulative_sum", "dot": "matmul", "double": "float64", "float": "float64", "half": "float16", "hstack": "concat", "int": "int64",
           "ndarray": "Array", "power": "pow", "swapaxes": "permute_dims", "tensor": "asarray", "Tensor": "Array", "transpose": "permute_dims",
           "unique": "unique_values", "vstack": "concat"}


def _absent(name):
    if name in _OTHERS:
        raise AttributeError(f"module 'fusion' has no attribute {name!r}: see fusion.{_OTHERS[name]}")
    if name in _LATER:
        import importlib
        return importlib.import_module("." + name, __name__)
    if name in ("complex64", "complex128", "cfloat", "cdouble"):
        raise AttributeError(f"fusion.{name}: complex numbers are not supported: no device of fusion computes with them")
    if name in ("fft", "linalg"):
        raise AttributeError(f"fusion.{name}: this extension of the standard is not provided")
    raise AttributeError(f"module 'fusion' has no attribute {name!r}")


# Who checks types knows the names; what is not among them is a mistake there, too.
if not TYPE_CHECKING:
    __getattr__ = _absent
