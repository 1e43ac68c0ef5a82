"""Every operation on every element type it takes, against the reference; and what it refuses.

Special values first, each operation by itself and unfused; then shapes (rank 0, empty, odd, broadcasts, strided
views), many operations in one flush, fused. The end says how often each operation and element type was met, and
fails where a pair that ops.def allows was not. Of shapes a run takes a slice (harness.rotated); of element types f32 and one in
five, and of their pairs all.
"""
import argparse
import itertools
import math
import sys

import numpy as np

import fusion
import harness
import reference
from harness import compare_elementwise, compare_exact, in_slice, random_values, rotated, specials
from reference import to_register, to_storage
from tables import DTYPES, OPS

ELEMENTWISE = [op for op in OPS.values() if op.elementwise]
REDUCTIONS = [op for op in OPS.values() if op.kind == "REDUCE"]
SCANS = [op for op in OPS.values() if op.kind == "SCAN"]
VIEWS = ("reshape", "permute", "broadcast", "slice", "flip")
SEED = 20240229
CHUNK = 16       # operations one kernel is asked to hold
SOME = 2         # operations of one arity where the shape matters more than which it is
FULL = "f32"     # the type on which every shape meets every reduction and view; others meet a part of them


def put(context, dtype, values):
    return context.array(dtype, to_storage(dtype, values))


def in_turn(dtype):
    """Does this type meet more than every type does?"""
    return dtype == FULL or in_slice(DTYPES[dtype].id)


def part_of(dtype, cases, always, among=1):
    """The first `always`; of the rest FULL meets a slice, types of the slice their own, one in `among`, others none. What
    differs between types is not how extents and strides are walked, and each case costs kernels of its own."""
    rest = cases[always:]
    if dtype != FULL:
        return list(cases[:always]) + (list(rest[DTYPES[dtype].id % among::among]) if in_turn(dtype) else [])
    return list(cases[:always]) + rotated(rest)


# ---- many operations a kernel ----


def chunks(dtype, arity, count=None):
    """Elementwise operations of one arity that take this type, CHUNK at a time; where `count` is given, so many of
    them, others for each type."""
    ops = [op for op in ELEMENTWISE if op.takes(dtype) and op.arity == arity]
    if count:
        first = DTYPES[dtype].id * count
        ops = [ops[(first + i) % len(ops)] for i in range(min(count, len(ops)))]
    return [ops[i:i + CHUNK] for i in range(0, len(ops), CHUNK)]


def run_chunk(context, dtype, ops, arrays, values, truth):
    """Applies each to copies of the operands: the copies are what makes the planner put them into one kernel.
    Gives (operation, operands, result)."""
    copies = [context.copy(a) for a in arrays]
    condition = context.copy(put(context, "bool", truth)) if any(op.name == "where" for op in ops) else None
    results = []
    for op in ops:
        ins, given = copies[:op.arity], values[:op.arity]
        if op.name == "where":
            ins, given = [condition] + ins[1:], [truth] + given[1:]
        results.append((op, given, context.op(op.name, *ins)))
    return results


def check_chunks(report, context, rng, dtype, name, arrays, values, count=None):
    truth = random_values(rng, "bool", values[0].shape)
    for ops in chunks(dtype, len(values), count):
        results = run_chunk(context, dtype, ops, arrays, values, truth)
        for op, given, result in results:
            compare_elementwise(report, op.name, dtype, given, result.read(), name)
            report.hit(op.name, dtype)


# ---- special values ----


def special_columns(rng, dtype, arity):
    """All combinations for one and two operands, a sample of them for three; a count that no vector divides."""
    if arity == 1 and DTYPES[dtype].size == 1 and dtype != "bool":
        columns = [np.arange(256, dtype=np.uint8).view(reference.STORAGE[dtype])]
    elif arity < 3:
        chosen = np.array(list(itertools.product(range(len(specials(dtype))), repeat=arity)))
        columns = [np.concatenate([specials(dtype)[chosen[:, i]], random_values(rng, dtype, (201,))]) for i in range(arity)]
    else:
        columns = [np.concatenate([rng.choice(specials(dtype), 700), random_values(rng, dtype, (101,))]) for _ in range(3)]
    return [c[:-1] if len(c) % 2 == 0 else c for c in columns]


def check_special(report, context, rng, dtype):
    for arity in (1, 2, 3):
        columns = special_columns(rng, dtype, arity)
        check_chunks(report, context, rng, dtype, "special values", [put(context, dtype, c) for c in columns], columns)


def check_singly(report, context, rng, dtype):
    """A few operations for each type in kernels of their own, with and without fusion; all of them, test_random does."""
    for arity in (1, 2, 3):
        values = [random_values(rng, dtype, (37,), special=0.2) for _ in range(arity)]
        arrays = [put(context, dtype, v) for v in values]
        for ops in chunks(dtype, arity, 2):
            for op in ops:
                if op.name != "where":
                    compare_elementwise(report, op.name, dtype, values, context.op(op.name, *arrays).read(), "alone")


# ---- shapes ----


def shape_cases(context, rng, dtype):
    """(name, arrays, values, how many operations): three operands in the shapes and views that kernels treat
    differently; shapes without views make the kernels of the special values."""
    def operands(*shapes):
        values = [random_values(rng, dtype, s, special=0.15) for s in shapes]
        return [put(context, dtype, v) for v in values], values

    yield ("odd", *operands((3, 5, 7), (3, 5, 7), (3, 5, 7)), None)
    yield ("empty", *operands((3, 0, 2), (3, 0, 2), (3, 0, 2)), None)
    yield ("rank 0", *operands((), (), ()), SOME)
    yield ("empty broadcast", *operands((3, 0, 2), (1, 0, 2), (2,)), SOME)
    yield ("broadcast", *operands((5, 1, 7), (3, 1), (1,)), SOME)
    yield ("rank 8", *operands((2, 1, 2, 1, 3, 1, 1, 2), (1, 2, 1, 2, 1, 2, 1, 1), (2, 1, 1)), SOME)
    arrays, values = operands((9, 11), (11, 9), (4, 9, 22))
    views = [
        (context.flip(arrays[0], [0, 1]), values[0][::-1, ::-1]),
        (context.transpose(arrays[1]), values[1].T),
        (context.slice(arrays[2], [slice(1, 2), slice(None), slice(20, None, -2)]), values[2][1:2, :, 20::-2]),
    ]
    yield "strided", [v[0] for v in views], [v[1] for v in views], SOME


