"""``torch.autocast("dmlvk")``: products in FLOAT16 or bfloat16, what sums or is steep in FLOAT32, as PyTorch has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dmlvk.torch.types import NAME

_KEY = "AutocastPrivateUse1"
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

_PRODUCTS = (
    *("addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "linear", "matmul", "mm", "mv", "prelu"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"),
    *("convolution", "linalg_multi_dot", "scaled_dot_product_attention"),
)
"""Of CUDA's list (PyTorch: Automatic Mixed Precision, «CUDA Ops that can autocast to float16»)."""

_WIDE = (
    *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt"),
    *("sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "group_norm"),
    *("nll_loss", "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "cdist"),
    *("binary_cross_entropy_with_logits", "cosine_similarity", "cosine_embedding_loss", "norm.Scalar", "renorm"),
    *("softmax.int", "log_softmax.int", "cumprod", "cumsum", "prod", "sum", "sum.dim_IntList", "logsumexp", "gelu"),
)
"""Of the list «CUDA Ops that can autocast to float32»."""

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _cast(operator: Any, dtype: torch.dtype | None) -> Callable[..., Any]:
    """An operator with floating-point tensors of a type; ``None``: of the one of the region."""

    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = torch.get_autocast_dtype(NAME) if dtype is None else dtype
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            named = {name: _taken(item, wanted) for name, item in kwargs.items()}
            return operator(*[_taken(item, wanted) for item in args], **named)

    return call


def _taken(item: Any, wanted: torch.dtype) -> Any:
    if isinstance(item, torch.Tensor):
        is_cast = item.dtype is not wanted and item.dtype in _FLOATS and item.device.type == NAME
        return item.to(wanted) if is_cast else item
    return [_taken(each, wanted) for each in item] if isinstance(item, list) else item


def register(library: torch.library.Library, rest: torch.library.Library) -> None:
    """Registers it: all other operators take tensors as they are."""
    rest.fallback(torch.library.fallthrough_kernel, _KEY)
    for names, dtype in ((_PRODUCTS, None), (_WIDE, torch.float32)):
        for name in names:
            packet, _, overload = name.partition(".")
            library.impl(name, _cast(getattr(getattr(torch.ops.aten, packet), overload or "default"), dtype), _KEY)
