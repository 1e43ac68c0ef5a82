"""PageRank of 20,000 pages with 200,000 links, as gathers and scatters."""
import numpy as np

import fusion as fp
from shown import compare

PAGES, LINKS, STEPS, DAMPING = 20000, 200000, 20, 0.85


def ranked(rank, source, target, out):
    for _ in range(STEPS):
        share = fp.take(rank / out, source)
        rank = (1 - DAMPING) / PAGES + DAMPING * fp.add_at(fp.zeros_like(rank), target, share)
    return rank


def ranked_in_numpy(rank, source, target, out):
    for _ in range(STEPS):
        rank = (1 - DAMPING) / PAGES + DAMPING * np.bincount(target, (rank / out)[source], PAGES)
    return rank


def main():
    random = np.random.default_rng(7)
    source = np.concatenate([np.arange(PAGES), random.integers(0, PAGES, LINKS - PAGES)])
    target = (PAGES * random.random(LINKS) ** 3).astype(np.int64)
    out, rank = np.bincount(source, minlength=PAGES).astype(np.float64), np.full(PAGES, 1 / PAGES)
    given = [fp.asarray(a) for a in (rank, source, target, out)]
    compare(f"{STEPS} steps of PageRank, {PAGES} pages, {LINKS} links", lambda: ranked(*given).wait(),
            lambda: ranked_in_numpy(rank, source, target, out))
    found = np.asarray(ranked(*given))
    assert np.allclose(found, ranked_in_numpy(rank, source, target, out), rtol=1e-9)
    print("first pages:", np.argsort(-found)[:5].tolist(), "sum of ranks:", round(float(found.sum()), 6))


if __name__ == "__main__":
    main()
