"""Which arrays share memory, as NumPy has it: x[1:], x.T and x.reshape() are views, and writing to one of a family is seen
in all of it.

Values of libfusion never change, so a view is a value of its own, made by operations from the array it is a view of. A write
gives the written array a new value, and then each other live member of the family one: the base by putting the
part back into its place, views by the steps that lead to them from the base. All of it is recorded, not run.

The family does not keep its members alive: a base that nobody holds any more is never stored because of its views. Where it
is gone, views that overlap are told of writes by what the steps do to a mask of the written places.
"""
import weakref

from . import _core


class Family:
    __slots__ = ("base", "shape", "views")

    def __init__(self, base):
        self.base, self.shape = weakref.ref(base), base.shape
        self.views = {}         # by id: a reference, and the steps that lead from the base

    def add(self, view, steps):
        views, key = self.views, id(view)
        views[key] = weakref.ref(view, lambda _: views.pop(key, None)), steps

    def steps(self, member):
        entry = self.views.get(id(member))
        return entry[1] if entry else ()


def view(base, made, step):
    """`made` is what the step gives of base: from here on they share memory."""
    family = base._family
    if family is None:
        family = base._family = Family(base)
        steps = (step,)
    else:
        steps = family.steps(base) + (step,)
    made._family = family
    family.add(made, steps)
    return made


def _strides(member):
    """The shape of a member, and how far apart in the base its elements are along each axis, as NumPy counts: a base is row-major."""
    family = member._family
    shape, strides = family.shape, _row_major(family.shape)
    for step in family.steps(member):
        shape, strides = step.strides(shape, strides)
    return shape, strides


def _row_major(shape):
    out, weight = [], 1
    for n in reversed(shape):
        out.append(weight)
        weight *= n
    return tuple(out[::-1])


def _restrided(shape, strides, to):
    """The strides of the same memory under another shape; None: there are none, so NumPy copies."""
    if 0 in shape:
        return _row_major(to)
    old = [(n, s) for n, s in zip(shape, strides) if n != 1]
    out, at = [], 0
    left = 1            # how often an axis of `to` fits into what the axes before `at` have left
    for n in to:
        if n == 1:
            out.append(0)
            continue
        if left == 1:
            left, stride = old[at]
            at += 1
        while left % n:
            if at == len(old) or stride != old[at][0] * old[at][1]:
                return None
            left, stride = left * old[at][0], old[at][1]
            at += 1
        left //= n
        out.append(stride * left)
    return tuple(out)


def is_view(member, shape):
    """Has the array under another shape the same memory in NumPy?"""
    return member._family is None or _restrided(*_strides(member), shape) is not None


def is_row_major(member):
    """Do its elements lie side by side?"""
    if member._family is None:
        return True
    shape, strides = _strides(member)
    return 0 in shape or all(n == 1 or s == w for n, s, w in zip(shape, strides, _row_major(shape)))


def _walk(value, steps):
    for step in steps:
        value = step.apply(value)
    return value


def _put(whole, steps, part):
    """`whole` with the part that the steps lead to replaced."""
    if not steps:
        return part
    inner = steps[0].apply(whole)
    return steps[0].put(whole, _put(inner, steps[1:], part))


def write(member, value):
    """New contents, of the member's own shape and type."""
    family = member._family
    member._writable()
    if family is None:
        member._set(value)
        return
    base, steps = family.base(), family.steps(member)
    # What the others become is recorded before anything changes, so that an error changes nothing.
    if base is not None:
        whole = _put(_core.same(base), steps, value) if steps else value
        new = [(v, _walk(whole, s)) for v, s in _others(family, member)]
        if base is not member:
            new.append((base, whole))
    else:
        new = list(_without_base(family, member, steps, value))
    for array, _ in new:
        array._writable()
    member._set(value)
    for array, contents in new:
        array._set(contents)


def _others(family, member):
    for ref, steps in list(family.views.values()):
        array = ref()
        if array is not None and array is not member:
            yield array, steps


def _without_base(family, member, steps, value):
    others = list(_others(family, member))
    if not others:
        return
    from . import zeros, bool as truth, ones
    device = member.device
    mask = _put(zeros(family.shape, dtype=truth, device=device), steps, ones(value.shape, dtype=truth, device=device))
    whole = _put(zeros(family.shape, dtype=value.dtype, device=device), steps, value)
    for array, path in others:
        yield array, _core.where(_walk(mask, path), _walk(whole, path), array)


