"""Which shader variants there are, and which of them computes a given operator description.

A variant is a shader source with a set of defines. Its name is made here alone; the compile script and the runtime use
the same function. Data types, access order and the presence of optional members make a variant: what else differs
from call to call goes into specialization constants and push constants. (Presence was a specialization constant first;
but SwiftShader executes what such a constant excludes, which made THRESHOLD without ScaleBias 50 times slower.)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import WORK_GROUP_SIZE
from dmlvk.kernels.library.named import shader_variants
from dmlvk.operators import OPERATORS, OWN_OPERATORS, Field, FusedActivation, OperatorDesc, Support, accepts_data_type

AccessOrder = Literal["contiguous", "rows", "tiled", "strided", "in_registers", "long", "alone"]
ACCESS_ORDERS: tuple[AccessOrder, ...] = ("contiguous", "rows", "tiled", "strided")
"""How an element-wise kernel goes through memory; ``patterns/elementwise/elementwise.glsl`` counts them from 0."""

ROW_ACCESS_ORDERS: tuple[AccessOrder, ...] = ("in_registers", "long", "alone")
"""How a kernel along axes goes through rows; ``shaders/patterns/rows/along_axes.glsl`` says how."""

BLOCK = 4  # Neighbouring elements that one lane of a row takes at once

BLOCKS_IN_REGISTERS = 4  # Blocks that a lane adds up at once, and keeps in registers where it has no more

TILES_IN_BYTES = 16384  # Shared memory of a work group that every Vulkan device has

WORK_GROUP_SIZE_WITH_TWO_VECTORS = 128
"""The same where each computes two vectors: more of them lose 2 to 3%, fewer 1 to 2%."""

_MOVED_AS = {8: DataType.UINT8, 16: DataType.UINT16, 32: DataType.UINT32, 64: DataType.UINT64}
_FAMILIES = {"ELEMENT_WISE_": "elementwise", "ACTIVATION_": "activation"}


_NO_VALUES = ("data_type", "uint32", "uint32_array", "operator_desc")
"""Types of attributes that decide on the kernel or its geometry, and are no values of the computation."""

_FUSED = "fused_"
"""What the names of fused activations begin with among the optional members that are present: ``"fused_elu"``."""

_CHANGES_NOTHING = "ACTIVATION_IDENTITY"  # The activation that is fused by leaving it out


@dataclasses.dataclass(frozen=True)
class ShaderVariant:
    name: str  # ``"element_wise_sign.float32.contiguous"``, also the name of the compiled file without its suffix
    source: str  # path below ``shaders/``
    defines: tuple[tuple[str, str], ...]  # preprocessor definitions, by name


@dataclasses.dataclass(frozen=True)
class AttributeWord:
    """One 32-bit word of an operator's attributes, in the order of the push constants."""

    field: Field  # the member that it comes from
    part: int  # which word of that member
    name: str  # what the shader calls the value whose first word this is, ``ATTRIBUTE_MIN``; empty for a second word
    # whether it is a member of the fused activation; the shader calls it ``ATTRIBUTE_FUSED_MIN``
    is_fused: bool = False


def shader_name(desc_class: type[OperatorDesc], present: tuple[str, ...] = ()) -> str:
    """The operator whose shaders compute this one: usually itself, and always where an activation is fused."""
    is_fused = fused_class(desc_class, present) is not None
    return desc_class.operator_name if is_fused else desc_class.declaration.computed_as or desc_class.operator_name


def _fused_name(activation: str) -> str:
    return _FUSED + activation.removeprefix("ACTIVATION_").removeprefix("ELEMENT_WISE_").lower()


def fused_class(desc_class: type[OperatorDesc], present: tuple[str, ...]) -> type[OperatorDesc] | None:
    """The activation that is fused, from the names of what is present; ``None``: none, or one that changes nothing."""
    for field in desc_class.fields:
        for activation in field.fusable:
            if _fused_name(activation) in present:
                return OPERATORS[activation]
    return None


