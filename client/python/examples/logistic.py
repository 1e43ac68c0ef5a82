"""Logistic regression by gradient descent: fusion.value_and_grad on one side, the gradient by hand in NumPy on the other."""
import numpy as np

import fusion as fp
from shown import compare

ROWS, FEATURES, STEPS, RATE = 20000, 64, 30, 0.5


def loss(weights, bias, x, y):
    score = x @ weights + bias
    return fp.mean(fp.logaddexp(0.0, score) - y * score)


by_gradient = fp.value_and_grad(loss, argnums=(0, 1))


def trained(x, y, weights, bias):
    for _ in range(STEPS):
        value, (by_weights, by_bias) = by_gradient(weights, bias, x, y)
        weights, bias = weights - RATE * by_weights, bias - RATE * by_bias
    return weights, bias, value


def trained_in_numpy(x, y, weights, bias):
    for _ in range(STEPS):
        score = x @ weights + bias
        value = np.mean(np.logaddexp(0, score) - y * score)
        error = 1 / (1 + np.exp(-score)) - y
        weights, bias = weights - RATE * (x.T @ error / ROWS), bias - RATE * np.mean(error)
    return weights, bias, value


def main():
    random = np.random.default_rng(5)
    x = random.normal(size=(ROWS, FEATURES)).astype(np.float32)
    true = random.normal(size=FEATURES).astype(np.float32)
    y = (x @ true + random.logistic(size=ROWS) > 0).astype(np.float32)
    start = np.zeros(FEATURES, dtype=np.float32), np.float32(0)
    given = fp.asarray(x), fp.asarray(y), fp.zeros(FEATURES, dtype=fp.float32), fp.zeros((), dtype=fp.float32)
    compare(f"{STEPS} steps of logistic regression, {ROWS}x{FEATURES}", lambda: float(trained(*given)[2]),
            lambda: trained_in_numpy(x, y, *start))
    weights, bias, value = trained(*given)
    want, _, _ = trained_in_numpy(x, y, *start)
    assert np.allclose(np.asarray(weights), want, atol=1e-3)
    right = np.mean((x @ np.asarray(weights) + float(bias) > 0) == (y > 0))
    print(f"loss {float(value):.4f}, {100 * right:.1f} % right")


if __name__ == "__main__":
    main()
