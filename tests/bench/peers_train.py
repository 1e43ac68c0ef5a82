"""Training steps of a network 64-256-256-10 on batches of 256, on JAX (jit) and PyTorch (eager and compiled).

usage: PYTHON_WITH_THEM peers_train.py [jax|torch|inductor] ...

The same as `fusion-bench train_mlp`: cross entropy, SGD with momentum. STEPS steps follow each other, the last is waited for;
milliseconds a step, the best of 1.5 seconds.
"""
import sys

import numpy as np

from timing import best

WIDTHS, BATCH, STEPS, RATE, MOMENTUM = (64, 256, 256, 10), 256, 50, 0.05, 0.9


def data():
    rng = np.random.default_rng(1)
    image = rng.normal(size=(BATCH, WIDTHS[0])).astype("f4")
    weights = [(rng.normal(size=shape) * 0.0625).astype("f4") for shape in zip(WIDTHS, WIDTHS[1:])]
    return image, np.arange(BATCH) % WIDTHS[-1], weights


def time_jax():
    import jax
    import jax.numpy as jnp
    image, label, weights = data()
    image, label = jnp.asarray(image), jnp.asarray(label)
    state = [(jnp.asarray(w), jnp.zeros(w.shape[1], "f4")) for w in weights]
    velocity = jax.tree.map(jnp.zeros_like, state)

    def loss_of(state):
        x = image
        for i, (w, b) in enumerate(state):
            x = x @ w + b
            x = jax.nn.relu(x) if i + 1 < len(state) else x
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], 1))

    @jax.jit
    def step(state, velocity):
        loss, slope = jax.value_and_grad(loss_of)(state)
        velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, slope)
        return jax.tree.map(lambda p, v: p - RATE * v, state, velocity), velocity, loss

    def steps():
        nonlocal state, velocity
        for _ in range(STEPS):
            state, velocity, loss = step(state, velocity)
        float(loss)
    return best(steps) / STEPS


def time_torch(compiled=False):
    import torch
    import torch.nn.functional as F
    image, label, weights = data()
    image, label = torch.from_numpy(image), torch.from_numpy(label)
    state = [torch.from_numpy(a).requires_grad_() for w in weights for a in (w, np.zeros(w.shape[1], "f4"))]
    optimiser = torch.optim.SGD(state, RATE, MOMENTUM)

    def loss_of():
        x = F.relu(torch.addmm(state[1], image, state[0]))
        x = F.relu(torch.addmm(state[3], x, state[2]))
        return F.cross_entropy(torch.addmm(state[5], x, state[4]), label)

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def steps():
        for _ in range(STEPS):
            optimiser.zero_grad()
            loss = loss_of()
            loss.backward()
            optimiser.step()
        loss.item()
    return best(steps) / STEPS


PEERS = {"jax": time_jax, "torch": time_torch, "inductor": lambda: time_torch(True)}


def main():
    for name in sys.argv[1:] or PEERS:
        print(f"{name} train_mlp {PEERS[name]():.4f} ms", flush=True)


if __name__ == "__main__":
    main()
