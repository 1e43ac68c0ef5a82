"""__array_namespace_info__() of the standard: what this library can do."""
from __future__ import annotations

from . import _base
from ._base import DTYPES, Device, DType, as_device, default_real, int64
from ._functions import isdtype


class Info:
    def capabilities(self) -> dict[str, bool | int]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Device:
        return as_device(None)

    def default_dtypes(self, *, device: Device | str | int | None = None) -> dict[str, DType | None]:
        # There is no complex type: a program that asks for one gets None and finds that out before it computes.
        return {"real floating": default_real(), "complex floating": None, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Device | str | int | None = None,
               kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        standard = [d for d in DTYPES if d.name not in ("float16", "bfloat16")]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}

    def devices(self) -> tuple[Device, ...]:
        return _base.devices()


def __array_namespace_info__() -> Info:
    """What this library can do, as the standard asks it."""
    return Info()
