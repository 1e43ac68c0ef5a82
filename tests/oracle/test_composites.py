"""Every composite of ops.def against its oracle column, evaluated in f64, on every element type it takes.

Shapes of rank 0 to 8, empty and odd ones, with and without the operands that may be absent; then special values,
where NaN and infinities must come out where the oracle has them; then the same operations unfused, whose bits must
be the same. Results of integers are exact. At the end every pair of composite and element type must have been met.
"""
import argparse
import math
import sys
import warnings

import numpy as np

import fusion
import harness
import reference
from harness import random_values
from reference import to_register, to_storage
from tables import COMPOSITES, DTYPES

SEED = 20260229
# Relative to the value, or to 1 where that is larger: f16 and bf16 round once at the end, f32 adds and takes roots.
TOLERANCE = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-4, "f64": 1e-11}


# ---- what NumPy lacks, written from the definitions ----


class m:
    @staticmethod
    def softmax(a, axes):
        e = np.exp(a - np.max(a, axis=axes, keepdims=True, initial=-np.inf))
        return e / np.sum(e, axis=axes, keepdims=True)

    @staticmethod
    def log_softmax(a, axes):
        d = a - np.max(a, axis=axes, keepdims=True, initial=-np.inf)
        return d - m.logsumexp(d, axes) if a.size else a

    @staticmethod
    def logsumexp(a, axes):
        return np.logaddexp.reduce(merged(a, axes), axis=-1).reshape(kept(a, axes))

    @staticmethod
    def arg(function, a, axes):
        return function(merged(a, axes), axis=-1).reshape(kept(a, axes)).astype(np.int64)

    @staticmethod
    def normal(x, axes, eps):
        return (x - np.mean(x, axis=axes, keepdims=True)) / np.sqrt(np.var(x, axis=axes, keepdims=True) + eps)

    @staticmethod
    def affine(x, weight, bias):
        x = x if weight is None else x * weight
        return x if bias is None else x + bias

    @staticmethod
    def along(w, x, axis):
        return w if w is None else w.reshape([-1 if d == axis else 1 for d in range(x.ndim)])

    @staticmethod
    def group_norm(x, weight, bias, groups, eps):
        n, c = x.shape[:2]
        grouped = [m.normal(x[:, g * (c // groups):(g + 1) * (c // groups)], tuple(range(1, x.ndim)), eps) for g in range(groups)]
        return m.affine(np.concatenate(grouped, axis=1), m.along(weight, x, 1), m.along(bias, x, 1))

    @staticmethod
    def batch_norm(x, mean, variance, weight, bias, axes, eps):
        y = (x - m.along(mean, x, axes[0])) / np.sqrt(m.along(variance, x, axes[0]) + eps)
        return m.affine(y, m.along(weight, x, axes[0]), m.along(bias, x, axes[0]))

    @staticmethod
    def cross_entropy(logits, target, axes):
        logs, axis = np.moveaxis(m.log_softmax(logits, axes), axes[0], -1), axes[0]
        loss = np.zeros(target.shape)
        for i in np.ndindex(target.shape):
            if 0 <= target[i] < logits.shape[axis]:
                loss[i] = -logs[i][target[i]]
        return np.expand_dims(loss, axis)

    @staticmethod
    def attention(q, k, v, mask, scale, causal):
        scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / np.sqrt(q.shape[-1]))
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
        if causal:
            scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
        if not causal:
            return m.softmax(scores, (-1,)) @ v
        # Of the blocks of 64 keys that all come after a query not even the values are read.
        ends = range(64, max(q.shape[-2], 1) + 64, 64)
        parts = [m.softmax(scores[..., end - 64:end, :end], (-1,)) @ v[..., :end, :] for end in ends]
        return np.concatenate(parts, axis=-2)

    @staticmethod
    def rows(weight, index):
        n = weight.shape[0]
        index = np.where(index < 0, index.astype(np.int64) + n, index.astype(np.int64))
        inside = (index >= 0) & (index < n)
        return np.where(inside[..., None], weight[np.where(inside, index, 0)] if n else weight.dtype.type(0), 0)

    @staticmethod
    def border(x, padding, value):
        return np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding], constant_values=value)

    @staticmethod
    def windows(x, window, stride, dilation):
        """(place, window) for each place of the result's spatial axes."""
        counts = [(n - (w - 1) * d - 1) // s + 1 for n, w, s, d in zip(x.shape[2:], window, stride, dilation)]
        for place in np.ndindex(*counts):
            cut = [slice(o * s, o * s + (w - 1) * d + 1, d) for o, s, w, d in zip(place, stride, window, dilation)]
            yield counts, place, x[(slice(None), slice(None), *cut)]

    @staticmethod
    def pool(function, value, x, window, stride, padding):
        y = None
        for counts, place, cut in m.windows(m.border(x, padding, value), window, stride, [1] * len(window)):
            y = np.zeros(x.shape[:2] + tuple(counts)) if y is None else y
            y[(slice(None), slice(None), *place)] = function(cut, axis=tuple(range(2, x.ndim)))
        return y

    @staticmethod
    def conv(x, weight, bias, stride, padding, dilation, groups):
        y, group = None, weight.shape[0] // groups
        for counts, place, cut in m.windows(m.border(x, padding, 0), weight.shape[2:], stride, dilation):
            y = np.zeros((x.shape[0], weight.shape[0], *counts), x.dtype) if y is None else y
            for o in range(weight.shape[0]):
                first = o // group * weight.shape[1]
                y[(slice(None), o, *place)] = (cut[:, first:first + weight.shape[1]] * weight[o]).sum(axis=tuple(range(1, x.ndim)))
        return m.affine(y, None, m.along(bias, y, 1))

    @staticmethod
    def steps(x, weight, g, stride, dilation, groups):
        """Each step of a convolution backwards: the part of x that it reads, its filter, and elements of g."""
        group = weight.shape[0] // groups
        for _, place, cut in m.windows(x, weight.shape[2:], stride, dilation):
            for o in range(weight.shape[0]):
                first = o // group * weight.shape[1]
                yield cut[:, first:first + weight.shape[1]], o, g[(slice(None), o, *place)].reshape([-1] + [1] * (x.ndim - 1))

    @staticmethod
    def conv_input_grad(x, weight, g, stride, padding, dilation, groups):
        y = m.border(np.zeros_like(x), padding, 0)
        for cut, o, of in m.steps(y, weight, g, stride, dilation, groups):
            cut += of * weight[o]
        return y[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, x.shape[2:])))]

    @staticmethod
    def conv_weight_grad(x, weight, g, stride, padding, dilation, groups):
        y = np.zeros_like(weight)
        for cut, o, of in m.steps(m.border(x, padding, 0), weight, g, stride, dilation, groups):
            y[o] += (cut * of).sum(axis=0)
        return y


