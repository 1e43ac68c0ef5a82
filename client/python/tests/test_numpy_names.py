"""Every function that fusion.numpy and NumPy both have, called with random arguments: values, shapes and element types are NumPy's, or an error is told.

    NAMES_SEED=7 NAMES_CALLS=500 python3 -m pytest client/python/tests/test_numpy_names.py

What README's list says is else than in NumPy is in but_for() or in the tables before it.
"""
import os
import random
import warnings

import numpy
import pytest

import fusion
import fusion.numpy as fnp

SEED = int(os.environ.get("NAMES_SEED", 1))
CALLS = int(os.environ.get("NAMES_CALLS", 4))       # of each name
MORE_CALLS = 50                                     # of a name, until both take one
TYPES = ("?", "i1", "u1", "i4", "u4", "i8", "f4", "f8")
SHAPES = ((), (0,), (1,), (4,), (3, 4), (0, 3), (1, 4), (2, 3, 4), (3, 1), (4, 4))


class Draw:
    """Arguments of one call: arrays of NumPy, and numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = numpy.random.default_rng(self.random.randrange(1 << 30))

    def array(self, shape=None, types=TYPES):
        shape, dtype = self.random.choice(SHAPES) if shape is None else shape, numpy.dtype(self.random.choice(types))
        if dtype.kind == "b":
            return self.numbers.random(shape) > 0.5
        if dtype.kind == "f":
            return numpy.asarray(self.numbers.standard_normal(shape) * 3).astype(dtype)
        return self.numbers.integers(0 if dtype.kind == "u" else -5, 7, shape).astype(dtype)

    def like(self, a):
        """Of another type, and a shape that broadcasts with it."""
        shape = self.random.choice([a.shape, a.shape, a.shape[1:] if a.ndim > 1 else a.shape, tuple(1 if self.random.random() < 0.3 else n for n in a.shape)])
        return self.array(shape)

    def same(self, a):
        return self.array(a.shape, (a.dtype.str,))

    def vector(self, least=0, types=TYPES):
        return self.array((self.random.randint(least, 6),), types)

    def axis(self, a, none=True):
        choice = list(range(-a.ndim, a.ndim)) + [None] * none
        return self.random.choice(choice) if choice else None

    def axes(self, a):
        axis = self.axis(a)
        return tuple(sorted(self.random.sample(range(a.ndim), self.random.randint(0, a.ndim)))) if self.random.random() < 0.3 else axis

    def of(self, *choices):
        return self.random.choice(choices)

    def maybe(self, **what):
        """Some of the arguments."""
        return {k: v for k, v in what.items() if self.random.random() < 0.4}


def one(d):
    return (d.array(),), {}


def two(d):
    a = d.array()
    # A negative number beside unsigned ones, and numbers beside an array without axes: as in NumPy 2, which this NumPy may not be.
    b = d.of(d.like(a), d.like(a), d.of(2, 0, 2 if a.dtype.kind == "u" else -1, 2.5, True) if a.ndim else d.like(a))
    return ((a, b) if d.random.random() < 0.8 else (b, a)), {}


def over(d, **more):
    a = d.array()
    return (a,), d.maybe(axis=d.axes(a), keepdims=d.of(True, False), **more)


def along(d, none=True, **more):
    a = d.array()
    return (a,), d.maybe(axis=d.axis(a, none), **more)


def matrix(d):
    return d.array(d.of((3, 4), (4, 4), (2, 3, 4), (4,), (0, 3), ()))


def product(d):
    a = d.of((3, 4), (4,), (2, 3, 4), (0, 4), ())
    return (d.array(a), d.array(d.of((4,), (4, 2), (2, 4, 5), (4, 0), ()))), {}


def several(d, shapes=((3, 4), (4, 4), (0, 4))):
    return ([d.array(d.of(*shapes)) for _ in range(d.random.randint(1, 3))],), {}


def shaped(d, f):
    a = d.array()
    return (a,) + f(a), {}


def _pad(d):
    a = d.array(d.of((3, 4), (4,), (2, 3, 4)))
    width = d.of(1, (1, 2), tuple((d.random.randint(0, 3), d.random.randint(0, 3)) for _ in a.shape), 0)
    return (a, width, d.of("constant", "edge", "reflect", "symmetric", "wrap")), {}


def _insert(d):
    a = d.array(d.of((3, 4), (4,), (4, 4)))
    return (a, d.of(d.random.randint(-3, 3), True, False, [True, False, True]), d.of(1, 2.5, True)), d.maybe(axis=d.axis(a))


def _take(d):
    a = d.array(d.of((3, 4), (4,), (4, 4)))
    return (a, d.array(d.of((), (2,), (2, 2), (0,)), ("i8",)) % 3), d.maybe(axis=d.axis(a))


def _along(d):
    a = d.array(d.of((3, 4), (4, 4), (2, 3, 4)))
    return (a, numpy.abs(d.array(a.shape, ("i8",))) % 2, d.axis(a, False)), {}


def _select(d):
    conditions = [d.array((3, 4), ("?",)) for _ in range(2)]
    return (conditions, [d.array((3, 4)) for _ in range(2)]), d.maybe(default=d.of(0, 3, 1.5))


def _einsum(d):
    text, shapes = d.of(("ij,jk->ik", ((3, 4), (4, 2))), ("ij->ji", ((3, 4),)), ("ii", ((4, 4),)), ("ij,ij->", ((3, 4), (3, 4))), ("i,j", ((3,), (4,))))
    return (text, *(d.array(s) for s in shapes)), {}


def _interp(d):
    xp = numpy.sort(d.numbers.standard_normal(4))
    return (d.array(), xp, d.array((4,))), d.maybe(left=-7.0, right=9.0)


def _histogram(d):
    return (d.array(),), d.maybe(bins=d.of(3, [-2, 0, 1, 5], [-1.5, 0.0, 2.5]), density=d.of(True, False), range=(-3, 3))


def _average(d):
    a = d.array()
    return (a,), d.maybe(axis=d.axis(a), weights=numpy.abs(d.array(a.shape)), returned=True)


def _cumulative(d):
    return along(d, dtype=d.of("f4", "i8", "f8"))


def _summed(d):
    return over(d, dtype=d.of("f4", "i8", "f8", "i4"), initial=d.of(2, 1.5), where=d.of(True, numpy.array(False)))


def _extreme(d):
    args, more = over(d)
    return args, {**more, **({"initial": 2} if args[0].dtype.kind != "b" and d.random.random() < 0.3 else {})}


def _spread(d):
    return over(d, ddof=d.of(0, 1), dtype="f8")


def _sets(d):
    return (d.array(d.of(*SHAPES[1:])), d.array(d.of(*SHAPES[1:]))), {}


def _shares(d):
    args, more = over(d)
    return (*args, d.of(0.25, [0, 0.5, 1], 0, 1, [0.3], numpy.array([[0.25, 0.5], [0.75, 1]]), [])), more


def _percents(d):
    args, more = _shares(d)
    return (args[0], numpy.asarray(args[1]) * 100 if isinstance(args[1], (list, numpy.ndarray)) else args[1] * 100), more


def _full(d):
    return (d.of((2, 3), 4, (), (0, 2)), d.of(1, 2.5, True)), d.maybe(dtype=d.of("f4", "i4", "?"))


def _made(d):
    return (d.of((2, 3), 4, (), (0, 2)),), d.maybe(dtype=d.of("f4", "i4", "?"))


def _like(d):
    return (d.array(),), d.maybe(dtype=d.of("f4", "i4", "?"), shape=d.of((2,), (3, 3)))


def _grid(d):
    return tuple(d.vector() for _ in range(d.random.randint(1, 3))), d.maybe(indexing=d.of("xy", "ij"), sparse=d.of(True, False))


def _unwrap(d):
    a = d.array(d.of((4,), (3, 4), (0,), (1,)))
    return (a,), d.maybe(axis=d.axis(a, False), period=d.of(3, 4, 2.5), discont=d.of(2, 3.5))


def _diff(d):
    a = d.array()
    n = d.of(0, 1, 2)
    return (a,), d.maybe(n=n, axis=d.axis(a, not n))


def _where(d):
    a = d.array()
    return (a,) if d.random.random() < 0.3 else (a, d.like(a), d.of(d.like(a), 1, 1.5, True)), {}


def _clip(d):
    a = d.array(d.of(*SHAPES[1:]))
    return (a, d.of(1 if a.dtype.kind == "u" else -1, 0.5, None, d.same(a)), d.of(2, 3.5, d.same(a))), {}


def _tensordot(d):
    return (d.array((3, 4)), d.array(d.of((4, 2), (4,)))), {"axes": d.of(1, ((1,), (0,)), 0)}


def _split(d):
    a = d.array(d.of((4,), (4, 4), (6, 2)))
    return (a, d.of(2, [1, 3], [0], 1)), d.maybe(axis=d.axis(a, False))


def _delete(d):
    a = d.array(d.of((4,), (4, 4), (3, 4)))
    axis = d.axis(a)
    n = a.size if axis is None else a.shape[axis]
    return (a, d.of(1, -1, [0, 2], slice(0, 2), d.array((n,), ("?",)), d.array((n + 1,), ("?",)), d.array((n - 1,), ("?",)))), {"axis": axis}


def _roll(d):
    a = d.array()
    return (a, d.random.randint(-5, 5)), d.maybe(axis=d.axis(a))


def _cross(d):
    return (d.array(d.of((3,), (4, 3))), d.array(d.of((3,), (4, 3)))), {}


def _linspace(d):
    return (d.of(0, 1.5, -2), d.of(5, 2.25)), d.maybe(num=d.random.randint(0, 5), endpoint=d.of(True, False), dtype=d.of("f4", "i4"))


def _arange(d):
    return (d.random.randint(-4, 4), d.of(6, 7.5), d.of(1, 2, 0.5)), d.maybe(dtype=d.of("f4", "i4"))


def _searched(d):
    return (numpy.sort(d.vector()), d.array()), d.maybe(side=d.of("left", "right"))


def _counted(d):
    return (numpy.abs(d.vector(0, ("i4", "i8", "u1"))),), d.maybe(minlength=d.of(0, 9))


def _moved(d):
    a = d.array((2, 3, 4))
    return (a, d.axis(a, False), d.axis(a, False)), {}


def _gradient(d):
    a = d.array(d.of((4,), (3, 4)))
    return (a,), d.maybe(axis=d.axis(a, False))


def _reshaped(d):
    a = d.array(d.of((3, 4), (2, 6), (12,)))
    return (a, d.of((4, 3), -1, (2, -1), 12)), {}


def _unique(d):
    if d.random.random() < 0.5:
        return (d.array(),), d.maybe(return_index=True, return_counts=True)
    return (d.vector(),), d.maybe(return_index=True, return_inverse=True, return_counts=True)     # the shape of the inverse is NumPy 2's


def _inverses(d):
    a = d.array()
    return (numpy.where(a == 0, numpy.ones((), a.dtype), a),), {}      # 1 / 0 of integers is not defined in NumPy


def _placed(d):
    args, more = along(d)
    return args, {**more, "kind": "stable"}


def _repeated(d):
    args, more = along(d)
    return (*args, d.of(2, 0, 1)), more


def _closed(d):
    a = d.array()
    return (a, d.of(a, d.like(a), a + (a.dtype.kind == "f") * 1e-9)), d.maybe(equal_nan=True)


HOW = {
    **dict.fromkeys("max min amax amin".split(), _extreme), **dict.fromkeys(("all any ptp count_nonzero nanmax nanmin nanmean nansum nanprod median mean").split(), over),
    **dict.fromkeys("sum prod".split(), _summed), **dict.fromkeys("var std nanvar nanstd".split(), _spread),
    **dict.fromkeys("argmax argmin".split(), lambda d: d.of(along(d, keepdims=True), over(d))), **dict.fromkeys("cumsum cumprod".split(), _cumulative),
    "sort": along, "argsort": _placed, **dict.fromkeys("dot matmul inner".split(), product), **dict.fromkeys("outer vdot kron".split(), _sets),
    **dict.fromkeys("hstack vstack dstack column_stack concatenate".split(), several), "stack": lambda d: several(d, ((3, 4),)),
    **dict.fromkeys("union1d intersect1d setdiff1d setxor1d isin append".split(), _sets), **dict.fromkeys("zeros ones empty".split(), _made),
    **dict.fromkeys("zeros_like ones_like empty_like".split(), _like), "full": _full, "full_like": lambda d: ((d.array(), d.of(1, 2.5, True)), d.maybe(dtype="f4")),
    **dict.fromkeys("convolve correlate".split(), lambda d: ((d.vector(), d.vector()), d.maybe(mode=d.of("full", "same", "valid")))),
    "quantile": _shares, "percentile": _percents, "average": _average, "pad": _pad, "insert": _insert, "delete": _delete, "take": _take, "take_along_axis": _along,
    "select": _select, "einsum": _einsum, "interp": _interp, "histogram": _histogram, "histogram_bin_edges": lambda d: (_histogram(d)[0], d.maybe(bins=d.of(3, 5))),
    "meshgrid": _grid, "unwrap": _unwrap, "diff": _diff, "where": _where, "clip": _clip, "tensordot": _tensordot, "roll": _roll, "cross": _cross,
    **dict.fromkeys("split array_split".split(), _split), "linspace": _linspace, "arange": _arange, "searchsorted": _searched, "bincount": _counted,
    "moveaxis": _moved, "gradient": _gradient, "reshape": _reshaped, **dict.fromkeys("isclose allclose array_equal".split(), _closed),
    "logspace": lambda d: ((d.of(0, -1), d.of(2, 1.5), d.of(3, 4)), {}), "eye": lambda d: ((3, d.of(3, 4, None)), d.maybe(k=d.of(-1, 1), dtype="f4")),
    "identity": lambda d: ((3,), d.maybe(dtype="i4")), "tri": lambda d: ((3, d.of(3, 4)), d.maybe(k=d.of(-1, 1))), "indices": lambda d: ((d.of((2, 3), (4,), (0, 2)),), {}),
    **dict.fromkeys("tril triu".split(), lambda d: ((matrix(d),), d.maybe(k=d.of(-1, 1)))), "diag": lambda d: ((d.array(d.of((4,), (3, 4), (0,))),), d.maybe(k=d.of(-1, 1))),
    **dict.fromkeys("diagonal trace".split(), lambda d: ((matrix(d),), d.maybe(offset=d.of(-1, 1)))), "rot90": lambda d: ((matrix(d),), d.maybe(k=d.of(-1, 2, 3))),
    "flip": lambda d: along(d), "squeeze": lambda d: ((d.array(d.of((1, 4), (3, 1), (), (3, 4))),), {}), "swapaxes": _moved,
    "expand_dims": lambda d: ((d.array(), d.of(0, -1)), {}), "broadcast_to": lambda d: ((d.array((1, 4)), d.of((3, 4), (2, 3, 4))), {}),
    "tile": lambda d: ((d.array(), d.of(2, (2, 1), (1, 2), 0)), {}), "repeat": _repeated, "reciprocal": _inverses,
    "hsplit": lambda d: ((d.array((4, 4)), 2), {}), "vsplit": lambda d: ((d.array((4, 4)), 2), {}), "size": one, "digitize": lambda d: ((d.array(), numpy.array([-1, 0, 2])), {}),
    "round": lambda d: ((d.array(),), d.maybe(decimals=d.of(0, 1, -1))), "around": lambda d: ((d.array(),), d.maybe(decimals=d.of(0, 1, -1))),
    "unique": _unique, "trapz": lambda d: ((d.array(d.of((4,), (3, 4))),), d.maybe(dx=2)),
    **dict.fromkeys("cov corrcoef".split(), lambda d: ((d.array(d.of((4,), (3, 4), (2, 3, 4))),), d.maybe(rowvar=False))), "nan_to_num": one,
    **dict.fromkeys("atleast_1d atleast_2d atleast_3d array asarray asanyarray ascontiguousarray copy ravel transpose fliplr flipud argwhere flatnonzero nonzero shape ndim".split(), one),
    "result_type": two, "broadcast_arrays": lambda d: (two(d)[0], {}), "divmod": two,
}
UFUNCS = {n for n in dir(fnp) if isinstance(getattr(fnp, n), fnp.ufunc) and isinstance(getattr(numpy, n, None), numpy.ufunc)}
NAMES = sorted((set(HOW) | UFUNCS) & set(dir(numpy)))
# Made for what is no array, changes its argument, or has tests of its own.
APART = {"broadcast_shapes", "can_cast", "copyto", "fromfunction"}
# Where NumPy gives what is refused here.
FEWER = {
    **dict.fromkeys("ceil floor trunc clip".split(), "truths"), "einsum": "truths, in a product", "median": "no elements", "quantile": "no elements", "percentile": "no elements",
    "argsort": "no axes", "unwrap": "unsigned integers with a whole period",
}
# Where NumPy refuses what is given here.
MORE = {
    "power": "integers to negative powers", **dict.fromkeys("gradient quantile percentile".split(), "truths, as numbers"), "average": "weights that sum to 0: NaN",
    **dict.fromkeys("gcd lcm".split(), "truths alone"), "median": "over no axes, of no elements",
}


def all_arrays(v):
    if isinstance(v, (tuple, list)):
        return [a for x in v for a in all_arrays(x)]
    return [v] if isinstance(v, numpy.ndarray) else []


def but_for(name, args, ours, theirs):
    """What NumPy gave, in the type, or the values, that README's list says are ours."""
    if isinstance(theirs, (tuple, list)):
        return type(theirs)(but_for(name, args, a, b) for a, b in zip(ours, theirs)) if isinstance(ours, (tuple, list)) and len(ours) == len(theirs) else theirs
    arrays = all_arrays(args)
    kinds, types = {a.dtype.kind for a in arrays}, {a.dtype.name for a in arrays}
    if name.startswith("empty"):
        return numpy.zeros_like(theirs)
    if name in ("ceil", "floor", "trunc") and kinds <= set("iu"):
        return arrays[0]
    if isinstance(theirs, (numpy.dtype, type)):
        mixed = theirs == "float64" and ours == "float32" and "float32" in types and kinds & set("iu")
        return numpy.dtype("f4") if mixed else theirs
    theirs, ours = numpy.asarray(theirs), numpy.asarray(ours)
    if theirs.dtype == "f8" and ours.dtype == "f4" and "float32" in types and (kinds & set("iu") or name in ("quantile", "percentile")):
        return theirs.astype("f4")
    if theirs.dtype in ("f2", "f4") and ours.dtype == "f8" and "f" not in kinds:
        return theirs.astype("f8")
    return theirs


