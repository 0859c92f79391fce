"""What operators promise and ask for, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dmlvk.conformance.ulp import promised_ulp
from dmlvk.datatypes import DataType
from dmlvk.operators import DataTypeRule, OperatorDesc, Support


def promise_by_data_type(desc_class: type[OperatorDesc]) -> dict[DataType, str]:
    """What is promised of each float data type that an operator's results may have, in words: ``at most 0.55 ULP``."""
    accuracy = desc_class.declaration.accuracy
    outputs = [field.attribute for field in desc_class.fields if field.kind == "output"]
    types = dict.fromkeys(
        data_type
        for table in desc_class.declaration.support
        for member in outputs
        for data_type in table.data_types[member]
        if data_type.is_float
    )
    if accuracy.promise == "accurate":
        return {data_type: f"at most {promised_ulp(accuracy, data_type):.6g} ULP" for data_type in types}
    words = {"exact": "exact", "correctly rounded": "correctly rounded, at most 0.5 ULP"}
    return dict.fromkeys(types, words[accuracy.promise])


def promise_text(desc_class: type[OperatorDesc]) -> str:
    """``accurate: FLOAT32 at most 0.55 ULP, FLOAT16 at most 0.500067 ULP``, with the declaration's remark behind it."""
    accuracy = desc_class.declaration.accuracy
    text: str = accuracy.promise
    if accuracy.promise == "accurate" and math.isfinite(accuracy.maximum_ulp):
        bounds = promise_by_data_type(desc_class).items()
        text += ": " + ", ".join(f"{data_type.name} {words}" for data_type, words in bounds)
    elif accuracy.promise == "accurate":  # not in units of the result, but as the remark says
        return f"{text}: {accuracy.remark}"
    return f"{text}; {accuracy.remark}" if accuracy.remark else text


def rule_text(rule: DataTypeRule, names: Mapping[str, str]) -> str:
    """``The data type of ScaleTensor is that of InputTensor, for INT32 FLOAT32.``

    Args:
        rule: how a data type follows from another.
        names: DirectML's names of the members, by their Python names.
    """
    exceptions = "".join(f", for {source.name} {wanted.name}" for source, wanted in rule.exceptions.items())
    return f"The data type of {names[rule.member]} is that of {names[rule.source]}{exceptions}."


def support_rows(support: Support, names: Mapping[str, str]) -> list[tuple[str, str, tuple[DataType, ...]]]:
    """What a support table accepts: dimensions (``"1 to 8"``), the tensors' names and their data types, row by row."""
    rows: dict[tuple[tuple[int, int], tuple[DataType, ...]], list[str]] = {}
    for member, types in support.data_types.items():
        needed = " (required)" if member in support.required else ""
        rows.setdefault((support.dimensions_for(member), types), []).append(f"{names[member]}{needed}")
    return [
        (str(fewest) if fewest == most else f"{fewest} to {most}", ", ".join(members), types)
        for ((fewest, most), types), members in rows.items()
    ]
