"""What PyTorch composes of several operators, recorded as one where nobody looks at these: no gradient is asked for."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from dmlvk.torch.device.kernels import Kernel

_aten = torch.ops.aten
_WHOLE = torch._C.DispatchKey.CompositeImplicitAutograd
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


class Composed(Kernel):
    """One operator with the same bits as its parts.

    Args:
        whole: what is traced instead of the operator.
    """

    def __init__(self, operator: Any, whole: Any = None) -> None:
        super().__init__(operator, whole or operator)
        self._parts = functools.partial(operator._op_dk, _WHOLE)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records it, or has its parts recorded."""
        given = [item for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
        is_seen = torch._C._len_torch_dispatch_stack() or forward_ad._current_level >= 0
        if is_seen or (torch.is_grad_enabled() and any(item.requires_grad for item in given)):
            return self._parts(*args, **kwargs)
        if not _PLAIN.issuperset(map(type, given)):
            return self._parts(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _by_host(self, args: tuple[Any, ...], kwargs: dict[str, Any], *_: Any) -> Any:
        return self._parts(*args, **kwargs)


def _attention(*args: Any, **kwargs: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):  # what PyTorch takes on devices that it does not know
        return _aten.scaled_dot_product_attention.default(*args, **kwargs)


class _Attention(Composed):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args[4] if len(args) > 4 else kwargs.get("dropout_p"):  # at random
            return self._parts(*args, **kwargs)
        return super().__call__(*args, **kwargs)


COMPOSED = {
    "linear": Composed(_aten.linear.default),
    "layer_norm": Composed(_aten.layer_norm.default),
    "scaled_dot_product_attention": _Attention(_aten.scaled_dot_product_attention.default, _attention),
}
"""By the operators' names."""
