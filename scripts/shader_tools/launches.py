"""The launches that operators really make on a GPU: modules with their constants, from descriptions of many kinds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from dmlvk.bench.tasks import tasks
from dmlvk.conformance.cases import ValueCase, attribute_sets, typical_attributes, value_cases
from dmlvk.conformance.execution import describe, layout_of
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.sampling import laid_out
from dmlvk.datatypes import DataType
from dmlvk.errors import DmlError
from dmlvk.graphs.fusion.kernel import FusedKernel
from dmlvk.kernels.kernel import ElementwiseKernel, Kernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import KernelStep
from dmlvk.kernels.target import GPU, Target
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.spirv.coherence import without_coherence
from dmlvk.spirv.modules import uses_constant, with_constant
from dmlvk.trials.device_trials import TRIALS
from scripts.shader_tools.drawn import decoder_descriptions, network_steps

_ELEMENTS = 2**20
_TASK_BYTES = (2**24, 2**20, 2**28)
_LAYOUTS = ("contiguous", "strided", "rows", "tiled", "apart")
_SAMPLE_LAYOUTS = ("packed", "apart")

_LARGE = Target(
    shared_memory=2**16,
    work_group_size=2**10,
    buffers=2**10,
    buffer_size=2**32 - 1,
    has_integer_dot_product=True,
    has_half_arithmetic=True,
)

TARGETS: Mapping[str, Target] = {
    "any": GPU,
    "any, 64 registers": replace(GPU, registers=64),
    "64 registers": replace(_LARGE, registers=64),
    **{f"{registers} registers": replace(_LARGE, registers=registers, subgroup_size=64) for registers in (128, 256)},
    "matrices of 64": replace(_LARGE, has_cooperative_halves=True, subgroup_size=64, device_arithmetic=True),
}
"""GPUs by name: of which nothing is known, perhaps but for their registers, and as PCs have them, by what Mesa tells:
Intel's, AMD's RDNA 3 with Mesa 22, AMD's others; RDNA 3 with newer ones and device arithmetic."""

NETWORKS = "NETWORKS"  # Stands among operators' names for what whole networks and decoders launch


@dataclass(frozen=True)
class RealLaunch:
    """A pipeline that some operator needs."""

    variant: str  # the module's name
    constants: tuple[int, ...]  # its specialization constants
    push_words: int  # how many words of push constants it is given
    work_group_size: int  # invocations of a work group
    kernel: Kernel  # who launches it
    operator: str  # the operator, for people

    @property
    def key(self) -> tuple[str, tuple[int, ...], int, int, int, str]:
        """What tells it from others, but for the content of modules that have names."""
        digest = hashlib.sha256(self.kernel.shader).hexdigest() if isinstance(self.kernel, FusedKernel) else ""
        told = self.kernel.special_attribute if isinstance(self.kernel, ElementwiseKernel) else 0
        return self.variant, self.constants, self.push_words, self.work_group_size, told, digest

    @property
    def forms(self) -> list[bytes]:
        """The module for a device that can nothing that trials try (``dmlvk/trials``), and for one that can it all."""
        plain = able = without_coherence(self.kernel.spirv())
        for constant_id in TRIALS:
            if uses_constant(plain, constant_id):
                able = with_constant(able, constant_id, 1)
        return [plain] if able is plain else [plain, able]


def real_launches(target: Target, names: str = "*") -> Iterator[RealLaunch]:
    """Launches of all kinds of operators, and of networks, each pipeline once.

    Args:
        target: the device, as far as kernels are chosen by it.
        names: a pattern of operators' names.
    """
    seen: set[tuple[Any, ...]] = set()
    for step, operator in _steps(target, names):
        kernel, offsets = step.kernel, (0,) * (len(step.reads) + len(step.writes))
        constants, push_words = kernel.specialization(offsets), len(kernel.push_constants(offsets))
        launch = RealLaunch(kernel.variant, constants, push_words, kernel.work_group_size, kernel, operator)
        if launch.key not in seen:
            seen.add(launch.key)
            yield launch


def _steps(target: Target, names: str) -> Iterator[tuple[KernelStep, str]]:
    descriptions = [_descriptions(names)]
    if fnmatchcase(NETWORKS, names):
        yield from network_steps(target)
        descriptions.append(decoder_descriptions())
    for desc, operator in chain(*descriptions):
        try:
            program = lower(desc, target)
        except DmlError:
            continue  # more work than a launch may have, or more buffers than the device has
        for step in program.steps:
            yield step, operator


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
                for size_in_bytes in _TASK_BYTES:
                    for task in tasks(name, data_type, size_in_bytes):
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
