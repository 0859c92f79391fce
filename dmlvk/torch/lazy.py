"""Tensors whose elements are still on the device: what a graph gives that perhaps nobody reads on the host."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map_only

from dmlvk.torch.types import from_numpy

if TYPE_CHECKING:
    from dmlvk.arrays.tensor_memory import TensorMemory


class DeviceTensor(torch.Tensor):
    """A tensor of the CPU, for PyTorch, whose elements lie on the device until something on the host reads them.

    Graphs of the backend read it where it is. Any other function gets an ordinary tensor, a copy that is made once.

    Args:
        example: a tensor of the type, shape and strides.
    """

    array: TensorMemory
    example: torch.Tensor

    @staticmethod
    def __new__(cls, array: TensorMemory, example: torch.Tensor) -> DeviceTensor:
        """The tensor, without memory on the host."""
        made: DeviceTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]  # PyTorch's own way
            cls, example.shape, strides=example.stride(), dtype=example.dtype, device="cpu"
        )
        return made

    def __init__(self, array: TensorMemory, example: torch.Tensor) -> None:
        self.array, self.example = array, example
        self._host: torch.Tensor | None = None
        self._lock = threading.Lock()

    @property
    def is_on_device(self) -> bool:
        """Whether nothing on the host has read it, and so nothing can have changed it."""
        return self._host is None

    @property
    def host(self) -> torch.Tensor:
        """The same elements as an ordinary tensor, which is this one's memory from now on."""
        with self._lock:
            if self._host is None:
                self._host = from_numpy(self.array.numpy(), self.example)
            return self._host

    def numpy(self, *, force: bool = False) -> Any:
        """As of any tensor: an array of the same memory."""
        return self.host.numpy(force=force)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]  # PyTorch's takes words for its own printing
        return repr(self.host)

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # results are ordinary ones

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function with ordinary tensors; one that changes a tensor in place gives that one."""
        given = tree_map_only(DeviceTensor, lambda tensor: tensor.host, (args, kwargs or {}))
        made = function(*given[0], **given[1])
        is_in_place = bool(args) and isinstance(args[0], DeviceTensor) and made is args[0].host
        return args[0] if is_in_place else made