def check_shapes(report, context, rng, dtype):
    cases = [(name, arrays[:arity], values[:arity], count) for name, arrays, values, count in shape_cases(context, rng, dtype)
             for arity in (1, 2, 3)]
    for case in part_of(dtype, cases, 1):
        check_chunks(report, context, rng, dtype, *case)


# ---- scalars and promotion ----


def check_scalars(report, context, rng, dtype):
    values = random_values(rng, dtype, (13,), special=0.2)
    for number in (1, 0, 3, 1.25, -2, 300):
        a = context.copy(put(context, dtype, values))
        todo = []
        for op in sum(chunks(dtype, 2, 2 * SOME), []):
            if not reference.fits(dtype, number):
                refused(report, f"{op.name} {dtype} with {number}", op.name, lambda: context.op_scalar(op.name, a, number))
                refused(report, f"{op.name} {dtype} of {number}", op.name, lambda: context.scalar_op(op.name, number, a))
                continue
            b = reference.scalar(dtype, number)
            todo.append((op, [values, b], context.op_scalar(op.name, a, number), "array, scalar"))
            todo.append((op, [b, values], context.scalar_op(op.name, number, a), "scalar, array"))
        for op, given, result, name in todo:
            compare_elementwise(report, op.name, dtype, given, result.read(), f"{name} {number}")


def check_promotion(report, context, rng, dtype):
    """Operands of two types meet in the type that protocol/dtype.h names."""
    values, truth = random_values(rng, dtype, (11,), special=0.2), random_values(rng, "bool", (11,))
    a, condition = context.copy(put(context, dtype, values)), put(context, "bool", truth)
    todo = []
    for other in DTYPES:
        theirs = random_values(rng, other, (11,), special=0.2)
        b = put(context, other, theirs)
        both = reference.promote(dtype, other)
        converted = [reference.cast(dtype, both, values), reference.cast(other, both, theirs)]
        if DTYPES[other].id % 2:
            todo.append(("lt", both, converted, context.op("lt", a, b), f"with {other}"))
        else:
            todo.append(("where", both, [truth] + converted, context.op("where", condition, a, b), f"with {other}"))
    for op, both, given, result, name in todo:
        if report.check(result.dtype == OPS[op].result_dtype(both), f"{op} of {dtype} {name}", f"{result.dtype}, not {both}"):
            compare_elementwise(report, op, both, given, result.read(), f"of {dtype} {name}")


# ---- casts, sources, views ----


def check_casts(report, context, rng, dtype):
    values = np.concatenate([specials(dtype), random_values(rng, dtype, (64,)), edges_of_integers(dtype)])
    a = context.copy(put(context, dtype, values))
    todo = [(other, context.cast(a, other)) for other in DTYPES]
    for other, result in todo:
        want = reference.cast(dtype, other, values)
        compare_exact(report, f"cast {dtype} to {other}", other, want, result.read(), [values])
        report.hit("cast", dtype)


def edges_of_integers(dtype):
    """Floats around the ends of every integer type, and integers around what floats hold."""
    if dtype == "bool":
        return specials(dtype)
    if reference.is_real(dtype):
        ends = np.array([s * 2.0 ** e for e in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)])
        near = [ends, ends - 0.5, ends + 0.5, ends - 1, ends + 1, ends * (1 - 2.0 ** -11), ends * (1 - 2.0 ** -24),
                ends * (1 - 2.0 ** -53), np.array([0.5, 0.99, 1.99, -0.99, -1.5, 1e-40, -1e-40])]
        return reference.cast("f64", dtype, np.concatenate(near))
    info = np.iinfo(reference.STORAGE[dtype])
    powers = [s * (2 ** e + d) for e in range(6, info.bits) for d in (-3, -1, 0, 1, 3) for s in (1, -1)]
    return np.array([p for p in powers if info.min <= p <= info.max], info.dtype)


def check_sources(report, context, rng, dtype):
    report.hit("load", dtype)
    report.hit("fill", dtype)
    values = random_values(rng, dtype, (3, 5), special=0.2)
    stored = to_storage(dtype, values)
    compare_exact(report, f"from {dtype}", dtype, values, context.array(dtype, stored).read())
    compare_exact(report, f"create {dtype}", dtype, values, context.create(dtype, stored).read())
    for number in (0, 1, -0.0, 2.7, -3, 65519.0, 1e300, 5e-324, math.nan, -math.inf):
        if not reference.fits(dtype, number):
            refused(report, f"full {dtype} {number}", "full", lambda: context.full(dtype, (2, 3), number))
            continue
        want = np.broadcast_to(reference.scalar(dtype, number), (2, 3))
        compare_exact(report, f"full {dtype} {number}", dtype, want, context.full(dtype, (2, 3), number).read())
        want = reference.scalar(dtype, number)
        compare_exact(report, f"scalar {dtype} {number}", dtype, want, context.scalar(dtype, number).read())
    check_full_int(report, context, dtype)
    check_arange(report, context, dtype)


def check_full_int(report, context, dtype):
    numbers = (0, 1, -1, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1, 16777217, 2049, 4097)
    for number in numbers:
        inside = reference.is_real(dtype) or reference.fits(dtype, float(number)) and reference.fits(dtype, number)
        if dtype in ("i64", "u64"):
            inside = dtype == "i64" or number >= 0
        if not inside:
            refused(report, f"full_int {dtype} {number}", "full_int", lambda: context.full_int(dtype, (3,), number))
            continue
        want = reference.cast("i64", dtype, np.full((3,), number, np.int64))
        compare_exact(report, f"full_int {dtype} {number}", dtype, want, context.full_int(dtype, (3,), number).read())


