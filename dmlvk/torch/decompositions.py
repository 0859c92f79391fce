"""Which of ATen's operators are taken apart, into those that are lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch._decomp import core_aten_decompositions, decomposition_table, get_decompositions
from torch.nn import functional

from dmlvk.torch.activations import ACTIVATIONS, LOWERED
from dmlvk.torch.empties import EMPTIES
from dmlvk.torch.gathered import GATHERED
from dmlvk.torch.lowering import LOWERINGS, name_of_operator
from dmlvk.torch.resampled import RESAMPLED
from dmlvk.torch.special import SPECIAL

_aten = torch.ops.aten

_Optional: TypeAlias = "torch.Tensor | None"


def _with(gates: torch.Tensor, bias: _Optional) -> torch.Tensor:
    return gates if bias is None else gates + bias


def _lstm_cell(
    inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, input_bias: _Optional, hidden_bias: _Optional
) -> tuple[torch.Tensor, ...]:
    """The hidden state, the cell, and what the gradient takes: the four gates."""
    i, f, g, o = (_with(inputs, input_bias) + _with(hidden, hidden_bias)).chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    after = f * cell + i * g
    return o * torch.tanh(after), after, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    of_hidden: _Optional,
    of_cell: _Optional,
    before: torch.Tensor,
    after: torch.Tensor,
    gates: torch.Tensor,
    has_bias: bool,
) -> tuple[_Optional, ...]:
    """Gradients of the gates, of the cell before, of a bias."""
    i, f, g, o = gates.chunk(4, 1)
    size = torch.tanh(after)
    of_out = torch.zeros_like(after) if of_hidden is None else of_hidden
    of_after = of_out * o * (1 - size * size)
    if of_cell is not None:
        of_after = of_after + of_cell
    parts = [of_after * g * i * (1 - i), of_after * before * f * (1 - f), of_after * i * (1 - g * g)]
    made = torch.cat([*parts, of_out * size * o * (1 - o)], 1)
    return made, of_after * f, made.sum(0) if has_bias else None


def _gru_cell(
    inputs: torch.Tensor, hidden: torch.Tensor, state: torch.Tensor, input_bias: _Optional, hidden_bias: _Optional
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state, and what the gradient takes: gates, the state before, what the reset gate takes a part of."""
    of_input, of_hidden = _with(inputs, input_bias).chunk(3, 1), _with(hidden, hidden_bias).chunk(3, 1)
    r, z = torch.sigmoid(of_input[0] + of_hidden[0]), torch.sigmoid(of_input[1] + of_hidden[1])
    n = torch.tanh(of_input[2] + r * of_hidden[2])
    return n + z * (state - n), torch.cat([r, z, n, state, of_hidden[2]], 1)


def _gru_cell_backward(gradient: torch.Tensor, kept: torch.Tensor, has_bias: bool) -> tuple[_Optional, ...]:
    """Gradients of both sides' gates, of the state before, of both biases."""
    r, z, n, state, share = kept.chunk(5, 1)
    of_z = gradient * (state - n) * z * (1 - z)
    of_n = gradient * (1 - z) * (1 - n * n)
    of_r = of_n * share * r * (1 - r)
    of_input, of_hidden = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, gradient * z, *biases


RECURRENT: dict[Any, Callable[..., Any]] = {
    _aten._thnn_fused_lstm_cell.default: lambda i, h, c, a=None, b=None: _lstm_cell(i, h, c, a, b),
    _aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    _aten._thnn_fused_gru_cell.default: lambda i, h, s, a=None, b=None: _gru_cell(i, h, s, a, b),
    _aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}
"""By operator."""


_DECOMPOSED = [
    _aten.native_group_norm_backward.default, _aten.native_batch_norm_backward.default,
    _aten.nll_loss_forward.default, _aten.nll_loss_backward.default, _aten.mse_loss.default,
    _aten.mse_loss_backward.default, _aten.unbind.int, _aten.triu.default, _aten.tril.default,
    _aten._native_batch_norm_legit.default, _aten.native_batch_norm.default, _aten.grid_sampler_2d.default,
    _aten.max_pool3d_with_indices.default, _aten.upsample_bicubic2d.default, _aten.unbind_copy.int,
    _aten.narrow_copy.default, _aten.as_strided_copy.default,
]  # fmt: skip

_KEPT = [_aten.embedding_dense_backward.default, _aten.scaled_dot_product_attention.default, *LOWERED]
"""Operators that are lowered, though PyTorch would take them apart."""

