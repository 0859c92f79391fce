"""Attention over caches beside masks and biases: which operator holds them how, and who makes what hides keys.

A form is run part by part, on arrays of the host or on caches that stay on the device, whose sizes are open or known.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.bound_caches import CACHES, PRESENTS, bound_steps

Array = npt.NDArray[Any]
Nodes = list[onnx.NodeProto]

HEADS, SIZE, CAPACITY, BATCH = 4, 8, 40, 2
HIDDEN = HEADS * SIZE
OUTPUTS = ["y", *PRESENTS]
_node = helper.make_node

_CONSTANTS: dict[str, Array] = {
    **{name: np.array(value) for name, value in (("zero", 0), ("one", 1), ("two", 2))},
    **{"first": np.array([0]), "last": np.array([1]), "middle": np.array([1, 2])},
    **{name: np.array(value, np.float32) for name, value in (("unit", 1), ("nothing", 0), ("lowest", -3e38))},
    "slopes": np.array([0.5, 0.25, 0.125, 0.0625], np.float32).reshape(HEADS, 1, 1),
    **{
        "split": np.array([0, 0, HEADS, SIZE]),
        "flat": np.array([0, 0, HIDDEN]),
        "factor": np.array(SIZE**-0.5, np.float32),
    },
}

_TOKENS = models.parsed("q_shape = Shape (q)  tokens = Gather <axis = 0> (q_shape, one)")

_BY_MASK = [  # how many keys there are, as the attention_mask's shape says
    *_TOKENS,
    _node("Shape", ["attention_mask"], ["mask_shape"]),
    _node("Gather", ["mask_shape", "one"], ["all"], axis=0),
    _node("Sub", ["all", "tokens"], ["past"]),
]

_BY_CACHE = [  # as the caches' rows say
    *_TOKENS,
    _node("Shape", ["past_key"], ["cache_shape"]),
    _node("Gather", ["cache_shape", "two"], ["past"], axis=0),
    _node("Add", ["past", "tokens"], ["all"]),
]

_BY_PRESENT = [  # as those with the new keys say
    _node("Shape", ["past_key"], ["cache_shape"]),
    _node("Gather", ["cache_shape", "two"], ["past"], axis=0),
    _node("Shape", ["present_key"], ["present_shape"]),
    _node("Gather", ["present_shape", "two"], ["all"], axis=0),
]

_BEFORE = [  # which keys stand before a query
    _node("Range", ["past", "all", "one"], ["rows"]),
    _node("Range", ["zero", "all", "one"], ["columns"]),
    _node("Unsqueeze", ["rows", "last"], ["queries"]),
    _node("Unsqueeze", ["columns", "first"], ["keys"]),
    _node("LessOrEqual", ["keys", "queries"], ["before"]),
]

_SEEN = [  # and are not hidden by an attention_mask, as exporters write it
    *_BEFORE,
    _node("Cast", ["attention_mask"], ["given"], to=TensorProto.BOOL),
    _node("Unsqueeze", ["given", "middle"], ["wide"]),
    _node("And", ["wide", "before"], ["seen"]),
]

_LENGTHS = models.parsed(
    "sums = ReduceSum <keepdims = 0> (attention_mask, last)  places = Sub (sums, one)"
    " own_ends = Cast <to = 6> (places)  own_total = Cast <to = 6> (all)"
)


def _hidden(seen: str) -> Nodes:
    return [_node("Where", [seen, "nothing", "lowest"], ["hidden"])]


def _slanted(seen: str) -> Nodes:
    """Farther keys count less, by a logarithm, which no host may compute: its bits would be another processor's."""
    return [
        *_hidden(seen),
        _node("Sub", ["queries", "keys"], ["apart"]),
        _node("Abs", ["apart"], ["distance"]),
        _node("Cast", ["distance"], ["far"], to=TensorProto.FLOAT),
        _node("Add", ["far", "unit"], ["farther"]),
        _node("Log", ["farther"], ["logarithms"]),
        _node("Mul", ["logarithms", "slopes"], ["falling"]),
        _node("Sub", ["hidden", "falling"], ["slanted"]),
    ]


