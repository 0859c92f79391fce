"""Samples: descriptions with inputs, by which operators are tried whose tensors have sizes of their own.

For each such operator a module here lists samples for every combination of data types, and one in
:mod:`dmlvk.conformance.references` says what their outputs must be. Tests, ``dmlvk conformance`` and ``dmlvk bench``
follow from the two.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.conformance import facets
from dmlvk.datatypes import DataType
from dmlvk.kernels.variants import supported_data_types
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.operators.naming import inferred_desc
from dmlvk.tensors import TensorDesc

Array: TypeAlias = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Sample:
    # what is special about it: the same on every machine, and different from that of every other sample of its
    # operator and data types
    name: str
    desc: OperatorDesc  # the description; its tensors are packed, unless their strides are the point (broadcasts, say)
    inputs: Mapping[str, Array]  # the logical arrays, by DirectML's member names (``"InputTensors[0]"`` in an array)


Types: TypeAlias = Mapping[str, DataType]  # The data type of each tensor member, by its Python name


def sample(name: str, operator: str, types: Types, inputs: Mapping[str, Array], **members: Any) -> Sample:
    """A sample whose tensors have the sizes of arrays, and whose outputs have those that follow.

    Args:
        name: what is special about it.
        inputs: the logical arrays, by Python names; what is optional and not among them is absent.
        members: attributes, but for numbers of entries; sizes of outputs that do not follow, or ``None``: absent.
    """
    tensors = {member: TensorDesc(types[member], array.shape) for member, array in inputs.items()}
    names = {field.attribute: field.name for field in OPERATORS[operator].fields}
    desc = inferred_desc(operator, {**tensors, **members}, types)
    return Sample(name, desc, {names[member]: array for member, array in inputs.items()})


Sampler: TypeAlias = Callable[[Types, np.random.Generator], Iterator[Sample]]
"""Yields the samples of an operator for a combination of data types: the same ones for equal random generators."""

SAMPLERS: dict[str, Sampler] = {}  # By operator; the modules of this folder fill it in: :func:`sampler`


def sampler(operator_name: str) -> Callable[[Sampler], Sampler]:
    def declared(function: Sampler) -> Sampler:
        SAMPLERS[operator_name] = function
        return function

    return declared


@dataclasses.dataclass(frozen=True)
class SampleCase:
    desc_class: type[OperatorDesc]  # its description
    data_types: tuple[tuple[str, DataType], ...]  # by tensor member (Python names), in order

    @property
    def name(self) -> str:
        """``gather-float32-uint32``: a data type that neighbouring members share is named once."""
        names = [data_type.name.lower() for _, data_type in self.data_types]
        return "-".join([self.desc_class.operator_name.lower(), *(name for name, _ in itertools.groupby(names))])

    def samples(self) -> Iterator[Sample]:
        """The samples, the same ones on every machine.

        Raises:
            FacetError: when the operator has none, or its sampler fails.
        """
        name, make = self.desc_class.operator_name, SAMPLERS.get(self.desc_class.operator_name)
        if make is None:
            raise facets.missing(name, "sampler", "dmlvk/conformance/samples")
        return facets.each_of(name, "sampler", make(dict(self.data_types), np.random.default_rng(20261123)))


def sample_cases() -> list[SampleCase]:
    """Every operator that is not regular, with every combination of data types that it supports."""
    return list(_sample_cases())


@functools.cache
def _sample_cases() -> tuple[SampleCase, ...]:
    found: dict[tuple[str, str], SampleCase] = {}
    for desc_class in OPERATORS.values():
        if not desc_class.declaration.is_regular:
            for data_types in supported_data_types(desc_class):
                case = SampleCase(desc_class, tuple(data_types.items()))
                # Two combinations that are told in the same words differ in the places of the words only.
                key = (desc_class.operator_name, case.name)
                if key in found:
                    words = "-".join(data_type.name.lower() for data_type in data_types.values())
                    case = _Spelled(desc_class, case.data_types, f"{desc_class.operator_name.lower()}-{words}")
                found[desc_class.operator_name, case.name] = case
    return tuple(found.values())


@dataclasses.dataclass(frozen=True)
class _Spelled(SampleCase):
    spelled: str

    @property
    def name(self) -> str:
        return self.spelled


for _module in pkgutil.iter_modules(__path__):  # each declares samplers of its own
    importlib.import_module(f"{__name__}.{_module.name}")