_OF_TRACING = [_aten.lift.default, _aten.lift_fresh.default, _aten.detach.default]
"""What brings a constant into a trace: taken apart into a view before that, it would meet a tensor of memory."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of Core ATen and others, by operator."""
    found: dict[Any, Callable[..., Any]] = {
        operator: function
        for operator, function in decomposition_table.items()
        if isinstance(operator, torch._ops.OpOverload)
        and operator.namespace == "aten"
        and name_of_operator(operator) not in LOWERINGS
        and torch.Tag.nondeterministic_seeded not in operator.tags
        and not operator._schema.is_mutable  # what is traced changes nothing
    }
    found |= {
        **core_aten_decompositions(),
        **get_decompositions(_DECOMPOSED),
        **ACTIVATIONS,
        **SPECIAL,
        **RECURRENT,
        **RESAMPLED,
        **GATHERED,
        **EMPTIES,
        **_OWN,
    }
    for kept in (*_KEPT, *_OF_TRACING):
        found.pop(kept, None)
    return found


def _where_unequal(operator: Any, is_lowered: Callable[..., bool]) -> Callable[..., Any]:
    """Takes an operator apart where its arguments are others than those that are lowered."""
    (taken_apart,) = get_decompositions([operator]).values()

    def decomposed(*arguments: Any, **named: Any) -> Any:
        return NotImplemented if is_lowered(*arguments, **named) else taken_apart(*arguments, **named)

    return decomposed


def _has_equal_parts(x: torch.Tensor, shape: Any) -> bool:
    """Of adaptive pools: all windows have as many elements."""
    return all(own % count == 0 for own, count in zip(x.shape[-2:], shape, strict=True))


def _is_whole_multiple(x: torch.Tensor, size: Any, *factors: Any) -> bool:
    """Of nearest elements: each is repeated as often."""
    if size is None:
        return all(float(factor).is_integer() for factor in factors[0])
    return all(wanted % own == 0 for own, wanted in zip(x.shape[2:], size, strict=True))


def _has_free_corners(x: torch.Tensor, size: Any, align_corners: bool, *_: Any) -> bool:
    """Of linear ones: corners do not lie on one another."""
    return not align_corners


def _shares(x: torch.Tensor, size: int, count: int, factor: float | None, align_corners: bool) -> torch.Tensor:
    """Of each of so many pixels, what the pixels of an axis give to it: a triangle, wider where it becomes smaller."""
    if align_corners:
        scale = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        scale = 1 / factor if factor else size / count
    support = max(scale, 1.0)
    places = torch.arange(count, dtype=torch.float32, device=x.device)[:, None]
    centers = scale * (places + 0.5)
    first = (centers - support + 0.5).floor().clamp(min=0)
    last = (centers + support + 0.5).floor().clamp(max=size)
    own = torch.arange(size, dtype=torch.float32, device=x.device)
    weights = (1 - ((own - centers + 0.5) / support).abs()).clamp(min=0)
    weights = torch.where((own >= first) & (own < last), weights, 0)
    return weights / weights.sum(1, keepdim=True)


