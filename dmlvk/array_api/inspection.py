"""What the standard's programs can ask of the namespace."""

from __future__ import annotations

from typing import Any

from dmlvk.array_api.array import checked_device
from dmlvk.array_api.dtypes import SUPPORTED, DType, float16, float32, int64, isdtype
from dmlvk.device import Device
from dmlvk.objects.portable import default_device
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT


class Information:
    """What ``__array_namespace_info__`` gives."""

    def capabilities(self) -> dict[str, Any]:
        """What depends on the library: sizes that depend on data, masks, and the number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAXIMUM_DIMENSION_COUNT}

    def default_device(self) -> Device:
        """The device of the process (``dmlvk.default_device``)."""
        return default_device()

    def devices(self) -> list[Device]:
        """Devices that arrays can be made on without opening another one: the process's."""
        return [default_device()]

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, DType]:
        """The types of Python's numbers and of indices: float32 and int64."""
        checked_device(device, "default_dtypes")
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}  # type: ignore[dict-item]  # there is none

    def dtypes(self, *, device: Device | None = None, kind: Any = None) -> dict[str, DType]:
        """The standard's types that arrays can have, by name; those of a kind, if one is named."""
        checked_device(device, "dtypes")
        return {one.name: one for one in SUPPORTED if one != float16 and (kind is None or isdtype(one, kind))}


def __array_namespace_info__() -> Information:
    """What the namespace supports."""
    return Information()
