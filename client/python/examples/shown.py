"""What the examples share: times with fusion, without and in NumPy, pictures as PNG, and a photograph."""
import os
import struct
import sys
import time
import zlib

import numpy

import fusion


RUNS = 9
# The kernels of an example take seconds to build; where others keep the daemon building, times are taken all the same.
SETTLE_SECONDS = 60


def milliseconds(work):
    begin = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begin)


def _building():
    """Kernels that the daemon has not built yet: bytecode and generic kernels stand in for them meanwhile."""
    return [b for b in fusion.stats(whole_daemon=True)["device"]["builds"] if b["kernel"] != "interpreter"]


def first_and_settled(work):
    """The time of the first call; returns when later ones run by kernels of their own."""
    first = milliseconds(work)
    limit = time.monotonic() + SETTLE_SECONDS
    work()
    while _building() and time.monotonic() < limit:
        time.sleep(0.1)
        work()
    return first


def compare(name, on_fusion, on_numpy):
    """Prints the times of one piece of work: the first call of this program, then the best and the median of calls in turns with
    fusion, without, and in NumPy. Both functions return when their result is there."""
    def unfused():
        with fusion.config(enabled=False):
            on_fusion()
    first = first_and_settled(on_fusion)
    first_and_settled(unfused)
    ways = {"fused": on_fusion, "unfused": unfused, "in NumPy": on_numpy}
    times = {way: [] for way in ways}
    for _ in range(RUNS):
        for way, work in ways.items():
            times[way].append(milliseconds(work))
    print(f"{name}: " + ", ".join(f"{min(t):.1f} ms {way} (median {sorted(t)[RUNS // 2]:.1f})" for way, t in times.items())
          + f"; the first call took {first:.0f} ms")


def save(name, picture):
    """An array of rows, or rows of red, green and blue, from 0 to 1, as a PNG file."""
    picture = numpy.clip(numpy.asarray(picture) * 255 + 0.5, 0, 255).astype(numpy.uint8)
    height, width = picture.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in picture)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2 if picture.ndim == 3 else 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b""))
    print(f"wrote {name}")


def photograph():
    """A photograph as rows of red, green and blue: the file that is named, else one that comes with scikit-image or matplotlib."""
    if len(sys.argv) > 1:
        from PIL import Image
        return numpy.asarray(Image.open(sys.argv[1]).convert("RGB"))
    try:
        from skimage import data
        return data.astronaut()
    except ImportError:
        pass
    try:
        import matplotlib
        from PIL import Image
        return numpy.asarray(Image.open(os.path.join(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")).convert("RGB"))
    except ImportError:
        sys.exit("name a photograph, or install scikit-image: it brings one")
