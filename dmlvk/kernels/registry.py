"""From a checked description to the program that computes it: by the pattern that its declaration names.

:mod:`dmlvk.kernels.lowering` enters the modules of all patterns here. Programs that have other operators among their
steps ask here for them, and need not know who computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dmlvk.errors import DeviceLimitError
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

LOWERINGS: dict[Pattern, Lowering] = {}
"""By pattern."""


def lower(desc: OperatorDesc, target: Target) -> Program:
    """The program that computes a checked description on a device.

    Raises:
        DeviceLimitError: when there is more work than the device, or Vulkan's guaranteed launch sizes, can address; or
            a kernel would need more than the device has.
    """
    program = LOWERINGS[desc.declaration.pattern](desc, target)
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
