"""fusion.report() and what a notebook shows: each operation and kernel once, names as text, refusals."""
import collections
import html.parser
import json
import xml.dom.minidom

import pytest

import fusion as xp
from fusion import _core

PAGE, PART, PICTURE = range(3)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e\x00\x1b]]>-->"


class Names(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.tags, self.open = collections.Counter(), set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in ("meta", "input"):
            self.open.append(tag)
        assert not any(name.startswith("on") or name in ("src", "action") for name, _ in attributes)
        self.ids.update(value for name, value in attributes if name == "id")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def blocks(count):
    x = xp.ones((16, 16), dtype=xp.float32)
    y = x
    for _ in range(count):
        y = xp.tanh(xp.exp(y - xp.sum(xp.nn.relu(y @ x), axis=1, keepdims=True)) * 0.5)
    return y


@pytest.mark.parametrize("count", [1, 40, 300])
def test_each_operation_and_each_kernel_stands_there_once(tmp_path, count):
    y = blocks(count)
    told = xp.explain(y)
    xp.report(y, tmp_path / "y.html")
    ids = Names((tmp_path / "y.html").read_text(encoding="utf-8")).ids
    assert max(ids.values()) == 1
    assert {name for name in ids if name.startswith("op-")} == {f"op-{node['id']}" for node in told["nodes"]}
    assert {name for name in ids if name.startswith("kernel-")} == {f"kernel-{i + 1}" for i in range(told["kernel_count"])}


def test_an_explanation_shows_itself_in_a_notebook():
    told = xp.explain(blocks(2))
    part, other = told._repr_html_(), xp.explain(blocks(3))._repr_html_()
    assert "<html" not in part and not Names(part).ids & Names(other).ids
    assert xml.dom.minidom.parseString(told._repr_svg_()).documentElement.tagName == "svg"


def test_what_stands_in_an_explanation_is_text():
    told = xp.explain(blocks(1), source=True)

    def spoilt(value):
        if isinstance(value, dict):
            return {name: spoilt(one) for name, one in value.items()}
        if isinstance(value, list):
            return [spoilt(one) for one in value]
        return value + HOSTILE if isinstance(value, str) else value

    for kernel in told["kernels"]:
        kernel.update(purpose="", runs_as="", waits_because="", named=["a"])
    for form in (PAGE, PART):
        names = Names(_core.report(json.dumps(spoilt(told)), HOSTILE.replace("\0", ""), form))
        assert not names.tags & {"script", "img", "iframe", "link"}
    xml.dom.minidom.parseString(_core.report(json.dumps(spoilt(told)), None, PICTURE))


@pytest.mark.parametrize("node", [
    {"inputs": [1, 0, 1, 7, -1, 1e300, "x", None]}, {"inputs": "x"}, {"kernel": 99}, {"kernel": -1}, {"id": 1}, {"id": -5}, {"op": 5}, {"type": None}, {}])
def test_what_makes_no_sense_is_left_out(node):
    nodes = [{"id": 0, "op": "a", "type": "f32[]", "inputs": [1], "kernel": 1, **node}, {"id": 1, "op": "b", "type": "f32[]", "inputs": [0], "kernel": 2}]
    told = {"nodes": nodes, "kernels": [{"root": "map"}, {"estimated_us": "x", "operations": 5}], "not_fused": [{}, 5]}
    for form in (PAGE, PART):
        Names(_core.report(json.dumps(told), None, form))
    xml.dom.minidom.parseString(_core.report(json.dumps(told), None, PICTURE))


def test_mistakes_are_refused_by_a_sentence(tmp_path):
    y = blocks(1)
    with pytest.raises(TypeError, match="the name of a file comes last"):
        xp.report(y)
    with pytest.raises(TypeError, match="report: not a fusion array"):
        xp.report(5, tmp_path / "y.html")
    with pytest.raises(FileNotFoundError):
        xp.report(y, tmp_path / "none" / "y.html")
    for text in ("", "5", "[]", "{"):
        with pytest.raises(xp.ArgumentError, match="report: the explanation is not what explain answers"):
            _core.report(text, None, PAGE)


def test_a_recorded_function_has_a_page(tmp_path):
    @xp.jit
    def step(x):
        return xp.sum(xp.exp(x) * 2, axis=1)

    x = xp.ones((4, 5))
    assert float(step(x)[0]) > 0
    xp.report(step, x, tmp_path / "step.html")
    page = (tmp_path / "step.html").read_text()
    assert "exp" in page and "<svg" in page and "<script" not in page
