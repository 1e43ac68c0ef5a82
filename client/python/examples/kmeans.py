"""k-means: 50,000 points around 8 centres, which are found again."""
import numpy as np

import fusion as fp
from shown import compare

POINTS, CENTRES, DIMENSIONS, STEPS = 50000, 8, 4, 10


def step(lib, points, centres):
    distance = lib.sum(points * points, axis=1)[:, None] - 2 * (points @ centres.T) + lib.sum(centres * centres, axis=1)[None, :]
    nearest = lib.argmin(distance, axis=1)
    mine = (nearest[:, None] == lib.arange(CENTRES)[None, :]).astype(lib.float32)
    count = lib.sum(mine, axis=0)
    return (mine.T @ points) / lib.clip(count, 1, None)[:, None]


def clustered(lib, points, centres):
    for _ in range(STEPS):
        centres = step(lib, points, centres)
    return centres


def main():
    random = np.random.default_rng(3)
    true = random.normal(size=(CENTRES, DIMENSIONS)).astype(np.float32) * 8
    points = (true[random.integers(0, CENTRES, POINTS)] + random.normal(size=(POINTS, DIMENSIONS))).astype(np.float32)
    begin = true + random.normal(size=true.shape).astype(np.float32)
    x, c = fp.asarray(points), fp.asarray(begin)
    compare(f"{STEPS} steps of k-means, {POINTS} points", lambda: clustered(fp, x, c).wait(), lambda: clustered(np, points, begin))
    found = np.asarray(clustered(fp, x, c))
    assert np.allclose(found, clustered(np, points, begin), atol=1e-2)
    print("farthest centre from where it was put:", round(float(np.max(np.linalg.norm(found - true, axis=1))), 3))


if __name__ == "__main__":
    main()
