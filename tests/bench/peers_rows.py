"""Softmax, layer norm, variance and logsumexp over rows and over columns, on JAX and Inductor.

usage: PYTHON_WITH_THEM peers_rows.py [jax|inductor] ...

Written out as `fusion-bench` writes them, under its names: softmax_4096x1024 over rows, softmax0_4096x1024 over the leading axis.
ONLY, words in the environment, names the workloads; else it is all four, over both axes, of the sizes below: `make bench-rows`
has them beside ours. Best of 1.5 seconds of calls that are waited for, in milliseconds.
"""
import os
import sys

import numpy as np

from timing import best

SIZES = "4096x1024", "4095x1023", "1000x777"


def forms(largest, total, mean, exp, log, sqrt):
    """Functions of an array, a weight and a bias along the axis, and the axis."""
    def softmax(a, w, b, axis):
        e = exp(a - largest(a, axis))
        return e / total(e, axis)

    def layernorm(a, w, b, axis):
        d = a - mean(a, axis)
        return d / sqrt(mean(d * d, axis) + 1e-5) * w + b

    def var(a, w, b, axis):
        d = a - mean(a, axis)
        return mean(d * d, axis)

    def logsumexp(a, w, b, axis):
        k = largest(a, axis)
        return k + log(total(exp(a - k), axis))

    return {f.__name__: f for f in (softmax, layernorm, var, logsumexp)}


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp

        def along(f):
            return lambda a, axis: f(a, axis, keepdims=True)

        self.move = jax.device_put
        self.compile = jax.jit
        self.wait = jax.block_until_ready
        self.forms = forms(along(jnp.max), along(jnp.sum), along(jnp.mean), jnp.exp, jnp.log, jnp.sqrt)


class Inductor:
    def __init__(self):
        import torch

        def along(f):
            return lambda a, axis: f(a, axis, keepdim=True)

        self.move = torch.from_numpy
        self.torch = torch
        self.wait = lambda result: result
        self.forms = forms(along(torch.amax), along(torch.sum), along(torch.mean), torch.exp, torch.log, torch.sqrt)

    def compile(self, f):
        self.torch._dynamo.reset()  # one function is compiled for a few shapes only, and then no more
        return self.torch.compile(f, dynamic=False)


PEERS = {"jax": Jax, "inductor": Inductor}


def milliseconds(peer, workload):
    name, size = workload.split("_")
    axis = 0 if name.endswith("0") else 1
    form = peer.forms[name.rstrip("0")]
    shape = [int(n) for n in size.split("x")]
    along = [n if d == axis else 1 for d, n in enumerate(shape)]
    rng = np.random.default_rng(1)
    inputs = [peer.move(rng.standard_normal(s, dtype=np.float32)) for s in (shape, along, along)]
    run = peer.compile(lambda a, w, b: form(a, w, b, axis))
    return best(lambda: peer.wait(run(*inputs)))


def main():
    every = [f"{name}{axis}_{size}" for size in SIZES for axis in ("", "0")
             for name in ("softmax", "layernorm", "var", "logsumexp")]
    for name in sys.argv[1:] or PEERS:
        peer = PEERS[name]()
        for workload in os.environ.get("ONLY", "").split() or every:
            print(f"{name:9s} {workload:24s} {milliseconds(peer, workload):8.3f} ms", flush=True)


if __name__ == "__main__":
    main()
