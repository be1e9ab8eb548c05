"""Write the generated sample traces again: `python -m sample_traces.generate [NAME ...]`.

The same source gives the same bytes. The `recorded_*` folders are recordings and left alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(ROOT.parent))

from sample_traces.generator.cases import CASES  # noqa: E402


def files(name: str) -> dict[str, bytes]:
    """The files of one case, by name."""
    built = CASES[name]()
    expected = json.dumps(built.expected, indent=1, ensure_ascii=False) + "\n"
    return {"server.log": built.log.encode(), "expected.json": expected.encode(), **built.captured}


def main(names: list[str]) -> int:
    """Write the named cases, or all of them."""
    unknown = [n for n in names if n not in CASES]
    if unknown:
        print(f"unknown case {unknown[0]}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    for name in names or list(CASES):
        folder = ROOT / name
        folder.mkdir(exist_ok=True)
        for file, data in files(name).items():
            (folder / file).write_bytes(data)
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