def axes_of(a, axes):
    return tuple(range(a.ndim)) if axes is None else tuple(d % a.ndim for d in axes)


def kept(a, axes):
    return [1 if d in axes_of(a, axes) else n for d, n in enumerate(a.shape)]


def merged(a, axes):
    """The reduced axes as one, behind the others."""
    axes = axes_of(a, axes)
    left = [d for d in range(a.ndim) if d not in axes]
    extent = math.prod(a.shape[d] for d in axes)
    return a.transpose(left + sorted(axes)).reshape([a.shape[d] for d in left] + [extent])


ORACLES = {name: compile(c.oracle, f"oracle of {name}", "eval") for name, c in COMPOSITES.items()}


def oracle(name, operands, attributes):
    composite = COMPOSITES[name]
    names = dict(zip(composite.operands, list(operands) + [None] * composite.arity))
    attributes = {**attributes}
    if "axes" in composite.attributes:
        attributes["axes"] = axes_of(operands[0], attributes.get("axes"))
    # A list that is left out has this entry for each spatial axis.
    lists = {"stride": 1, "dilation": 1, "padding": 0}
    for attribute in composite.attributes:
        attributes.setdefault(attribute, [lists[attribute]] * (np.ndim(operands[0]) - 2) if attribute in lists else 0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = eval(ORACLES[name], {"np": np, "m": m}, {**names, **attributes})
    if "keepdims" in composite.attributes and not attributes["keepdims"]:
        want = np.squeeze(want, axis=attributes["axes"]) if attributes["axes"] else want
    if name == "cross_entropy":
        want = np.squeeze(want, axis=attributes["axes"])
    return want


# ---- cases: shapes of the operands (None: absent), attributes ----


def over_axes(**more):
    """For those of one operand that work over axes."""
    shapes = [((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0,)), ((3, 5), None), ((4, 33, 6), (0, 2)), ((2, 3, 130), (-1,)),
              ((1, 1), (0, 1)), ((), ()), ((), None), ((5,), ()), ((2, 1, 3, 1, 2, 2, 1, 3), (0, 4, -1)), ((3, 8200), (1,)),
              ((1000, 3), (0,)), ((0, 3), (1,))]
    return [([shape], {"axes": axes, **more}) for shape, axes in shapes]


def reducing(**more):
    return over_axes(keepdims=False, **more) + over_axes(keepdims=True, **more)[2:5]


EMPTY = [([(3, 0)], {"axes": (1,)}), ([(0, 3)], {"axes": (0,), "keepdims": True})]
NORMED = [((3, 5), (1,), (5,)), ((4, 3, 8), (1, 2), (3, 8)), ((2, 3, 77), (-1,), (77,)), ((6, 4), (0,), (6, 1)),
          ((2, 2, 1, 3, 2, 1, 2, 3), (5, 6, 7), (1, 2, 3)), ((0, 4), (1,), (4,)), ((3, 0), (1,), (0,)), ((9,), (0,), ())]
GROUPED = [((2, 6, 5), 3), ((1, 4), 1), ((3, 4, 3, 5), 4), ((2, 4, 2, 1, 3, 1, 2, 2), 2), ((0, 4, 3), 2)]

POOLED = [([x], {"window": w, "stride": s, "padding": p}) for x, w, s, p in
          (((2, 3, 9), (3,), (2,), (1,)), ((1, 2, 7), (2,), (1,), (0,)), ((2, 1, 6, 5), (2, 3), (2, 1), (1, 1)),
           ((1, 3, 5, 4), (5, 4), (1, 1), (0, 0)), ((1, 2, 4, 3, 4), (2, 2, 2), (2, 1, 2), (1, 0, 1)), ((0, 2, 5), (2,), (1,), (0,)))]

BACKWARD = [([x, w, g], {"stride": s, "padding": p, "dilation": d, "groups": n}) for x, w, g, s, p, d, n in
            (((2, 3, 9), (4, 3, 3), (2, 4, 7), (1,), (0,), (1,), 0), ((1, 4, 11), (6, 2, 3), (1, 6, 6), (2,), (2,), (2,), 2),
             ((2, 3, 6, 5), (4, 3, 3, 2), (2, 4, 6, 4), (1, 1), (1, 0), (1, 1), 1),
             ((1, 4, 8, 9), (4, 1, 3, 3), (1, 4, 4, 9), (2, 1), (1, 2), (1, 2), 4),
             ((3, 2, 5, 4), (2, 2, 1, 1), (3, 2, 3, 4), (3, 2), (2, 2), (1, 1), 1),
             ((2, 40, 6, 5), (32, 20, 2, 3), (2, 32, 7, 5), (1, 1), (1, 1), (1, 1), 2),
             ((1, 2, 3, 4, 3), (2, 2, 2, 1, 2), (1, 2, 2, 2, 4), (1, 2, 1), (0, 0, 1), (1, 1, 1), 1),
             ((0, 2, 5), (3, 2, 2), (0, 3, 4), (1,), (0,), (1,), 1), ((1, 1, 1), (1, 1, 1), (1, 1, 1), (1,), (0,), (1,), 1))]
CASES = {
    "softmax": over_axes() + [([(3, 0)], {"axes": (1,)})],
    "log_softmax": over_axes() + [([(3, 0)], {"axes": (1,)})],
    "logsumexp": reducing(),
    "var": reducing() + reducing(correction=1)[:6] + EMPTY,
    "std": reducing(correction=1.5)[:8] + EMPTY,
    "l1_norm": reducing()[:8] + EMPTY,
    "l2_norm": reducing()[6:] + EMPTY,
    "argmax": reducing(),
    "argmin": reducing(),
    "count_nonzero": reducing() + EMPTY,
    "layer_norm": [([x, w, w][:n], {"axes": axes, "eps": 1e-5}) for x, axes, w in NORMED for n in (1, 2, 3)],
    "rms_norm": [([x, w][:n], {"axes": axes, "eps": 1e-3}) for x, axes, w in NORMED for n in (1, 2)],
    "group_norm": [([x, x[1:2], x[1:2]][:n], {"groups": g, "eps": 1e-5}) for x, g in GROUPED for n in (1, 2, 3)],
    "batch_norm": [([x] + [x[axis:axis + 1]] * n, {"axes": (axis,), "eps": 1e-5})
                   for x, axis in (((4, 3, 5), 1), ((6, 7), 1), ((3, 4), 0), ((2, 0, 3), 2), ((5,), 0)) for n in (2, 3, 4)],
    "cross_entropy": [([x, x[:axis] + x[axis + 1:]], {"axes": (axis,)})
                      for x, axis in (((5, 7), 1), ((7, 4), 0), ((2, 6, 3, 4), 1), ((9,), 0), ((0, 3), 1), ((3, 130), 1))],
    "one_hot": [([x], {"classes": n, "dtype": d}) for x, n, d in
                (((5,), 7, "f32"), ((2, 3), 4, "bool"), ((), 3, "u8"), ((4,), 0, "f16"), ((0, 2), 5, "i64"),
                 ((2, 1, 2, 1, 2, 1, 2), 3, "i32"))],
    "eye": [([], {"dims": d, "diagonal": k, "dtype": t}) for d, k, t in
            (((3, 4), 0, "f32"), ((4, 3), 1, "i8"), ((5, 5), -2, "bool"), ((0, 3), 0, "f16"), ((2, 2), 7, "bf16"),
             ((1, 1), 0, "f64"), ((33, 17), -5, "u64"))],
    "tril": [([x], {"diagonal": k}) for x, k in (((3, 4), 0), ((5, 3), 1), ((2, 3, 4, 4), -1), ((1, 0), 0), ((4, 4), 100), ((4, 4), -100))],
    "triu": [([x], {"diagonal": k}) for x, k in (((3, 4), 0), ((5, 3), 1), ((2, 3, 4, 4), -1), ((1, 0), 0), ((4, 4), 100), ((4, 4), -100))],
    "outer": [([(a,), (b,)], {}) for a, b in ((3, 5), (1, 1), (0, 4), (33, 7))],
    "vecdot": [([a, b], {"axes": (axis,), "keepdims": k}) for k in (False, True) for a, b, axis in
               (((5,), (5,), 0), ((3, 77), (3, 77), 1), ((3, 4), (1, 4), -1), ((4, 3), (4, 1), 0), ((2, 0), (2, 0), 1))],
    "linear": [([x, w, w[:1]][:n], {}) for n in (2, 3) for x, w in
               (((3, 5), (4, 5)), ((2, 3, 7), (5, 7)), ((1, 1), (1, 1)), ((0, 3), (2, 3)), ((4, 0), (3, 0)), ((2, 2, 2, 9), (17, 9)))],
    "embedding": [([w, i], {}) for w, i in (((5, 3), (4,)), ((9, 7), (2, 3, 2)), ((1, 1), ()), ((4, 0), (3,)), ((6, 2), (0, 2)))],
    "max_pool": POOLED,
    "avg_pool": POOLED,
    "conv": [([x, w, w[:1]][:n], {"stride": s, "padding": p, "dilation": d, "groups": g}) for x, w, s, p, d, g, n in
             (((2, 3, 9), (4, 3, 3), (1,), (0,), (1,), 0, 2), ((1, 4, 10), (6, 2, 3), (2,), (2,), (2,), 2, 3),
              ((2, 3, 6, 5), (4, 3, 3, 2), (1, 1), (1, 0), (1, 1), 1, 3), ((1, 4, 7, 8), (4, 1, 3, 3), (2, 1), (1, 2), (1, 2), 4, 2),
              ((1, 2, 3, 4, 3), (2, 2, 2, 1, 2), (1, 2, 1), (0, 0, 1), (1, 1, 1), 1, 2), ((0, 2, 5), (3, 2, 2), (1,), (0,), (1,), 1, 2),
              ((1, 1, 1), (1, 1, 1), (1,), (0,), (1,), 1, 3))],
    "conv_input_grad": BACKWARD,
    "conv_weight_grad": BACKWARD,
    "attention": [([(2, 5, 4), (2, 7, 4), (2, 7, 3)], {}), ([(3, 4), (5, 4), (5, 2)], {"scale": 0.25}),
                  ([(2, 3, 6, 4), (2, 3, 6, 4), (2, 3, 6, 8)], {"causal": True}),
                  ([(2, 5, 4), (2, 7, 4), (2, 7, 3), (5, 7)], {}), ([(1, 4), (1, 4), (1, 4)], {"causal": True, "scale": 2}),
                  ([(2, 4, 5, 8), (1, 1, 6, 8), (4, 6, 3), (2, 1, 5, 6)], {}), ([(0, 4), (5, 4), (5, 2)], {}),
                  ([(5, 4), (5, 4), (5, 4), (5, 5)], {"mask": "bool"}),
                  ([(5, 8), (5, 8), (5, 1), (5, 5)], {"mask": "bool", "causal": True}),
                  ([(2, 1, 67, 3), (2, 129, 3), (129, 70)], {"causal": True}), ([(3, 2, 140), (3, 200, 140), (1, 200, 5)], {}),
                  ([(1, 64), (65, 64), (65, 257), (1,)], {})],
}


def operand_values(rng, name, i, dtype, shape, special, attributes):
    composite = COMPOSITES[name]
    if name in ("cross_entropy", "one_hot", "embedding") and i == composite.arity - 1:
        return rng.integers(0 if DTYPES[dtype].kind == "UINT" else -1, 9, shape).astype(reference.STORAGE[dtype])
    if name == "batch_norm" and i == 2:
        return np.abs(random_values(rng, dtype, shape))
    if name == "attention" and i == 3 and dtype == "bool":
        return rng.random(shape) < 0.6
    return random_values(rng, dtype, shape, special)


def operand_dtype(rng, name, i, dtype, attributes):
    kind = COMPOSITES[name].operand_types[i]
    if kind == "int":
        return str(rng.choice(["i8", "u8", "i16", "i32", "u32", "i64", "u64"]))
    return "bool" if kind == "any" and attributes.get("mask") == "bool" else dtype


def exact_values(dtype, values):
    return values.astype(np.float64) if reference.is_real(dtype) else values


def check_close(report, name, dtype, want, got):
    tolerance = TOLERANCE[dtype]
    largest = float(reference.cast("f64", dtype, np.array([1e300]))[0]) if dtype == "f64" else \
        float(np.finfo(np.float32).max if dtype != "f16" else 65504)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= tolerance * np.maximum(1, np.abs(want))
        same = (np.isnan(want) & np.isnan(got)) | (want == got) | near
        # What is beyond the type, or overflows on the way, is an infinity.
        same |= np.isinf(got) & (np.abs(want) >= largest * (1 - tolerance)) & (np.sign(got) == np.sign(want))
    report.check(bool(np.all(same)), name, lambda: harness.describe(same, [], want, got))


def record_case(fused, unfused, rng, name, dtype, case, special=0.0):
    """What check_case() needs; nothing is waited for, so that kernels are built side by side."""
    shapes, attributes = case
    dtypes = [operand_dtype(rng, name, i, dtype, attributes) for i in range(len(shapes))]
    values = [operand_values(rng, name, i, d, s, special, attributes) for i, (d, s) in enumerate(zip(dtypes, shapes))]
    given = {k: v for k, v in attributes.items() if k != "mask"}
    results = [c.call(name, *[c.array(d, to_storage(d, v)) for d, v in zip(dtypes, values)], **given) for c in (fused, unfused)]
    for context in (fused, unfused):
        context.flush()
    want = oracle(name, [exact_values(d, v) for d, v in zip(dtypes, values)], given)
    return name, dtype, case, special, values, want, results


def check_case(report, name, dtype, case, special, values, want, results):
    shapes, attributes = case
    composite = COMPOSITES[name]
    result = {"SAME": dtype, "INDEX": "i64", "DTYPE": attributes.get("dtype")}[composite.result]
    title = f"{name} {dtype} {shapes} {attributes}" + (" special" if special else "")
    stored = [r.read() for r in results]
    if not report.check((results[0].dtype, results[0].shape) == (result, np.shape(want)), title,
                        lambda: f"{results[0].dtype}{results[0].shape}, not {result}{np.shape(want)}"):
        return
    got = to_register(result, stored[0])
    report.check(bool(np.all(reference.check_exact(result, to_register(result, stored[1]), got))), title, "unfused it differs")
    if reference.is_real(result) and composite.result == "SAME":
        check_close(report, title, result, want, got.astype(np.float64))
    else:
        # Integers wrap as the operation's type does; NumPy's sums are wider.
        want = reference.cast("f64", result, np.asarray(want, np.float64)) if composite.result == "DTYPE" else \
            np.asarray(want).astype(got.dtype)
        report.check(bool(np.all(np.asarray(want) == got)), title, lambda: harness.describe(want == got, values, want, got))
    report.hit(name, dtype)


def has_special_cases(name):
    """Where a special value goes through sums of products, f32 and f64 overflow in different places."""
    return name in ("softmax", "log_softmax", "logsumexp", "argmax", "argmin", "count_nonzero", "tril", "triu", "l1_norm")


def takes(name, dtype):
    kind = COMPOSITES[name].types
    return COMPOSITES[name].takes(dtype) and (kind != "NUM" or dtype != "bool")


def cases_of(name, dtype):
    """f32 meets all of them, another type a part; of these a run takes its slice."""
    cases = [c for i, c in enumerate(CASES[name]) if dtype == "f32" or (i + DTYPES[dtype].id) % 4 == 0]
    for case in harness.rotated(cases) if takes(name, dtype) else []:
        yield case, 0.0
        if has_special_cases(name):
            yield case, 0.05


# ---- refusals ----


REFUSED = [
    ("softmax", [("i32", (3,))], {"axes": (0,)}, "DTYPE", "softmax takes floating-point arrays"),
    ("softmax", [("f32", (3,))], {"axes": (1,)}, "ARGUMENT", "axis 1 does not exist"),
    ("softmax", [("f32", (3,)), ("f32", (3,))], {"axes": (0,)}, "ARITY", "softmax takes 1 operand, not 2"),
    ("var", [("i32", (3,))], {"axes": (0,)}, "DTYPE", "var takes floating-point arrays"),
    ("logsumexp", [("f32", (3, 0))], {"axes": (1,)}, "SHAPE", "logsumexp of nothing: axis 1 of f32[3,0] is empty"),
    ("argmax", [("f32", (0,))], {"axes": (0,)}, "SHAPE", "argmax of nothing"),
    ("argmax", [("bool", (4,))], {"axes": (0,)}, "DTYPE", "argmax takes arrays of numbers"),
    ("layer_norm", [("f32", (3, 5)), ("f32", (3,))], {"axes": (1,)}, "SHAPE", "argument weight (f32[3]) does not broadcast to f32[3,5]"),
    ("group_norm", [("f32", (3, 5))], {"groups": 2}, "ARGUMENT", "do not divide into 2 groups"),
    ("group_norm", [("f32", (3, 5))], {}, "ARGUMENT", "do not divide into 0 groups"),
    ("group_norm", [("f32", (3,))], {"groups": 1}, "SHAPE", "at least 2 dimensions"),
    ("batch_norm", [("f32", (3, 5)), ("f32", (5,)), ("f32", (3,))], {"axes": (1,)}, "SHAPE", "the extent of axis 1"),
    ("batch_norm", [("f32", (3, 5)), ("f32", (5,)), ("f32", (5,))], {"axes": (0, 1)}, "ARGUMENT", "works over one axis, not 2"),
    ("batch_norm", [("f32", (3, 5)), ("f32", (5,))], {"axes": (1,)}, "ARITY", "3 to 5 operands"),
    ("cross_entropy", [("f32", (3, 5)), ("f32", (3,))], {"axes": (1,)}, "DTYPE", "argument target is f32[3]"),
    ("cross_entropy", [("f32", (3, 5)), ("i32", (5,))], {"axes": (1,)}, "SHAPE", "argument target (i32[5])"),
    ("one_hot", [("i32", (3,))], {"classes": -1, "dtype": "f32"}, "ARGUMENT", "-1 classes"),
    ("one_hot", [("f32", (3,))], {"classes": 3, "dtype": "f32"}, "DTYPE", "one_hot takes integer arrays"),
    ("tril", [("f32", (3,))], {}, "SHAPE", "at least 2 dimensions"),
    ("tril", [("f32", (3, 3))], {"diagonal": 1 << 40}, "ARGUMENT", "the diagonal"),
    ("eye", [], {"dims": (3,), "dtype": "f32"}, "SHAPE", "eye: rank is 1, not 2"),
    ("outer", [("f32", (3, 2)), ("f32", (3,))], {}, "SHAPE", "must have 1 dimension"),
    ("vecdot", [("f32", (3, 2)), ("f32", (3,))], {"axes": (0,)}, "SHAPE", "do not broadcast, axis for axis"),
    ("linear", [("f32", (3, 2)), ("f32", (3, 3))], {}, "SHAPE", "the last axes differ"),
    ("linear", [("f32", (3, 2)), ("f32", (4, 2)), ("f32", (3,))], {}, "SHAPE", "argument bias"),
    ("attention", [("f32", (3, 2)), ("f32", (4, 3)), ("f32", (4, 3))], {}, "SHAPE", "the last axes of queries and keys differ"),
    ("attention", [("f32", (3, 2)), ("f32", (4, 2)), ("f32", (3, 3))], {}, "SHAPE", "not as many values as keys"),
    ("attention", [("f32", (3, 2)), ("f32", (4, 2)), ("f32", (4, 2)), ("i32", (3, 4))], {}, "DTYPE", "a mask is bool"),
    ("attention", [("f32", (3, 2)), ("f32", (4, 2)), ("f32", (4, 2)), ("bool", (2, 4))], {}, "SHAPE", "the mask (bool[2,4])"),
    ("attention", [("f32", (3, 2)), ("f32", (0, 2)), ("f32", (0, 2))], {}, "SHAPE", "there are no keys"),
    ("embedding", [("f32", (3,)), ("i32", (3,))], {}, "SHAPE", "must have 2 dimensions"),
    ("max_pool", [("f32", (1, 1, 5))], {"window": (2, 2), "stride": (1, 1), "padding": (0, 0)}, "SHAPE", "lists of 2 entries"),
    ("max_pool", [("f32", (1, 1, 5))], {"window": (2,), "stride": (0,), "padding": (0,)}, "ARGUMENT", "the stride 0"),
    ("max_pool", [("f32", (1, 1, 5))], {"window": (2,), "stride": (1,), "padding": (2,)}, "ARGUMENT", "more than half"),
    ("avg_pool", [("f32", (1, 1, 5))], {"window": (6,), "stride": (1,), "padding": (0,)}, "SHAPE", "does not fit axis 2"),
    ("conv", [("f32", (1, 3, 5)), ("f32", (2, 2, 3))], {"stride": (1,)}, "SHAPE", "does not take the channels"),
    ("conv", [("f32", (1, 4, 5)), ("f32", (3, 2, 3))], {"stride": (1,), "groups": 2}, "SHAPE", "in 2 groups"),
    ("conv", [("f32", (1, 3, 5)), ("f32", (2, 3, 3)), ("f32", (3,))], {"stride": (1,)}, "SHAPE", "argument bias"),
    ("conv", [("f32", (1, 3, 5)), ("f32", (2, 3, 6))], {"stride": (1,)}, "SHAPE", "does not fit axis 2"),
    ("conv_input_grad", [("f32", (1, 3, 5)), ("f32", (2, 3, 3)), ("f32", (1, 2, 4))], {"stride": (1,)}, "SHAPE", "the shape of the convolution"),
    ("conv_weight_grad", [("f32", (1, 3, 5)), ("f32", (2, 2, 3)), ("f32", (1, 2, 3))], {"stride": (1,)}, "SHAPE", "does not take the channels"),
    ("conv", [("f32", (1, 3, 5)), ("f32", (2, 3, 3))], {"stride": (1 << 40,)}, "ARGUMENT", "the stride 1099511627776"),
    ("sum", [("f32", (3,))], {}, "OPERATION", "it has a function of its own"),
    ("softmin", [("f32", (3,))], {}, "OPERATION", "there is no such operation"),
]


def check_refusals(report, context):
    for name, operands, attributes, code, words in REFUSED:
        arrays = [context.full(dtype, shape, 0) for dtype, shape in operands]
        title = f"{name} of {operands} {attributes}"
        try:
            context.call(name, *arrays, **attributes)
            report.check(False, title, "was not refused")
        except fusion.FusionError as error:
            report.check(error.code == code and words in error.sentence, title, f"{error}")


def check_promotion(report, context):
    """Operands that share a type are cast to the one they meet in; targets keep theirs."""
    x, w = context.full("f16", (2, 3), 1), context.full("f32", (3,), 2)
    report.check(context.call("layer_norm", x, w, axes=(1,)).dtype == "f32", "layer_norm f16 f32")
    report.check(context.call("layer_norm", x, None, None, axes=(1,)).dtype == "f16", "absent operands")


# ---- all of it ----


def worker(report, part):
    dtype, strategy, seed = part
    rng = np.random.default_rng([seed, DTYPES[dtype].id])
    with fusion.Daemon(strategy=strategy) as daemon:
        with daemon.open(fusion=True) as fused, daemon.open(fusion=False) as unfused:
            for name in CASES:
                recorded = [record_case(fused, unfused, rng, name, dtype, case, special)
                            for case, special in cases_of(name, dtype)]
                for case in recorded:
                    check_case(report, *case)
            if dtype == "f32":
                check_refusals(report, fused)
                check_promotion(report, fused)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs")
    parser.add_argument("--dtype", choices=list(DTYPES), action="append", help="only these element types")
    parser.add_argument("--only", action="append", help="only these composites")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    for name in set(CASES) - set(options.only or CASES):
        del CASES[name]
    types = options.dtype or harness.types_in_turn(DTYPES, "f32")
    order = sorted(types, key=lambda d: -DTYPES[d].id)
    report = harness.run(worker, [(d, options.strategy, options.seed) for d in order], options.jobs)
    if not options.dtype and not options.only:
        for name in COMPOSITES:
            for dtype in types:
                if takes(name, dtype):
                    report.check(report.hits[name, dtype] > 0, f"coverage of {name} {dtype}", "never hit")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