def _smoothed(
    x: torch.Tensor,
    size: Any,
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> torch.Tensor:
    """Pictures of another size without aliases: products with a matrix for each axis."""
    rows = _shares(x, x.shape[-2], size[0], scales_h, align_corners)
    columns = _shares(x, x.shape[-1], size[1], scales_w, align_corners)
    return (rows @ x.to(torch.float32) @ columns.T).to(x.dtype)


def _averages(
    x: torch.Tensor,
    window: Any,
    stride: Any = (),
    padding: Any = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:
    """Means with a divisor of their own: sums of windows of what is padded with zeros."""
    if divisor is None and not (ceil_mode and count_include_pad):
        return NotImplemented
    sizes, (above, left) = (list(one) * (2 // len(one)) for one in (window, padding))
    padded = functional.pad(x, (left, left, above, above))
    ones = functional.pad(torch.ones_like(x), (left, left, above, above), value=1.0)
    own = list(stride) or sizes
    steps = own * (2 // len(own))
    beyond = []
    for axis, pad in ((-1, left), (-2, above)):
        size = padded.shape[axis]
        count = -(-(size - sizes[axis]) // steps[axis]) + 1 if ceil_mode else (size - sizes[axis]) // steps[axis] + 1
        if (count - 1) * steps[axis] >= size - pad:
            count -= 1
        beyond += [0, max((count - 1) * steps[axis] + sizes[axis] - size, 0)]
    total = _aten.avg_pool2d(functional.pad(padded, beyond), sizes, steps)
    if divisor is not None:
        return total * (sizes[0] * sizes[1] / divisor)
    return total / _aten.avg_pool2d(functional.pad(ones, beyond), sizes, steps)


_MOST_PAIRED = 64
"""Rows of which each has its distances to those behind it by itself."""


def _pair_distances(x: torch.Tensor, p: float = 2.0) -> Any:
    """Distances of each row to all behind it, in a row."""
    count = x.shape[0]
    if not 2 <= count <= _MOST_PAIRED:
        return NotImplemented
    return torch.cat([torch.cdist(x[row : row + 1], x[row + 1 :], p).flatten() for row in range(count - 1)])


def _pair_distances_back(gradient: torch.Tensor, x: torch.Tensor, p: float, distances: torch.Tensor) -> Any:
    count = x.shape[0]
    if not 2 <= count <= _MOST_PAIRED:
        return NotImplemented
    made, sizes = torch.zeros_like(x), list(range(count - 1, 0, -1))
    for row, (given, far) in enumerate(zip(gradient.split(sizes), distances.split(sizes), strict=True)):
        one, others = x[row : row + 1], x[row + 1 :]
        first = _aten._cdist_backward(given[None], one, others, p, far[None])
        rest = _aten._cdist_backward(given[:, None], others, one, p, far[:, None])
        made = made + torch.cat([torch.zeros_like(x[:row]), first, rest])
    return made


def _bags(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Rows of a table, summed (mode 0) or averaged (1) in bags, which begin at offsets."""
    if mode == 2 or padding_idx >= 0 or sparse or indices.dim() != 1 or not indices.numel():
        return NotImplemented
    starts = offsets[:-1] if include_last_offset else offsets
    positions = torch.arange(indices.shape[0], dtype=offsets.dtype, device=offsets.device)
    bag = (positions[:, None] >= starts[None]).sum(1) - 1
    rows = weight[indices] if per_sample_weights is None else weight[indices] * per_sample_weights[:, None]
    count = starts.shape[0]
    made = weight.new_zeros((count, weight.shape[1])).index_add(0, bag, rows)
    sizes = torch.zeros_like(starts).index_add(0, bag, torch.ones_like(bag).to(starts.dtype))
    if mode == 1:
        made = made / sizes.clamp(min=1)[:, None].to(made.dtype)
    return made, bag.to(indices.dtype), sizes, torch.zeros_like(starts)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    width: int,
    heads: int,
    weights: torch.Tensor,
    biases: torch.Tensor,
    projection: torch.Tensor,
    projection_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What nn.MultiheadAttention calls in inference. A mask is of places (0), keys (1), or both (2)."""
    given = zip((query, key, value), weights.chunk(3), biases.chunk(3), strict=True)
    split = [functional.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2) for x, w, b in given]
    scores = split[0] @ split[1].transpose(-1, -2) * (width // heads) ** -0.5
    if mask is not None:
        if mask_type == 1:
            mask = mask[:, None, None, :]
        scores = scores.masked_fill(mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    shares = scores.softmax(-1)
    mixed = (shares @ split[2]).transpose(1, 2).flatten(2)
    made = functional.linear(mixed, projection, projection_bias)
    if not need_weights:
        return made, made.new_zeros(())
    return made, shares.mean(1) if average_weights else shares


def _dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """As eager PyTorch has it, by the same random numbers: where elements go does not wait for what they are."""
    axes = sorted(range(x.dim()), key=x.stride, reverse=True)  # PyTorch draws in the order of memory
    shape, strides = [x.shape[axis] for axis in axes], [x.stride(axis) for axis in axes]
    # The device has no empty_strided, so all of the mask is made on the CPU.
    mask = torch.empty_strided(shape, strides, dtype=torch.bool, device=x.device)
    mask = torch.ones_like(mask) if train is False else torch.bernoulli(mask, 1 - p)
    mask = mask.permute([axes.index(axis) for axis in range(x.dim())])
    if train is False:
        return x.clone(), mask
    return x * mask * (1 / (1 - p) if p < 1 else 0.0), mask


def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> Any:
    """Where the mask is set, the source's elements in their order."""
    x, mask = torch.broadcast_tensors(x, mask)
    if not x.numel() or not source.numel():
        return NotImplemented
    positions = mask.flatten().to(torch.int64).cumsum(0) - 1
    taken = source.flatten()[positions.clamp(0, source.numel() - 1)]
    return torch.where(mask, taken.reshape(x.shape), x)


def _diagonal_scatter(x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """With the source on a diagonal (PyTorch's own decomposition writes in place, which AOTAutograd refuses)."""
    diagonal = x.diagonal(offset, dim1, dim2)
    if diagonal.shape != source.shape or not source.numel():
        return NotImplemented
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows = torch.arange(moved.shape[-2], device=x.device)
    columns = torch.arange(moved.shape[-1], device=x.device)
    places = (rows + min(offset, 0)).clamp(0, source.shape[-1] - 1)
    spread = source.index_select(-1, places).to(x.dtype)[..., None]
    return torch.where(columns - rows[:, None] == offset, spread, moved).movedim((-2, -1), (dim1, dim2))


def _with_wide_statistics(operator: Any, *places: int) -> Callable[..., Any]:
    """Takes a normalization apart in FLOAT32, as on other devices; PyTorch's are rounded as its CPU keeps them.

    Args:
        places: of the arguments that are to be FLOAT32 at least.
    """
    (taken_apart,) = get_decompositions([operator]).values()

    def decomposed(*arguments: Any) -> Any:
        made, *others = taken_apart(
            *[
                one.to(torch.promote_types(one.dtype, torch.float32)) if n in places else one
                for n, one in enumerate(arguments)
            ]
        )
        return None if made is None else made.to(arguments[0].dtype), *others

    return decomposed


def _flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Attention, and the logarithms of its rows' sums (PyTorch's own decomposition gives its shares instead)."""
    if dropout_p:
        return NotImplemented
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-1, -2) * factor
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    if attn_mask is not None:
        is_choice = attn_mask.dtype is torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_choice else scores + attn_mask
    made = (scores.softmax(-1) @ value).transpose(1, 2).contiguous().transpose(1, 2)
    return made, scores.to(torch.float32).logsumexp(-1)


def _encoder_layer(
    x: torch.Tensor,
    width: int,
    heads: int,
    weights: torch.Tensor,
    biases: torch.Tensor,
    projection: torch.Tensor,
    projection_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """What nn.TransformerEncoderLayer calls in inference."""

    def attended(x: torch.Tensor) -> torch.Tensor:
        learned = (weights, biases, projection, projection_bias)
        return _attention(x, x, x, width, heads, *learned, mask, False, mask_type=mask_type)[0]

    def fed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (width,), weight, bias, eps)

    if norm_first:
        x = x + attended(norm(x, norm_weight_1, norm_bias_1))
        return x + fed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attended(x), norm_weight_1, norm_bias_1)
    return norm(x + fed_forward(x), norm_weight_2, norm_bias_2)


_OWN: dict[Any, Callable[..., Any]] = {
    _aten._native_multi_head_attention.default: _attention,
    _aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    _aten.native_dropout.default: _dropout,
    # whose inverse of the deviation is divided by the number of elements, below FLOAT16
    _aten.native_layer_norm_backward.default: _with_wide_statistics(_aten.native_layer_norm_backward.default, 3, 4),
    _aten._native_batch_norm_legit.no_stats: _with_wide_statistics(_aten._native_batch_norm_legit.no_stats, 0),
    _aten.masked_scatter.default: _masked_scatter,
    _aten.diagonal_scatter.default: _diagonal_scatter,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
    _aten._pdist_forward.default: _pair_distances,
    _aten._pdist_backward.default: _pair_distances_back,
    _aten._embedding_bag.default: _bags,
    _aten._embedding_bag_forward_only.default: _bags,
    _aten._adaptive_avg_pool2d.default: _where_unequal(_aten._adaptive_avg_pool2d.default, _has_equal_parts),
    _aten.upsample_nearest2d.vec: _where_unequal(_aten.upsample_nearest2d.vec, _is_whole_multiple),
    _aten.upsample_bilinear2d.vec: _where_unequal(_aten.upsample_bilinear2d.vec, _has_free_corners),
    _aten.upsample_bilinear2d.default: _where_unequal(_aten.upsample_bilinear2d.default, _has_free_corners),
    _aten._upsample_bilinear2d_aa.default: _smoothed,
    _aten.avg_pool2d.default: _averages,
}
"""What PyTorch has no decomposition of, or wants one for some arguments only."""
