"""Attributes that are one of few words: another word would be taken for one of them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

_PADDINGS = ("", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")

_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{
        (op_type, "auto_pad"): _PADDINGS
        for op_type in ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv")
    },
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("Gelu", "approximate"): ("none", "tanh"),
    ("RoiAlign", "mode"): ("avg", "max"),
}
"""By operator and attribute; of operators that say of themselves what they do not know, none."""


def unknown_word(proto: onnx.NodeProto, attribute: onnx.AttributeProto) -> str | None:
    """What is wrong with the word that an attribute of one of ONNX's own operators is; ``None``: nothing."""
    words = _WORDS.get((proto.op_type, attribute.name))
    said = attribute.s.decode(errors="replace")
    if words is None or said in words:
        return None
    return f"must be one of {', '.join(word for word in words if word)}; got {said[:100]!r}"
