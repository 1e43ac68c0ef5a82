"""conv_bn_relu, conv_stem and conv_depthwise of fusion-bench, and the gradients of the first, on JAX, PyTorch and Inductor.

usage: PYTHON_WITH_THEM peers_conv.py [jax|torch|inductor] ...

Written out as tests/bench/workload.c writes them, to be run in the same hour as `fusion-bench`; SIZES names others
(conv_bn_relu_64x56,conv_stem_3x224). Best of 1.5 seconds of calls that are waited for, in milliseconds.
"""
import os
import sys

import numpy as np

from timing import best

STEM_FILTERS = 64
DEFAULT = "conv_bn_relu_64x56,conv_bn_relu_512x7,conv_stem_3x224,conv_depthwise_128x56"
EPS = 1e-5


def form(name):
    """filters, taps, stride, groups, and the inputs' shapes"""
    kind, size = name.rsplit("_", 1)
    channels, wide = map(int, size.split("x"))
    filters, taps, stride, groups = {"conv_stem": (STEM_FILTERS, 7, 2, 1), "conv_depthwise": (channels, 3, 1, channels)}.get(
        kind, (channels, 3, 1, 1))
    return (taps // 2, stride, groups), [(1, channels, wide, wide), (filters, channels // groups, taps, taps)] + [(filters,)] * 4


def forward(conv, relu, sqrt):
    def f(x, k, w, b, mean, var):
        r = lambda t: t.reshape(1, -1, 1, 1)
        return relu((conv(x, k) - r(mean)) / sqrt(r(abs(var)) + 1 + EPS) * r(w) + r(b))

    return f


def jax_times(name, arrays, shape):
    import jax
    import jax.numpy as jnp

    border, stride, groups = shape
    arrays = [jax.device_put(a) for a in arrays]
    conv = lambda x, k: jax.lax.conv_general_dilated(x, k, (stride, stride), [(border, border)] * 2, feature_group_count=groups)
    run = jax.jit(forward(conv, lambda y: jnp.maximum(y, 0), jnp.sqrt))
    yield name, best(lambda: run(*arrays).block_until_ready())
    y, back = jax.vjp(conv, *arrays[:2])
    for i, what in enumerate(("input", "weight")):
        grad = jax.jit(lambda g, x, k, i=i: jax.vjp(conv, x, k)[1](g)[i])
        yield f"{name} {what}_grad", best(lambda grad=grad: grad(y, *arrays[:2]).block_until_ready())


def torch_times(name, arrays, shape, compiled):
    import torch

    border, stride, groups = shape
    arrays = [torch.from_numpy(a) for a in arrays]
    torch.set_grad_enabled(False)
    conv = lambda x, k: torch.nn.functional.conv2d(x, k, None, stride, border, 1, groups)
    wrap = torch.compile if compiled else lambda f: f
    run = wrap(forward(conv, torch.relu, torch.sqrt))
    yield name, best(lambda: run(*arrays))
    x, k, y = arrays[0], arrays[1], conv(*arrays[:2])
    of = {"input": lambda g: torch.nn.grad.conv2d_input(x.shape, k, g, stride, border, 1, groups),
          "weight": lambda g: torch.nn.grad.conv2d_weight(x, k.shape, g, stride, border, 1, groups)}
    for what, f in of.items():
        grad = wrap(f)
        yield f"{name} {what}_grad", best(lambda grad=grad: grad(y))


PEERS = {"jax": jax_times, "torch": lambda *a: torch_times(*a, False), "inductor": lambda *a: torch_times(*a, True)}


def main():
    rng = np.random.default_rng(1)
    for peer in sys.argv[1:] or PEERS:
        for name in os.environ.get("SIZES", DEFAULT).split(","):
            shape, shapes = form(name)
            arrays = [rng.standard_normal(s, dtype=np.float32) for s in shapes]
            for what, ms in PEERS[peer](name, arrays, shape):
                print(f"{peer:9s} {what:40s} {ms:8.3f} ms", flush=True)


if __name__ == "__main__":
    main()
