"""Graphs as pictures: a column of boxes, one below what it reads, those of one kernel in one colour. SVG, without other programs."""
from __future__ import annotations

from xml.sax.saxutils import escape

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 150, 38, 24, 34, 16
COLOURS = ["#cfe3f7", "#fbd9b5", "#d3efd0", "#f6cfd6", "#e2d6f3", "#f5efb4", "#cdeeee", "#e8ddcf"]


class Picture:
    """A graph as SVG."""

    def __init__(self, explanation) -> None:
        self.explanation = explanation
        self.svg = _draw(explanation)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<graph of {len(self.explanation['nodes'])} operations in {self.explanation['kernel_count']} kernels; .svg, .save(name)>"

    def save(self, name: str) -> None:
        """Writes it to a file."""
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.svg)


def _rows(nodes):
    """Each node's row: below all that it reads. The list may name what is read after who reads it."""
    row = {node["id"]: 0 for node in nodes}
    for _ in nodes:
        settled = True
        for node in nodes:
            below = 1 + max((row[i] for i in node["inputs"] if i in row), default=-1)
            if row[node["id"]] != below:
                row[node["id"]], settled = below, False
        if settled:
            break
    return row


def _draw(explanation):
    nodes = explanation["nodes"]
    row, places, filled = _rows(nodes), {}, {}
    for node in nodes:
        r = row[node["id"]]
        column = filled.get(r, 0)
        filled[r] = column + 1
        places[node["id"]] = (MARGIN + column * (WIDTH + ACROSS), MARGIN + r * (HEIGHT + DOWN))
    across = 2 * MARGIN + max(filled.values(), default=1) * (WIDTH + ACROSS) - ACROSS
    down = 2 * MARGIN + (max(filled, default=0) + 1) * (HEIGHT + DOWN) - DOWN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {down}" width="{across}" height="{down}" '
             'font-family="sans-serif" font-size="12">',
             '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
             '<path d="M0,0 L8,4 L0,8 z" fill="#666"/></marker></defs>']
    for node in nodes:
        x, y = places[node["id"]]
        for i in node["inputs"]:
            if i not in places:
                continue
            u, v = places[i]
            parts.append(f'<line x1="{u + WIDTH / 2}" y1="{v + HEIGHT}" x2="{x + WIDTH / 2}" y2="{y}" stroke="#666" marker-end="url(#a)"/>')
    for node in nodes:
        x, y = places[node["id"]]
        kernel = node.get("kernel")
        colour = COLOURS[kernel % len(COLOURS)] if kernel is not None else "#eeeeee"
        width = 3 if node.get("output") else 1
        under = f'kernel {kernel}' if kernel is not None else "no kernel"
        parts.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}" stroke="#333" stroke-width="{width}"/>'
                     f'<text x="{x + WIDTH / 2}" y="{y + 16}" text-anchor="middle" font-weight="bold">{escape(node["op"])}</text>'
                     f'<text x="{x + WIDTH / 2}" y="{y + 31}" text-anchor="middle" fill="#333">{escape(node["type"])}, {under}</text>')
    return "\n".join(parts) + "\n</svg>\n"