class Reshape:
    __slots__ = ("shape",)

    def __init__(self, shape):
        self.shape = shape

    def strides(self, shape, strides):
        return self.shape, _restrided(shape, strides, self.shape)

    def apply(self, value):
        return _core.reshape(value, self.shape)

    def put(self, whole, part):
        return _core.reshape(part, whole.shape)


class Permute:
    __slots__ = ("axes",)

    def __init__(self, axes):
        self.axes = axes

    def strides(self, shape, strides):
        return tuple(shape[a] for a in self.axes), tuple(strides[a] for a in self.axes)

    def apply(self, value):
        return _core.permute(value, self.axes)

    def put(self, whole, part):
        inverse = [0] * len(self.axes)
        for i, axis in enumerate(self.axes):
            inverse[axis] = i
        return _core.permute(part, inverse)


class Broadcast:
    """Repeated along axes: for reading alone, since an element stands at several places."""
    __slots__ = ("shape",)

    def __init__(self, shape):
        self.shape = shape

    def strides(self, shape, strides):
        new = len(self.shape) - len(shape)
        kept = tuple(0 if n != m else s for n, m, s in zip(self.shape[new:], shape, strides))
        return self.shape, (0,) * new + kept

    def apply(self, value):
        return _core.broadcast(value, self.shape)

    def put(self, whole, part):
        raise ValueError("assignment: an array that was broadcast is for reading alone; copy() makes one that can be written")


class Slice:
    """A range of each axis: (start, count, step), and the shape in which it comes out."""
    __slots__ = ("ranges", "shape")

    def __init__(self, ranges, shape):
        self.ranges, self.shape = ranges, shape

    def strides(self, shape, strides):
        kept = tuple(count for _, count, _ in self.ranges)
        return self.shape, _restrided(kept, tuple(s * step for s, (_, _, step) in zip(strides, self.ranges)), self.shape)

    def apply(self, value):
        source = value.shape
        starts, stops, steps = [], [], []
        for (start, count, step), extent in zip(self.ranges, source):
            stop = start + count * step
            if not count:
                start = stop = 0
            starts.append(start)
            stops.append(None if stop < 0 else stop)
            steps.append(step)
        kept = tuple(count for _, count, _ in self.ranges)
        if kept != source or any(step != 1 for step in steps):
            value = _core.slice(value, tuple(starts), tuple(stops), tuple(steps))
        return _core.reshape(value, self.shape) if kept != self.shape else _core.same(value)

    def put(self, whole, part):
        return _put_ranges(whole, self.ranges, 0, _core.reshape(part, tuple(count for _, count, _ in self.ranges)))


def _cut(x, axis, start, stop, step=1):
    ndim = x.ndim
    low, high, by = [None] * ndim, [None] * ndim, [None] * ndim
    low[axis], high[axis], by[axis] = start, stop, step
    return _core.slice(x, tuple(low), tuple(high), tuple(1 if s is None else s for s in by))


def _put_ranges(whole, ranges, axis, part):
    """`whole` with the ranges of the axes from `axis` on replaced by part, which has whole's extents before that."""
    while axis < len(ranges) and ranges[axis] == (0, whole.shape[axis], 1):
        axis += 1
    if axis == len(ranges):
        return part
    start, count, step = ranges[axis]
    if not count:
        return whole
    extent = whole.shape[axis]
    if step < 0:
        part = _core.flip(part, (axis,))
        start, step = start + (count - 1) * step, -step
    if count == 1:
        step = 1
    stop = start + (count - 1) * step + 1
    if axis + 1 < len(ranges):
        part = _put_ranges(_cut(whole, axis, start, stop, step), ranges, axis + 1, part)
    if step != 1:
        return _put_steps(whole, axis, start, count, step, part)
    pieces = []
    if start:
        pieces.append(_cut(whole, axis, 0, start))
    pieces.append(part)
    if stop < extent:
        pieces.append(_cut(whole, axis, stop, extent))
    return _core.concat(pieces, axis) if len(pieces) > 1 else part


def _put_steps(whole, axis, start, count, step, part):
    """Every step-th place: where a place is one, the part's element that goes there."""
    from . import int64
    extent, ndim = whole.shape[axis], whole.ndim
    places = whole.device.context.arange(int64, extent, 0, 1)
    offset = _core.sub(places, start)
    number = _core.floor_divide(offset, step)
    hit = _core.logical_and(_core.eq(_core.remainder(offset, step), 0),
                            _core.logical_and(_core.ge(offset, 0), _core.lt(number, count)))
    number = _core.clamp(number, 0, count - 1)
    shape = tuple(extent if d == axis else 1 for d in range(ndim))
    return _core.where(_core.reshape(hit, shape), _core.take(part, number, axis), whole)
