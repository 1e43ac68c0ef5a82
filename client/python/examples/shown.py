"""What the examples share: times with fusion, without and in NumPy, pictures as PNG, and a photograph."""
import os
import struct
import sys
import time
import zlib

import numpy

import fusion


def best(work, times=5):
    """The shortest of some runs, in milliseconds; the first, in which kernels are built, does not count."""
    work()
    durations = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        durations.append(time.perf_counter() - begin)
    return 1000 * min(durations)


def compare(name, on_fusion, on_numpy):
    """Prints the times of one piece of work. Both functions return when their result is there."""
    together = best(on_fusion)
    with fusion.config(enabled=False):
        apart = best(on_fusion)
    alone = best(on_numpy)
    print(f"{name}: {together:.1f} ms fused, {apart:.1f} ms unfused, {alone:.1f} ms in NumPy")


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
