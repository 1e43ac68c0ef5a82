"""Small linear layers, 100 before one wait, and batches of tiny products, on NumPy, JAX, PyTorch and Inductor.

usage: PYTHON_WITH_THEM peers_products.py [numpy|jax|torch|inductor] ...

Written out as `fusion-bench --pipelined 100` writes linear_res_relu_32, gelu_linear_64, layernorm_linear_128 and so on, each of the
hundred with an x of its own, and `batched_10000x16`; to be run in the same hour. Microseconds each, of the best of a second of runs.
"""
import sys

import numpy as np

from timing import best

SECONDS = 1.0
PIPELINED = 100
SIZES = 32, 64, 128
BATCHES = (10000, 16), (100000, 4), (20000, 8), (2000, 32)


def microseconds(run):
    return 1e3 * best(run, SECONDS)


def forms(xp, mean):
    def linear_res_relu(x, w, b, r, s):
        return xp.maximum(x @ w + b + r, 0)

    def gelu_linear(x, w, b, r, s):
        return (0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))) @ w + b

    def layernorm_linear(x, w, b, r, s):
        d = x - mean(x)
        return (d / xp.sqrt(mean(d * d) + 1e-5) * s + b) @ w + b

    return linear_res_relu, gelu_linear, layernorm_linear


def inputs(n):
    rng = np.random.default_rng(7)
    shapes = [(n, n), (n,), (n, n), (n,)]
    return [rng.standard_normal((n, n), dtype=np.float32) for _ in range(PIPELINED)], \
        [rng.standard_normal(s, dtype=np.float32) for s in shapes]


class Numpy:
    move = staticmethod(lambda a: a)
    compile = staticmethod(lambda f: f)
    wait = staticmethod(lambda r: None)

    def __init__(self):
        self.forms = forms(np, lambda a: a.mean(-1, keepdims=True))


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp
        self.move = jnp.asarray
        self.compile = jax.jit
        self.wait = jax.block_until_ready
        self.forms = forms(jnp, lambda a: a.mean(-1, keepdims=True))


class Torch:
    def __init__(self, compiled=False):
        import torch

        class Names:
            maximum = staticmethod(lambda a, zero: torch.relu(a))
            tanh, sqrt = torch.tanh, torch.sqrt

        torch.set_grad_enabled(False)
        self.move = torch.from_numpy
        self.compile = torch.compile if compiled else lambda f: f
        self.wait = lambda r: None
        self.forms = forms(Names, lambda a: a.mean(-1, keepdim=True))


PEERS = {"numpy": Numpy, "jax": Jax, "torch": Torch, "inductor": lambda: Torch(True)}


def pipelined(peer, form, n):
    xs, rest = inputs(n)
    xs, rest, f = [peer.move(x) for x in xs], [peer.move(a) for a in rest], peer.compile(form)
    return microseconds(lambda: peer.wait([f(x, *rest) for x in xs])) / PIPELINED


def batched(peer, count, n):
    rng = np.random.default_rng(7)
    a, b = (peer.move(rng.standard_normal((count, n, n), dtype=np.float32)) for _ in range(2))
    f = peer.compile(lambda a, b: a @ b)
    return microseconds(lambda: peer.wait(f(a, b)))


for name in sys.argv[1:] or PEERS:
    peer = PEERS[name]()
    for n in SIZES:
        for form in peer.forms:
            print(f"{name:9s} {form.__name__ + '_' + str(n):24s} {pipelined(peer, form, n):9.2f} us", flush=True)
    for count, n in BATCHES:
        print(f"{name:9s} {f'batched_{count}x{n}':24s} {batched(peer, count, n):9.2f} us", flush=True)
