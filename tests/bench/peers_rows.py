"""Softmax, variance, logsumexp and a norm without weights, over rows and over columns of 4096x1024, on JAX and Inductor.

usage: PYTHON_WITH_THEM peers_rows.py

Written out as `fusion-bench` writes softmax_4096x1024, softmax0_4096x1024 and so on, to be run in the same hour. Best of 1.5
seconds of calls that are waited for, in milliseconds.
"""
import time

import numpy as np

SECONDS = 1.5


def best(call):
    call()
    call()
    least, end = 1e9, time.time() + SECONDS
    while time.time() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return 1e3 * least


def forms(largest, total, mean, exp, log, sqrt):
    def softmax(a, axis):
        e = exp(a - largest(a, axis))
        return e / total(e, axis)

    def var(a, axis):
        d = a - mean(a, axis)
        return mean(d * d, axis)

    def logsumexp(a, axis):
        k = largest(a, axis)
        return k + log(total(exp(a - k), axis))

    def layernorm(a, axis):
        d = a - mean(a, axis)
        return d / sqrt(mean(d * d, axis) + 1e-5)

    return softmax, var, logsumexp, layernorm


def jax_times(x):
    import jax
    import jax.numpy as jnp

    def along(f):
        return lambda a, axis: f(a, axis, keepdims=True)

    x = jax.device_put(x)
    for form in forms(along(jnp.max), along(jnp.sum), along(jnp.mean), jnp.exp, jnp.log, jnp.sqrt):
        for axis in 1, 0:
            run = jax.jit(lambda a, form=form, axis=axis: form(a, axis))
            yield form.__name__, axis, best(lambda run=run: run(x).block_until_ready())


def inductor_times(x):
    import torch

    def along(f):
        return lambda a, axis: f(a, axis, keepdim=True)

    x = torch.from_numpy(x)
    for form in forms(along(torch.amax), along(torch.sum), along(torch.mean), torch.exp, torch.log, torch.sqrt):
        for axis in 1, 0:
            run = torch.compile(lambda a, form=form, axis=axis: form(a, axis))
            yield form.__name__, axis, best(lambda run=run: run(x))


def main():
    x = np.random.default_rng(1).standard_normal((4096, 1024), dtype=np.float32)
    for peer, times in ("jax", jax_times), ("inductor", inductor_times):
        for name, axis, ms in times(x):
            print(f"{peer:9s} {name + ('' if axis else '0') + '_4096x1024':24s} {ms:8.3f} ms", flush=True)


if __name__ == "__main__":
    main()
