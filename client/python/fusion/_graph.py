"""Graphs to look at: a picture in SVG, a page in HTML. libfusion draws both from what explain() tells, as it does for fusionctl report."""
from __future__ import annotations

import json
import os

from . import _core

PAGE, PART, PICTURE = range(3)      # enum fusion_report_form


def drawn(explanation, form, title=None):
    """What fusion_report() makes of it."""
    return _core.report(json.dumps(explanation), title, form)


class Picture:
    """A graph as SVG."""

    def __init__(self, explanation) -> None:
        self.explanation = explanation
        self.svg = drawn(explanation, PICTURE)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<graph of {len(self.explanation['nodes'])} operations in {self.explanation['kernel_count']} kernels; .svg, .save(name)>"

    def save(self, name: str | os.PathLike[str]) -> None:
        """Writes it to a file."""
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.svg)