def check_arange(report, context, dtype):
    if dtype == "bool":
        refused(report, "arange bool", "arange", lambda: context.arange(dtype, 4, 0, 1), code="DTYPE")
        return
    cases = [(0, 0, 1), (1, 5, 3), (1000, 0, 1), (37, 100, 3)]
    cases += [(100, -7, 3), (300, -1, -2)] if DTYPES[dtype].kind != "UINT" else []
    cases += [(5000, 0.1, 0.7), (33, -1e-3, 1 / 3), (9, 1e30, 1e37)] if reference.is_real(dtype) else []
    for count, start, step in cases:
        want = reference.arange(dtype, count, start, step)
        got = context.arange(dtype, count, start, step).read()
        compare_exact(report, f"arange {dtype} {count} from {start} by {step}", dtype, want, got, [np.arange(count)])
        report.hit("arange", dtype)


def check_views(report, context, rng, dtype):
    values = random_values(rng, dtype, (4, 3, 5), special=0.1)
    a = put(context, dtype, values)
    row, values_row = put(context, dtype, values[:1, :, :1]), values[:1, :, :1]
    cases = [
        ("copy", lambda: context.copy(a), values),
        ("reshape", lambda: context.reshape(context.permute(a, (2, 0, 1)), (10, 6)), values.transpose(2, 0, 1).reshape(10, 6)),
        ("permute", lambda: context.permute(a, (1, -1, 0)), values.transpose(1, 2, 0)),
        ("broadcast", lambda: context.broadcast(row, (2, 4, 3, 5)), np.broadcast_to(values_row, (2, 4, 3, 5))),
        ("slice", lambda: context.slice(a, [slice(1, 3), slice(None), slice(-1, None, -2)]), values[1:3, :, -1::-2]),
        ("flip", lambda: context.flip(a, (0, -1)), values[::-1, :, ::-1]),
        ("windows", lambda: context.windows(a, -1, 2, 2, 2), reference.windows(values, -1, 2, 2, 2)),
        ("windows", lambda: context.windows(context.windows(context.flip(a, (1,)), 1, 3), 0, 2, 3),
         reference.windows(reference.windows(values[:, ::-1], 1, 3, 1, 1), 0, 2, 3, 1)),
        ("reshape", lambda: context.reshape(a, (2, -1, 5)), values.reshape(2, -1, 5)),
        ("permute", lambda: context.permute(a, None), values.transpose()),
        ("permute", lambda: context.transpose(a), np.swapaxes(values, -1, -2)),
        ("broadcast", lambda: context.broadcast(row, (0, 3, 1)), np.broadcast_to(values_row, (0, 3, 1))),
        ("slice", lambda: context.slice(a, [slice(3, 1), slice(0, 99), slice(-3, -1)]), values[3:1, 0:99, -3:-1]),
        ("flip", lambda: context.flip(context.slice(a, [slice(None, None, 2), slice(None), slice(1, 4)]), (1,)),
         values[::2, :, 1:4][:, ::-1]),
    ]
    for name, function, want in part_of(dtype, cases if dtype == FULL else cases[:7], 7):
        compare_exact(report, f"{name} {dtype}", dtype, want, function().read())
        report.hit(name, dtype)


# ---- gathers ----

INTEGERS = [d for d in DTYPES if reference.is_integer(d)]
# take: (shape of a, shape of the index, axis), then take_along likewise.
TAKEN = [((70, 33), (41,), 0), ((5, 70), (3, 7), 1), ((3, 9, 4), (), 1), ((50,), (130,), -1), ((0, 3), (2,), 0), ((4, 0), (2,), 0)]
TAKEN_ALONG = [((9, 40), (5, 40), 0), ((9, 40), (9, 67), 1), ((3, 1, 40), (1, 5, 8), 2), ((6, 5), (4, 1), 0), ((0, 3), (2, 3), 0)]


def index_kind(dtype, number):
    """Two integer types for each element type, all of them with FULL."""
    return INTEGERS[(DTYPES[dtype].id + number % (len(INTEGERS) if dtype == FULL else 2)) % len(INTEGERS)]


def index_values(rng, dtype, shape, extent):
    """Mostly on the axis, counted from both ends; some beyond, as far as the type goes."""
    low = -extent - 2 if DTYPES[dtype].kind == "SINT" else 0
    info = np.iinfo(reference.STORAGE[dtype])
    values = np.clip(rng.integers(low, extent + 2, shape), info.min, info.max)
    far = rng.choice(np.array([info.min, info.max], object), shape)
    return np.where(rng.random(shape) < 0.05, far, values).astype(reference.STORAGE[dtype])


def check_gathers(report, context, rng, dtype):
    cases = list(enumerate([("take", *c) for c in TAKEN] + [("take_along", *c) for c in TAKEN_ALONG]))
    todo = []
    for number, (name, shape, taken, axis) in part_of(dtype, cases[:len(TAKEN)], 1) + part_of(dtype, cases[len(TAKEN):], 1):
        kind = index_kind(dtype, number)
        values, index = random_values(rng, dtype, shape, special=0.1), index_values(rng, kind, taken, shape[axis])
        got = context.gather(name, put(context, dtype, values), context.array(kind, index), axis)
        want = getattr(reference, name)(values, index, axis)
        todo.append((f"{name} {dtype} {list(shape)} by {kind} {list(taken)} along {axis}", want, got))
        report.hit(name, dtype)
    values, index = random_values(rng, dtype, (9, 12), special=0.1), index_values(rng, "i32", (7, 12), 6)
    view = context.slice(context.flip(put(context, dtype, values), (0,)), [slice(None), slice(None, None, 2)])
    seen, other = values[::-1, ::2], context.slice(context.array("i32", index), [slice(None), slice(None, 6)])
    todo.append((f"take_along {dtype} of views", reference.take_along(seen, index[:, :6], 0),
                 context.gather("take_along", view, other, 0)))
    todo.append((f"take {dtype} of views", reference.take(seen, index[:, :6].T, 1),
                 context.gather("take", view, context.transpose(other), 1)))
    for name, want, got in todo:
        compare_exact(report, name, dtype, want, got.read())
    refused(report, f"take of {dtype} by bool", "take",
            lambda: context.gather("take", view, context.full("bool", (2,), 1), 0), code="DTYPE")


