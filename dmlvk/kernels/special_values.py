"""Values of attributes for which shaders have a way of their own, cheaper than that for any value.

The host tells the compiler which of them is given: a kernel with several ways takes as many registers as the longest of
them needs, also where the choice is the same for all elements.
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


def special_attribute(desc: OperatorDesc) -> int:
    """The FLOAT32 bits of an operator's attribute, or its fused activation's, where they are special; else 0."""
    computed = desc if desc.activation is None else desc.activation
    if computed.operator_name not in SPECIAL_VALUES:
        return 0
    attribute, values = SPECIAL_VALUES[computed.operator_name]
    bits = float32_bits(getattr(desc, attribute) if desc.activation is None else desc.activation.value_of(attribute))
    return bits if bits in map(float32_bits, values) else 0


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
