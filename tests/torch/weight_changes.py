"""Ways in which programs change weights and inputs, most of them past PyTorch's count of versions."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

Way = Callable[[nn.Module, torch.Tensor, random.Random], object]


def _factor(dice: random.Random) -> float:
    return dice.choice([0.5, -0.75, 1.25, 0.9])


def _row_of(module: nn.Module) -> None:
    vector = nn.utils.parameters_to_vector(module.parameters()).detach()
    nn.utils.vector_to_parameters(vector.flip(0) * 0.5 + 0.02, module.parameters())


def _by_numpy(tensor: torch.Tensor, dice: random.Random) -> None:
    array = tensor.detach().numpy()
    array[...] = array * np.float32(_factor(dice)) + np.float32(0.01)


def _by_dlpack(tensor: torch.Tensor) -> None:
    array = np.from_dlpack(tensor.detach())
    pointer = ctypes.cast(array.__array_interface__["data"][0], ctypes.POINTER(ctypes.c_float))
    if tensor.numel():
        pointer[0] = 0.25


def _by_storage(tensor: torch.Tensor) -> None:
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.detach().untyped_storage())
    whole.mul_(0.8)


def _swapped(tensor: torch.Tensor) -> None:
    """The same numbers in other places, which sums and their like do not see."""
    flat = tensor.data.view(-1) if tensor.is_contiguous() else tensor.data
    flat.copy_(flat.clone().flip(0))


def _set(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.set_(tensor.detach() * 0.7)  # type: ignore[call-overload, unused-ignore]


def _grown(tensor: torch.Tensor) -> None:
    """Elsewhere, in larger memory, from another element on."""
    larger = torch.zeros(tensor.numel() + 7)
    view = larger[5 : 5 + tensor.numel()].view(tensor.shape)
    view.copy_(tensor.detach() * 1.1)
    tensor.data = view


def _turned(tensor: torch.Tensor) -> None:
    tensor.data = (tensor.data.flip(0)).mT.contiguous().mT if tensor.dim() > 1 else tensor.data.flip(0)


def _moved(module: nn.Module) -> None:
    """As an optimizer without PyTorch's does it."""
    for parameter in module.parameters():
        if parameter.grad is None:
            parameter.grad = torch.ones_like(parameter)
        parameter.data.add_(parameter.grad.data, alpha=-0.01)


def _step(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    torch.optim.SGD(module.parameters(), lr=0.02).step()


def _replaced(module: nn.Module) -> None:
    for name, parameter in list(module.named_parameters()):
        owner = module.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], nn.Parameter(parameter.detach() * 0.9))


def _loaded(module: nn.Module) -> None:
    module.load_state_dict({name: value * 0.85 for name, value in module.state_dict().items()})


def _shared(tensor: torch.Tensor) -> None:
    tensor.data.share_memory_()
    tensor.data.view(torch.int32).bitwise_xor_(0x00400000)


def _through_half(module: nn.Module) -> None:
    module.half().float()


def _bound_to_view(tensor: torch.Tensor) -> None:
    """One row for all, by a stride of 0."""
    tensor.data = tensor.data[:1].clone().expand(tensor.shape) if tensor.dim() else tensor.data * 2


def _by_address(tensor: torch.Tensor) -> None:
    other = tensor.detach().clone().mul_(0.6)
    if tensor.is_contiguous():
        ctypes.memmove(tensor.data_ptr(), other.data_ptr(), other.numel() * other.element_size())


WAYS: dict[str, Way] = {
    "data.mul_": lambda module, tensor, dice: tensor.data.mul_(_factor(dice)),
    "data =": lambda module, tensor, dice: setattr(tensor, "data", tensor.data * _factor(dice)),
    "data +=": lambda module, tensor, dice: tensor.data.__iadd__(torch.ones_like(tensor.data) * 0.1),
    "one element": lambda module, tensor, dice: tensor.data.view(-1)[-1:].add_(0.5) if tensor.is_contiguous() else 0,
    "vector_to_parameters": lambda module, tensor, dice: _row_of(module),
    "numpy": lambda module, tensor, dice: _by_numpy(tensor, dice),
    "dlpack": lambda module, tensor, dice: _by_dlpack(tensor),
    "storage": lambda module, tensor, dice: _by_storage(tensor),
    "the same numbers in other places": lambda module, tensor, dice: _swapped(tensor),
    "set_": lambda module, tensor, dice: _set(tensor),
    "larger memory": lambda module, tensor, dice: _grown(tensor),
    "other strides": lambda module, tensor, dice: _turned(tensor),
    "one row": lambda module, tensor, dice: _bound_to_view(tensor),
    "data.add_(grad)": lambda module, tensor, dice: _moved(module),
    "an optimizer": lambda module, tensor, dice: _step(module),
    "other parameters": lambda module, tensor, dice: _replaced(module),
    "load_state_dict": lambda module, tensor, dice: _loaded(module),
    "shared memory": lambda module, tensor, dice: _shared(tensor),
    "half().float()": lambda module, tensor, dice: _through_half(module),
    "address": lambda module, tensor, dice: _by_address(tensor),
    "foreach": lambda module, tensor, dice: torch._foreach_mul_([p.data for p in module.parameters()], 0.95),
    "nothing": lambda module, tensor, dice: None,
}
"""What is done between calls, with a module, one of its floating-point parameters and buffers, and dice."""


