"""fusion_sgd(), fusion_adam() and fusion_adamw() against NumPy, fused against unfused, and in how many launches they run.

The rules are PyTorch's, written from its documentation and computed by NumPy in the type that the daemon computes in (f32 of
f16). Parameters of many shapes are updated for some steps, in place and into new arrays; both, fused and not, have the same bits.
"""
import json
import sys

import numpy as np

import fusion
import harness

SHAPES = (64, 31), (31,), (3, 5, 7), (1000,), (2, 0), (1,), ()
STEPS = 4
WIDE = {"f16": np.float32, "f32": np.float32, "f64": np.float64}
STORED = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
# Of the largest parameter. f16 is rounded at every step, and a last bit of f32 may decide where to.
TOLERANCE = {"f16": 2e-3, "f32": 2e-6, "f64": 1e-13}
# rule: rate, momentum, decay; rate, beta1, beta2, eps, decay
RULES = (("sgd", (0.1, 0, 0)), ("sgd", (0.1, 0.9, 0)), ("sgd", (0.05, 0.5, 0.01)), ("adam", (0.01, 0.9, 0.99, 1e-8, 0)),
         ("adam", (0.01, 0.8, 0.999, 1e-6, 0.1)), ("adamw", (0.01, 0.9, 0.99, 1e-8, 0)), ("adamw", (0.02, 0.8, 0.999, 1e-6, 0.1)))


def parts_of(rule, options):
    return 3 if rule != "sgd" else 2 if options[1] else 1


def sgd(p, g, state, options, t):
    rate, momentum, decay = options
    g = g + decay * p
    if momentum:
        state[0] = g = momentum * state[0] + g
    return p - rate * g


def adam(p, g, state, options, t, decoupled=False):
    rate, beta1, beta2, eps, decay = options
    if decoupled:
        p = p - rate * decay * p
    else:
        g = g + decay * p
    state[0] = beta1 * state[0] + (1 - beta1) * g
    state[1] = beta2 * state[1] + (1 - beta2) * g * g
    root = np.sqrt(state[1]) / np.sqrt(1 - beta2 ** t) + eps
    return p - rate / (1 - beta1 ** t) * state[0] / root


RULE = {"sgd": sgd, "adam": adam, "adamw": lambda *a: adam(*a, decoupled=True)}


def expected(rule, options, dtype, parameters, gradients):
    """Parameters after all steps."""
    wide, stored, results = WIDE[dtype], STORED[dtype], []
    for i, p in enumerate(parameters):
        state = [np.zeros(p.shape, stored) for _ in range(2)]
        for t in range(1, STEPS + 1):
            state = [s.astype(wide) for s in state]
            p = RULE[rule](p.astype(wide), gradients[t - 1][i].astype(wide), state, options, t)
            p, state = np.asarray(p).astype(stored), [np.asarray(s).astype(stored) for s in state]
        results.append(p)
    return results


def launches(context):
    return json.loads(context.stats(True))["device"]["launches"]


def run(context, rule, options, dtype, parameters, gradients, new):
    """Parameters after all steps, and the launches of the last one."""
    bits = {"f16": np.uint16}.get(dtype, STORED[dtype])
    arrays = lambda values: [context.array(dtype, v.view(bits)) for v in values]
    zeros = [np.zeros(p.shape, STORED[dtype]) for p in parameters]
    parts = [arrays(parameters)] + [arrays(zeros) for _ in range(parts_of(rule, options) - 1)]
    step = None if rule == "sgd" else context.full("f32", (), 0)
    for g in gradients:
        given = arrays(g)
        context.sync()
        before = launches(context)
        made = context.update(rule, parts, given, options, step, new)
        if new:
            step = made.pop() if step else None
            parts = [made[i:i + len(parameters)] for i in range(0, len(made), len(parameters))]
        context.sync()
        took = launches(context) - before
    return [np.asarray(p.read()).view(STORED[dtype]) for p in parts[0]], took


def check(report, daemon, rule, options, dtype, rng):
    name = f"{rule} {options} {dtype}"
    random = lambda: [rng.standard_normal(s).astype(STORED[dtype]).reshape(s) for s in SHAPES]
    parameters, gradients, forms = random(), [random() for _ in range(STEPS)], []
    for fused in True, False:
        with daemon.open(fusion=fused) as context:
            forms += [run(context, rule, options, dtype, parameters, gradients, new) for new in (False, True)]
    want = expected(rule, options, dtype, parameters, gradients)
    for got, w, shape in zip(forms[0][0], want, SHAPES):
        error = float(np.max(np.abs(got.astype(float) - w.astype(float)), initial=0))
        report.check(got.shape == w.shape and error <= TOLERANCE[dtype] * max(1, float(np.max(np.abs(w), initial=0))),
                     f"{name} {shape}", f"off by {error}")
    for values, _ in forms[1:]:
        report.check(all(a.tobytes() == b.tobytes() for a, b in zip(values, forms[0][0])), name, "other bits in another form")
    for _, took in forms[:2]:
        report.check(took == LAUNCHES[rule], name, f"a step takes {took} launches")


# One launch for all parameters, but that those of one element have a program of their own; steps of adam also count, in a
# kernel of one element before all others.
LAUNCHES = {"sgd": 2, "adam": 3, "adamw": 3}


def main():
    report, rng = harness.Report(), np.random.default_rng(20261122)
    with fusion.Daemon() as daemon:
        for rule, options in RULES:
            check(report, daemon, rule, options, "f32", rng)
        for dtype in "f16", "f64":
            for rule, options in harness.rotated(RULES):
                check(report, daemon, rule, options, dtype, rng)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
