"""What folders of the hub say of a model: config.json, and weights in safetensors files.

The layout is that of safetensors (README.md, "Format"): a length, a JSON object of tensors, their bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.language.folder import JsonMembers, read_json
from dmlvk.language.gguf_blocks import BLOCKS, plain
from dmlvk.language.hub_experts import expert_biases, experts_of
from dmlvk.language.hub_names import (
    ANGLES_OF_GEMMA4,
    DEFAULTS,
    DELTA,
    FIELDS,
    GATES,
    IGNORED,
    LAYERS,
    NOTHING,
    OF_ALL_LAYERS,
    OTHER_FIELDS,
    OTHER_PARTS,
    OTHERS,
    PAIRS,
    TENSORS,
    TURNING,
)
from dmlvk.language.hub_packed import Packing
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix, Numbers
from dmlvk.support.file_arrays import FileArray
from dmlvk.support.mapped_files import MappedFile

_CONFIG, _INDEX, _SINGLE = "config.json", "model.safetensors.index.json", "model.safetensors"
_MOST_HEADER_BYTES = 2**28

_PLAIN = ("F32", "F16", "BF16")
_CODES = {"U8": "u1", "I32": "<i4", "F8_E4M3": "u1"}
_SIZES = {**{kind: BLOCKS[kind][1] for kind in _PLAIN}, "U8": 1, "I32": 4, "F8_E4M3": 1}


@dataclasses.dataclass(frozen=True)
class _Tensor:
    kind: str
    sizes: tuple[int, ...]
    file: MappedFile
    start: int

    @property
    def contents(self) -> Numbers:
        """The bytes of each number, behind its sizes."""
        return self.file.array(np.uint8, self.start, (*self.sizes, _SIZES[self.kind]))

    def numbers(self) -> FileArray:
        """As FLOAT32 [rows, columns]."""
        rows, columns = math.prod(self.sizes[:-1]), self.sizes[-1] if self.sizes else 1
        return plain(self.kind, self.contents.reshape(rows, columns, -1))


class HubSource(Source):
    """A folder with config.json and safetensors files.

    Raises:
        ModelFileError: a file is missing, damaged, or contradicts another.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = JsonMembers(folder / _CONFIG, read_json(folder / _CONFIG))
        self._values, self._read = _of_text(config), {"tie_word_embeddings", "tie_embedding"}
        generation = folder / "generation_config.json"
        self._generation = JsonMembers(generation, read_json(generation)).values if generation.is_file() else {}
        self._tensors = _tensors_of(folder)
        super().__init__(str(folder), set(self._tensors))
        self.architecture = JsonMembers(folder / _CONFIG, self._values).text("model_type")
        of_gemma = self.architecture.startswith("gemma") and self.architecture != "gemma4_text"
        self.has_pairs = self.architecture in PAIRS
        self.adds_one = of_gemma or self.architecture in DELTA
        self.is_tied = self._values.get("tie_word_embeddings", self._values.get("tie_embedding"))
        self._packing = Packing(self, self._values.get("quantization_config"))
        self._read.add("quantization_config")

    def roles(self) -> dict[str, object]:
        """Tokens that begin, end and fill texts, as generation_config.json says, and else config.json."""
        names = ("bos_token_id", "eos_token_id", "pad_token_id")
        found = {name: self._generation.get(name, self._values.get(name)) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def search(self) -> dict[str, object]:
        """How tokens are chosen, as generation_config.json says."""
        names = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")
        return {name: self._generation[name] for name in names if self._generation.get(name) is not None}

    def named(self, name: str) -> str:
        if name == "expert_count" and "num_experts" in self._values:
            return "num_experts"
        return OTHER_FIELDS.get(self.architecture, {}).get(name) or FIELDS.get(name, name)

    def value(self, name: str) -> Any:
        if name == "attention.head_count_kv" and self.architecture == "gemma4_text":
            return self._key_heads()
        if name == "attention.sliding_window" and self._values.get("use_sliding_window", True) is False:
            self._read.add("sliding_window")
            return None
        own = self.named(name)
        self._read.add(own)
        return 0 if own in NOTHING and own in self._values and self._values[own] is None else self._values.get(own)

    def _key_heads(self) -> Any:
        """Layers that see all keys may have another number of heads."""
        self._read.update(("num_key_value_heads", "num_global_key_value_heads"))
        local, everywhere = self._values.get("num_key_value_heads"), self._values.get("num_global_key_value_heads")
        kinds = self._values.get("layer_types")
        if everywhere is None or not self.flag("attention_k_eq_v") or not isinstance(kinds, list):
            return local
        return [local if kind == "sliding_attention" else everywhere for kind in kinds]

    def tensor_named(self, name: str) -> str:
        own = {**TENSORS, **OTHERS.get(self.architecture, {})}
        match = re.fullmatch(r"blk\.(\d+)\.(.*)", name, re.DOTALL)
        module = name if match is None else match[2]
        parts, behind = module.split("."), list[str]()
        while parts and ".".join(parts) not in own:
            behind.insert(0, parts.pop())
        found = ".".join([*([own[".".join(parts)]] if parts else []), *behind])
        if match is None:
            return found
        return f"{LAYERS.get(self.architecture, 'model.layers')}.{match[1]}.{found}"

    def sizes(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].sizes

    def read(self, name: str) -> Matrix:
        return Matrix(32, self._plain(name).numbers())

    def _plain(self, name: str) -> _Tensor:
        tensor = self._tensors[name]
        if tensor.kind not in _PLAIN:
            raise self.refusal(f"{name} is of the type {tensor.kind!r:.100}; {', '.join(_PLAIN)} are run")
        return tensor

    def turned(self, name: str, sizes: tuple[int, ...], lines: slice = slice(None)) -> FileArray:
        own = self._take(name, sizes)
        tensor = self._plain(own)
        several = tensor.contents.reshape(-1, *sizes[-2:], _SIZES[tensor.kind]).swapaxes(1, 2)
        made = FileArray.joined([plain(tensor.kind, each[lines]) for each in several])
        return made.then(lambda values: self.finite(own, values))

    def codes(self, name: str, sizes: tuple[int, ...]) -> Numbers:
        own = self._take(name, sizes)
        tensor = self._tensors[own]
        if tensor.kind not in _CODES:
            raise self.refusal(f"{own} is of the type {tensor.kind!r:.100}, none of {', '.join(_CODES)}")
        return tensor.file.array(_CODES[tensor.kind], tensor.start, sizes)

    def kind(self, name: str) -> str:
        """The type of a tensor as safetensors calls it; empty where there is none."""
        own = self.tensor_named(name)
        return self._tensors[own].kind if own in self._tensors else ""

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        return self._packing.matrix(name, rows, columns) or super().matrix(name, rows, columns)

    def any_matrix(self, name: str) -> Numbers:
        """A plain tensor of any size, FLOAT32 [rows, columns]."""
        return self._checked(self._take(name, self.sizes(self.tensor_named(name)))).read

    def experts(self, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
        return experts_of(self, own, part, sizes)

    def expert_biases(self, own: str, part: str, sizes: tuple[int, int]) -> Numbers:
        return expert_biases(self, own, part, sizes)

    def angles(self, head: int, theta: float, *, is_local: bool) -> tuple[float, int, Mapping[str, Any]]:
        """As transformers reads them: ``rope_parameters``, for each kind of layers or for all, or older fields."""
        if self.architecture == "gemma4_text":
            return self._angles_of_gemma4(head, "sliding_attention" if is_local else "full_attention")
        found = self._values.get("rope_parameters") or self._values.get("rope_scaling") or {}
        if not isinstance(found, dict):
            raise self.fault(f"rope_parameters must be an object; got {found!r:.100}")
        if "full_attention" in found:
            found = found.get("sliding_attention" if is_local else "full_attention")
            if not isinstance(found, dict):
                raise self.fault("rope_parameters must have an object for each kind of layers")
        elif is_local:
            base = self._values.get("rope_theta") if self.architecture == "olmo3" else None
            found = {"rope_theta": self._values.get("rope_local_base_freq", base or 10000.0)}
        scaling = {key: value for key, value in found.items() if value is not None}
        base = self.checked_number("rope_theta", scaling.get("rope_theta", self._values.get("rope_theta", theta)), 1.0)
        share = scaling.get("partial_rotary_factor", self._values.get("partial_rotary_factor"))
        share = TURNING.get(self.architecture, 1.0) if share is None else share
        if scaling.get("rope_type") == "proportional":  # which reads it itself
            share = 1.0
        size = int(head * self.checked_number("partial_rotary_factor", share, 0.0, 1.0))
        if size % 2 or not size:
            raise self.fault(f"partial_rotary_factor must leave an even number of a head's {head} elements; got {size}")
        original = self._values.get("original_max_position_embeddings")
        return base, size, scaling if original is None else {"original_max_position_embeddings": original} | scaling

    def _angles_of_gemma4(self, head: int, kind: str) -> tuple[float, int, Mapping[str, Any]]:
        """Those of a kind of layers; which pairs turn says no other field."""
        if self._values.get("rope_scaling") is not None:
            raise self.refusal(f"rope_scaling is {self._values['rope_scaling']!r:.100}; gemma4 has rope_parameters")
        listed = self._values.get("rope_parameters")
        found = (ANGLES_OF_GEMMA4 if listed is None else listed if isinstance(listed, dict) else {}).get(kind)
        if not isinstance(found, dict):
            raise self.fault(f"rope_parameters must have an object for each kind of layers; got {listed!r:.100}")
        scaling = {key: value for key, value in found.items() if value is not None}
        return self.checked_number("rope_theta", scaling.get("rope_theta"), 1.0), head, scaling

    def vocabulary(self) -> int:
        return self.whole("vocab_size")

    def layers(self, most: int) -> int:
        """Those that guess further tokens, which come last and are not counted, are left out."""
        count = super().layers(most)
        if self.architecture == "glm4_moe":
            self._left -= {name for name in self._left if re.match(rf"model\.layers\.{count}\.", name)}
        return count

    def flag(self, name: str) -> bool:
        self._read.add(name)
        value = self._values.get(name, False)
        if not isinstance(value, bool) and value is not None:
            raise self.fault(f"{name} must be true or false; got {value!r:.100}")
        return bool(value)

    def gate(self, default: str) -> str:
        self._read.update(("hidden_act", "hidden_activation"))
        value = self._values.get("hidden_activation") or (default != "tanh" and self._values.get("hidden_act"))
        if not value:
            return default
        if not isinstance(value, str) or value not in GATES:
            raise self.refusal(f"hidden_act is {value!r:.100}; {', '.join(GATES)} are run")
        return GATES[value]

    def windows(self, layers: int) -> list[bool] | None:
        kinds = self._values.get("layer_types")
        if kinds is None:
            return None
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise self.fault(f"layer_types must be a list for {layers} layers; got {kinds!r:.100}")
        if self.architecture in ("lfm2", "lfm2_moe", *DELTA):
            return None  # read as what has attention at all
        for kind in kinds:
            if kind not in ("full_attention", "sliding_attention"):
                raise self.refusal(f"layer_types has {kind!r:.100}; full_attention and sliding_attention are run")
        return [kind == "sliding_attention" for kind in kinds]

    def attending(self, layers: int) -> list[bool]:
        kinds, listed = self._values.get("layer_types"), self.value("full_attn_idxs")
        other = "linear_attention" if self.architecture in DELTA else "conv"
        if (
            isinstance(kinds, list)
            and len(kinds) == layers
            and all(kind in (other, "full_attention") for kind in kinds)
        ):
            return [kind == "full_attention" for kind in kinds]
        if kinds is None and self.architecture in DELTA:
            each = self.whole("full_attention_interval", 4)
            return [(layer + 1) % each == 0 for layer in range(layers)]
        if kinds is not None or not isinstance(listed, list):
            raise self.fault(f"layer_types must have {other} or full_attention for {layers} layers; got {kinds!r:.100}")
        return [layer in listed for layer in range(layers)]

    def turning(self, layers: int) -> list[bool]:
        listed, each = self.value("no_rope_layers"), self.whole("no_rope_layer_interval", 4)
        if listed is None:
            return [(layer + 1) % each != 0 for layer in range(layers)]
        if not isinstance(listed, list) or len(listed) != layers:
            raise self.fault(f"no_rope_layers must be a list for {layers} layers; got {listed!r:.100}")
        return [bool(one) for one in listed]

    def check_fields(self) -> None:
        for name, value in self._values.items():
            if name in self._read or name in IGNORED or value is None or value is False:
                continue
            raise self.refusal(
                f"{_CONFIG}: {name:.200} is {value!r:.100}; it changes the model's numbers, or may, and is not read"
            )


def _of_text(config: JsonMembers) -> Mapping[str, Any]:
    """The fields of a model for text; of one for pictures, too, those of its part for text."""
    inner = config.inside("text_config") if "text_config" in config.values else config
    ends, tied = (
        {name: config.values[name]} if name in config.values else {} for name in ("eos_token_id", "tie_word_embeddings")
    )
    kind = inner.values.get("model_type")
    return {**(DEFAULTS.get(kind, {}) if isinstance(kind, str) else {}), **ends, **_of_all_layers(inner), **tied}


def _of_all_layers(config: JsonMembers) -> Mapping[str, Any]:
    """Fields, where newer files list what is different in layers that see all keys, as older ones have them."""
    values, kinds = dict(config.values), config.values.get("layer_types")
    listed = values.get("per_layer_config")
    if values.get("model_type") != "gemma4_text" or not isinstance(kinds, list):
        return values
    if kinds[-1:] == ["sliding_attention"]:  # which transformers runs as one that sees all keys
        values["layer_types"] = kinds = [*kinds[:-1], "full_attention"]
    if listed is None:
        return values
    wanted = [str(layer) for layer, kind in enumerate(kinds) if kind == "full_attention"]
    own = config.inside("per_layer_config")
    fields = [own.inside(layer, default={}).values for layer in wanted]
    if not set(own.values) <= set(wanted) or any(
        each != fields[0] or not OF_ALL_LAYERS.keys() >= each.keys() for each in fields
    ):
        raise UnsupportedError(
            f"{config.file}: per_layer_config must have the same head_dim and num_key_value_heads for each layer of "
            "full_attention, and nothing else"
        )
    del values["per_layer_config"]
    values["global_head_dim"] = values.get("head_dim", 256)
    return values | {OF_ALL_LAYERS[name]: value for each in fields for name, value in each.items()}


def _tensors_of(folder: Path) -> dict[str, _Tensor]:
    names = [_SINGLE]
    if os.path.isfile(folder / _INDEX):
        listed = JsonMembers(folder / _INDEX, read_json(folder / _INDEX)).inside("weight_map").values
        names = sorted({str(name) for name in listed.values()})
    made: dict[str, _Tensor] = {}
    for name in names:
        if Path(name).name != name or not os.path.isfile(folder / name):
            raise ModelFileError(f"{folder}: has no file {name!r:.200} of weights")
        for own, found in _tensors_in(folder / name).items():
            if re.match(rf"(model\.)?({OTHER_PARTS})\.", own):
                continue
            tensor = re.sub(r"^(language_model\.(model\.)?|model\.language_model\.)", "model.", own)
            tensor = tensor.replace("model.lm_head.", "lm_head.", 1)
            tensor = re.sub(r"^(bert|roberta)\.", "", tensor)
            # of a model without its head
            tensor = re.sub(r"^(layers|embed_tokens\w*|per_layer_\w+|norm)\.", r"model.\1.", tensor)
            if tensor in made:
                raise ModelFileError(f"{folder}: the tensor {tensor!r:.200} stands in two files")
            made[tensor] = found
    return made


def read_tensors(folder: Path) -> dict[str, Numbers]:
    """All tensors of a folder that lies inside of a model's, as FLOAT32.

    Raises:
        ModelFileError: there are none, or of another type.
    """
    made = {}
    for name, tensor in _tensors_of(folder).items():
        if tensor.kind not in _PLAIN:
            raise ModelFileError(f"{folder}: {name} is of the type {tensor.kind!r:.100}; {', '.join(_PLAIN)} are run")
        made[name] = np.asarray(tensor.numbers()).reshape(tensor.sizes)
    return made


def _tensors_in(path: Path) -> dict[str, _Tensor]:
    """The tensors of a safetensors file, whose extents lie inside of it."""

    def fault(what: str) -> ModelFileError:
        return ModelFileError(f"{path}: is a damaged safetensors file: {what}")

    try:
        file = MappedFile.opened(path)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path}: cannot be read: {error}") from error
    length = int.from_bytes(file[:8], "little")
    if file.length < 8 or length > min(file.length - 8, _MOST_HEADER_BYTES):
        raise fault(f"its header has {length} bytes of {file.length}")
    try:
        header = json.loads(file[8 : 8 + length], object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise fault(f"its header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise fault("its header is no JSON object")
    made = {}
    for name, found in header.items():
        if name == "__metadata__":
            continue
        values = found if isinstance(found, dict) else {}
        kind, sizes, ends = values.get("dtype"), _counts(values.get("shape")), _counts(values.get("data_offsets"))
        if not isinstance(kind, str) or sizes is None or ends is None or len(ends) != 2:
            raise fault(f"{name!r:.200} is not described by dtype, shape and data_offsets")
        start, end = ends
        if not start <= end <= file.length - 8 - length:
            raise fault(f"{name!r:.200} has the bytes {start} to {end} of {file.length - 8 - length}")
        if kind in _SIZES and end - start != math.prod(sizes) * _SIZES[kind]:
            raise fault(f"{name!r:.200} has {end - start} bytes, which are not {kind} {list(sizes)!r:.100}")
        made[name] = _Tensor(kind, sizes, file, 8 + length + start)
    places = sorted((*header[name]["data_offsets"], name) for name in made)
    for (_, end, first), (start, _, second) in itertools.pairwise(places):
        if start < end:
            raise fault(f"{second!r:.200} begins inside of {first!r:.200}, at byte {start}")
    return made


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of different names; one name twice is a ValueError, as in the package safetensors."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


def _counts(values: Any) -> tuple[int, ...] | None:
    """Sizes or places; ``None``: they are none."""
    if not isinstance(values, list) or not all(isinstance(each, int) and 0 <= each < 2**63 for each in values):
        return None
    return tuple(values)