_LONG_OF_INTEGERS = ("ELEMENT_WISE_POW",)
"""Whose functions of integers take so long that how they go through memory hardly matters."""


def access_orders_of(desc_class: type[OperatorDesc], types: tuple[DataType, ...]) -> tuple[AccessOrder, ...]:
    """How an operator's kernels for operands of such types, inputs first, go through memory."""
    if desc_class.declaration.pattern == "rows":
        return ROW_ACCESS_ORDERS
    if desc_class.operator_name not in _LONG_OF_INTEGERS or all(data_type.is_float for data_type in types):
        return ACCESS_ORDERS
    return ("contiguous", "strided")


def source_of(operator_name: str) -> str:
    """The shader source of an operator: ``elementwise/sign.comp``."""
    for prefix, folder in _FAMILIES.items():
        if operator_name.startswith(prefix):
            return f"{folder}/{operator_name.removeprefix(prefix).lower()}.comp"
    raise KeyError(operator_name)


def operand_types(
    desc_class: type[OperatorDesc], data_types: Mapping[str, DataType], present: tuple[str, ...] = ()
) -> tuple[DataType, ...]:
    """The data types that the shader sees, inputs first, the output last; tensors that are absent are left out.

    Values that are only moved count by their width alone; with an optional attribute they are computed with. So do
    integers of which the shader is told the sign: :func:`dmlvk.kernels.special_values.special_attribute`.

    Args:
        data_types: by tensor member, those that are present.
        present: the optional members that are given.
    """
    is_computed = any(field.kind == "attribute" and field.attribute in present for field in desc_class.fields)
    moves = () if is_computed else desc_class.declaration.moves
    told = _told_signs(desc_class)
    return tuple(
        _MOVED_AS[data_type.size_in_bits]
        if field.attribute in moves or (field.attribute in told and not data_type.is_float)
        else data_type
        for kind in ("input", "output")
        for field in desc_class.fields
        if field.kind == kind and (data_type := data_types.get(field.attribute)) is not None
    )


def _told_signs(desc_class: type[OperatorDesc]) -> frozenset[str]:
    """The tensor members of which the shader is told whether their integers have a sign."""
    signs = desc_class.declaration.signs
    groups = (group for group in desc_class.same_data_type if not set(signs).isdisjoint(group))
    return frozenset(itertools.chain(signs, *groups))


