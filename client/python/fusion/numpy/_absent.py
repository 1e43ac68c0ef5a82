"""What NumPy has and fusion.numpy has not: what does it instead."""
from __future__ import annotations

# Names of ours, or of NumPy's that do not take arrays.
_INSTEAD = {
    "vectorize": "functions of arrays are written with arrays; fusion.jit makes one graph of them", "frompyfunc": "fusion.define_op does it",
    "apply_along_axis": "an axis= of the function itself does it", "apply_over_axes": "an axis= of the function itself does it", "nditer": "whole arrays do it",
    "ndenumerate": "indices() does it", "ndindex": "indices() does it", "matrix": "array does it", "asmatrix": "array does it",
    "save": "fusion.safetensors does it", "load": "fusion.safetensors does it", "savez": "fusion.safetensors does it",
    "savez_compressed": "fusion.safetensors does it", "loadtxt": "asarray() of what numpy.loadtxt gives does it",
    "genfromtxt": "asarray() of what numpy.genfromtxt gives does it", "fromfile": "asarray() of what numpy.fromfile gives does it",
    "fromiter": "asarray() of a list does it", "frombuffer": "asarray() of the buffer does it", "fromstring": "asarray() of what numpy.fromstring gives does it",
    "put": "x[indices] = values does it", "place": "x[mask] = values does it", "putmask": "x[mask] = values does it", "in1d": "isin() does it",
    "compress": "x[mask] does it", "extract": "x[mask] does it", "errstate": "what is divided by 0 or overflows is infinite or NaN, without a warning",
    "seterr": "what is divided by 0 or overflows is infinite or NaN, without a warning", "geterr": "nothing is reported of what is infinite or NaN",
    "row_stack": "vstack does it", "set_printoptions": "arrays are printed as they are", "printoptions": "arrays are printed as they are",
}

# Functions of NumPy's, also for programs without NumPy here.
_THERE = frozenset("""
    angle argpartition array2string array_equiv array_repr array_str asarray_chkfinite asfortranarray bartlett base_repr binary_repr blackman block bmat
    broadcast busday_count busday_offset c_ cbrt choose common_type conj conjugate datetime64 diag_indices diag_indices_from diagflat dsplit ediff1d
    einsum_path emath fft fill_diagonal fix float_power frexp fromregex geomspace hamming hanning histogram2d histogramdd i0 imag iscomplex iscomplexobj
    isfortran isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser ldexp lexsort ma mask_indices may_share_memory min_scalar_type modf
    nanargmax nanargmin nancumprod nancumsum nanmedian nanpercentile nanquantile packbits partition piecewise poly poly1d polyadd polyder polydiv polyfit
    polyint polymul polynomial polysub polyval promote_types put_along_axis r_ ravel_multi_index real real_if_close rec recarray require resize rollaxis
    roots s_ savetxt shares_memory sinc sort_complex spacing tofile tril_indices tril_indices_from trim_zeros triu_indices triu_indices_from unpackbits
    unravel_index vander
""".split())


def found(name, module, names):
    """What the module has of that name after all, else an AttributeError."""
    if name in ("optim", "safetensors"):
        import importlib
        return importlib.import_module(".." + name, module)
    if name.startswith("complex") or name in ("csingle", "cdouble", "clongdouble"):
        raise AttributeError(f"fusion.numpy.{name}: complex numbers are not supported: no device of fusion computes with them")
    if name in _INSTEAD:
        raise AttributeError(f"fusion.numpy has no {name!r}: {_INSTEAD[name]}")
    if name in _THERE or _of_numpy(name):
        raise AttributeError(f"fusion.numpy has no {name!r}: numpy.{name} of numpy.asarray(x) does it")
    import difflib
    near = difflib.get_close_matches(name, names, 1, 0.8)      # a letter or two apart
    raise AttributeError(f"fusion.numpy has no {name!r}" + (f"; is {near[0]!r} meant?" if near else ""))


def _of_numpy(name):
    import importlib.util
    if name.startswith("_") or not importlib.util.find_spec("numpy"):
        return False
    import numpy
    import warnings
    with warnings.catch_warnings():         # of names that NumPy is about to drop
        warnings.simplefilter("ignore")
        return hasattr(numpy, name)
