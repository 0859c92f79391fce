"""From a checked description to the kernel that computes it."""

from __future__ import annotations

from dmlvk.kernels import along_axes, elementwise
from dmlvk.kernels.elementwise import Kernel
from dmlvk.operators import OperatorDesc


def lower(desc: OperatorDesc) -> Kernel:
    """The kernel that computes a checked description.

    Raises:
        DeviceLimitError: when there is more work than Vulkan's guaranteed launch sizes can address.
    """
    return along_axes.lower(desc) if desc.declaration.along_axes else elementwise.lower(desc)