def arguments(name, seed):
    d = Draw(f"{name} {seed}")
    return HOW[name](d) if name in HOW else two(d) if getattr(fnp, name).nin == 2 else one(d)


def ours_of(v):
    return fnp.asarray(v) if isinstance(v, numpy.ndarray) else [ours_of(x) for x in v] if isinstance(v, list) else v


def called(module, name, args, more):
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return getattr(module, name)(*args, **more), None
        except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError) as e:
            return None, e


def difference(ours, theirs, near):
    if isinstance(theirs, (tuple, list)):
        if not isinstance(ours, (tuple, list)) or len(ours) != len(theirs):
            return f"{type(ours).__name__} of other length than {len(theirs)}"
        return next((why for why in (difference(a, b, near) for a, b in zip(ours, theirs)) if why), None)
    if isinstance(theirs, numpy.dtype):
        return None if ours == theirs else f"{ours}, NumPy {theirs}"
    ours, theirs = numpy.asarray(ours), numpy.asarray(theirs)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, NumPy {theirs.shape}"
    if ours.dtype != theirs.dtype:
        return f"{ours.dtype}, NumPy {theirs.dtype}"
    near = max(near, 1e-5) if theirs.dtype == "f4" else near
    same = numpy.array_equal(ours, theirs) if theirs.dtype.kind != "f" else numpy.allclose(ours, theirs, rtol=near, atol=near, equal_nan=True)
    return None if same else f"values {ours.tolist()}, NumPy {theirs.tolist()}"


