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
        context.configure("fusion.pattern.attention", "no")
        check(report, context, plain, "f32", values, False)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
