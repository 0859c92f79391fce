"""What the host tells a module before it is compiled, so that one module serves several operators and data types.

Those are values of attributes for which a shader has a way of its own, cheaper than that for any value; which of a few
operators it computes; and which integers have a sign. A kernel with several ways takes as many registers as the longest
of them needs, also where the choice is the same for all elements.
"""

from __future__ import annotations

import functools

from dmlvk.datatypes import float32_bits
from dmlvk.kernels import library
from dmlvk.operators import OperatorDesc
from dmlvk.spirv.modules import with_constant

SPECIAL_ATTRIBUTE = 1001  # The ``constant_id`` of ``shaders/include/special_attribute.glsl``

SPECIAL_VALUES: dict[str, tuple[str, tuple[float, ...]]] = {
    "ACTIVATION_CELU": ("alpha", (1.0,)),
    "ACTIVATION_ELU": ("alpha", (1.0,)),
    "ACTIVATION_SOFTPLUS": ("steepness", (1.0,)),
    "ACTIVATION_SWISH": ("sigmoid_input_scale", (1.0,)),
    "ELEMENT_WISE_CONSTANT_POW": ("exponent", (-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0)),
}
"""By operator: the attribute, and its values for which the shader has another way."""


_RELATION = 1 << 8
_REVERSED = 4 * _RELATION

RELATIONS: dict[str, int] = {
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": _RELATION,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": 2 * _RELATION,
    "ELEMENT_WISE_LOGICAL_LESS_THAN": _RELATION + _REVERSED,
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": 2 * _RELATION + _REVERSED,
}
"""By comparison: which one it is, as ``shaders/include/comparison.glsl`` counts; of others nothing."""


def is_told(desc: OperatorDesc) -> bool:
    """Whether the function of an operator, with no activation, is told something."""
    return desc.operator_name in SPECIAL_VALUES or bool(desc.declaration.signs)


def special_attribute(desc: OperatorDesc) -> int:
    """What a module is told: ``SPECIAL_ATTRIBUTE`` of ``shaders/include/special_attribute.glsl``.

    The FLOAT32 bits of an operator's attribute, or its fused activation's, where they are special; or a bit for each of
    the declaration's ``signs`` that there is, and which comparison it is; else 0.
    """
    computed = desc if desc.activation is None else desc.activation
    if computed.operator_name not in SPECIAL_VALUES:
        return _signs(desc) | RELATIONS.get(desc.operator_name, 0)
    attribute, values = SPECIAL_VALUES[computed.operator_name]
    bits = float32_bits(getattr(desc, attribute) if desc.activation is None else desc.activation.value_of(attribute))
    return bits if bits in map(float32_bits, values) else 0


def _signs(desc: OperatorDesc) -> int:
    types = [getattr(desc, member).data_type for member in desc.declaration.signs]
    return sum(data_type.name.startswith("INT") << number for number, data_type in enumerate(types))


def load(variant: str, special: int) -> bytes:
    """The SPIR-V of a variant for what :func:`special_attribute` says.

    Raises:
        ShaderLibraryError: it is missing or damaged; or, in a source checkout, cannot be compiled.
    """
    spirv = library.load(variant)
    return _with_special_values(spirv, special) if special else spirv


@functools.lru_cache(maxsize=64)
def _with_special_values(spirv: bytes, special: int) -> bytes:
    return with_constant(spirv, SPECIAL_ATTRIBUTE, special)