def convolutions() -> nn.Module:
    """What has buffers, too, which follow from nothing in inference."""
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(1), nn.Linear(48, 4))


class Scaled(nn.Module):
    """A matrix that follows from weights alone, which is computed once."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(16, 4) * 0.3), nn.Parameter(torch.rand(16, 1) + 0.5)
        self.register_buffer("offset", torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight * self.scale.sin() / (self.weight.norm(dim=0) + 1)
        return torch.tanh(x.flatten(1) @ weight) + self.offset


MODULES: dict[str, Callable[[], nn.Module]] = {"convolutions": convolutions, "what follows from weights": Scaled}


def check(module: nn.Module, run: Callable[[Any], Any], x: torch.Tensor, when: str) -> None:
    """Result, and gradients if there are any, are those of eager PyTorch."""
    made, wanted = run(x), module(x)
    torch.testing.assert_close(made, wanted, atol=2e-4, rtol=2e-4, msg=lambda text: f"{when}: {text}")
    leaves = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not made.requires_grad:
        return
    found, right = (torch.autograd.grad(result.square().sum(), leaves) for result in (made, wanted))
    for number, (one, other) in enumerate(zip(found, right, strict=True)):
        place = f"{when}, gradient {number}"
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3, msg=lambda text, place=place: f"{place}: {text}")


def change(module: nn.Module, way: str, dice: random.Random) -> None:
    """Changes one tensor of a module, or several, which PyTorch lets be written after it."""
    for tensor in [*module.parameters(), *module.buffers()] if way != "nothing" else ():
        tensor.data = tensor.data.contiguous()
    tensors = [t for t in [*module.parameters(), *module.buffers()] if t.is_floating_point()]
    WAYS[way](module, dice.choice(tensors), dice)
    with torch.no_grad():  # what the ways leave of a variance
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d) and layer.running_var is not None and layer.running_var.min() < 0.05:
                layer.running_var.data.abs_().add_(0.1)


def run_case(seed: int, options: dict[str, Any], ways: int) -> None:
    """A module compiled in one of the modes, and called after each of some changes; inputs are written again, too."""
    dice = random.Random(seed)
    torch._dynamo.reset()
    torch.manual_seed(seed)
    name, is_open, mode = dice.choice(list(MODULES)), dice.random() < 0.5, dice.choice(["no_grad", "inference", "grad"])
    module = MODULES[name]().eval()
    compiled = torch.compile(module, backend="dmlvk", dynamic=is_open, options=options)
    frames = {rows: np.random.default_rng(seed).standard_normal((rows, 1, 4, 4), np.float32) for rows in (3, 5)}
    inputs = {rows: torch.from_numpy(frame) for rows, frame in frames.items()}
    names = ["nothing", *dice.choices(list(WAYS), k=ways)] if ways < len(WAYS) else dice.sample(list(WAYS), len(WAYS))
    guard = {"no_grad": torch.no_grad, "inference": torch.inference_mode, "grad": torch.enable_grad}[mode]
    limits = {"recompile_limit": 64, "fail_on_recompile_limit_hit": True}  # else PyTorch itself computes the rest
    with torch._dynamo.config.patch(limits), guard():
        for turn, way in enumerate(names):
            change(module, way, dice)
            rows = dice.choice(list(frames)) if is_open else 3
            if dice.random() < 0.4:
                frames[rows] += 0.25  # the tensor does not notice
            when = f"seed {seed}, {name}, {'open' if is_open else 'fixed'} sizes, {mode}, turn {turn}: {way}"
            check(module, compiled, inputs[rows], when)
