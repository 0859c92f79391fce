#!/usr/bin/env python3
"""Lists the FLOAT16 results of functions of one tensor that are not the number nearest to the true value.

    python scripts/list_float16_exceptions.py        all 65,536 inputs of each, into docs/accuracy.md

Attributes have usual values. The bits are the same on every device, so that any will do. Exit status: 0 done, 1 a
result is further from the true value than the operator promises.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, typical_attributes, value_cases
from dmlvk.conformance.comparison import compare
from dmlvk.conformance.measurement import attributes_text, described
from dmlvk.conformance.patterns import every_pattern
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.ulp import ulp_errors
from scripts.docs_tools.accuracy import accuracy_page
from scripts.docs_tools.measured import Measured

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"


def cases() -> list[ValueCase]:
    """Accurate operators with one FLOAT16 input, element by element."""
    return [
        case
        for case in value_cases()
        if [data_type for _, data_type in case.tensors("input")] == [dml.FLOAT16]
        and case.desc_class.declaration.accuracy.promise == "accurate"
        and case.desc_class.declaration.pattern == "elementwise"
    ]


def exceptions(device: dml.Device, case: ValueCase, attributes: dict[str, Any]) -> list[str]:
    """The inputs, as bits, whose results are not the nearest.

    Raises:
        ValueError: a result breaks the operator's promise.
    """
    inputs = every_pattern(dml.FLOAT16).view(np.float16)
    desc = described(case, inputs.size, attributes)
    (field, _), *_ = desc.inputs
    (got,) = device.run(desc, {field.name: inputs}).values()
    true = expected_output(desc, [inputs])
    comparison = compare(desc, got, true)
    if comparison.broken:
        raise ValueError(f"{case.name}: {comparison.broken} results break the promise")
    found = np.flatnonzero(ulp_errors(got, true) > 0.5)
    if found.size != comparison.misrounded:
        raise ValueError(f"{case.name}: {found.size} results above 0.5 ULP, {comparison.misrounded} not nearest")
    return [f"0x{bits:04x}" for bits in inputs.view(np.uint16)[found].tolist()]


def main() -> int:
    """Runs the script; returns the exit status."""
    found = {}
    with dml.Device() as device:
        for case in cases():
            for attributes in typical_attributes(case.desc_class, dml.FLOAT16):
                text = attributes_text(attributes)
                name = case.desc_class.operator_name + (f" ({text})" if text else "")
                try:
                    found[name] = exceptions(device, case, attributes)
                except ValueError as error:
                    print(error, file=sys.stderr)
                    return 1
    listed = {name: ", ".join(f"`{bits}`" for bits in of) for name, of in found.items() if of}
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(accuracy_page(page, dataclasses.replace(Measured.read(page), float16=listed)), encoding="utf-8")
    print(f"{len(found)} functions, {sum(map(len, found.values()))} results that are not the nearest")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
