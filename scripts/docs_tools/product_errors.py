"""The section of ``docs/accuracy.md`` on sums of products: what dmlvk bench product-errors wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.docs_tools.markdown import table

HEADING = "Sums of products"

_DEVICE_ARITHMETIC = "dmlvk, device arithmetic"

_INTRODUCTION = """What GEMM promises is [a part of the sum of the products' magnitudes](operators.md#gemm). So do
CONVOLUTION, and the products in RNN, LSTM, GRU and attention. Typical errors are far smaller. The tables have the root
mean square and the largest of 64 results, in roundings of the sum of magnitudes: 2^-24 of it for FLOAT32, 2^-11 for
FLOAT16, and half of the smallest number on top.

| data | is |
|---|---|
| all positive | numbers without a sign |
| alternating | the signs of neighbouring products differ |
| cancelling | half of the products take away all but 2^-12 of the others |
| huge, tiny | products near the ends of FLOAT32's range, sums near those of FLOAT16's |
| denormal | all magnitudes, down to denormal operands |"""


def product_errors_section(measurements: Path) -> Iterator[str]:
    """The section's lines.

    Args:
        measurements: what ``dmlvk bench product-errors --json`` wrote.
    """
    document = json.loads(measurements.read_text(encoding="utf-8"))
    yield f"## {HEADING}"
    yield ""
    yield from _INTRODUCTION.splitlines()
    yield ""
    versions = {library["name"]: library for library in document["libraries"]}
    others = [f"{name} by {each['version']}" for name, each in versions.items() if name != "NumPy"]
    numpy = f"NumPy {versions['NumPy']['version']} (OpenBLAS; its own loop for FLOAT16)"
    yield f"Measured on {document['device']} ({document['driver']}, {document['date'][:10]}), beside"
    yield f"{', '.join([numpy, *others])},"
    yield "by `dmlvk bench product-errors --json FILE`."
    if "cuBLAS" not in versions:
        yield "cuBLAS was not measured yet: the same command does, where PyTorch has a GPU."
    yield ""
    yield "dmlvk's typical error in FLOAT32, as a multiple of NumPy's:"
    yield f"{_beside_numpy(document['results'])}."
    yield ""
    names = ["dmlvk", "NumPy", "cuBLAS"]
    if document["device_kind"] != "CPU":  # whose bits are those of portable arithmetic, where nothing is denormal
        names.insert(1, _DEVICE_ARITHMETIC)
    for data_type in dict.fromkeys(entry["data_type"] for entry in document["results"]):
        head = [f"data, {data_type}", "terms", *names]
        rows = [_row(entry, names) for entry in document["results"] if entry["data_type"] == data_type]
        yield from table(head, rows, right=range(1, len(head)))
        yield ""


def _beside_numpy(results: Sequence[Mapping[str, Any]]) -> str:
    """By the number of terms the least and the greatest multiple of all kinds of data."""
    multiples: dict[int, list[float]] = {}
    for entry in results:
        if entry["data_type"] == "FLOAT32":
            multiple = entry["dmlvk"]["typical"] / entry["NumPy"]["typical"]
            multiples.setdefault(entry["terms"], []).append(multiple)
    return ", ".join(f"{min(of):.2g} to {max(of):.2g} with {terms:,} terms" for terms, of in multiples.items())


def _row(entry: Mapping[str, Any], names: list[str]) -> list[str]:
    figures = [(name, entry.get(name)) for name in names]
    words = [
        f"{each['typical']:.2g}, {each['largest']:.2g}" if each else "not yet" if name == "cuBLAS" else ""
        for name, each in figures
    ]
    return [entry["kind"], f"{entry['terms']:,}", *words]
