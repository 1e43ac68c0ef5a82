"""Looks at a page of `fusionctl report`: report_page.py PAGE [EXPLAIN.json]

It is well-formed, as HTML and what is drawn as XML; it names no element twice, links to none that is not there, asks for nothing and
runs nothing; with what `fusionctl explain --json` said of the graph, it has each kernel and each of its operations once.
"""
import collections
import html.parser
import json
import re
import sys
import xml.etree.ElementTree as tree

VOID = {"meta", "link", "input", "br"}
ATTRIBUTES_OF_LINKS = {"href", "src", "action", "data", "poster", "srcset", "formaction", "xlink:href"}
SVG = "{http://www.w3.org/2000/svg}"


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.ids, self.links, self.elements, self.rows = [], [], [], [], collections.Counter(), 0

    def handle_starttag(self, tag, attributes):
        self.elements[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name.startswith("on"):
                self.wrong.append(f"{name} of {tag} runs something")
            if name == "id":
                self.ids.append(value)
            if name in ATTRIBUTES_OF_LINKS:
                self.links.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} closes {self.open[-1:]}")
        else:
            self.open.pop()


def look_at_form(text, page):
    wrong = page.wrong + [f"<{tag}> is not closed" for tag in page.open]
    wrong += [f"<{tag}> stands there" for tag in ("script", "img", "iframe", "object", "embed", "form", "base") if page.elements[tag]]
    wrong += [f"{name} names two elements" for name, count in collections.Counter(page.ids).items() if count > 1]
    for link in page.links:
        if link != "data:," and not link.startswith("#"):
            wrong.append(f"{link} leads elsewhere")
        elif link.startswith("#") and link[1:] not in page.ids:
            wrong.append(f"{link} leads nowhere")
    if "Content-Security-Policy" not in text or "default-src 'none'" not in text:
        wrong.append("no Content-Security-Policy")
    if re.search(r"@import|url\((?!#)", text):
        wrong.append("a style asks for something")
    return wrong


def look_at_graph(text, page, explained):
    """Operations that two kernels compute, the second what the first left, are drawn in one of them."""
    wrong = []
    wanted = {f"kernel-{i + 1}" for i in range(len(explained["kernels"]))}
    there = {name for name in page.ids if re.fullmatch(r"kernel-\d+", name)}
    boxes = {name for name in page.ids if re.fullmatch(r"box-\d+", name)}
    if wanted != there or len(boxes) != len(wanted):
        wrong.append(f"{len(there)} kernels and {len(boxes)} boxes for {len(wanted)}")
    drawn = collections.Counter()
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        for group in tree.fromstring(svg).iter(f"{SVG}g"):
            if group.get("class", "").startswith("fr-op") and "fr-free" not in group.get("class"):
                drawn[group.find(f"{SVG}title").text.split()[0]] += 1
    once = {(one["node"], one["op"], one["type"]) if one["node"] >= 0 else (i, k) + (one["op"],)
            for i, kernel in enumerate(explained["kernels"]) for k, one in enumerate(kernel["operations"])}
    told = collections.Counter(one[1] if isinstance(one[1], str) else one[2] for one in once)
    if drawn != told:
        wrong.append(f"drawn are {drawn - told} too many, and {told - drawn} not")
    return wrong


def main(path, explained=None):
    text = open(path, encoding="utf-8").read()
    page = Page()
    page.feed(text)
    page.close()
    wrong = look_at_form(text, page)
    if explained:
        wrong += look_at_graph(text, page, json.load(open(explained, encoding="utf-8", errors="replace")))
    print("\n".join(wrong[:20]) or f"{len(page.ids)} names, {page.elements['svg']} pictures")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
