"""__array_namespace_info__() of the standard: what this library can do."""
from . import _base
from ._base import DTYPES, as_device, default_real, int64
from ._functions import isdtype


class Info:
    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return as_device(None)

    def default_dtypes(self, *, device=None):
        # There is no complex type: a program that asks for one gets None and finds that out before it computes.
        return {"real floating": default_real(), "complex floating": None, "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):
        standard = [d for d in DTYPES if d.name not in ("float16", "bfloat16")]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}

    def devices(self):
        return _base.devices()


def __array_namespace_info__():
    """What this library can do, as the standard asks it."""
    return Info()
