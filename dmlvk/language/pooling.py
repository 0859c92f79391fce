"""What becomes of a text's states: one of them or their mean, layers behind it, and the length 1.

Folders of sentence-transformers say it by modules.json and a folder for each module; those of transformers by the class
in config.json, whose weights lie with the others.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.language.folder import JsonMembers, read_json
from dmlvk.language.hub_source import HubSource, read_tensors
from dmlvk.language.weights import Numbers

_MODULES = "modules.json"
_POOLINGS = {"mean": "mean", "cls": "first", "lasttoken": "last"}
_TANH = "torch.nn.modules.activation.Tanh"
_PLAIN = "torch.nn.modules.linear.Identity"


@dataclasses.dataclass(frozen=True)
class HeadLayer:
    """A layer behind the pooled state."""

    weights: Numbers  # FLOAT32 [results, elements]
    bias: Numbers | None  # FLOAT32 [results]; ``None``: there is none
    has_tanh: bool  # whether tanh follows


@dataclasses.dataclass(frozen=True)
class Head:
    """All that follows the states."""

    pooling: str  # ``"mean"``, ``"first"`` or ``"last"``, of the tokens
    layers: tuple[HeadLayer, ...] = ()  # behind it
    is_normalized: bool = False  # whether results are divided by their length


def embedding_head(source: HubSource, hidden: int, *, is_causal: bool) -> Head:
    """What makes a vector of states; without modules.json the mean, or the last one where no token sees the next.

    Raises:
        ModelFileError: modules.json, or what it names, is missing or damaged.
        UnsupportedError: it has a module of another kind.
    """
    for part in ("weight", "bias"):
        source.drop(f"pooler.dense.{part}")
    folder = source.folder
    if not os.path.isfile(folder / _MODULES):
        return Head("last" if is_causal else "mean", (), is_causal)
    modules = read_json(folder / _MODULES)
    if not isinstance(modules, list):
        raise ModelFileError(f"{folder / _MODULES}: must be a list of modules")
    head = Head("mean")
    for each in modules:
        module = JsonMembers(folder / _MODULES, each, "a module")
        kind = module.text("type").rpartition(".")[2]
        if kind == "Transformer":
            continue
        place = folder / _inside(module)
        if kind == "Normalize":
            head = dataclasses.replace(head, is_normalized=True)
        elif kind == "Pooling":
            head = dataclasses.replace(head, pooling=_pooling(place))
        elif kind == "Dense":
            width = head.layers[-1].weights.shape[0] if head.layers else hidden
            head = dataclasses.replace(head, layers=(*head.layers, _dense(place, width)))
        else:
            raise UnsupportedError(
                f"{folder / _MODULES}: a module is {kind!r:.100}; Transformer, Pooling, Dense and Normalize are run"
            )
    return head


def score_head(source: HubSource, hidden: int) -> Head:
    """What makes scores of states: the classifier that transformers has behind an encoder.

    Raises:
        ModelFileError: its tensors are missing or of other sizes.
    """
    if source.has("classifier.out_proj.weight"):
        inner, outer = "classifier.dense", "classifier.out_proj"
    else:
        inner, outer = "pooler.dense", "classifier"
    if not source.has(f"{outer}.weight"):
        raise source.refusal("has no classifier behind its encoder, which gives scores")
    count = source.sizes(source.tensor_named(f"{outer}.weight"))[0]
    layers = []
    for name, rows in ((inner, hidden), (outer, count)):
        weights = np.asarray(source.matrix(f"{name}.weight", rows, hidden).multiplied_out())
        layers.append(HeadLayer(weights, source.vector(f"{name}.bias", rows), name == inner))
    return Head("first", tuple(layers))


def _inside(module: JsonMembers) -> str:
    path = module.text("path", default=".")
    if os.path.isabs(path) or ".." in Path(path).parts:
        raise ModelFileError(f"{module.file}: the path {path!r:.100} is none inside of the folder")
    return path


def _pooling(folder: Path) -> str:
    config = JsonMembers(folder / "config.json", read_json(folder / "config.json"))
    named = config.values.get("pooling_mode")
    if named is None:
        chosen = [name for name, value in config.values.items() if name.startswith("pooling_mode_") and value is True]
        names = [name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for name in chosen]
    else:
        names = [str(named)] if isinstance(named, str) else [str(each) for each in named]
    if len(names) != 1 or names[0] not in _POOLINGS:
        raise UnsupportedError(f"{config.file}: pools by {names!r:.100}; one of {', '.join(_POOLINGS)} is run")
    return _POOLINGS[names[0]]


def _dense(folder: Path, width: int) -> HeadLayer:
    config = JsonMembers(folder / "config.json", read_json(folder / "config.json"))
    activation = config.text("activation_function", default=_TANH)
    if activation not in (_TANH, _PLAIN):
        raise UnsupportedError(f"{config.file}: activation_function is {activation!r:.100}; {_TANH}, {_PLAIN} are run")
    sizes: dict[str, Any] = {"linear.weight": (config.whole("out_features"), width)}
    if config.whole("in_features") != width:
        raise ModelFileError(f"{config.file}: in_features must be {width}, as what is before it gives")
    if config.values.get("bias", True):
        sizes["linear.bias"] = sizes["linear.weight"][:1]
    tensors = read_tensors(folder)
    for name, size in sizes.items():
        if name not in tensors or tensors[name].shape != size or not np.isfinite(tensors[name]).all():
            raise ModelFileError(f"{folder}: must have the tensor {name}, {list(size)} finite numbers")
    return HeadLayer(tensors["linear.weight"], tensors.get("linear.bias"), activation == _TANH)
