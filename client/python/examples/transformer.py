"""A block of a transformer: norm, attention of several heads, norm, two layers with gelu, on 256 tokens of width 256."""
import math

import numpy as np

import fusion as fp
from shown import compare

TOKENS, WIDTH, HEADS = 256, 256, 8


def heads(lib, x):
    return lib.permute_dims(lib.reshape(x, (TOKENS, HEADS, WIDTH // HEADS)), (1, 0, 2))


def block(x, w):
    n = fp.nn.layer_norm(x, axes=1)
    q, k, v = (heads(fp, n @ w[name]) for name in ("q", "k", "v"))
    a = fp.reshape(fp.permute_dims(fp.nn.attention(q, k, v, causal=True), (1, 0, 2)), (TOKENS, WIDTH))
    x = x + a @ w["out"]
    return x + fp.gelu_tanh(fp.nn.layer_norm(x, axes=1) @ w["up"]) @ w["down"]


def norm(x):
    d = x - x.mean(axis=1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


def block_in_numpy(x, w):
    n = norm(x)
    q, k, v = (n @ w[name] for name in ("q", "k", "v"))
    q, k, v = (np.transpose(a.reshape(TOKENS, HEADS, WIDTH // HEADS), (1, 0, 2)) for a in (q, k, v))
    s = q @ np.swapaxes(k, 1, 2) / np.float32(math.sqrt(WIDTH // HEADS))
    s = np.where(np.tril(np.ones((TOKENS, TOKENS), dtype=bool)), s, -np.inf)
    e = np.exp(s - s.max(axis=2, keepdims=True))
    a = np.transpose(e / e.sum(axis=2, keepdims=True) @ v, (1, 0, 2)).reshape(TOKENS, WIDTH)
    x = x + a @ w["out"]
    h = norm(x) @ w["up"]
    return x + 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))) @ w["down"]


def main():
    random = np.random.default_rng(11)
    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    weights = {name: (random.normal(size=shape) / math.sqrt(shape[0])).astype(np.float32) for name, shape in shapes.items()}
    x = random.normal(size=(TOKENS, WIDTH)).astype(np.float32)
    given, theirs = fp.asarray(x), {name: fp.asarray(w) for name, w in weights.items()}
    compare(f"a transformer block, {TOKENS} tokens of {WIDTH}", lambda: block(given, theirs).wait(), lambda: block_in_numpy(x, weights))
    worst = np.abs(np.asarray(block(given, theirs)) - block_in_numpy(x, weights)).max()
    assert worst < 1e-3
    print(f"largest difference from NumPy: {worst:.1e}")


if __name__ == "__main__":
    main()