# ---- scatters ----

# (shape of a, elements of the index along the axis, axis)
SCATTERED = [((41,), 130, 0), ((9, 70), 5, 0), ((9, 70), 40, 1), ((3, 7, 4), 6, 1), ((1, 5), 3, 0), ((4, 0), 2, 0), ((3, 4), 0, 1),
             ((300, 3), 900, 0)]


def check_scatters(report, context, rng, dtype):
    names = ["put_along"] + (["add_along"] if dtype != "bool" else [])
    todo = []
    for number, (shape, count, axis) in part_of(dtype, list(enumerate(SCATTERED)), 1):
        kind = index_kind(dtype, number)
        there = shape[:axis] + (count,) + shape[axis + 1:]
        values, updates = tame(rng, dtype, shape), random_values(rng, dtype, there, special=0.02)
        index = index_values(rng, kind, there, shape[axis])
        a, i, u = put(context, dtype, values), context.array(kind, index), put(context, dtype, updates)
        for name in names:
            want = reference.put_along(values, index, updates, axis) if name == "put_along" else \
                reference.add_along(dtype, values, index, updates, axis)
            title = f"{name} {dtype} {list(shape)} by {kind} {list(there)} along {axis}"
            todo.append((title, want, context.scatter(name, a, i, u, axis)))
            report.hit(name, dtype)
    values, updates, index = (tame(rng, dtype, (9, 12)), tame(rng, dtype, (12, 7)), index_values(rng, "i32", (7, 1), 9))
    view, turned = context.flip(put(context, dtype, values), (0,)), context.transpose(put(context, dtype, updates))
    row = context.broadcast(context.array("i32", index), (7, 12))
    todo.append((f"put_along {dtype} of views", reference.put_along(values[::-1], np.broadcast_to(index, (7, 12)), updates.T, 0),
                 context.scatter("put_along", view, row, turned, 0)))
    for name, want, got in todo:
        compare_exact(report, name, dtype, want, got.read())


def check_nonzero(report, context, rng, dtype):
    for shape in part_of(dtype, [(70, 3), (5, 0), (), (20011,)], 1, 3):
        values = random_values(rng, dtype, shape, special=0.2)
        values = np.where(rng.random(shape) < 0.5, values, np.zeros_like(values))
        got = context.flatnonzero(put(context, dtype, values)).read()
        compare_exact(report, f"flatnonzero {dtype} {list(shape)}", "i64", np.flatnonzero(values), got)
        for d, got in enumerate(context.nonzero(put(context, dtype, values)) if shape else ()):
            compare_exact(report, f"nonzero {dtype} {list(shape)} axis {d}", "i64", np.nonzero(values)[d], got.read())
    got = context.flatnonzero(context.full(dtype, (9,), 0)).read()
    report.check(got.shape == (0,), f"flatnonzero of {dtype} zeros", lambda: f"{got.shape}")


# ---- order ----

# (operation, shape, axis, descending); the long ones for every fourth type: they take two kernels each.
SORTED = [("sort", (5, 300), 1, False), ("argsort", (70, 3), 0, True), ("sort", (3, 0), 1, False), ("argsort", (0, 3), 1, True),
          ("sort", (9, 1), 1, False)]
SORTED_LONG = [("sort", (20011,), 0, True), ("argsort", (2, 17001), 1, False)]


def sortable(rng, dtype, shape):
    """With many equal elements."""
    values = random_values(rng, dtype, shape, special=0.2)
    return np.where(rng.random(shape) < 0.5, values, tame(rng, dtype, shape))


def check_order(report, context, rng, dtype):
    todo = []
    for name, shape, axis, descending in part_of(dtype, SORTED + (SORTED_LONG if DTYPES[dtype].id % 4 == 3 else []), 2):
        values = sortable(rng, dtype, shape)
        title = f"{name} {dtype} {list(shape)} along {axis}{' descending' * descending}"
        want = getattr(reference, name)(values, axis, descending)
        todo.append((title, dtype if name == "sort" else "i64", want, context.sort(name, put(context, dtype, values), axis, descending)))
        report.hit(name, dtype)
    vector, values = reference.sort(sortable(rng, dtype, (77,)), 0), sortable(rng, dtype, (7, 40))
    backwards = put(context, dtype, vector[::-1])
    forms = [(False, put(context, dtype, vector)), (True, context.flip(backwards, (0,))), (False, put(context, dtype, vector[:0]))]
    for right, a in part_of(dtype, forms, 1):
        want = reference.searchsorted(vector[:a.shape[0]], values, right)
        todo.append((f"searchsorted {dtype} {a.shape[0]} {right}", "i64", want, context.searchsorted(a, put(context, dtype, values), right)))
    report.hit("searchsorted", dtype)
    # Short rows are sorted; long ones (every fourth type: they take more kernels) give their largest blocks.
    for shape, k, largest in part_of(dtype, [((5, 300), 4, True), ((5, 300), 0, False), ((5, 300), 300, False)] +
                                     [((2, 9001), 5, True), ((2, 9001), 3, False)] * (DTYPES[dtype].id % 4 == 3), 1):
        values = sortable(rng, dtype, shape)
        a = put(context, dtype, values)
        at = reference.argsort(values, 1, largest)[:, :k]
        top, there = context.topk(a, k, -1, largest)
        title = f"topk {dtype} {list(shape)} {k} {largest}"
        todo += [(title, dtype, np.take_along_axis(values, at, 1), top), (f"{title} places", "i64", at, there)]
    for title, kind, want, got in todo:
        compare_exact(report, title, kind, want, got.read())
    refused(report, f"topk of more {dtype} than there are", "topk", lambda: context.topk(a, 9002, 1))


