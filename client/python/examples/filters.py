"""Filters on a photograph: warmer colours, more contrast, a vignette, blur, sharpening, edges. Writes before.png, after.png, edges.png."""
import numpy as np

import fusion as fp
from shown import compare, photograph, save


def blurred(lib, x, radius):
    """A box of 2 radius + 1, along both axes; the border is repeated."""
    for axis in (0, 1):
        n = x.shape[axis]
        total = None
        for shift in range(-radius, radius + 1):
            places = lib.clip(lib.arange(n) + shift, 0, n - 1)
            part = lib.take(x, places, axis=axis)
            total = part if total is None else total + part
        x = total / (2 * radius + 1)
    return x


def filtered(lib, photo, warmth, row, column):
    x = photo.astype(lib.float32) / 255
    x = x * warmth
    x = 1 / (1 + lib.exp(-8 * (x - 0.5)))
    x = x + 0.8 * (x - blurred(lib, x, 2))
    far = lib.sqrt(row * row + column * column)
    x = x * (1 - 0.5 * lib.clip(far - 0.6, 0, 1))[:, :, None]
    return lib.clip(x, 0, 1)


def edges(lib, photo):
    grey = lib.mean(photo.astype(lib.float32) / 255, axis=2)
    across, down = grey[1:-1, 2:] - grey[1:-1, :-2], grey[2:, 1:-1] - grey[:-2, 1:-1]
    return lib.clip(1 - 3 * lib.sqrt(across * across + down * down), 0, 1)


def coordinates(height, width):
    return (np.linspace(-1, 1, height, dtype=np.float32)[:, None], np.linspace(-1, 1, width, dtype=np.float32)[None, :])


def main():
    photo = photograph()
    warmth = np.array([1.1, 1.0, 0.85], dtype=np.float32)
    row, column = coordinates(*photo.shape[:2])
    given = [fp.asarray(a) for a in (photo, warmth, row, column)]
    compare(f"filters on {photo.shape[1]}x{photo.shape[0]}", lambda: filtered(fp, *given).wait(),
            lambda: filtered(np, photo, warmth, row, column))
    compare("edges", lambda: edges(fp, given[0]).wait(), lambda: edges(np, photo))
    after, outline = filtered(fp, *given), edges(fp, given[0])
    assert np.allclose(np.asarray(after), filtered(np, photo, warmth, row, column), atol=1e-4)
    assert np.allclose(np.asarray(outline), edges(np, photo), atol=1e-4)
    save("before.png", photo / 255)
    save("after.png", after)
    save("edges.png", outline)


if __name__ == "__main__":
    main()
