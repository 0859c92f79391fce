"""``docs/onnx-operators.md``: which operators of ONNX are translated, and which are the host's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

import dmlvk.onnx.nodes.operators as operators
from dmlvk.datatypes import DataType
from dmlvk.onnx.backend.exclusions import EXCLUSIONS
from dmlvk.onnx.host.evaluators import HOST_ONLY
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.translation import FLOATS, TRANSLATIONS, Translation
from dmlvk.onnx.nodes.values import DATA_TYPES, element_name
from dmlvk.operators import OPERATORS, FeatureLevel
from scripts.docs_tools.markdown import page, table

assert operators  # importing it registers the translators

_TABLE = """\
A node becomes the operators of DirectML that its row names. [operators.md](operators.md) has their data types.
Operators that ONNX defines by others (`RMSNormalization`, `AffineGrid` and more) run by their definition, where the
device has all of it. What is left goes to [the host](onnx.md#the-host)."""

_HOST = """\
These operators are on the host whatever their types are. So are all of other domains that the table above does not
name (ai.onnx.ml and so on), as far as ONNX Runtime has them:"""


def onnx_page() -> str:
    lines = ["# ONNX operators", "", *_TABLE.splitlines(), ""]
    lines += table(["Operator", "Versions", "Types of the first input", "DirectML's operators", "Remarks"], _rows())
    lines += ["", "## On the host", "", *_HOST.splitlines(), "", *table(["Operators", "Why"], _host_rows()), ""]
    lines += ["## Cases of the ONNX project that are excluded", ""]
    return page(lines + table(["Cases", "Why"], ([f"`{item.pattern}`", item.reason] for item in EXCLUSIONS)))


def _rows() -> Iterator[list[str]]:
    for (domain, op_type), known in sorted(TRANSLATIONS.items(), key=lambda item: (item[0][0], item[0][1].lower())):
        if domain == JOINED:
            continue  # no file has them
        for translation in known:
            yield [
                f"{domain}.{op_type}" if domain else op_type,
                _versions(translation),
                _types(translation),
                _made_of(translation),
                translation.note,
            ]


def _versions(translation: Translation) -> str:
    if translation.domain:
        return str(translation.since)
    schemas = onnx.defs.get_all_schemas_with_history()
    versions = sorted(
        schema.since_version
        for schema in schemas
        if schema.name == translation.op_type and schema.domain == "" and schema.since_version >= translation.since
    )
    return ", ".join(str(version) for version in versions) or f"{translation.since} (of ONNX Runtime)"


_RUNS = (
    ("FLOAT", ("FLOAT",)),
    ("FLOAT16", ("FLOAT16",)),
    ("DOUBLE", ("DOUBLE",)),
    ("INT8 to INT64", ("INT8", "INT16", "INT32", "INT64")),
    ("UINT8 to UINT64", ("UINT8", "UINT16", "UINT32", "UINT64")),
    ("BOOL", ("BOOL",)),
    ("INT4, UINT4", ("INT4", "UINT4")),
)
"""Types that are named together where all of them are there."""


def _types(translation: Translation) -> str:
    """What the device has of the types that ONNX permits, and the operator takes; where no operator is named, moves."""
    permitted = _permitted(translation)
    there = set(DATA_TYPES)
    taken = [_taken(name) for name in translation.operators if name in OPERATORS]
    if taken:
        accepted = set.intersection(*taken)
        if any(name in ("QUANTIZE", "DEQUANTIZE") for name in translation.operators):
            accepted = set.union(*taken)  # one of them, by the type
        elif translation.op_type.startswith("QLinear"):
            accepted = taken[0]  # the others compute with what it makes
        there = {element for element in there if DATA_TYPES[element] in accepted}
    if permitted is None:  # ONNX Runtime's own: of numbers where it takes numbers, else of 8 bits
        there.discard(onnx.TensorProto.BOOL)  # which UINT8 stands for where ONNX asks for it
        if translation.op_type.startswith("QLinear"):
            there = {element for element in there if element_name(element) in ("INT8", "UINT8")}
        elif onnx.TensorProto.FLOAT in there:
            there.intersection_update(FLOATS)
    names = {element_name(element) for element in there if permitted is None or element in permitted}
    shown = []
    for run, members in _RUNS:
        found = [name for name in members if name in names]
        shown.append(run if len(found) == len(members) else ", ".join(found))
    return ", ".join(text for text in shown if text)


def _taken(operator: str) -> set[DataType]:
    """The data types that an operator of DirectML takes as its first input."""
    kind = OPERATORS[operator]
    first = next(field for field in kind.fields if field.kind == "input")
    return set(kind.declaration.support_at(FeatureLevel.LEVEL_6_4).data_types[first.member])


def _permitted(translation: Translation) -> set[int] | None:
    """The element types that ONNX's newest definition permits of the first input; ``None``: it has none."""
    try:
        schema = onnx.defs.get_schema(translation.op_type, domain=translation.domain)
    except onnx.defs.SchemaError:
        return None
    if not schema.inputs:
        return None
    words = {"float": "FLOAT", "double": "DOUBLE"}
    found = [str(kind).removeprefix("tensor(").removesuffix(")") for kind in schema.inputs[0].types]
    numbers = dict(onnx.TensorProto.DataType.items())
    return {numbers[name] for text in found if (name := words.get(text, text.upper())) in numbers}


def _host_rows() -> Iterator[list[str]]:
    """Operators that the device does not have, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    schemas: Any = onnx.defs.get_all_schemas()  # the package's annotations leave out what is asked for
    for schema in schemas:
        known = schema.domain == "" and (schema.domain, schema.name) not in TRANSLATIONS and not schema.deprecated
        has_body = schema.has_function or schema.has_context_dependent_function
        if known and not has_body and schema.name not in _FROM_SHAPES:
            by_reason.setdefault(HOST_ONLY.get(schema.name, "DirectML has no operator for it"), []).append(schema.name)
    for reason, names in sorted(by_reason.items()):
        yield [", ".join(sorted(names)), reason]


_FROM_SHAPES = ("Constant", "ConstantOfShape", "EyeLike", "Range", "Shape", "Size")
"""Operators that are done when a model is planned."""


def _made_of(translation: Translation) -> str:
    return ", ".join(translation.operators) or "views, or chosen by attributes"
