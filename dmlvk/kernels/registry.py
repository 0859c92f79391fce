"""From a checked description to the program that computes it: by its operator, or its declaration's pattern.

A function that makes programs says itself of which descriptions, or of which pattern: :func:`lowering`,
:func:`pattern_lowering`. :mod:`dmlvk.kernels.catalog` imports all of their modules. Programs that have other operators
among their steps ask here for them, and need not know who computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dmlvk.errors import DeviceLimitError, UnsupportedError
from dmlvk.kernels.kernel import WORK_GROUPS_PER_ROW, Kernel
from dmlvk.kernels.target import Target
from dmlvk.operators import OperatorDesc
from dmlvk.operators.declaration import Pattern

if TYPE_CHECKING:
    from dmlvk.kernels.program import Program

Lowering = Callable[[OperatorDesc, Target], "Program"]
"""What makes the program of a checked description for a device.

Raises:
    DeviceLimitError: when there is more work than the device, or Vulkan's guaranteed launch sizes, can address.
"""

LOWERINGS: dict[Pattern, Lowering] = {}  # By pattern: of operators that have none of their own

_Of = TypeVar("_Of", bound=Lowering)


def pattern_lowering(pattern: Pattern) -> Callable[[_Of], _Of]:
    """Declares a function to be what makes the programs of a pattern's operators, but for those with one of their own.

    Raises:
        ValueError: the pattern has such a function already.
    """

    def declared(function: _Of) -> _Of:
        if pattern in LOWERINGS:
            raise ValueError(f"{pattern}: lowering: {LOWERINGS[pattern].__module__} has one already")
        LOWERINGS[pattern] = function
        return function

    return declared


_BY_OPERATOR: dict[str, Callable[[Any, Target], Program]] = {}

_A = TypeVar("_A", bound=OperatorDesc)
_B = TypeVar("_B", bound=OperatorDesc)
_C = TypeVar("_C", bound=OperatorDesc)
_D = TypeVar("_D", bound=OperatorDesc)
_Declared = Callable[[Callable[[_D, Target], "Program"]], Callable[[_D, Target], "Program"]]


@overload
def lowering(first: type[_A], /) -> _Declared[_A]: ...
@overload
def lowering(first: type[_A], second: type[_B], /) -> _Declared[_A | _B]: ...
@overload
def lowering(first: type[_A], second: type[_B], third: type[_C], /) -> _Declared[_A | _B | _C]: ...
def lowering(*desc_classes: type[OperatorDesc]) -> _Declared[Any]:
    """Declares a function to be what makes the programs of some operators.

    Args:
        desc_classes: their descriptions: what the function is given is one of these.

    Raises:
        ValueError: one of them has such a function already.
    """

    def declared(function: Callable[[Any, Target], Program]) -> Callable[[Any, Target], Program]:
        enter(function, desc_classes)
        return function

    return declared


def enter(function: Callable[[Any, Target], Program], desc_classes: Sequence[type[OperatorDesc]]) -> None:
    """Enters what makes the programs of some operators; :func:`lowering` is for functions that are written for it.

    Raises:
        ValueError: one of them has such a function already.
    """
    for desc_class in desc_classes:
        name = desc_class.operator_name
        if name in _BY_OPERATOR:
            raise ValueError(f"{name}: lowering: {_BY_OPERATOR[name].__module__} has one already")
        _BY_OPERATOR[name] = function


def lower(desc: OperatorDesc, target: Target) -> Program:
    """The program that computes a checked description on a device.

    Raises:
        DeviceLimitError: when there is more work than the device, or Vulkan's guaranteed launch sizes, can address; or
            a kernel would need more than the device has.
        UnsupportedError: when nothing computes the operator.
    """
    pattern = desc.declaration.pattern
    found = _BY_OPERATOR.get(desc.operator_name) or LOWERINGS.get(pattern)
    if found is None:
        raise UnsupportedError(f"{desc.operator_name}: lowering: there is none in dmlvk/kernels, nor for {pattern!r}")
    program = found(desc, target)
    for step in program.steps:
        _check_limits(desc, step.kernel, target)
    return program


def _check_limits(desc: OperatorDesc, kernel: Kernel, target: Target) -> None:
    """Refuses a kernel that a device cannot run: drivers crash, or lose the device, where they should say so.

    Shared memory needs no look: no shader has more than every Vulkan device gives, which the linter sees to, but for
    tiles that are chosen by the memory that a device has.
    """
    if kernel.work_group_size > target.work_group_size:
        raise DeviceLimitError(
            f"{desc.operator_name}: {kernel.variant} needs work groups of {kernel.work_group_size} invocations; the "
            f"device has {target.work_group_size}"
        )
    if any(groups > WORK_GROUPS_PER_ROW for groups in kernel.work_groups):
        raise DeviceLimitError(
            f"{desc.operator_name}: {kernel.variant} needs {max(kernel.work_groups)} work groups in a row; Vulkan "
            f"guarantees {WORK_GROUPS_PER_ROW}"
        )
