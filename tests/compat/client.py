"""A program of `import fusion` that a release leaves to later ones: they run it with its wheel against their daemon, and with their package
against its daemon (tests/e2e/compat.sh). It asks for results that no release may change."""
import threading

import fusion as xp

PASSED = FAILED = 0


def claim(name, holds):
    global PASSED, FAILED
    PASSED += bool(holds)
    FAILED += not holds
    if not holds:
        print("FAIL", name)


x = xp.reshape(xp.arange(24, dtype=xp.float32), (6, 4))
claim("elementwise", (x * 2 + 1)[5, 3] == 47)
claim("reductions", xp.sum(x, axis=0).tolist() == [60, 66, 72, 78])
claim("products", (x.mT @ x).tolist()[0] == [880, 940, 1000, 1060])
claim("composites", abs(float(xp.sum(xp.nn.softmax(x, axes=1))) - 6) < 1e-5)
claim("views", x[1:, ::2].tolist() == [[4, 6], [8, 10], [12, 14], [16, 18], [20, 22]])
y = x + 0
y[0, :] = 7
claim("assignments", y.tolist()[0] == [7, 7, 7, 7] and x.tolist()[0] == [0, 1, 2, 3])
claim("sorts", xp.argsort(xp.asarray([3, 1, 2])).tolist() == [1, 2, 0])
for dtype in (xp.bool, xp.int8, xp.uint8, xp.int16, xp.uint16, xp.int32, xp.uint32, xp.int64, xp.uint64, xp.float32):
    claim(str(dtype), xp.astype(xp.asarray([0, 1], dtype=dtype), xp.float32).tolist() == [0, 1])
claim("bytes", memoryview(x).shape == (6, 4) and bytes(memoryview(xp.asarray([1, 2], dtype=xp.uint8))) == b"\1\2")
claim("gradients", xp.grad(lambda w: xp.sum(w * w))(xp.asarray([1.0, 2.0], dtype=xp.float32)).tolist() == [2, 4])
claim("recorded functions", xp.jit(lambda a: a * 3 + 1)(x)[1, 0] == 13)
try:
    xp.ones((2, 3)) + xp.ones(4)
    claim("errors", False)
except xp.ShapeError as e:
    claim("errors", "client.py:" in str(e))
results = []
threads = [threading.Thread(target=lambda n=n: results.append(float(xp.sum(x + n)) == 276 + 24 * n)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
claim("threads", results == [True] * 4)
print(f"{PASSED} passed, {FAILED} failed")
raise SystemExit(FAILED > 0)