def _joined(kind: str) -> Nodes:
    """Keys and values that the model joins by itself, and attention of them by an operator or by products."""
    nodes = []
    for name in "kv":
        past, present = f"past_{_ROLES[name]}", f"present_{_ROLES[name]}"
        nodes += [
            _node("Reshape", [name, "split"], [f"{name}_split"]),
            _node("Transpose", [f"{name}_split"], [f"{name}_new"], perm=[0, 2, 1, 3]),
            _node("Concat", [past, f"{name}_new"], [present], axis=2),
        ]
    nodes += [*_BY_PRESENT, *_BEFORE, *_slanted("before"), _node("Unsqueeze", ["slanted", "first"], ["four"])]
    if kind == "heads":
        for present in PRESENTS:
            nodes += [
                _node("Transpose", [present], [f"{present}_turned"], perm=[0, 2, 1, 3]),
                _node("Reshape", [f"{present}_turned", "flat"], [f"{present}_flat"]),
            ]
        order = ["q", "present_key_flat", "present_value_flat", "", "", "four"]
        return [*nodes, _node("MultiHeadAttention", order, ["y"], domain="com.microsoft", num_heads=HEADS)]
    return [
        *nodes,
        _node("Reshape", ["q", "split"], ["q_split"]),
        _node("Transpose", ["q_split"], ["q_turned"], perm=[0, 2, 1, 3]),
        _node("Transpose", ["present_key"], ["keys_turned"], perm=[0, 1, 3, 2]),
        _node("MatMul", ["q_turned", "keys_turned"], ["products"]),
        _node("Mul", ["products", "factor"], ["scores"]),
        _node("Add", ["scores", "four"], ["masked"]),
        _node("Softmax", ["masked"], ["weights"], axis=-1),
        _node("MatMul", ["weights", "present_value"], ["mixed"]),
        _node("Transpose", ["mixed"], ["mixed_turned"], perm=[0, 2, 1, 3]),
        _node("Reshape", ["mixed_turned", "flat"], ["y"]),
    ]


_ROLES = {"k": "key", "v": "value"}
_ATTRIBUTES: dict[str, dict[str, int]] = {
    "GroupQueryAttention": {"num_heads": HEADS, "kv_num_heads": HEADS},
    "MultiHeadAttention": {"num_heads": HEADS, "unidirectional": 1},
    "Attention": {"q_num_heads": HEADS, "kv_num_heads": HEADS},
}


@dataclasses.dataclass(frozen=True)
class Form:
    """A model of attention over caches."""

    op_type: str  # the operator; empty where the nodes are all
    order: str  # its inputs behind queries, keys and values, with a blank between them; ``_`` is none
    rows: int = 0  # of the caches, which are shared then; 0: they grow
    nodes: Nodes = dataclasses.field(default_factory=list)  # what makes its inputs
    # of the operator, besides those that all have
    attributes: dict[str, float] = dataclasses.field(default_factory=dict)

    def model(self, batch: Any = "batch", tokens: Any = "tokens", total: Any = "all") -> onnx.ModelProto:
        nodes = list(self.nodes)
        if self.op_type:
            order = ["q", "k", "v", *(name.strip("_") for name in self.order.split(" "))]
            domain = "" if self.op_type == "Attention" else "com.microsoft"
            attributes: dict[str, Any] = {**_ATTRIBUTES[self.op_type], **self.attributes}
            nodes.append(_node(self.op_type, order, OUTPUTS, domain=domain, **attributes))
        shapes: dict[str, Any] = dict.fromkeys("qkv", (batch, tokens, HIDDEN))
        shapes |= dict.fromkeys(CACHES, (batch, HEADS, "rows" if total == "all" else self.rows or total - tokens, SIZE))
        shapes |= {"mask": (TensorProto.INT32, [batch, total]), "bias": (1, 1, tokens, total)}
        shapes |= {"attention_mask": (TensorProto.INT64, [batch, total])}
        shapes |= {"count": (TensorProto.INT32, [1]), "total": (TensorProto.INT32, [1])}
        shapes |= {"ends": (TensorProto.INT32, [batch])}
        read = {name for node in nodes for name in node.input}
        inputs = {name: shape for name, shape in shapes.items() if name in read}
        return models.model(nodes, inputs, OUTPUTS, _CONSTANTS, opset=23)

    def feeds(self, parts: list[int]) -> list[dict[str, Array]]:
        """New tokens of texts, part by part; two places hide the beginning of the second text where places may."""
        whole, total, feeds = _whole(), 0, []
        names = {info.name for info in self.model().graph.input} - set(CACHES)
        for tokens in parts:
            seen = np.ones((BATCH, total + tokens), np.int64)
            seen[1, :2] = self.op_type == "GroupQueryAttention"
            rows = slice(total, total + tokens)
            given: dict[str, Array] = {name: whole[name][:, rows] for name in "qkv"}
            given |= {"count": np.array([total], np.int32), "attention_mask": seen, "mask": seen.astype(np.int32)}
            total += tokens
            given |= {"bias": whole["bias"][:, :, rows, :total], "total": np.array([total], np.int32)}
            given |= {"ends": np.full(BATCH, total - 1, np.int32)}
            feeds.append({name: given[name] for name in names})
        return feeds

    def empty(self) -> dict[str, Array]:
        """Caches without a row that counts, full of what nobody must see."""
        return dict.fromkeys(CACHES, np.full((BATCH, HEADS, self.rows, SIZE), 7, np.float32))

    def steps(self, session: Any, parts: list[int]) -> list[list[Array]]:
        """The outputs of each part, on arrays of the host."""
        caches, found = self.empty(), []
        for feed in self.feeds(parts):
            found.append(session.run(OUTPUTS, {**feed, **caches}))
            caches = dict(zip(CACHES, found[-1][1:], strict=True))
        return found

    def bound_steps(self, session: ort.InferenceSession, parts: list[int]) -> list[Array]:
        """The results of each part, on caches that stay on the device: shared buffers, or ones that grow."""
        return list(bound_steps(session, self.feeds(parts), self.empty()["past_key"]))


