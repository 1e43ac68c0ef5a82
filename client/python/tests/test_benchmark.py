"""benchmark_pattern(): what it says of a pattern, and what it refuses; nothing of how fast anything is."""
import pytest

import fusion as xp


def test_a_pattern_is_measured_fused_and_not():
    told = xp.benchmark_pattern("affine_activation", 32, seconds=0.02)
    assert told["kernels"] == told["kernels_of_pattern"] == 1 and told["unfused_kernels"] == 3 and told["same_bits"]
    assert [one["type"] for one in told["operands"]] == ["f32[32,32]", "f32[32]", "f32[32]"]
    for clock in (told["wall"], told["device"]):
        assert clock["speedup"] == pytest.approx(clock["unfused_us"] / clock["fused_us"])
        assert clock["fused_median_us"] >= clock["fused_us"] > 0 and clock["rounds"] >= 1
    assert repr(told).startswith("affine_activation: relu(x * w + b); x f32[32,32], w f32[32], b f32[32]\n1 kernel, without fusion 3; the same bits\ndevice: fused ")


def test_types_and_shapes_are_those_that_are_given():
    xp.define_pattern("benchmarked(x, beta)", "x * tanh(beta + x)")
    told = xp.benchmark_pattern("benchmarked", dtype="float64", shapes=[(3, 5), (5,)], seconds=0.02)
    assert told["text"] == "x * tanh(beta + x)" and "size" not in told and told["kernels_of_pattern"] == 1
    assert told["operands"] == [{"name": "x", "type": "f64[3,5]"}, {"name": "beta", "type": "f64[5]"}]
    told = xp.benchmark_pattern("benchmarked", shapes=[(3,), ()], dtypes=[xp.float32, "int32"], seconds=0.02)
    assert [one["type"] for one in told["operands"]] == ["f32[3]", "i32[]"]
    xp.forget_pattern("benchmarked")


def test_settings_of_the_session_hold():
    with xp.config({"fusion.pattern.binary_activation": "no"}):
        assert xp.benchmark_pattern("binary_activation", 16, seconds=0.02)["kernels_of_pattern"] == 0


def test_what_makes_no_sense_is_refused():
    for ask, sentence in ((dict(name="linaer"), "do you mean linear"), (dict(name="linear", size=0), "size is 0, not above 0"),
                          (dict(name="linear", size=10**6), "the size is 1000000"), (dict(name="linear", seconds=float("nan")), "seconds is nan"),
                          (dict(name="linear", shapes=[(2, 2)], size=3), "no size is wanted"), (dict(name="linear", dtypes=["float32"]), "as many"),
                          (dict(name="linear", shapes=[(2, 2)], dtypes=[]), "as many"), (dict(name="linear", dtype=bool), "of bool")):
        with pytest.raises(xp.ArgumentError, match=sentence):
            xp.benchmark_pattern(**ask)
    with pytest.raises(xp.FusionError, match=r"linear has 3 operands \(x, w, b\), not 1 .*test_benchmark.py"):
        xp.benchmark_pattern("linear", shapes=[(2, 2)])
    with pytest.raises(xp.LimitError, match="it would take at least"):
        xp.benchmark_pattern("linear", 2048, seconds=1e-5)
    for ask in (dict(name=3), dict(name="linear", size=1.5), dict(name="linear", dtype="float31"), dict(name="linear", shapes=[("a",)] * 3), dict(name="linear", shapes=3)):
        with pytest.raises(TypeError):
            xp.benchmark_pattern(**ask)
    with pytest.raises(ValueError, match="more operands"):
        xp.benchmark_pattern("linear", shapes=[()] * 99)
