"""What a dispatch does on the device: kernels in order, and which ranges of which bindings each works on."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels.kernel import Kernel
from dmlvk.kernels.registry import enter, lower
from dmlvk.kernels.target import Target
from dmlvk.operators import OperatorDesc

SCRATCH_ALIGNMENT = 256  # What the places of scratch memory are multiples of, in bytes


class BindingKind(enum.Enum):
    """The kinds of memory that a dispatch is bound to."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"
    PERSISTENT = "persistent"
    CONSTANTS = "constants"

    __hash__ = object.__hash__  # which is not Python's: runs look places up by their kinds

    __hash__ = object.__hash__  # of one object each; Enum's own takes a call of Python's, which a run makes often


@dataclasses.dataclass(frozen=True)
class Region:
    """A range of bytes, before buffers are bound."""

    kind: BindingKind  # which kind of binding it lies in
    index: int  # which input or output; 0 for the others, of which there is one each
    offset: int  # where it begins in the bound range, in bytes; a multiple of 16
    size_in_bytes: int  # how long it is

    def part(self, offset: int, size_in_bytes: int) -> Region:
        """A range inside this one, by its first byte (a multiple of 16) and its length."""
        return dataclasses.replace(self, offset=self.offset + offset, size_in_bytes=size_in_bytes)


