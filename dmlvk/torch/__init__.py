"""PyTorch models on any Vulkan device: ``torch.compile(model, backend="dmlvk")``.

    import torch, dmlvk.torch

    compiled = torch.compile(model, backend="dmlvk")
    y = compiled(x)

Graphs that TorchDynamo takes from the program become graphs of DirectML's operators, forward and backward. Weights stay
on the device between calls. What the device lacks is computed by PyTorch on the CPU; one log line says what.
"""

from dmlvk.torch.compiler import backend, load
from dmlvk.torch.lazy import DeviceTensor
from dmlvk.torch.optimizer import Adam

__all__ = ["Adam", "DeviceTensor", "backend", "load"]
