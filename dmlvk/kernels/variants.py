"""Which shader variants there are, and which of them computes a given operator description.

A variant is a shader source with a set of defines. Its name is made here alone; the compile script and the runtime use
the same function. Data types, memory walk and the presence of optional attributes make a variant: what else differs
from call to call goes into specialization constants and push constants. (Presence was a specialization constant first;
but SwiftShader executes what such a constant excludes, which made THRESHOLD without ScaleBias 50 times slower.)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Literal

from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, Field, OperatorDesc

Walk = Literal["contiguous", "strided"]
WALKS: tuple[Walk, ...] = ("contiguous", "strided")

WORK_GROUP_SIZE = 256
"""Invocations of a work group, as in ``shaders/patterns``; SwiftShader's limit."""

_MOVED_AS = {8: DataType.UINT8, 16: DataType.UINT16, 32: DataType.UINT32, 64: DataType.UINT64}
_FAMILIES = {"ELEMENT_WISE_": "elementwise"}


@dataclasses.dataclass(frozen=True)
class ShaderVariant:
    """A shader to compile.

    Attributes:
        name: ``"element_wise_sign.float32.contiguous"``, also the name of the compiled file without its suffix.
        source: path below ``shaders/``.
        defines: preprocessor definitions, by name.
    """

    name: str
    source: str
    defines: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class AttributeWord:
    """One 32-bit word of an operator's attributes, in the order of the push constants.

    Attributes:
        field: the member that it comes from.
        part: which word of that member.
        name: what the shader calls it, ``ATTRIBUTE_MIN``.
    """

    field: Field
    part: int
    name: str


def source_of(operator_name: str) -> str:
    """The shader source of an operator: ``elementwise/sign.comp``."""
    for prefix, folder in _FAMILIES.items():
        if operator_name.startswith(prefix):
            return f"{folder}/{operator_name.removeprefix(prefix).lower()}.comp"
    raise KeyError(operator_name)


def operand_types(desc_class: type[OperatorDesc], data_types: dict[str, DataType]) -> tuple[DataType, ...]:
    """The data types that the shader sees, inputs first, the output last; moved values count by their width alone."""
    tensors = [field for kind in ("input", "output") for field in desc_class.fields if field.kind == kind]
    return tuple(
        _MOVED_AS[data_types[field.attribute].size_in_bits]
        if field.attribute in desc_class.declaration.moves
        else data_types[field.attribute]
        for field in tensors
    )


def lanes(walk: Walk, types: tuple[DataType, ...]) -> int:
    """Elements that one invocation computes.

    Contiguous: 16 bytes of the widest operand, but never less than a whole word of the output. Strided: 4.
    """
    if walk == "strided":
        return 4
    widest = max(data_type.size_in_bits for data_type in types)
    return max(128 // widest, 32 // types[-1].size_in_bits)


def attribute_words(desc_class: type[OperatorDesc]) -> tuple[AttributeWord, ...]:
    """The words of the push constants that follow the operands' base addresses, in order."""
    words = []
    for field in desc_class.fields:
        if field.kind != "attribute":
            continue
        parts = ("SCALE", "BIAS") if field.type == "scale_bias" else ("",)
        for part, suffix in enumerate(parts):
            name = "_".join(filter(None, ("ATTRIBUTE", field.attribute.upper(), suffix)))
            words.append(AttributeWord(field, part, name))
    return tuple(words)


def optional_attributes(desc_class: type[OperatorDesc]) -> tuple[str, ...]:
    """The optional attributes, by their Python names, in the description's order."""
    return tuple(field.attribute for field in desc_class.fields if field.kind == "attribute" and field.optional)


def present_attributes(desc: OperatorDesc) -> tuple[str, ...]:
    """Those optional attributes that a description gives."""
    return tuple(name for name in optional_attributes(type(desc)) if getattr(desc, name) is not None)


def variant_name(operator_name: str, types: tuple[DataType, ...], walk: Walk, present: tuple[str, ...] = ()) -> str:
    """The name of a variant; equal types of all operands are named once.

    Args:
        operator_name: ``"ELEMENT_WISE_SIGN"``.
        types: as :func:`operand_types` gives them.
        walk: the memory walk.
        present: the optional attributes that are given, by their Python names, in the description's order.
    """
    names = [data_type.name.lower() for data_type in types]
    if len(set(names)) == 1:
        names = names[:1]
    return ".".join([operator_name.lower(), "_".join(names), *present, walk])


def variant(
    desc_class: type[OperatorDesc], types: tuple[DataType, ...], walk: Walk, present: tuple[str, ...]
) -> ShaderVariant:
    """The variant that :func:`variant_name` names."""
    operands = [f"INPUT_{i}" for i in range(len(types) - 1)] + ["OUTPUT"]
    defines = {"STRIDED": str(int(walk == "strided")), "LANES": str(lanes(walk, types))}
    for operand, data_type in zip(operands, types, strict=True):
        defines[operand] = data_type.name.lower()
        defines[f"{operand}_BITS"] = str(data_type.size_in_bits)
    words = attribute_words(desc_class)
    defines["ATTRIBUTE_WORDS"] = str(len(words))
    for i, word in enumerate(words):
        defines[word.name] = f"parameters.attributes[{i}]"
    for attribute in optional_attributes(desc_class):
        defines[f"HAS_{attribute.upper()}"] = str(int(attribute in present))
    name = variant_name(desc_class.operator_name, types, walk, present)
    return ShaderVariant(name, source_of(desc_class.operator_name), tuple(sorted(defines.items())))


def supported_data_types(desc_class: type[OperatorDesc]) -> Iterator[dict[str, DataType]]:
    """Every combination of data types, by tensor member, that some feature level accepts."""
    seen = set()
    for table in desc_class.declaration.support:
        members = list(table.data_types)
        for combination in itertools.product(*table.data_types.values()):
            data_types = dict(zip(members, combination, strict=True))
            if combination not in seen and _agree(data_types, desc_class.declaration.same_data_type):
                seen.add(combination)
                yield data_types


def _agree(data_types: dict[str, DataType], groups: Iterable[tuple[str, ...]]) -> bool:
    return all(len({data_types[member] for member in group}) == 1 for group in groups)


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for count in range(len(names) + 1):
        yield from itertools.combinations(names, count)


def all_variants() -> list[ShaderVariant]:
    """Every variant that the package ships, sorted by name."""
    found = {}
    for desc_class in OPERATORS.values():
        for data_types in supported_data_types(desc_class):
            types = operand_types(desc_class, data_types)
            for walk, present in itertools.product(WALKS, _subsets(optional_attributes(desc_class))):
                made = variant(desc_class, types, walk, present)
                found[made.name] = made
    return [found[name] for name in sorted(found)]