def nearness(args):
    """What roundings add up to in the least exact type that there is: NumPy computes some of float64 from small integers in float16."""
    arrays = all_arrays(args)
    if not any(a.dtype.kind == "f" for a in arrays) and (not arrays or any(a.dtype.itemsize == 1 for a in arrays)):
        return 1e-2
    return 1e-4 if any(a.dtype == "f4" for a in arrays) else 1e-9


def told(args, more):
    return ", ".join([f"{a.dtype}{a.shape} {a.tolist()}" if isinstance(a, numpy.ndarray) else repr(a) for a in args] + [f"{k}={v!r}" for k, v in more.items()])


def compare(name, seed):
    """Why they differ, or None; and whether both gave a result."""
    args, more = arguments(name, seed)
    theirs, wrong = called(numpy, name, args, more)
    ours, refused = called(fnp, name, tuple(map(ours_of, args)), {k: ours_of(v) for k, v in more.items()})
    if refused is not None:
        return (None if wrong is not None or name in FEWER else f"refused: {refused}"), False
    if wrong is not None:
        return (None if name in MORE else f"NumPy refuses: {wrong}"), False
    given = args + tuple(more.values())
    return difference(ours, but_for(name, given, ours, theirs), nearness(given)), True


@pytest.mark.parametrize("name", NAMES)
def test_values_shapes_and_types_are_those_of_numpy(name):
    both = 0
    for seed in range(SEED, SEED + CALLS + MORE_CALLS):
        if both and seed >= SEED + CALLS:
            break
        why, given = compare(name, seed)
        assert not why, f"{name}({told(*arguments(name, seed))}): {why}"
        both += given
    assert both, f"{name}: no call that both take"


def test_every_name_is_called():
    functions = {n for n in dir(fnp) if n in dir(numpy) and n != "bool" and callable(getattr(numpy, n)) and not isinstance(getattr(numpy, n), type) and not n.startswith("_")}
    assert functions - APART == set(NAMES) - APART and not APART & set(NAMES)
    assert set(FEWER) | set(MORE) <= set(NAMES)
