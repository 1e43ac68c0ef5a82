"""What `fusion.fast` finds: attention from its parts, in the orders in which people write them.

Each way of writing it must run as one kernel that computes scores, is counted as the pattern attention, and gives
the attention of NumPy in double precision; ways that only look like it must be left alone.
"""
import json
import sys

import numpy as np

import fusion
import harness

Q, K, V = (2, 3, 5, 6), (2, 1, 70, 6), (1, 3, 70, 4)
HEAVY = -1e9


def softmax(c, s, axis=-1):
    e = c.op("exp", c.op("sub", s, c.reduce("max", s, (axis,), True)))
    return c.op("div", e, c.reduce("sum", e, (axis,), True))


def plain(c, q, k, v, **_):
    return c.op("matmul", c.call("softmax", c.op_scalar("mul", c.op("matmul", q, c.transpose(k)), 0.5), axes=(-1,)), v)


def scaled_queries(c, q, k, v, **_):
    return c.op("matmul", softmax(c, c.op("matmul", c.scalar_op("mul", 0.5, q), c.transpose(k))), v)


def divided_scores(c, q, k, v, m, **_):
    s = c.op("add", m, c.op_scalar("div", c.op("matmul", q, c.transpose(k)), 2))
    return c.op("matmul", softmax(c, s), v)


def hidden_scores(c, q, k, v, b, **_):
    s = c.op_scalar("div", c.op("matmul", q, c.transpose(k)), 2)
    return c.op("matmul", softmax(c, c.op("where", b, s, c.scalar("f32", HEAVY))), v)


def divided_last(c, q, k, v, **_):
    s = c.op_scalar("mul", c.op("matmul", q, c.transpose(k)), 0.5)
    e = c.op("exp", s)
    return c.op("div", c.op("matmul", e, v), c.reduce("sum", e, (3,), True))


def keys_across(c, q, k, v, kt, **_):
    return c.op("relu", c.op("matmul", softmax(c, c.op_scalar("mul", c.op("matmul", q, kt), 0.5)), v))


def other_axis(c, q, k, v, **_):
    s = c.op("matmul", q, c.transpose(k))
    return c.op("matmul", softmax(c, s, 2), v)


def scaled_mask(c, q, k, v, m, **_):
    s = c.op_scalar("mul", c.op("add", c.op("matmul", q, c.transpose(k)), m), 0.5)
    return c.op("matmul", softmax(c, s), v)


def crossed_rows(c, q, k, v):
    """The sums of other rows: [6, 7] over [6, 1, 1] is [6, 6, 7]."""
    e = c.op("exp", c.op("matmul", q, c.transpose(k)))
    return c.op("matmul", c.op("div", e, c.reshape(c.reduce("sum", e, (1,)), (6, 1, 1))), v)


def crossed_rows_last(c, q, k, v):
    e = c.op("exp", c.op("matmul", q, c.transpose(k)))
    rows = c.reshape(c.reduce("sum", e, (1,)), (6, 1, 1))
    return c.op("div", c.op("matmul", e, c.broadcast(v, (6, 7, 3))), rows)


def whole_sums(c, q, k, v):
    e = c.op("exp", c.op("matmul", q, c.transpose(k)))
    rows = c.cast(c.cast(c.reduce("sum", e, (1,), True), "i32"), "f32")
    return c.op("matmul", c.op("div", e, rows), v)


def whole_scale(c, q, k, v):
    s = c.op("mul", c.op("matmul", q, c.transpose(k)), c.cast(c.cast(c.full("f32", (), 0.5), "bool"), "f32"))
    return c.op("matmul", softmax(c, s, 1), v)


def check_look_alikes(report, context, rng):
    """What has an attention's operations, but other sums or another scale."""
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((6, 4), (7, 4), (7, 3)))
    e = np.exp(q.astype(np.float64) @ k.T)
    rows = e.sum(1)
    for write, want in (
            (crossed_rows, e / rows[:, None, None] @ v),
            (crossed_rows_last, np.broadcast_to(e @ v, (6, 6, 3)) / rows[:, None, None]),
            (whole_sums, e / np.trunc(rows)[:, None] @ v),
            (whole_scale, e / rows[:, None] @ v)):
        before = found(context)
        got = write(context, *(context.array("f32", a) for a in (q, k, v))).read()
        report.check(found(context) == before, write.__name__, "found")
        report.check(got.shape == want.shape and np.allclose(got, want, 1e-5, 1e-6), write.__name__, "other values")


def reference(write, q, k, v, m, b):
    s = q @ np.swapaxes(k, -1, -2) * (1 if write is other_axis else 0.5)
    if write is divided_scores:
        s = s + m
    if write is scaled_mask:
        s = s + m / 2
    if write is hidden_scores:
        s = np.where(b, s, HEAVY)
    axis = -2 if write is other_axis else -1
    e = np.exp(s - s.max(axis, keepdims=True))
    y = e / e.sum(axis, keepdims=True) @ v
    return np.maximum(y, 0) if write is keys_across else y


def found(context):
    counts = {c["pattern"]: int(c["count"]) for c in json.loads(context.stats()).get("patterns", [])}
    return counts.get("attention", 0)


