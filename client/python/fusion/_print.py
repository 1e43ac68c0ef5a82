"""Arrays as text: values as NumPy shows them, then the type, the shape and the device."""
from . import _core
from ._base import bool as truth

THRESHOLD, EDGE, WIDTH, DIGITS = 1000, 3, 75, 8


def _number(v, kind):
    if kind == "b":
        return str(bool(v))
    if kind != "f" or v != v or abs(v) == float("inf"):
        return str(v)
    word = repr(float(f"{v:.{DIGITS}g}"))
    return word[:-1] if word.endswith(".0") else word


def _corner(x):
    """Of a large array the first and last elements of each axis, as nested lists with ... between."""
    for d, n in enumerate(x.shape):
        if n > 2 * EDGE:
            places = list(range(EDGE)) + list(range(n - EDGE, n))
            x = _core.take(x, _core.from_sequence(x.device.context, places, None), d)
    return x


def values(x, indent):
    cut = x.size > THRESHOLD
    source = _corner(x) if cut else x
    kind = x.dtype.kind
    if x.dtype.kind == "f" and x.dtype.bits < 32:
        source = _core.cast(source, _float32())
    data = source.tolist()
    if not x.ndim:
        return _number(data, kind)
    width = max((len(_number(v, kind)) for v in _leaves(data)), default=0)
    dotted = [cut and n > 2 * EDGE for n in x.shape]
    return _lines(data, kind, width, dotted, indent + " ")


def _float32():
    from ._base import float32
    return float32


def _leaves(data):
    for v in data:
        if isinstance(v, list):
            yield from _leaves(v)
        else:
            yield v


def _lines(data, kind, width, dotted, indent):
    if data and isinstance(data[0], list):
        parts = [_lines(v, kind, width, dotted[1:], indent + " ") for v in data]
        if dotted[0]:
            parts.insert(EDGE, "...")
        blank = "\n" * (_depth(data) - 1)
        return "[" + (blank + indent).join(parts) + "]" if parts else "[]"
    words = [_number(v, kind).rjust(width) for v in data]
    if dotted and dotted[0]:
        words.insert(EDGE, "...")
    lines, line = [], ""
    for word in words:
        if line and len(indent) + len(line) + len(word) + 1 > WIDTH:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    lines.append(line)
    return "[" + ("\n" + indent).join(lines) + "]"


def _depth(data):
    depth = 0
    while isinstance(data, list):
        depth, data = depth + 1, data[0] if data else None
    return depth


def text(x):
    body = values(x, " " * len("fusion.array"))
    return f"fusion.array({_commas(body)}, dtype={x.dtype}, shape={x.shape}, device={x.device.name!r})"


def _commas(body):
    """Commas between the words and lines of the values."""
    out = []
    for i, c in enumerate(body):
        if c in " \n" and i and body[i - 1] not in " \n[" and body[i:].lstrip(" \n")[:1] not in ("]", ""):
            out.append(",")
        out.append(c)
    return "".join(out)