def lanes(access_order: AccessOrder, types: tuple[DataType, ...]) -> int:
    """Neighbouring elements that one invocation computes, of one line where it has several.

    Contiguous and rows: 16 bytes of the widest operand, but never less than a whole word of the output. Tiled: as many
    as let the invocations of a work group share a tile. All others: 4.
    """
    if access_order == "tiled":
        fewest = 2 if types[-1].size_in_bits == 64 else 4
        return max(fewest, tile_size(types) ** 2 // (lines(types) * WORK_GROUP_SIZE))
    if access_order not in ("contiguous", "rows"):
        return 4
    return max(128 // _widest(types), 32 // types[-1].size_in_bits)


def tile_size(types: tuple[DataType, ...]) -> int:
    """Elements along each side of a tile: 64 of narrow types, where a tile of every input fits into shared memory.

    Rows of 128 bytes are enough; more only lets fewer work groups share a GPU's core (64 for FLOAT32: half the speed).
    Below 32, invocations would have nothing to compute: what does not fit then goes without a tile.
    """
    element = sum(data_type.size_in_bytes for data_type in types[:-1])
    return 64 if _widest(types) < 32 and 64 * 64 * element <= TILES_IN_BYTES else 32


def tiles_at_once(types: tuple[DataType, ...]) -> int:
    """Tiles of every input that a work group has for large tensors: two where few bytes share the index arithmetic.

    Measured on an NVIDIA H200: 8-bit elements gain 7 to 18%, functions of one 32-bit input 7 to 16%; kernels with more
    or wider operands lose up to 4%, and those of FLOAT16 up to 5%.
    """
    element = sum(data_type.size_in_bytes for data_type in types[:-1])
    fits = 2 * tile_size(types) ** 2 * element <= TILES_IN_BYTES
    return 2 if fits and (_widest(types) == 8 or (_widest(types) == 32 and len(types) == 2)) else 1


def lines(types: tuple[DataType, ...]) -> int:
    """Lines of a tile that one invocation computes: as many as share a word of every operand, while all have work.

    Two, where the output has 64 bits: of 4 neighbours in one line each invocation would store 32 bytes.
    """
    elements = max(1, tile_size(types) ** 2 // WORK_GROUP_SIZE)
    if types[-1].size_in_bits == 64:
        return max(1, elements // 2)
    return min(32 // min(_widest(types), 32), max(1, elements // 4))


def _widest(types: tuple[DataType, ...]) -> int:
    return max(data_type.size_in_bits for data_type in types)


def attribute_words(
    desc_class: type[OperatorDesc], output_type: DataType, present: tuple[str, ...] = ()
) -> tuple[AttributeWord, ...]:
    """The words of the push constants that follow the operands' base addresses, in order.

    Args:
        output_type: the output's data type, which decides how long a value converted to it is.
        present: the optional members that are given; a fused activation's attributes follow the operator's own.
    """
    words = [word for field in desc_class.fields for word in _words_of(field, output_type, False)]
    fused = fused_class(desc_class, present)
    if fused is not None:
        words += [word for field in fused.fields for word in _words_of(field, output_type, True)]
    return tuple(words)


def _words_of(field: Field, output_type: DataType, is_fused: bool) -> Iterator[AttributeWord]:
    if field.kind != "attribute" or field.type in _NO_VALUES:
        return
    name = f"ATTRIBUTE_{'FUSED_' * is_fused}{field.attribute.upper()}"
    if field.type == "scale_bias":
        yield AttributeWord(field, 0, f"{name}_SCALE", is_fused)
        yield AttributeWord(field, 1, f"{name}_BIAS", is_fused)
        return
    yield AttributeWord(field, 0, name, is_fused)
    if field.converted_to is not None and output_type.size_in_bits == 64:
        yield AttributeWord(field, 1, "", is_fused)


def optional_members(desc_class: type[OperatorDesc]) -> tuple[str, ...]:
    """The optional tensors and attributes, by their Python names, in the description's order."""
    return tuple(field.attribute for field in desc_class.fields if field.optional)


def present_members(desc: OperatorDesc) -> tuple[str, ...]:
    """Those optional members that a description gives; a fused activation by its own name, ``"fused_elu"``."""
    names = []
    for name in optional_members(type(desc)):
        value = getattr(desc, name)
        if isinstance(value, FusedActivation):
            names += [_fused_name(value.operator_name)] * (value.operator_name != _CHANGES_NOTHING)
        elif value is not None:
            names.append(name)
    return tuple(names)


def operands_of(desc: OperatorDesc) -> tuple[tuple[DataType, ...], tuple[str, ...]]:
    """A description's :func:`operand_types` and :func:`present_members`."""
    present = present_members(desc)
    tensors = {field.attribute: tensor.data_type for field, tensor in desc.inputs + desc.outputs if tensor is not None}
    return operand_types(type(desc), tensors, present), present


def variant_name(
    operator_name: str, types: tuple[DataType, ...], access_order: AccessOrder, present: tuple[str, ...] = ()
) -> str:
    """The name of a variant; equal types of all operands are named once.

    Args:
        operator_name: ``"ELEMENT_WISE_SIGN"``.
        present: the optional members that are given, by their Python names, in the description's order.
    """
    names = [data_type.name.lower() for data_type in types]
    if len(set(names)) == 1:
        names = names[:1]
    return ".".join([operator_name.lower(), "_".join(names), *present, access_order])


def variant(
    desc_class: type[OperatorDesc], types: tuple[DataType, ...], access_order: AccessOrder, present: tuple[str, ...]
) -> ShaderVariant:
    """The variant that :func:`variant_name` names."""
    defines = _operand_defines(types, access_order)
    words = attribute_words(desc_class, types[-1], present)
    defines["ATTRIBUTE_WORDS"] = str(len(words))
    for i, word in enumerate(words):
        if i + 1 < len(words) and not words[i + 1].name:
            defines[word.name] = f"uvec2(parameters.attributes[{i}], parameters.attributes[{i + 1}])"
        elif word.name:
            defines[word.name] = f"parameters.attributes[{i}]"
    for field in desc_class.fields:
        if field.optional and field.type != "operator_desc":
            defines[f"HAS_{field.attribute.upper()}"] = str(int(field.attribute in present))
    defines |= {member.upper(): "1" for member in present if member.startswith(_FUSED)}
    shader = shader_name(desc_class, present)
    return ShaderVariant(
        variant_name(shader, types, access_order, present), source_of(shader), tuple(sorted(defines.items()))
    )


def _operand_defines(types: tuple[DataType, ...], access_order: AccessOrder) -> dict[str, str]:
    operands = [f"INPUT_{i}" for i in range(len(types) - 1)] + ["OUTPUT"]
    defines = {"INPUT_COUNT": str(len(types) - 1), "LANES": str(lanes(access_order, types))}
    if access_order in ROW_ACCESS_ORDERS:
        defines["ROW_ACCESS_ORDER"] = access_order.upper()
    else:
        defines |= {
            "ACCESS_ORDER": str(ACCESS_ORDERS.index(access_order)),
            "TILE": f"{tile_size(types)}u",
            "LINES": str(lines(types)),
        }
        defines["TILES"] = str(tiles_at_once(types))
    for operand, data_type in zip(operands, types, strict=True):
        defines[operand] = data_type.name.lower()
        defines[f"{operand}_BITS"] = str(data_type.size_in_bits)
    return defines


def elementwise_variant(
    name: str,  # the variant's name but for data types and access order
    source: str,  # path below ``shaders/``
    types: tuple[DataType, ...],  # of the inputs and, last, the output
    access_order: AccessOrder,
    defines: Mapping[str, str],
    attributes: int = 0,  # words of attributes behind the operands' places, ``parameters.attributes``
) -> ShaderVariant:
    """A variant of a shader that goes through elements and is not an operator's whole computation."""
    all_defines = {**_operand_defines(types, access_order), "ATTRIBUTE_WORDS": str(attributes), **defines}
    return ShaderVariant(variant_name(name, types, access_order), source, tuple(sorted(all_defines.items())))


LOOKUP_TYPES = (DataType.UINT16, DataType.UINT16)  # The operands of a lookup as its shader sees them


def lookup_variant_name(access_order: AccessOrder) -> str:
    """The name of the variant that reads a 16-bit operand's results from a table."""
    return f"lookup.uint16.{access_order}"


def lookup_variant(access_order: AccessOrder) -> ShaderVariant:
    """The variant that :func:`lookup_variant_name` names."""
    defines = {**_operand_defines(LOOKUP_TYPES, access_order), "ATTRIBUTE_WORDS": "0"}
    return ShaderVariant(lookup_variant_name(access_order), "lookup/lookup.comp", tuple(sorted(defines.items())))


CONVERSION_TYPES = (DataType.FLOAT32, DataType.FLOAT16)  # The operands of a conversion

CONVERSION_VARIANT_NAME = "float16_from_float32.contiguous"
"""The variant that converts FLOAT32 to FLOAT16, by which devices are tried."""


def conversion_variant() -> ShaderVariant:
    """The variant that :data:`CONVERSION_VARIANT_NAME` names."""
    source = "conversion/float16_from_float32.comp"
    defines = {**_operand_defines(CONVERSION_TYPES, "contiguous"), "ATTRIBUTE_WORDS": "0"}
    return ShaderVariant(CONVERSION_VARIANT_NAME, source, tuple(sorted(defines.items())))


def supported_data_types(desc_class: type[OperatorDesc]) -> Iterator[dict[str, DataType]]:
    """Every combination of data types, by tensor member, that some feature level accepts; optional tensors included."""
    seen = set()
    for table in desc_class.declaration.support:
        members = list(table.operand_types)
        for combination in itertools.product(*table.operand_types.values()):
            data_types = dict(zip(members, combination, strict=True))
            if combination not in seen and _agree(data_types, desc_class) and _is_chosen(data_types, table):
                seen.add(combination)
                yield data_types


def _is_chosen(data_types: Mapping[str, DataType], table: Support) -> bool:
    """Whether some value of the attribute on which data types depend permits these."""
    return table.choices is None or any(choice.accepts(data_types) for choice in table.choices[1].values())


def _agree(data_types: Mapping[str, DataType], desc_class: type[OperatorDesc]) -> bool:
    return all(len({data_types[member] for member in group}) == 1 for group in desc_class.same_data_type) and all(
        rule.wanted(data_types[rule.source]) is data_types[rule.member]
        for rule in desc_class.declaration.data_type_rules
    )


def supported_operands(desc_class: type[OperatorDesc]) -> Iterator[tuple[dict[str, DataType], tuple[str, ...]]]:
    """Every combination of data types with every set of optional tensors.

    Yields the data types of the tensors that are present, by tensor member, and the optional ones among them.
    """
    optional = [field.attribute for field in desc_class.fields if field.optional and field.type == "tensor"]
    seen = set()
    for data_types in supported_data_types(desc_class):
        for present in _subsets(optional):
            given = {member: t for member, t in data_types.items() if member in present or member not in optional}
            if tuple(given.items()) not in seen:
                seen.add(tuple(given.items()))
                yield given, present


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for count in range(len(names) + 1):
        yield from itertools.combinations(names, count)


def optional_attributes(desc_class: type[OperatorDesc], data_types: Mapping[str, DataType]) -> tuple[str, ...]:
    """The optional attributes that may be given for these data types, by their Python names, in order."""
    return tuple(
        field.attribute
        for field in desc_class.fields
        if field.optional
        and field.kind == "attribute"
        and all(accepts_data_type(field, data_type) for data_type in data_types.values())
    )


def _attribute_sets(desc_class: type[OperatorDesc], data_types: Mapping[str, DataType]) -> Iterator[tuple[str, ...]]:
    """Every set of optional attributes that may be given, as :func:`present_members` names them."""
    fields = {field.attribute: field for field in desc_class.fields}
    choices: list[list[str | None]] = []
    for name in optional_attributes(desc_class, data_types):
        fused = [_fused_name(activation) for activation in fields[name].fusable if activation != _CHANGES_NOTHING]
        choices.append([None, *(fused or [name])])
    for chosen in itertools.product(*choices):
        yield tuple(name for name in chosen if name is not None)


@shader_variants
def regular_variants() -> list[ShaderVariant]:
    """The variants of operators that go through elements or rows, and of what looks results up or converts them."""
    found = {made.name: made for made in (conversion_variant(), *map(lookup_variant, ACCESS_ORDERS))}
    for desc_class in (*OPERATORS.values(), *OWN_OPERATORS.values()):
        if not desc_class.declaration.is_regular:
            continue
        for data_types, present_tensors in supported_operands(desc_class):
            for present_attributes in _attribute_sets(desc_class, data_types):
                # Tensors stand before attributes in every description.
                present = (*present_tensors, *present_attributes)
                types = operand_types(desc_class, data_types, present)
                for access_order in access_orders_of(desc_class, types):
                    made = variant(desc_class, types, access_order, present)
                    found[made.name] = made
    return list(found.values())
