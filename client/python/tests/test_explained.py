"""explain(), graph() and opportunities() before a run, after it, while it is recorded and of what was recorded: they tell the same."""
import json
import os
import subprocess

import numpy as np
import pytest

import fusion as xp

FUSIONCTL = os.path.join(os.environ.get("FUSION_BUILD", "build"), "fusionctl")
N = 64


def arrays():
    made = [xp.asarray(np.full((N, N), i + 1, "f4")) for i in range(3)]
    for a in made:
        a.wait()
    return made


def program(x, w, b):
    h = xp.gelu(xp.matmul(x, w) + b)
    return xp.sum(xp.exp(h - xp.max(h, axis=1, keepdims=True)) * x, axis=1)


FILE = f"""x = input f32[{N},{N}] ramp
w = input f32[{N},{N}] ramp
b = input f32[{N},{N}] ramp
m = matmul x w
a = add m b
h = gelu a
t = max h axes=1 keepdims
d = sub h t
e = exp d
p = mul e x
y = sum p axes=1
output y
"""


def told(explanation):
    """Without what a run adds."""
    kernels = [{k: v for k, v in kernel.items() if k in ("root", "form", "pattern", "purpose", "dims", "operations", "bytes_read", "bytes_written", "bytes_saved",
                                                         "buffers_eliminated", "estimated_us", "estimated_speedup")} for kernel in explanation["kernels"]]
    for kernel in kernels:
        kernel["operations"] = [{k: v for k, v in op.items() if k != "at"} for op in kernel["operations"]]
    return kernels, [{k: v for k, v in note.items() if not k.endswith("_at")} for note in explanation["not_fused"]], \
        [{k: v for k, v in node.items() if k != "at"} for node in explanation["nodes"]], explanation["kernel_count"], explanation["unfused_kernel_count"], explanation["bytes_not_moved"]


def gains(found):
    return [{**{k: v for k, v in one.items() if not k.startswith("measured")},
             "operations": [{k: v for k, v in op.items() if k != "at"} for op in one["operations"]]} for one in found["opportunities"]]


@pytest.mark.parametrize("read", [print, np.asarray, lambda y: y.wait(), lambda y: xp.sync(), lambda y: xp.flush()], ids=["print", "asarray", "wait", "sync", "flush"])
def test_what_has_run_is_explained_as_before(read):
    y = program(*arrays())
    before, found = xp.explain(y), xp.opportunities(y)
    read(y)
    after = xp.explain(y)
    assert told(after) == told(before) and gains(xp.opportunities(y)) == gains(found)
    assert str(after).split("\n")[0] == str(before).split("\n")[0] and after["runs"] >= 1
    assert "static inline" in xp.explain(y, source=True)["kernels"][0]["source"] and "#pragma OPENCL" in xp.explain(y, source="all")["kernels"][0]["source"]
    # As often as it is asked, and drawn.
    assert told(xp.explain(y)) == told(before) and xp.graph(y).svg.startswith("<svg")


def test_opportunities_agree_before_after_recorded_and_of_a_file(tmp_path):
    x, w, b = arrays()
    y = program(x, w, b)
    before = gains(xp.opportunities(y))
    y.wait()
    f = xp.jit(program)
    while_recorded = []

    @xp.jit
    def asking(*args):
        made = program(*args)
        while_recorded.append(gains(xp.opportunities(made)))
        return made
    asking(x, w, b)
    f(x, w, b)
    assert before and gains(xp.opportunities(y)) == before
    assert gains(xp.opportunities(f)) == before and gains(xp.opportunities(f, x, w, b)) == before and while_recorded == [before]
    for one in before:
        assert one["estimated_gain_us"] and one["bytes_saved"] and one["operations"] and all("id" in op for op in one["operations"])
    assert [one["estimated_gain_us"] for one in before] == sorted((one["estimated_gain_us"] for one in before), reverse=True)
    path = tmp_path / "graph.fz"
    path.write_text(FILE)
    for words in ([str(path)], ["--last"]):
        if words == ["--last"]:
            subprocess.run([FUSIONCTL, "run", str(path)], check=True, stdout=subprocess.DEVNULL)
        of_file = json.loads(subprocess.run([FUSIONCTL, "opportunities", "--json", *words], check=True, capture_output=True, text=True).stdout)
        of_file = gains(of_file["graphs"][0] if "graphs" in of_file else of_file)
        # Its inputs are data of the same batch, which stand first: other numbers, the same gains.
        for one, other in zip(of_file, before, strict=True):
            assert {k: v for k, v in one.items() if k != "operations"} == {k: v for k, v in other.items() if k != "operations"}
            assert [op["op"] for op in one["operations"]] == [op["op"] for op in other["operations"]]


def test_a_run_of_a_recorded_function_is_explained():
    x, w, b = arrays()
    f = xp.jit(program)
    y = f(x, w, b)
    first = told(xp.explain(y))
    y.wait()
    assert told(xp.explain(y)) == first == told(xp.explain(f)) == told(xp.explain(program(x, w, b)))
    assert xp.graph(f).svg.startswith("<svg")


