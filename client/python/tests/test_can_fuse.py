"""can_fuse() says of each two operations what explain() does."""
import random

import numpy as np
import pytest

import fusion as xp


def convolution(n):
    x, w = xp.asarray(np.ones((2, 3, n, n), "f4")), xp.asarray(np.ones((4, 3, 3, 3), "f4"))
    one = xp.asarray(np.ones(4, "f4"))
    a = xp.nn.conv(x, w)
    b = xp.nn.batch_norm(a, one, one, one, one, axes=1)
    return [a, b, xp.relu(b), xp.sum(xp.relu(b), axis=(2, 3))]


def layers(n):
    x, w = xp.asarray(np.ones((n, 8), "f4")), xp.asarray(np.ones((16, 8), "f4"))
    a = xp.nn.linear(xp.gelu(x), w, xp.asarray(np.ones(16, "f4")))
    b = xp.relu(a)
    s = xp.exp(b) / xp.sum(xp.exp(b), axis=-1, keepdims=True)
    return [a, b, s, xp.matmul(s, xp.asarray(np.ones((16, n), "f4")))]


def chain(n):
    rng = random.Random(n)
    values = [xp.asarray(np.ones((n, 33), "f4"))]
    for _ in range(9):
        a = rng.choice(values[-3:])
        b = rng.choice(values)
        values.append(rng.choice([lambda: a + b, lambda: xp.exp(a), lambda: xp.sum(a, axis=-1, keepdims=True) + b, lambda: xp.sort(a, axis=0),
                                  lambda: xp.cumulative_sum(a, axis=-1), lambda: xp.matmul(a, xp.asarray(np.ones((33, 33), "f4")))
                                  if a.shape[-1] == 33 else a * b])())
    return values[1:]


def kernels_of(told, place):
    return {i for i, kernel in enumerate(told["kernels"]) for op in kernel["operations"] if op["node"] == place}


@pytest.mark.parametrize("program", [convolution, layers, chain])
@pytest.mark.parametrize("n", [8, 17, 64])
def test_each_pair_is_answered_as_explain_does(program, n):
    results = program(n)
    told = xp.explain(*results)
    outputs = [node["node"] for node in told["nodes"] if node["output"]]
    answered = {(i, j): xp.can_fuse(a, b, *results) for i, a in enumerate(results) for j, b in enumerate(results) if i != j}
    for (i, j), answer in answered.items():
        assert bool(answer) == answer["fused"] == bool(answered[j, i]) and answer["reason"]
        if answer:
            assert told["kernels"][answer["kernel"] - 1]["operations"] == answer["operations"]
            assert answer["bytes_saved"] == told["kernels"][answer["kernel"] - 1]["bytes_saved"]
        elif "consumer" in answer:
            edge = {k: v for k, v in answer.items() if k != "fused"}
            assert edge in told["not_fused"]
    # Which kernel holds which result, where results are one operation each.
    if len(outputs) == len(results):
        for (i, j), answer in answered.items():
            assert bool(answer) == bool(kernels_of(told, outputs[i]) & kernels_of(told, outputs[j])), (i, j, answer)


def test_settings_of_the_session_hold():
    x = xp.asarray(np.ones(100, "f4"))
    a = xp.exp(x)
    b = a + 1
    answer = xp.can_fuse(a, b)
    assert answer and repr(answer).startswith("yes: kernel 0, elementwise_chain, computes exp, add")
    with xp.config({"fusion.pattern.elementwise_chain": "no"}):
        answer = xp.can_fuse(a, b)
        assert not answer and "switched off" in answer["reason"] and answer["producer_at"].startswith(__file__)
        assert repr(answer).startswith("no: exp at ")
    with xp.config(enabled=False):
        assert not xp.can_fuse(a, b)
    assert xp.can_fuse(a, b)


def test_what_users_define_is_asked_about_too():
    ours = xp.define_op("can_fuse_me", "a * sigmoid(b * a)")
    x = xp.asarray(np.ones(100, "f4"))
    a = ours(x, x)
    assert xp.can_fuse(a, xp.exp(a))


def test_what_cannot_be_asked_is_refused():
    x = xp.asarray(np.ones(100, "f4"))
    a, b = xp.exp(x), xp.sin(x)
    with pytest.raises(xp.ArgumentError, match="the first array is not among what leads to the results"):
        xp.can_fuse(a, b)
    assert xp.can_fuse(a, b, a, b)["reason"]
    for ask in (lambda: xp.can_fuse(None, b), lambda: xp.can_fuse("exp", "sin"), lambda: xp.can_fuse(a, b, 1), lambda: xp.explain(3), lambda: xp.opportunities(a, None)):
        with pytest.raises(TypeError, match="not a fusion array"):
            ask()
    a.wait()
    with pytest.raises(xp.FusionError, match="sent already"):
        xp.can_fuse(a, a + 1)


def test_opportunities_are_sorted_by_gain_with_ids_of_explain():
    small, large = xp.asarray(np.ones(10, np.float32)), xp.asarray(np.ones((1000, 1000), np.float32))
    results = xp.sqrt(small + 1), xp.exp(large * 2)
    told = xp.explain(*results)
    found = xp.opportunities(*results)["opportunities"]
    assert [[op["op"] for op in one["operations"]] for one in found] == [["mul", "exp"], ["add", "sqrt"]]
    assert found[0]["estimated_gain_us"] >= found[1]["estimated_gain_us"] > 0
    assert found[0]["bytes_saved"] > found[1]["bytes_saved"] > 0
    nodes = {node["id"]: (node["op"], node.get("at"), node["kernel"]) for node in told["nodes"] if "kernel" in node}
    for one in found:
        for op in one["operations"]:
            assert nodes[op["id"]] == (op["op"], op["at"], one["kernel"])
            assert "test_can_fuse.py:" in op["at"]


def test_pairs_that_are_kept_apart_say_so():
    x, w = xp.asarray(np.ones((16, 16), "f4")), xp.asarray(np.ones((16, 16), "f4"))
    with xp.config(apart="matmul:add add:relu"):
        assert xp.settings()["fusion.apart"] == "matmul:add add:relu"
        h = xp.matmul(x, w)
        a = h + 1
        y = xp.relu(a)
        assert len(xp.explain(y)["kernels"]) == 3
        for pair in ((h, a), (a, y)):
            answer = xp.can_fuse(*pair, y)
            assert not answer and answer["reason"] == "fusion.apart keeps these operations in kernels of their own"
    assert xp.settings()["fusion.apart"] == ""
    assert xp.can_fuse(h, a, y) and len(xp.explain(y)["kernels"]) == 1
    with pytest.raises(xp.ArgumentError, match="there is no operation reluu"), xp.config(apart="matmul:reluu"):
        pass
