#!/usr/bin/env python3
"""Write dmlvk/kernels/library/facts.json: what the plan of a kernel must know of a compiled shader, without reading it.

    python scripts/make_facts.py            after a change of an element-wise shader, or a new one
    python scripts/make_facts.py --check    write nothing; name what differs

Another version of the GLSL compiler counts a little differently: so much changes no fact, and is no difference.

Exit status: 0 done, 1 --check found a difference, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dmlvk.kernels.library.facts import FILE, Facts, function_name, measured
from dmlvk.kernels.variants import regular_variants

TOLERANCE = 0.1
"""Of a count of words, by which compilers may differ."""

FEW_WORDS = 20

SHOWN = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script.

    Args:
        argv: command line without the program's name; the process's own when None.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Write what the plan knows of compiled shaders.")
    parser.add_argument("--check", action="store_true", help="write nothing; name what differs")
    options = parser.parse_args(argv)
    now = current()
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else "{}"
    stored = {name: Facts(words, bool(defers)) for name, (words, defers) in json.loads(text).items()}
    differences = different(stored, now)
    if options.check:
        for name in differences[:SHOWN]:
            print(f"{name}: {stored.get(name)} in {FILE.name}, {now.get(name)} compiled", file=sys.stderr)
        if differences:
            print(f"{len(differences)} functions differ: run scripts/make_facts.py", file=sys.stderr)
        return 1 if differences else 0
    kept = {name: now[name] if name in differences else stored[name] for name in sorted(now)}
    lines = [f'"{name}": [{facts.words}, {int(facts.defers)}]' for name, facts in kept.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(kept)} functions, {len(differences)} of them new or changed")
    return 0


def current() -> dict[str, Facts]:
    """Return the facts of all functions as they are compiled now."""
    names = [variant.name for variant in regular_variants() if variant.name.endswith(".contiguous")]
    return {function_name(name): measured(name) for name in sorted(names)}


def different(stored: Mapping[str, Facts], now: Mapping[str, Facts]) -> list[str]:
    """Return the functions of which the stored facts are missing, superfluous or wrong."""
    found = sorted(stored.keys() ^ now.keys())
    for name in sorted(stored.keys() & now.keys()):
        margin = max(FEW_WORDS, TOLERANCE * now[name].words)
        if stored[name].defers != now[name].defers or abs(stored[name].words - now[name].words) > margin:
            found.append(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
