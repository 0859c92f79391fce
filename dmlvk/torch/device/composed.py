"""What PyTorch composes of several operators, recorded as one where nobody looks at these: no gradient is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from dmlvk.torch.device.kernels import Kernel
from dmlvk.torch.device.recorder import RECORDER

_aten = torch.ops.aten
_WHOLE = torch._C.DispatchKey.CompositeImplicitAutograd
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


class Whole(Kernel):
    """A function of tensors as one operator.

    Args:
        function: what is traced.
        parts: what computes the same where the device does not have it all.
    """

    def __init__(self, function: Callable[..., Any], parts: Callable[..., Any] | None = None) -> None:
        self._operator = self._functional = function
        self._parts = parts or function
        self.name = getattr(function, "__name__", str(function))
        self._composite, self._takes_host_indices, self._is_in_place = None, False, False
        self._out = set()

    def into(self, targets: Sequence[torch.Tensor], *args: Any) -> None:
        """Gives tensors the results, of their shapes and types."""
        self._record(args, {}, targets)

    def _by_host(self, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[Any], reason: str) -> Any:
        made = self._parts(*args, **kwargs)
        for target, result in zip(targets, made, strict=True) if targets else ():
            target.copy_(result)
        return made


class Composed(Whole):
    """One of PyTorch's operators with the same bits as its parts.

    Args:
        whole: what is traced instead of the operator.
    """

    def __init__(self, operator: Any, whole: Callable[..., Any] | None = None) -> None:
        super().__init__(whole or operator, functools.partial(operator._op_dk, _WHOLE))
        self.name = str(operator).removeprefix("aten.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records it, or has its parts recorded."""
        if torch._C._len_torch_dispatch_stack() or forward_ad._current_level >= 0:  # somebody looks
            return self._parts(*args, **kwargs)
        has_gradients = torch.is_grad_enabled()
        for item in (*args, *kwargs.values()) if kwargs else args:
            if type(item) in _PLAIN:
                if has_gradients and item.requires_grad:
                    return self._parts(*args, **kwargs)
            elif isinstance(item, torch.Tensor) or (isinstance(item, list) and self._are_looked_at(item)):
                return self._parts(*args, **kwargs)
        return self._record(args, kwargs, ())

    @staticmethod
    def _are_looked_at(items: list[Any]) -> bool:
        return any(isinstance(one, torch.Tensor) and (type(one) not in _PLAIN or one.requires_grad) for one in items)


def _attention(*args: Any, **kwargs: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):  # what PyTorch takes on devices that it does not know
        return _aten.scaled_dot_product_attention.default(*args, **kwargs)


class _Attention(Composed):
    """With the device's arithmetic one operator, else the bits of its parts."""

    def __init__(self) -> None:
        operator = _aten.scaled_dot_product_attention.default
        super().__init__(operator, _attention)
        self._joined = Composed(operator)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args[4] if len(args) > 4 else kwargs.get("dropout_p"):  # at random
            return self._parts(*args, **kwargs)
        if RECORDER.device.arithmetic == "device":
            return self._joined(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def _rms_norm(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> Any:
    """Without PyTorch's operators in place, which a trace does not take."""
    sizes = tuple(shape)
    fits = bool(sizes) and x.is_floating_point() and tuple(x.shape[-len(sizes) :]) == sizes
    torch._check(fits and (weight is None or tuple(weight.shape) == sizes))  # else the parts say what is wrong
    wide = x.float()
    mean = wide.pow(2).mean(tuple(range(x.dim() - len(sizes), x.dim())), keepdim=True)
    made = wide * (mean + (torch.finfo(wide.dtype).eps if eps is None else eps)).rsqrt()
    return (made if weight is None else made * weight).to(x.dtype)


COMPOSED = {
    "linear": Composed(_aten.linear.default),
    "layer_norm": Composed(_aten.layer_norm.default),
    "rms_norm": Composed(_aten.rms_norm.default, _rms_norm),
    "group_norm": Composed(_aten.group_norm.default),
    "matmul": Composed(_aten.matmul.default),
    "einsum": Composed(_aten.einsum.default),
    "scaled_dot_product_attention": _Attention(),
}
"""By the operators' names."""