def check_unique(report, context, rng, dtype):
    """Made of what check_order() and others prove; so not every type's turn each time."""
    if not in_turn(dtype):
        return
    for shape in part_of(dtype, [(6, 50), (0, 3), ()], 1, 2):
        values = sortable(rng, dtype, shape)
        a = put(context, dtype, values)
        want = np.unique(values, True, True, True, equal_nan=False)
        names = ("values", "first", "inverse", "counts")
        for name, right, got in zip(names, want, context.unique(a)):
            right = right.reshape(shape) if name == "inverse" else right
            compare_exact(report, f"unique {dtype} {list(shape)} {name}", dtype if name == "values" else "i64", right, got.read())
    for wanted in part_of(dtype, [(True, False, False, False), (False, False, False, True)], 0):
        got = context.unique(put(context, dtype, sortable(rng, dtype, (6, 50))), wanted)
        report.check([g is not None for g in got] == list(wanted), f"unique {dtype} {wanted}")


# ---- parts ----


def check_parts(report, context, rng, dtype):
    values = [random_values(rng, dtype, (5, n, 3), special=0.1) for n in (4, 1, 0, 17)]
    arrays = [put(context, dtype, v) for v in values]
    doubled = [context.op("bitwise_or" if not reference.is_real(dtype) else "maximum", a, a) for a in arrays]
    same, seen = [arrays[0]] * 3, values[0]
    margins = [(1, 0), (0, 2), (3, 1)]
    one = context.slice(context.reshape(arrays[3], (255,)), [slice(7, 8)])
    cases = [
        ("concat", context.join("concat", arrays, 1), np.concatenate(values, 1)),
        ("concat", context.join("concat", doubled, -2), np.concatenate(values, 1)),
        ("concat of a view", context.join("concat", [context.flip(arrays[0], (1,)), arrays[1]], 1),
         np.concatenate([seen[:, ::-1], values[1]], 1)),
        ("concat of 20", context.join("concat", [arrays[0], arrays[3]] * 10, 1), np.concatenate([seen, values[3]] * 10, 1)),
        ("concat of 9 along the last", context.join("concat", [arrays[0]] * 9, 2), np.concatenate([seen] * 9, 2)),
        ("stack", context.join("stack", same, -1), np.stack([seen] * 3, -1)),
        ("stack", context.join("stack", same, 1), np.stack([seen] * 3, 1)),
        ("pad", context.pad(arrays[0], margins), reference.pad(seen, margins)),
        ("pad of nothing", context.pad(arrays[2], margins), reference.pad(values[2], margins)),
        ("pad with a value", context.pad(doubled[0], margins, context.reshape(one, ())),
         reference.pad(seen, margins, values[3].reshape(-1)[7])),
        ("tile", context.tile(arrays[0], (2, 1, 3)), np.tile(seen, (2, 1, 3))),
        ("tile by 0", context.tile(arrays[0], (1, 0, 1)), np.tile(seen, (1, 0, 1))),
        ("repeat", context.repeat(arrays[0], 3, 1), np.repeat(seen, 3, 1)),
        ("roll", context.roll(arrays[3], 5, 1), np.roll(values[3], 5, 1)),
        ("roll back", context.roll(arrays[3], -40, -2), np.roll(values[3], -40, 1)),
    ]
    for part, (low, high) in zip(context.split(arrays[3], (4, 0, 13), 1), ((0, 4), (4, 4), (4, 17))):
        cases.append(("split", part, values[3][:, low:high]))
    for name, got, want in cases[:1] + cases[7:8] + part_of(dtype, cases, 0, 3):
        compare_exact(report, f"{name} {dtype}", dtype, want, got.read())
    report.hit("concat", dtype)
    report.hit("pad", dtype)
    if dtype == FULL:
        check_part_refusals(report, context, arrays)


def check_part_refusals(report, context, arrays):
    other = context.full(FULL, (5, 4), 1)
    refused(report, "concat of two ranks", "concat", lambda: context.join("concat", [arrays[0], other], 0), code="SHAPE")
    refused(report, "concat of two extents", "concat", lambda: context.join("concat", arrays[:2], 0), code="SHAPE")
    refused(report, "concat of nothing", "concat", lambda: context.join("concat", [], 0))
    refused(report, "concat along no axis", "concat", lambda: context.join("concat", arrays[:2], 3))
    refused(report, "stack along no axis", "stack", lambda: context.join("stack", arrays[:1], 4))
    refused(report, "pad by less", "pad", lambda: context.pad(other, [(0, -1), (0, 0)]))
    refused(report, "pad with an array", "pad", lambda: context.pad(other, [(0, 1), (0, 0)], other), code="SHAPE")
    refused(report, "split in other extents", "split", lambda: context.split(other, (1, 1), 0))
    refused(report, "roll along no axis", "roll", lambda: context.roll(other, 1, 2))


# ---- random numbers ----


def check_random(report, context, rng, dtype):
    report.check(reference.philox_block([0xffffffff] * 4, [0xffffffff] * 2) ==
                 [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd], "the reference's philox", "not the published vector")
    seed, shape = (1 << 63) + DTYPES[dtype].id, (7, 5, 11)
    if reference.is_real(dtype):
        want = reference.random_uniform(dtype, 385, seed).reshape(shape)
        uniform = context.random("random_uniform", dtype, shape, seed)
        compare_exact(report, f"random_uniform {dtype}", dtype, want, uniform.read())
        check_normal(report, context, dtype, seed)
        check_dropout(report, context, rng, dtype, seed)
    elif dtype != "bool":
        info = np.iinfo(reference.STORAGE[dtype])
        for low, high in ((0, 1), (1, 100), (int(info.min), min(int(info.max), (1 << 63) - 1))):
            got = context.random("random_integers", dtype, (385,), low, high, seed).read()
            compare_exact(report, f"random_integers {dtype} {low} {high}", dtype,
                          reference.random_integers(dtype, 385, low, high, seed), got)
        for low, high in ((3, 3), (info.min - 1, 5) if info.min > -(1 << 63) else (5, 3)):
            refused(report, f"random_integers {dtype} {low} {high}", "random_integers",
                    lambda: context.random("random_integers", dtype, (3,), low, high, seed))
    else:
        want = reference.random_uniform("f32", 385, seed).reshape(shape) < np.float32(0.3)
        got = context.random("random_bernoulli", None, shape, 0.3, seed).read()
        compare_exact(report, "random_bernoulli", "bool", want, got)
    refused(report, f"random_uniform {dtype}", "random", lambda: context.random("random_uniform", dtype, (-1,), seed))


