"""The Mandelbrot set: 60 steps for each place, as one kernel. Writes mandelbrot.png."""
import numpy as np

import fusion as fp
from shown import compare, save

WIDTH, HEIGHT, STEPS = 960, 640, 60


def escape(lib, a, b):
    """How many steps each place stays near."""
    x, y = a * 0 + b * 0, a * 0 + b * 0
    count = x
    for _ in range(STEPS):
        x, y = x * x - y * y + a, 2 * x * y + b
        near = x * x + y * y < 4
        count = count + near.astype(lib.float32)
        # What has left stays where it is, and finite.
        x, y = lib.clip(x, -4, 4), lib.clip(y, -4, 4)
    return count


def coloured(count):
    t = np.asarray(count)[:, :, None] / STEPS
    return np.where(t == 1, 0, np.clip(np.concatenate([9 * (1 - t) * t**3, 15 * (1 - t)**2 * t**2, 8.5 * (1 - t)**3 * t], axis=2) * 1.6, 0, 1))


def main():
    a = np.linspace(-2.2, 1.0, WIDTH, dtype=np.float32)[None, :]
    b = np.linspace(-1.07, 1.07, HEIGHT, dtype=np.float32)[:, None]
    c, d = fp.asarray(a), fp.asarray(b)
    compare(f"Mandelbrot {WIDTH}x{HEIGHT}, {STEPS} steps", lambda: escape(fp, c, d).wait(), lambda: escape(np, a, b))
    count = escape(fp, c, d)
    assert np.mean(np.asarray(count) == escape(np, a, b)) > 0.99
    save("mandelbrot.png", coloured(count))


if __name__ == "__main__":
    main()