def test_what_is_recorded_is_explained_up_to_there():
    x, w, b = arrays()
    seen = {}

    @xp.jit
    def f(x, w, b):
        one = xp.relu(x + w)
        seen["one"] = told(xp.explain(one))
        seen["at"] = xp.explain(one)["kernels"][0]["operations"][0]["at"]
        unused = xp.sin(one) * x
        seen["unused"] = told(xp.explain(unused))
        seen["unfused"] = xp.explain(one, unfused=True)["kernel_count"]
        return one * b
    y = f(x, w, b)
    assert seen["one"] == told(xp.explain(xp.relu(x + w))) and seen["unused"] == told(xp.explain(xp.sin(xp.relu(x + w)) * x)) and seen["unfused"] == 2
    assert os.path.basename(__file__) in seen["at"]
    # What was asked for meanwhile is no part of the graph.
    assert told(xp.explain(f)) == told(xp.explain(xp.relu(x + w) * b)) and np.array_equal(np.asarray(y), np.full((N, N), 9, "f4"))
    assert os.path.basename(__file__) in xp.explain(f)["kernels"][0]["operations"][0]["at"]


def test_which_recording_is_meant_is_asked():
    f = xp.jit(lambda x: xp.exp(x) + 1)
    x, y = xp.ones(3), xp.ones(4)
    with pytest.raises(xp.ArgumentError, match="was for none: name the arguments"):
        xp.explain(f)
    assert xp.explain(f, x)["kernels"][0]["elements"] == 3 and xp.explain(f)["kernels"][0]["elements"] == 3
    f(y)
    with pytest.raises(xp.ArgumentError, match="was for 2: name the arguments"):
        xp.opportunities(f)
    assert xp.explain(f, y)["kernels"][0]["elements"] == 4 and xp.explain(f, y, source=True)["kernels"][0]["source"]


def test_what_is_not_known_says_why_and_what_to_do():
    x = arrays()[0]
    with pytest.raises(xp.StateError, match="no operations made the array: it is data that the program gave"):
        xp.explain(x)
    a = xp.exp(x)
    a.wait()
    b = xp.sin(x)
    b.wait()
    with pytest.raises(xp.StateError, match="made by different runs; ask for each of them alone"):
        xp.explain(a, b)
    with pytest.raises(xp.StateError, match="were sent already, and only before that"):
        xp.explain(a, unfused=True)
    with xp.config(explain_runs=2):
        for i in range(3):
            xp.exp(xp.zeros(100 + i)).wait()
        with pytest.raises(xp.StateError, match=r"no longer known: [3-9] other graphs ran since, and the last 2 are kept \(fusion.explain_runs\)"):
            xp.explain(b)
    with xp.config(explain_runs=0):
        c = xp.exp(xp.zeros(77))
        c.wait()
        with pytest.raises(xp.StateError, match="no longer known: 0 other graphs ran since, and the last 0 are kept"):
            xp.opportunities(c)


def test_a_graph_that_comes_again_stays_known():
    x = arrays()[0]
    y = xp.tanh(x) + 1
    y.wait()
    with xp.config(explain_runs=3):
        for i in range(6):
            (xp.tanh(x) + 1).wait()
            xp.cos(xp.zeros(200 + i)).wait()
        assert xp.explain(y)["runs"] >= 7


def test_what_the_program_wrote_no_run_made():
    y = xp.exp(xp.ones(8))
    print(y)
    assert xp.explain(y)["runs"] >= 1
    with xp.writable(y) as memory:
        np.asarray(memory)[:] = 3
    with pytest.raises(xp.StateError, match="no operations made the array"):
        xp.explain(y)


def test_what_was_sent_in_full_batches_is_said_to_be_missing(tmp_path):
    """A batch has 1,024 operations: those of a long program that nobody asked for go in parts, and only the last can be planned."""
    x = arrays()[0]
    y = x
    for _ in range(3000):
        y = xp.tanh(y)
    for _ in range(2):
        told = xp.explain(y)
        assert told["operations_before"] == 2048 and "2048 operations that lead to these were sent before" in str(told).split("\n")[1]
        assert xp.opportunities(y)["operations_before"] == 2048 and xp.graph(y).explanation["operations_before"] == 2048
        xp.report(y, tmp_path / "long.html")
        assert "<p>2048 operations that lead to these" in (tmp_path / "long.html").read_text()
        y.wait()
    assert sum(graph["runs"] for graph in xp.recent()["graphs"]) >= 2
    assert "note" not in xp.explain(xp.exp(y))


def test_a_pair_that_went_with_a_full_batch_is_said_to_be_gone():
    first = xp.tanh(arrays()[0])
    y = first
    for _ in range(1100):
        y = xp.exp(-y)
    with pytest.raises(xp.StateError, match=r"can_fuse: the first operation was sent already, with a full batch"):
        xp.can_fuse(first, y)
    before = xp.exp(y)
    assert xp.can_fuse(y, before)
