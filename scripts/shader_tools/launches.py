"""The launches that operators really make on a GPU: modules with their constants, from descriptions of many kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from dmlvk.bench.tasks import tasks
from dmlvk.conformance.cases import ValueCase, attribute_sets, typical_attributes, value_cases
from dmlvk.conformance.execution import describe, layout_of
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.sampling import laid_out
from dmlvk.datatypes import DataType
from dmlvk.errors import DmlError
from dmlvk.kernels.kernel import Kernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import Target
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.spirv.coherence import without_coherence
from dmlvk.spirv.modules import binding_count

_ELEMENTS = 2**20
_TASK_BYTES = 2**24
_LAYOUTS = ("contiguous", "strided")
_SAMPLE_LAYOUTS = ("packed", "apart")


@dataclass(frozen=True)
class RealLaunch:
    """A pipeline that some operator needs.

    Attributes:
        variant: the module's name.
        constants: its specialization constants.
        push_words: how many words of push constants it is given.
        work_group_size: invocations of a work group.
        kernel: who launches it.
        told: the operator, for people.
    """

    variant: str
    constants: tuple[int, ...]
    push_words: int
    work_group_size: int
    kernel: Kernel
    told: str

    @property
    def key(self) -> tuple[str, tuple[int, ...], int, int]:
        """What tells it from others, but for the module's content."""
        return self.variant, self.constants, self.push_words, self.work_group_size

    @cached_property
    def spirv(self) -> bytes:
        """The module."""
        return without_coherence(self.kernel.spirv())

    @property
    def bindings(self) -> int:
        """How many buffers it has."""
        return binding_count(self.spirv)


def real_launches(target: Target, names: str = "*") -> Iterator[RealLaunch]:
    """Launches of all kinds of operators, each pipeline once.

    Args:
        target: the device, as far as kernels are chosen by it.
        names: a pattern of operators' names.
    """
    seen: set[tuple[str, tuple[int, ...], int, int]] = set()
    for desc, told in _descriptions(names):
        try:
            program = lower(desc, target)
        except DmlError:
            continue  # more work than a launch may have
        for step in program.steps:
            kernel, offsets = step.kernel, (0,) * (len(step.reads) + len(step.writes))
            constants, push_words = kernel.specialization(offsets), len(kernel.push_constants(offsets))
            launch = RealLaunch(kernel.variant, constants, push_words, kernel.work_group_size, kernel, told)
            if launch.key not in seen:
                seen.add(launch.key)
                yield launch


def _descriptions(names: str) -> Iterator[tuple[OperatorDesc, str]]:
    for case in value_cases():
        if fnmatchcase(case.desc_class.operator_name, names):
            yield from _of_values(case)
    for sampled in sample_cases():
        if fnmatchcase(sampled.desc_class.operator_name, names):
            for sample in sampled.samples():
                for layout in _SAMPLE_LAYOUTS:
                    yield laid_out(sample.desc, layout), f"{sampled.name}, {sample.name}"
    for name in OPERATORS:
        if fnmatchcase(name, names):
            for data_type in (DataType.FLOAT32, DataType.FLOAT16, DataType.INT8):
                for task in tasks(name, data_type, _TASK_BYTES):
                    yield task.desc, f"{name} of {data_type.name}, {task.name}"


def _of_values(case: ValueCase) -> Iterator[tuple[OperatorDesc, str]]:
    (_, data_type), *_ = case.tensors("input") or case.tensors("output")
    chosen = typical_attributes(case.desc_class, data_type)[:2]
    optional = [field.attribute for field in case.desc_class.fields if field.kind == "attribute" and field.optional]
    if optional:  # and the first set that has all of them
        sets = attribute_sets(case.desc_class, data_type)
        chosen += [each for each in sets if all(each.get(name) is not None for name in optional)][:1]
    for attributes in chosen:
        for layout in _LAYOUTS:
            sizes, strides = layout_of(case, layout, _ELEMENTS, None)
            yield describe(case, sizes, strides, attributes), case.name
