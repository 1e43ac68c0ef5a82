"""What a person asks of the daemon: fusion.debug, definitions, what ran."""
import numpy as np
import pytest

import fusion as xp


def test_debug_is_a_setting_for_a_while():
    x = xp.asarray(np.asarray([1.0, -1.0], "f4"))
    with xp.config(debug=True):
        assert xp.settings()["fusion.debug"] == "yes"
        with pytest.raises(xp.NonFiniteError, match=r"log at .*test_tools.py:\d+ made the first NaN \(element 1 of f32\[2\]\)"):
            xp.log(x)
    assert xp.settings()["fusion.debug"] == "no"
    assert np.isnan(np.asarray(xp.log(x))[1])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_debug_names_an_index_beyond_its_axis(dtype):
    x = xp.asarray(np.arange(100.0).reshape(50, 2))
    good = np.asarray([0, 49] if dtype[0] == "u" else [-50, 49], dtype)
    bad = np.asarray([3, 50], dtype)
    assert np.array_equal(np.asarray(xp.take(x, xp.asarray(bad), axis=0))[1], [0, 0])
    with xp.config(debug=True):
        xp.take(x, xp.asarray(good), axis=0)
        with pytest.raises(xp.ArgumentError, match=r"take at .*test_tools.py:\d+: index 50 \(element 1 of \w+\[2\]\) is beyond axis 0 of f64\[50,2\]"):
            xp.take(x, xp.asarray(bad), axis=0)
        with pytest.raises(xp.ArgumentError, match="beyond axis 0 of f64.50,2"):
            xp.nn.embedding(x, xp.asarray(bad))
        if dtype[0] == "i":
            with pytest.raises(xp.ArgumentError, match="index -51"):
                xp.take(x, xp.asarray(np.asarray([-51], dtype)), axis=0)


def test_what_ran_is_told_and_a_pattern_is_forgotten():
    x = xp.asarray(np.ones(1000, "f4"))
    xp.define_pattern("tools_swish(x)", "x * sigmoid(x)")
    assert any(one["pattern"] == "tools_swish" for one in xp.patterns())
    np.asarray(x * xp.sigmoid(x))
    assert xp.recent()["graphs"][0]["kernels"][0]["named"] == ["tools_swish"]
    xp.forget_pattern("tools_swish")
    assert not any(one["pattern"] == "tools_swish" for one in xp.patterns())
    with pytest.raises(xp.FusionError, match="tools_swish"):
        xp.forget_pattern("tools_swish")


def test_operations_are_functions_with_attributes():
    x = xp.asarray(np.arange(6.0).reshape(2, 3))
    centred = xp.define_op("tools_centred(x)", "x - mean(x, axes)")
    assert np.array_equal(np.asarray(centred(x, axes=-1)), [[-1, 0, 1], [-1, 0, 1]])
    assert centred.__name__ == "tools_centred" and centred.__doc__ == "x - mean(x, axes)"
    assert isinstance(xp.operations(), list)
    with pytest.raises(xp.ArgumentError, match="the administrator has defined no operation tools_nothing: there are"):
        xp.define_op("tools_nothing")
