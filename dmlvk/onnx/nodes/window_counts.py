"""How many places a window has in a picture: for translators, and for rules of shapes with open sizes."""

from __future__ import annotations

from collections.abc import Sequence

from dmlvk.onnx.model.node_attributes import NodeAttributes


def window_counts(
    node: NodeAttributes, sizes: Sequence[int], kernel: Sequence[int], *, is_pool: bool = False
) -> tuple[int, ...]:
    """The places along each spatial axis.

    Of pools as ONNX 22 and ONNX Runtime have it, for every version: with ceil_mode none that would begin behind the
    input and the padding before it. ONNX's inference of older versions counts those, too.

    Args:
        node: its attributes count; what is wrong with them is refused by its exception.
        is_pool: whether there is a place for a window that is not whole.
    """
    rank = len(sizes)
    strides, dilations = node.list("strides") or [1] * rank, node.list("dilations") or [1] * rank
    pads, automatic = node.list("pads") or [0] * 2 * rank, node.text("auto_pad", "NOTSET")
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise node.refusal(f"kernel_shape, strides, dilations and pads do not fit {rank} spatial axes")
    if min((*kernel, *strides, *dilations), default=1) < 1:
        raise node.refusal("kernel_shape, strides and dilations must be positive")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        return tuple(-(-size // stride) for size, stride in zip(sizes, strides, strict=True))
    pads = [0] * 2 * rank if automatic == "VALID" else pads
    counts = []
    for axis, (size, window, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        room = size + pads[axis] + pads[axis + rank] - (window - 1) * dilation - 1
        if room < 0 and not (is_pool and room > -stride):
            raise node.refusal(f"a window of {(window - 1) * dilation + 1} elements does not fit {list(sizes)}")
        if room < 0:  # ONNX Runtime has a window there that is not whole
            counts.append(1)
            continue
        count = (-(-room // stride) if is_pool and node.integer("ceil_mode") else room // stride) + 1
        counts.append(count - 1 if is_pool and (count - 1) * stride >= size + pads[axis] else count)
    return tuple(counts)
