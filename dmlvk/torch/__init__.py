"""PyTorch on any Vulkan device: ``tensor.to("dmlvk")``, and ``torch.compile(model, backend="dmlvk")``.

    import torch, dmlvk.torch

    y = model.to("dmlvk")(x.to("dmlvk"))

    compiled = torch.compile(model, backend="dmlvk")
    y = compiled(x)

Operators of tensors on the device are recorded, and run as graphs when a value is needed. Graphs that TorchDynamo takes
from a program become the same graphs of DirectML's operators, forward and backward; there tensors are those of the CPU,
and weights stay on the device between calls. What the device lacks is computed by PyTorch on the CPU; one log line says
what. ``DMLVK_TORCH_DEVICE=none`` in the environment leaves PyTorch without the device.
"""

import os

import torch

from dmlvk.errors import InvalidArgumentError
from dmlvk.torch.compiler import backend, load
from dmlvk.torch.lazy import DeviceTensor

__all__ = ["DeviceTensor", "backend", "load"]

_wanted = os.environ.get("DMLVK_TORCH_DEVICE", "")
if _wanted not in ("", "none"):
    raise InvalidArgumentError(f"DMLVK_TORCH_DEVICE={_wanted}: it may be none, or not be set")
if not _wanted and hasattr(torch._C, "_acc"):  # without it, PyTorch is too old for devices that are written in Python
    from dmlvk.torch import device

    device.register()
