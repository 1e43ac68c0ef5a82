"""fusion.nn by the names that people know from elsewhere."""
import numpy as np
import pytest

import fusion as xp


def test_axis_and_axes_are_one():
    x = xp.asarray(np.arange(12.0).reshape(3, 4))
    for name in ("softmax", "log_softmax", "logsumexp", "l1_norm", "l2_norm", "layer_norm", "rms_norm"):
        f = getattr(xp.nn, name)
        assert np.array_equal(np.asarray(f(x, axis=-1)), np.asarray(f(x, axes=-1)))
        assert np.array_equal(np.asarray(f(x, axis=(0, 1))), np.asarray(f(x, axes=(0, 1))))
        with pytest.raises(TypeError, match="axis and axes are two names"):
            f(x, axis=0, axes=0)


def test_activations_are_found_where_networks_are():
    assert xp.nn.relu is xp.relu and xp.nn.gelu is xp.gelu and xp.nn.sigmoid is xp.sigmoid


def test_names_of_others_name_ours():
    for name, ours in (("conv2d", "conv"), ("max_pool2d", "max_pool"), ("scaled_dot_product_attention", "attention")):
        with pytest.raises(AttributeError, match=rf"'fusion.nn' has no attribute '{name}': {ours}\(\) does it"):
            getattr(xp.nn, name)
        assert callable(getattr(xp.nn, ours))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        xp.nn.nothing