@dataclasses.dataclass(frozen=True)
class KernelStep:
    label: str  # what it computes, for people
    kernel: Kernel  # the kernel
    reads: tuple[Region, ...]  # its inputs, in the order of the kernel's operands
    writes: tuple[Region, ...]  # its outputs, which follow them
    # whether it shares no 32-bit word that it writes with the step before it, although their ranges may overlap: the
    # parts of a JOIN. Such a step does not wait for that one. Never the first of a program
    is_independent: bool = False

    def spirv(self) -> bytes:
        """The kernel's module.

        Raises:
            ShaderLibraryError: naming the operator, the variant and its file, when there is none.
        """
        try:
            return self.kernel.spirv()
        except ShaderLibraryError as error:
            raise ShaderLibraryError(f"{self.label}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Program:
    """What computes an operator, or several that were fused.

    Regions of inputs and outputs are numbered through the tensors that are given, without absent optional ones; those
    of TEMPORARY memory lie in the program's own scratch memory.
    """

    steps: tuple[KernelStep, ...]  # the launches, in order
    scratch_bytes: int = 0  # memory that the steps share while they run; what it holds before and after does not matter

    def placed(self, reads: Sequence[Region], writes: Sequence[Region], scratch: Region | None) -> list[KernelStep]:
        """The steps with every region where it really lies.

        Args:
            scratch: where the scratch memory is; ``None`` where none is needed.
        """

        def moved(region: Region) -> Region:
            if region.kind is BindingKind.INPUT:
                return reads[region.index].part(region.offset, region.size_in_bytes)
            if region.kind is BindingKind.OUTPUT:
                return writes[region.index].part(region.offset, region.size_in_bytes)
            if region.kind is BindingKind.TEMPORARY:
                assert scratch is not None  # what has steps that need it gives it
                return scratch.part(region.offset, region.size_in_bytes)
            return region

        return [
            dataclasses.replace(step, reads=tuple(map(moved, step.reads)), writes=tuple(map(moved, step.writes)))
            for step in self.steps
        ]


def operand_regions(desc: OperatorDesc) -> tuple[list[Region], list[Region]]:
    """The regions of all inputs and outputs that a description has, as programs number them."""
    inputs = [tensor for _, tensor in desc.inputs if tensor is not None]
    outputs = [tensor for _, tensor in desc.outputs if tensor is not None]
    return (
        [Region(BindingKind.INPUT, number, 0, tensor.size_in_bytes) for number, tensor in enumerate(inputs)],
        [Region(BindingKind.OUTPUT, number, 0, tensor.size_in_bytes) for number, tensor in enumerate(outputs)],
    )


def of_kernel(desc: OperatorDesc, kernel: Kernel) -> Program:
    """The program of an operator that one kernel computes, which has all of its tensors as operands."""
    reads, writes = operand_regions(desc)
    return Program((KernelStep(desc.operator_name, kernel, tuple(reads), tuple(writes)),))


class ProgramBuilder:
    """Puts together a program of several steps."""

    def __init__(self, desc: OperatorDesc, target: Target) -> None:
        self.target = target  # the device
        self.operator_name = desc.operator_name  # the operator's name
        self._steps: list[KernelStep] = []
        self._scratch_bytes = 0
        self._most_scratch_bytes = 0
        reads, writes = operand_regions(desc)
        inputs = [field.attribute for field, tensor in desc.inputs if tensor is not None]
        outputs = [field.attribute for field, tensor in desc.outputs if tensor is not None]
        # by an input's Python name (``"input_tensors[0]"`` in an array) where it lies; absent tensors have none
        self.reads = dict(zip(inputs, reads, strict=True))
        self.writes = dict(zip(outputs, writes, strict=True))  # the same of outputs

    def scratch(self, size_in_bytes: int) -> Region:
        region = Region(BindingKind.TEMPORARY, 0, self._scratch_bytes, size_in_bytes)
        self._scratch_bytes += -(-size_in_bytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        self._most_scratch_bytes = max(self._most_scratch_bytes, self._scratch_bytes)
        return region

    @contextlib.contextmanager
    def passing_scratch(self) -> Iterator[None]:
        """Scratch memory that is taken inside is free again afterwards: rounds of a loop take turns in it."""
        before = self._scratch_bytes
        yield
        self._scratch_bytes = before

    def launch(
        self,
        kernel: Kernel,
        reads: Sequence[Region],
        writes: Sequence[Region],
        *,
        label: str = "",
        is_independent: bool = False,
    ) -> None:
        """Adds a launch; its bindings are what it reads and then what it writes."""
        name = self.operator_name
        words = f"{name}: {label}" if label else name
        self._steps.append(KernelStep(words, kernel, tuple(reads), tuple(writes), is_independent))

    def operator(self, desc: OperatorDesc, reads: Sequence[Region], writes: Sequence[Region], label: str = "") -> None:
        """Adds what computes another description, which is taken for checked, between these regions.

        Args:
            reads: a region for each input that it has.
            writes: a region for each output that it has.
            label: for people; the operator's own name without one.
        """
        program = lower(desc, self.target)
        scratch = self.scratch(program.scratch_bytes) if program.scratch_bytes else None
        for step in program.placed(reads, writes, scratch):
            words = f"{self.operator_name}: {label or step.label}"
            self._steps.append(dataclasses.replace(step, label=words))

    def program(self) -> Program:
        """All that was added. What its first step follows is somebody else's, of which it knows nothing."""
        first = [dataclasses.replace(step, is_independent=False) for step in self._steps[:1]]
        return Program((*first, *self._steps[1:]), self._most_scratch_bytes)


_A = TypeVar("_A", bound=OperatorDesc)
_B = TypeVar("_B", bound=OperatorDesc)
_D = TypeVar("_D", bound=OperatorDesc)
_Adds = Callable[[ProgramBuilder, _D], None]


@overload
def adds_steps(first: type[_A], /) -> Callable[[_Adds[_A]], _Adds[_A]]: ...
@overload
def adds_steps(first: type[_A], second: type[_B], /) -> Callable[[_Adds[_A | _B]], _Adds[_A | _B]]: ...
def adds_steps(*desc_classes: type[OperatorDesc]) -> Callable[[_Adds[Any]], _Adds[Any]]:
    """Declares a function to be what adds all steps of some operators' programs to a builder that is made for it.

    Args:
        desc_classes: their descriptions: what the function is given, behind the builder, is one of these.

    Raises:
        ValueError: one of them has a lowering already.
    """

    def declared(function: _Adds[Any]) -> _Adds[Any]:
        def lower(desc: OperatorDesc, target: Target) -> Program:
            builder = ProgramBuilder(desc, target)
            function(builder, desc)
            return builder.program()

        lower.__module__ = function.__module__  # as which it is named where another one is declared
        enter(lower, desc_classes)
        return function

    return declared
