"""The report's modules stand on each other and never in a circle, imports for types only included."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import analyzer.report

ROOT = Path(analyzer.report.__file__).parent
NAMES = {p: ".".join(("analyzer.report", *p.relative_to(ROOT).with_suffix("").parts)) for p in ROOT.rglob("*.py")}
MODULES = {name.removesuffix(".__init__"): path for path, name in NAMES.items()}


def imported(module: str) -> set[str]:
    """The report's modules that a module names in its imports, wherever in it they stand."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {name if (name := f"{node.module}.{a.name}") in MODULES else str(node.module) for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return found & MODULES.keys() - {module}


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {module: imported(module) for module in MODULES}
    assert "analyzer.report.replay.model" in graph["analyzer.report.model"]
    # raises CycleError with the circle
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("analyzer.report.replay.model") < order.index("analyzer.report.model")
