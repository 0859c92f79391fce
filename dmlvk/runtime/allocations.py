"""New pieces of device memory, with their entry in its books."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import OutOfMemoryError
from dmlvk.runtime.vulkan import MemoryGuard, MemoryRequest
from dmlvk.runtime.work import Allocation


def new_allocation(
    kp: Any, manager: Any, memory: MemoryGuard, size_in_bytes: int, *, has_staging: bool, zeroed: bool
) -> Allocation:
    """A piece of device memory whose host-visible side is there from the beginning.

    Args:
        memory: the books of the device's memory.
        size_in_bytes: a positive multiple of 4.
        has_staging: whether the host-visible side is a copy, and the memory the device's own.
        zeroed: whether the device must read zeros from it.

    Raises:
        DeviceLimitError, OutOfMemoryError: when the device cannot have it.
    """
    kind = kp.TensorTypes.device if has_staging else kp.TensorTypes.host
    try:
        # Never touched before Kompute copies them: the system maps them all to one page. They are there before the
        # memory is asked for, so that the answer holds with them.
        zeros = np.zeros(size_in_bytes // 4, np.uint32)
    except (MemoryError, ValueError):
        zeros = None
    claim = memory.claim(MemoryRequest(size_in_bytes, "device" if has_staging else "host"))
    try:
        if zeros is None:
            raise OutOfMemoryError(f"{memory.info.name}: {size_in_bytes} bytes of zeros are not to be had")
        tensor = manager.tensor_t(zeros, kind)
        made = Allocation(tensor, claim, size_in_bytes, has_staging, has_staging and zeroed, _mapped)
        made.host_bytes  # noqa: B018 - mapped from now on
        return made
    except BaseException:
        claim.release()
        raise


def _mapped(allocation: Allocation) -> npt.NDArray[np.uint8]:
    mapped: npt.NDArray[np.uint8] = allocation.tensor.data().view(np.uint8)
    return mapped
