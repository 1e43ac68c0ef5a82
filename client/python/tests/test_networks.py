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
    for name, ours in (("CrossEntropyLoss", "cross_entropy"), ("LeakyReLU", "leaky_relu"), ("BatchNorm2d", "batch_norm"), ("swish", "silu")):
        with pytest.raises(AttributeError, match=rf"'{name}': {ours}\(\) does it"):
            getattr(xp.nn, name)
    with pytest.raises(AttributeError, match=r"'relu6': clip\(x, 0, 6\) does it"):
        xp.nn.relu6
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        xp.nn.nothing


def test_axes_that_nobody_names_are_those_of_the_field():
    """The last axis, or the channels: client/python/README.md says what PyTorch, JAX and ONNX do."""
    x = xp.asarray(np.random.default_rng(1).normal(size=(2, 3, 4)))
    for name, axis in (("softmax", -1), ("log_softmax", -1), ("layer_norm", -1), ("rms_norm", -1)):
        f = getattr(xp.nn, name)
        assert np.array_equal(np.asarray(f(x)), np.asarray(f(x, axis=axis)))
        assert not np.array_equal(np.asarray(f(x)), np.asarray(f(x, axis=(0, 1, 2))))
    for name in ("logsumexp", "l1_norm", "l2_norm"):
        assert getattr(xp.nn, name)(x).shape == ()
    mean, variance = xp.asarray([0.0, 1.0, 2.0]), xp.asarray([1.0, 2.0, 3.0])
    assert np.array_equal(np.asarray(xp.nn.batch_norm(x, mean, variance)), np.asarray(xp.nn.batch_norm(x, mean, variance, axis=1)))
    target = xp.asarray(np.asarray([[0, 1, 3], [2, 0, 1]]))
    assert np.array_equal(np.asarray(xp.nn.cross_entropy(x, target)), np.asarray(xp.nn.cross_entropy(x, target, axis=-1)))


def test_one_number_stands_for_each_axis_of_a_window():
    x = xp.asarray(np.random.default_rng(2).normal(size=(1, 2, 6, 6)).astype("f4"))
    w = xp.asarray(np.random.default_rng(3).normal(size=(3, 2, 2, 2)).astype("f4"))

    def same(one, other):
        assert np.array_equal(np.asarray(one), np.asarray(other))

    same(xp.nn.max_pool(x, window=2, padding=1), xp.nn.max_pool(x, window=(2, 2), stride=(2, 2), padding=(1, 1)))
    same(xp.nn.avg_pool(x, window=3, stride=1), xp.nn.avg_pool(x, window=(3, 3), stride=(1, 1)))
    same(xp.nn.conv(x, w, stride=2, padding=1, dilation=2), xp.nn.conv(x, w, stride=(2, 2), padding=(1, 1), dilation=(2, 2)))
    same(xp.nn.conv(x, w, stride=np.asarray([2, 1])), xp.nn.conv(x, w, stride=[2, 1]))


def test_lists_of_different_lengths_are_refused():
    x, w = xp.ones((1, 2, 6, 6)), xp.ones((3, 2, 2, 2))
    for call in (lambda: xp.nn.max_pool(x, window=(2, 2), stride=(2,)), lambda: xp.nn.conv(x, w, stride=(1,)),
                 lambda: xp.nn.conv(x, w, padding=(0, 0, 0)), lambda: xp.nn.conv(x, w, dilation=())):
        with pytest.raises(xp.ShapeError, match="a list of . entries beside one of ."):
            call()
    with pytest.raises(TypeError, match="softmax: not a fusion array, but None"):
        xp.nn.softmax(None)


def test_a_weight_that_is_left_out_before_a_bias_is_one():
    rng = np.random.default_rng(4)
    x, b, ones = (xp.asarray(rng.normal(size=(2, 3, 4)).astype("f4")), xp.asarray(rng.normal(size=4).astype("f4")), xp.ones(4, dtype=xp.float32))
    assert np.array_equal(np.asarray(xp.nn.layer_norm(x, None, b)), np.asarray(xp.nn.layer_norm(x, ones, b)))
    assert np.array_equal(np.asarray(xp.nn.layer_norm(x, None, b)), np.asarray(xp.nn.layer_norm(x) + b))
    c, one = b[:3], ones[:3]
    assert np.array_equal(np.asarray(xp.nn.group_norm(x, None, c, groups=3)), np.asarray(xp.nn.group_norm(x, one, c, groups=3)))
    assert np.array_equal(np.asarray(xp.nn.batch_norm(x, c, one, None, c)), np.asarray(xp.nn.batch_norm(x, c, one, one, c)))
    with pytest.raises(xp.FusionError):
        xp.nn.linear(x, None, b)


def test_a_number_has_softmax_as_in_pytorch():
    x = xp.asarray(3.5)
    assert float(xp.nn.softmax(x)) == 1 and float(xp.nn.softmax(x, axis=0)) == 1 and float(xp.nn.log_softmax(x, axis=-1)) == 0
    assert float(xp.nn.logsumexp(x)) == 3.5 and float(xp.nn.layer_norm(x)) == 0
    with pytest.raises(xp.FusionError, match="axis 1"):
        xp.nn.softmax(x, axis=1)


def test_named_calls_are_their_operations():
    rng = np.random.default_rng(5)
    x, y, w = (xp.asarray(rng.normal(size=(8, 8)).astype("f4")) for _ in range(3))
    b, v = xp.asarray(rng.normal(size=8).astype("f4")), xp.asarray(rng.uniform(1, 2, size=8).astype("f4"))
    nn, relu, gelu = xp.nn, xp.relu, xp.gelu
    written = {"add_relu": ((x, y), relu(x + y)), "mul_relu": ((x, y), relu(x * y)), "affine_relu": ((x, v, b), relu(x * v + b)),
               "matmul_bias_relu": ((x, w, b), relu(x @ w + b)), "linear_relu": ((x, w, b), relu(nn.linear(x, w, b))),
               "linear_gelu": ((x, w, b), gelu(nn.linear(x, w, b))), "linear_silu": ((x, w, b), xp.silu(nn.linear(x, w, b))),
               "linear_residual": ((x, w, b, y), nn.linear(x, w, b) + y), "linear_residual_relu": ((x, w, b, y), relu(nn.linear(x, w, b) + y)),
               "linear_residual_gelu": ((x, w, b, y), gelu(nn.linear(x, w, b) + y)), "relu_linear": ((x, w, b), nn.linear(relu(x), w, b)),
               "gelu_linear": ((x, w, b), nn.linear(gelu(x), w, b)), "layer_norm_gelu": ((x, v, b), gelu(nn.layer_norm(x, v, b))),
               "layer_norm_linear": ((x, v, b, w, b), nn.linear(nn.layer_norm(x, v, b), w, b)), "rms_norm_linear": ((x, v, w), nn.linear(nn.rms_norm(x, v), w)),
               "batch_norm_relu": ((x, b, v, v, b), relu(nn.batch_norm(x, b, v, v, b)))}
    assert {"fused_" + name for name in written} == {name for name in nn.__all__ if name.startswith("fused_")}
    def kernels(y):
        return [kernel.get("pattern") for kernel in xp.explain(y)["kernels"]]

    named = {name: getattr(nn, "fused_" + name)(*operands) for name, (operands, _) in written.items()}
    for name, (_, result) in written.items():
        assert kernels(named[name]) == kernels(result), name
    for name, (_, result) in written.items():
        assert np.array_equal(np.asarray(named[name]), np.asarray(result)), name