def _whole() -> dict[str, Array]:
    random, length = np.random.default_rng(7), CAPACITY
    made = {name: random.standard_normal((BATCH, length, HIDDEN)) for name in "qkv"}
    made["bias"] = random.standard_normal((1, 1, length, length))
    return {name: array.astype(np.float32) for name, array in made.items()}


_CACHES = " ".join(CACHES)
_IN_GROUPS = f"{_CACHES} ends total _ _ _ "
_OF_GROUPS = f"{_CACHES} own_ends own_total _ _ _ "
_OF_HOST, _OF_DEVICE = [*_BY_MASK, *_SEEN], [*_BY_MASK, *_SEEN, *_slanted("seen")]

FORMS = {
    "no mask, shared": Form("MultiHeadAttention", f"_ _ _ {_CACHES} count", CAPACITY),
    "no mask, growing": Form("MultiHeadAttention", f"_ _ _ {_CACHES}"),
    "no mask, ONNX": Form("Attention", f"_ {_CACHES}", attributes={"is_causal": 1}),
    "bent scores, ONNX": Form("Attention", f"_ {_CACHES}", attributes={"is_causal": 1, "softcap": 2.0, "scale": 0.5}),
    "a mask, shared": Form("MultiHeadAttention", f"_ mask _ {_CACHES} count", CAPACITY),
    "a bias, shared": Form("MultiHeadAttention", f"_ _ bias {_CACHES} count", CAPACITY),
    "a bias, groups": Form("GroupQueryAttention", f"{_IN_GROUPS}bias", CAPACITY),
    "a bias that is made, groups": Form(
        "GroupQueryAttention", f"{_OF_GROUPS}hidden", CAPACITY, [*_OF_HOST, *_LENGTHS, *_hidden("seen")]
    ),
    "a mask, growing": Form("MultiHeadAttention", f"_ mask _ {_CACHES}"),
    "a bias that is made, growing": Form(
        "MultiHeadAttention", f"_ _ hidden {_CACHES}", 0, [*_OF_HOST, *_hidden("seen")]
    ),
    "a mask that is made, growing": Form("Attention", f"seen {_CACHES}", 0, _OF_HOST),
}
"""What the host gives, or can make; caches that are shared or grow."""

OF_DEVICE = {
    "shared, groups": Form("GroupQueryAttention", f"{_OF_GROUPS}slanted", CAPACITY, [*_OF_DEVICE, *_LENGTHS]),
    "shared, heads": Form("MultiHeadAttention", f"_ _ slanted {_CACHES} count", CAPACITY, _OF_DEVICE),
    "growing, heads": Form("MultiHeadAttention", f"_ _ slanted {_CACHES}", 0, _OF_DEVICE),
    "growing, ONNX": Form("Attention", f"slanted {_CACHES}", 0, _OF_DEVICE),
    "growing, by the caches": Form("Attention", f"slanted {_CACHES}", 0, [*_BY_CACHE, *_SEEN, *_slanted("seen")]),
}
"""What only the device makes."""

JOINED = {f"joined, {kind}": Form("", "", 0, _joined(kind)) for kind in ("heads", "products")}
"""Caches that the model joins outside of attention operators."""