def check(report, context, write, dtype, values, is_found):
    name = f"{write.__name__} {dtype}"
    q, k, v, m, b = values
    arrays = {n: context.array(dtype, a.astype(np.float16).view(np.uint16) if dtype == "f16" else a.astype(np.float32))
              for n, a in zip(("q", "k", "v", "m", "kt"), (q, k, v, m, np.swapaxes(k, -1, -2).copy()))}
    before = found(context)
    y = write(context, b=context.array("bool", b.astype(np.uint8)), **arrays)
    got = (y.read().view(np.float16) if dtype == "f16" else y.read()).astype(np.float64)
    report.check((found(context) > before) == is_found, name, "found" if not is_found else "not found")
    want = reference(write, q, k, v, m, b)
    error = float(np.max(np.abs(got - want) / np.maximum(1, np.abs(want))))
    report.check(got.shape == want.shape and error < (4e-3 if dtype == "f16" else 2e-6), name, f"off by {error}")


def convolve(x, w, padding, groups):
    """In double precision, 3x3 in steps of 1."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, _, lines, columns = x.shape
    each, channels = w.shape[0] // groups, w.shape[1]
    y = np.zeros((n, w.shape[0], lines - 2, columns - 2))
    for g in range(groups):
        part, taps = x[:, g * channels:(g + 1) * channels], w[g * each:(g + 1) * each]
        for r in range(3):
            for s in range(3):
                y[:, g * each:(g + 1) * each] += np.einsum("ncyx,oc->noyx", part[:, :, r:r + lines - 2, s:s + columns - 2], taps[:, :, r, s])
    return y


def check_conv(report, context, rng, shape, results, padding, groups, dtype="f32"):
    """By Winograd convolution: as near to double precision as it is said to be, and not the plain convolution's bits."""
    name = f"conv {shape} {results} padding {padding} groups {groups} {dtype}"
    x = rng.standard_normal(shape).astype(np.float16).astype(np.float64)
    w = rng.standard_normal((results, shape[1] // groups, 3, 3)).astype(np.float16).astype(np.float64)
    arrays = [context.array(dtype, a.astype(np.float16).view(np.uint16) if dtype == "f16" else a.astype(np.float32)) for a in (x, w)]
    out = []
    for fast in "no", "yes":
        context.configure("fusion.fast", fast)
        y = context.call("conv", *arrays, stride=(1, 1), padding=(padding, padding), groups=groups).read()
        out.append((y.view(np.float16) if dtype == "f16" else y).astype(np.float64))
    want = convolve(x, w, padding, groups)
    error = float(np.max(np.abs(out[1] - want)) / np.std(want))
    report.check(out[1].shape == want.shape and error < (4e-3 if dtype == "f16" else 3e-5), name, f"off by {error}")
    report.check(dtype == "f16" or not np.array_equal(out[0], out[1]), name, "goes by the filter as it is")


def check_spread(report, context, rng):
    """What is not finite reaches no result beyond the tile of 4x4 of those that it belongs to."""
    x, w = rng.standard_normal((1, 64, 24, 24)), rng.standard_normal((64, 64, 3, 3))
    x[0, 5, 9, 14], x[0, 6, 17, 2] = np.inf, np.nan
    context.configure("fusion.fast", "yes")
    y = context.call("conv", context.array("f32", x.astype(np.float32)), context.array("f32", w.astype(np.float32)),
                     stride=(1, 1), padding=(1, 1), groups=1).read()
    bad = ~np.isfinite(y)
    must, may = np.zeros((24, 24), bool), np.zeros((24, 24), bool)
    for line, column in (9, 14), (17, 2):
        must[line - 1:line + 2, column - 1:column + 2] = True
        may[(line - 1) // 4 * 4:(line + 1) // 4 * 4 + 4, (column - 1) // 4 * 4:(column + 1) // 4 * 4 + 4] = True
    report.check(bad[:, :, must].all(), "conv of an infinity and a NaN", "a result is finite")
    report.check(not bad[:, :, ~may].any(), "conv of an infinity and a NaN", "another tile is not")


def check_convolutions(report, context, rng):
    check_conv(report, context, rng, (1, 64, 56, 56), 64, 1, 1)
    check_conv(report, context, rng, (2, 34, 19, 23), 96, 0, 2)
    check_conv(report, context, rng, (1, 64, 10, 10), 48, 1, 1)
    check_conv(report, context, rng, (3, 40, 15, 9), 70, 2, 1)
    check_conv(report, context, rng, (2, 16, 5, 30), 144, 1, 1)
    check_conv(report, context, rng, (1, 32, 2, 40), 48, 1, 1)
    check_conv(report, context, rng, (1, 32, 20, 20), 64, 1, 1, "f16")
    check_spread(report, context, rng)
    context.configure("fusion.fast", "no")


def main():
    report = harness.Report()
    rng = np.random.default_rng(20261121)
    values = [rng.standard_normal(s).astype(np.float16).astype(np.float64) for s in (Q, K, V, (5, 70))]
    values.append(rng.random((3, 1, 70)) < 0.5)
    with fusion.Daemon() as daemon, daemon.open() as context:
        check(report, context, plain, "f32", values, False)
        context.configure("fusion.fast", "yes")
        for write in plain, scaled_queries, divided_scores, hidden_scores, divided_last, keys_across:
            check(report, context, write, "f32", values, True)
        check(report, context, plain, "f16", values, True)
        check(report, context, other_axis, "f32", values, False)
        check(report, context, scaled_mask, "f32", values, False)
        check_look_alikes(report, context, rng)
        check_convolutions(report, context, rng)
        context.configure("fusion.fast", "yes")
        context.configure("fusion.pattern.attention", "no")
        check(report, context, plain, "f32", values, False)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
