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
        context.configure("fusion.pattern.attention", "no")
        check(report, context, plain, "f32", values, False)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