def check_normal(report, context, dtype, seed):
    count, computed = 20000, "f64" if dtype == "f64" else "f32"
    of = 4 if dtype == "f64" else 2
    u, v = (reference.random_uniform(computed, count, seed, of, i * of // 2).astype(reference.LONG) for i in (0, 1))
    with np.errstate(all="ignore"):
        want = np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * reference.LONG(np.pi) * v)
    got = to_register(dtype, context.random("random_normal", dtype, (count,), seed).read()).astype(reference.LONG)
    far = np.abs(got - want) / np.maximum(1, np.abs(want))
    bound = {"f64": 1e-14, "f32": 2e-6, "f16": 1e-3, "bf16": 5e-3}[dtype]
    report.check(bool(np.all(far <= bound)), f"random_normal {dtype}", lambda: f"off by {float(far.max())}")
    report.check(abs(float(got.mean())) < 0.03 and abs(float(got.std()) - 1) < 0.02, f"random_normal {dtype} is normal",
                 lambda: f"mean {float(got.mean())}, deviation {float(got.std())}")


def check_dropout(report, context, rng, dtype, seed):
    values = random_values(rng, dtype, (20, 31), special=0.1)
    kept = reference.random_uniform("f32", 620, seed).reshape(20, 31) < np.float32(0.75)
    scale = reference.scalar(dtype, 1 / 0.75)
    with np.errstate(all="ignore"):
        want = np.where(kept, reference.exact("mul", dtype, [values, scale]), values.dtype.type(0))
    got = context.dropout(put(context, dtype, values), 0.25, seed).read()
    compare_exact(report, f"dropout {dtype}", dtype, want, got)


# ---- writing ----


def check_writing(report, context, rng, dtype):
    """New versions of an array; views and copies made before keep the old values."""
    values, source = random_values(rng, dtype, (6, 4)), random_values(rng, "f32", (4,), special=0.2)
    a = put(context, dtype, values)
    view, doubled = context.transpose(a), context.op("logical_not", a)
    a.copy_into(context.array("f32", to_storage("f32", source)))
    want = np.broadcast_to(reference.cast("f32", dtype, source), (6, 4))
    compare_exact(report, f"copy_into {dtype}", dtype, want, a.read())
    compare_exact(report, f"view before copy_into {dtype}", dtype, values.T, view.read())
    compare_exact(report, f"result before copy_into {dtype}", "bool", ~values.astype(bool), doubled.read())
    a.fill_into(1)
    compare_exact(report, f"fill_into {dtype}", dtype, reference.cast("bool", dtype, np.ones((6, 4), bool)), a.read())
    before = context.copy(a)
    memory = a.map("write")
    memory[...] = to_storage(dtype, values)
    memory = None
    a.unmap()
    compare_exact(report, f"map {dtype}", dtype, values, a.read())
    compare_exact(report, f"copy before map {dtype}", dtype, reference.cast("bool", dtype, np.ones((6, 4), bool)),
                  before.read())
    report.check(a.version == 4, f"version {dtype}", lambda: f"{a.version}, not 4")


# ---- reductions and products ----


# (shape, axes, keepdims); the first ones for every type.
REDUCED = [
    ((67,), None, False), ((3, 130), (1,), False), ((130, 5), (0,), True), ((3, 8193), (-1,), False),
    ((2, 3, 2, 3, 2), (-1, 1, 2), False), ((3, 0), (1,), False), ((0, 3), (1,), True), ((), None, False),
]
REDUCED_MORE = [
    ((1,), None, True), ((5,), (0,), False), ((4, 5, 6), (0, 2), False), ((4, 5, 6), (1,), True), ((16500, 2), (0,), False),
    ((2, 1, 3, 1, 2, 2, 1, 3), (0, 2, 4, 6), True), ((7, 3000), None, False), ((3, 4), (), False), ((0,), None, False),
    ((2, 0, 3), (1, 2), False), ((8192,), None, False), ((130000,), None, False),
]


def tame(rng, dtype, shape):
    """Values whose sums do not become NaN at once; zeros of both signs among them."""
    values = random_values(rng, dtype, shape)
    if not reference.is_real(dtype):
        return values
    return np.where(rng.random(shape) < 0.1, np.where(rng.random(shape) < 0.5, -0.0, 0.0), values).astype(values.dtype)


def check_reductions(report, context, rng, dtype):
    for shape, axes, keepdims in part_of(dtype, REDUCED + (REDUCED_MORE if dtype == FULL else []), 1, 2):
        for special in (0.0, 0.02):
            values = random_values(rng, dtype, shape, special) if special else tame(rng, dtype, shape)
            a = put(context, dtype, values)
            todo = []
            for op in REDUCTIONS:
                if op.takes(dtype):
                    reduce_one(report, context, op, dtype, (a, values, axes, keepdims), todo)
            for name, op, want, result in todo:
                compare_exact(report, name, op.result_dtype(dtype), want, result.read())
    values = np.full((3, 70), -0.0) if reference.is_real(dtype) else np.zeros((3, 70))
    values = values.astype(reference.REGISTER[dtype])
    got = context.reduce("sum", put(context, dtype, values), (1,)).read()
    want = reference.reduction("sum", dtype, values, (1,), False)
    compare_exact(report, f"sum {dtype} of -0", OPS["sum"].result_dtype(dtype), want, got)


def reduce_one(report, context, op, dtype, case, todo):
    a, values, axes, keepdims = case
    name = f"{op.name} {dtype} {list(values.shape)} over {axes}"
    reduced = range(values.ndim) if not axes else axes
    if op.name in ("max", "min") and any(values.shape[d] == 0 for d in reduced):
        refused(report, name, op.name, lambda: context.reduce(op.name, a, axes, keepdims), code="SHAPE")
        return
    want = reference.reduction(op.name, dtype, values, axes, keepdims)
    todo.append((name, op, want, context.reduce(op.name, a, axes, keepdims)))
    report.hit(op.name, dtype)


def check_strided_reductions(report, context, rng, dtype):
    values = tame(rng, dtype, (9, 10, 11))
    a = put(context, dtype, values)
    for name, view, seen in part_of(dtype, [
            ("permuted", context.permute(a, (2, 0, 1)), values.transpose(2, 0, 1)),
            ("sliced", context.slice(a, [slice(None), slice(None, None, 3), slice(None, None, -1)]), values[:, ::3, ::-1]),
            ("broadcast", context.broadcast(context.reshape(a, (990, 1)), (990, 3)),
             np.broadcast_to(values.reshape(990, 1), (990, 3)))], 0):
        ops = [op for op in REDUCTIONS if op.takes(dtype)]
        for op in ops if dtype == FULL else [ops[DTYPES[dtype].id % len(ops)]]:
            for axes in ((0,), (seen.ndim - 1,)):
                want = reference.reduction(op.name, dtype, seen, axes, False)
                got = context.reduce(op.name, view, axes).read()
                compare_exact(report, f"{op.name} {dtype} {name} over {axes}", op.result_dtype(dtype), want, got)


# (shape, axis); the first ones for every type.
SCANNED = [((67,), 0), ((3, 130), 1), ((130, 21), 0), ((3, 0), 1), ((2, 3, 8193), -1)]
SCANNED_MORE = [((1,), 0), ((0, 3), 1), ((5, 1, 7), 1), ((4, 5, 6), 1), ((16500, 9), 0), ((2, 8192), -1), ((140000,), 0),
                ((2, 1, 3, 1, 2, 2, 1, 33), -1), ((2, 17, 3, 1, 2, 2, 1, 3), 1), ((31, 8), 0), ((31, 7), 0)]


def check_scans(report, context, rng, dtype):
    for number, (shape, axis) in part_of(dtype, list(enumerate(SCANNED + (SCANNED_MORE if dtype == FULL else []))), 1):
        for special in (0.0, 0.01):
            values = random_values(rng, dtype, shape, special) if special else tame(rng, dtype, shape)
            a = put(context, dtype, values)
            # One operation a shape is enough for most types: how the axis is walked is the same text for all.
            ops = [op for op in SCANS if op.takes(dtype)]
            ops = ops if dtype == FULL or not number else [ops[(DTYPES[dtype].id + number) % len(ops)]]
            todo = [(op, context.scan(op.name, a, axis)) for op in ops]
            for op, result in todo:
                name = f"{op.name} {dtype} {list(shape)} along {axis}"
                compare_exact(report, name, op.result_dtype(dtype), reference.scanned(op.name, dtype, values, axis), result.read())
                report.hit(op.name, dtype)
    values = tame(rng, dtype, (9, 10, 11))
    a = put(context, dtype, values)
    seen = values.transpose(2, 0, 1)[::-1, :, ::3]
    view = context.slice(context.permute(a, (2, 0, 1)), [slice(None, None, -1), slice(None), slice(None, None, 3)])
    for axis in part_of(dtype, range(3), 0, 3):
        got = context.scan("cumsum", view, axis).read()
        want = reference.scanned("cumsum", dtype, seen, axis)
        compare_exact(report, f"cumsum {dtype} of a view along {axis}", OPS["cumsum"].result_dtype(dtype), want, got)


PRODUCTS = [((3, 5), (5, 7)), ((1, 1), (1, 1)), ((17, 33), (33, 19)), ((2, 3, 4, 5), (3, 5, 2)), ((1, 4, 3), (6, 3, 2)),
            ((4, 0), (0, 3)), ((0, 3), (3, 2)), ((1, 70), (70, 1)), ((65, 2), (2, 67)), ((5, 1, 2, 3), (1, 4, 3, 2)),
            ((2, 1, 1100), (1100, 1))]


def check_matmul(report, context, rng, dtype):
    for left, right in part_of(dtype, PRODUCTS, 1):
        a, b = tame(rng, dtype, left), tame(rng, dtype, right)
        got = context.op("matmul", put(context, dtype, a), put(context, dtype, b)).read()
        compare_exact(report, f"matmul {dtype} {list(left)} {list(right)}", dtype, reference.matmul(dtype, a, b), got)
        report.hit("matmul", dtype)
    if dtype == FULL:
        check_vectors(report, context, rng, dtype)
    a, b = random_values(rng, dtype, (6, 9), special=0.1), random_values(rng, dtype, (20, 12), special=0.1)
    left, right = context.transpose(put(context, dtype, a)), put(context, dtype, b)
    right = context.slice(right, [slice(16, 4, -2), slice(None, None, 3)])
    want = reference.matmul(dtype, a.T, b[16:4:-2, ::3])
    compare_exact(report, f"matmul {dtype} of views", dtype, want, context.op("matmul", left, right).read())


def check_vectors(report, context, rng, dtype):
    """A vector is a row on the left and a column on the right, as NumPy's matmul has it."""
    a, b, c = tame(rng, dtype, (9,)), tame(rng, dtype, (2, 9, 4)), tame(rng, dtype, (9,))
    left, matrices, right = (put(context, dtype, v) for v in (a, b, c))
    row = reference.matmul(dtype, a[None], b)[:, 0]
    column = reference.matmul(dtype, b.swapaxes(1, 2), c[:, None])[..., 0]
    inner = reference.matmul(dtype, a[None], c[:, None]).reshape(())
    compare_exact(report, "matmul of a row", dtype, row, context.op("matmul", left, matrices).read())
    compare_exact(report, "matmul of a column", dtype, column, context.op("matmul", context.transpose(matrices), right).read())
    compare_exact(report, "matmul of two vectors", dtype, inner, context.op("matmul", left, right).read())


# ---- what is refused ----


def refused(report, name, operation, function, code=None):
    """The call fails with a code, and one sentence that names the operation."""
    try:
        function()
    except fusion.FusionError as error:
        right = operation in error.sentence and (code is None or error.code == code)
        report.check(right, f"{name} is refused", lambda: f"{error.code}: {error.sentence}")
        return
    report.check(False, f"{name} is refused", "it was accepted")


def check_refusals(report, context, rng, dtype):
    a = put(context, dtype, random_values(rng, dtype, (3,)))
    for op in ELEMENTWISE + REDUCTIONS + SCANS:
        if op.takes(dtype):
            continue
        function = (lambda: context.reduce(op.name, a)) if op.kind == "REDUCE" else \
            (lambda: context.scan(op.name, a, 0)) if op.kind == "SCAN" else \
            (lambda: context.op(op.name, *[a] * op.arity))
        refused(report, f"{op.name} {dtype}", op.name, function, code="DTYPE")
    if dtype != "bool":
        refused(report, f"where of {dtype}", "where", lambda: context.op("where", a, a, a), code="DTYPE")
    if dtype == "bool":
        square = put(context, dtype, random_values(rng, dtype, (3, 3)))
        refused(report, "matmul bool", "matmul", lambda: context.op("matmul", square, square), code="DTYPE")


def check_shape_refusals(report, context):
    def make(*shape):
        return context.full("f32", shape, 1)

    for op in ELEMENTWISE:
        if op.arity > 1 and op.takes("f32") and op.name != "where":
            operands = [make(2, 3), make(4, 3), make(3)][:op.arity]
            refused(report, f"{op.name} of [2,3] and [4,3]", op.name, lambda: context.op(op.name, *operands), code="SHAPE")
    refused(report, "matmul of [2,3] and [2,3]", "matmul", lambda: context.op("matmul", make(2, 3), make(2, 3)), code="SHAPE")
    refused(report, "matmul of a scalar", "matmul", lambda: context.op("matmul", make(), make(3, 2)), code="SHAPE")
    refused(report, "reshape to another size", "reshape", lambda: context.reshape(make(6), (4,)), code="SHAPE")
    refused(report, "reshape to two open extents", "reshape", lambda: context.reshape(make(6), (-1, -1)))
    refused(report, "permute twice the same", "permute", lambda: context.permute(make(2, 3), (0, 0)))
    refused(report, "broadcast to less", "broadcast", lambda: context.broadcast(make(2, 3), (3,)), code="SHAPE")
    refused(report, "a step of 0", "slice", lambda: context.slice(make(4), [slice(None, None, 0)]))
    refused(report, "flip of no axis", "flip", lambda: context.flip(make(2), (1,)))
    refused(report, "sum over no axis", "sum", lambda: context.reduce("sum", make(2, 3), (2,)))
    refused(report, "take along no axis", "take",
            lambda: context.gather("take", make(2, 3), context.full("i32", (2,), 1), 2))
    refused(report, "cumsum along no axis", "cumsum", lambda: context.scan("cumsum", make(2, 3), 2))
    refused(report, "cumsum of rank 0", "cumsum", lambda: context.scan("cumsum", make(), 0))
    refused(report, "nonzero of rank 0", "nonzero", lambda: context.nonzero(make()), code="SHAPE")
    refused(report, "sort of rank 0", "sort", lambda: context.sort("sort", make(), 0))
    refused(report, "argsort along no axis", "argsort", lambda: context.sort("argsort", make(2, 3), 2))
    refused(report, "searchsorted in a matrix", "searchsorted", lambda: context.searchsorted(make(2, 3), make(2)), code="SHAPE")
    refused(report, "rank 9", "reshape", lambda: context.reshape(make(1), (1,) * 9), code="RANK")
    refused(report, "a size beyond all", "full", lambda: context.full("f32", (1 << 40, 1 << 40), 0), code="OVERFLOW")
    refused(report, "a negative extent", "full", lambda: context.full("f32", (-1,), 0))


# ---- all of it ----

EVERY = (check_special, check_shapes, check_singly, check_scalars, check_promotion, check_casts, check_sources,
         check_views, check_parts, check_gathers, check_scatters, check_nonzero, check_order, check_unique, check_random,
         check_writing, check_reductions, check_strided_reductions, check_scans, check_matmul, check_refusals)


def worker(report, part):
    dtype, strategy, seed = part
    rng = np.random.default_rng([seed, DTYPES[dtype].id])
    with fusion.Daemon(strategy=strategy) as daemon:
        with daemon.open(fusion=True) as fused, daemon.open(fusion=False) as unfused:
            for check in EVERY:
                if dtype != "bool" or check is not check_matmul:
                    check(report, fused, rng, dtype)
            check_singly(report, unfused, rng, dtype)
            if dtype == FULL:
                check_shape_refusals(report, fused)


def check_pairs(report, types):
    """Every pair of operation and element type that ops.def allows was met."""
    for op in OPS.values():
        for dtype in types:
            allowed = op.takes(dtype) if op.types else not (op.name in ("matmul", "arange", "add_along") and dtype == "bool")
            if allowed:
                report.check(report.hits[op.name, dtype] > 0, f"coverage of {op.name} {dtype}", "never hit")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs")
    parser.add_argument("--dtype", choices=list(DTYPES), action="append", help="only these element types")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    # The slowest first.
    types = options.dtype or harness.types_in_turn(DTYPES, FULL)
    order = sorted(types, key=lambda d: -DTYPES[d].id)
    report = harness.run(worker, [(d, options.strategy, options.seed) for d in order], options.jobs)
    if not options.dtype:
        check_pairs(report, types)
        report.print_hits(1, types)
    report.print_worst()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
