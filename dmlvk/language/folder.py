"""A folder with a language model as onnxruntime-genai's builder writes it: what its files say, checked."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlvk.errors import InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.language.sampling import Sampling
from dmlvk.support.files import checked_path

if TYPE_CHECKING:
    import onnx

_CONFIG = "genai_config.json"
_TOKENIZER = "tokenizer.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_TEMPLATE = "chat_template.jinja"
_ATTENTIONS = ("full_attention", "sliding_attention")
_LAYERS = (*_ATTENTIONS, "conv", "linear_attention")
_STATES = ("conv", "recurrent")
"""Kinds of states of layers that have no caches, as members of the configuration name them."""

_MOST_CONFIG_BYTES = 64 * 2**20
_LARGEST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Names:
    """What a decoder's inputs and outputs are called; ``%d`` in those of caches stands for the layer.

    Those of states are there where a layer has any.
    """

    input_ids: str
    attention_mask: str
    position_ids: str
    logits: str
    past_key: str
    past_value: str
    present_key: str
    present_value: str
    # of states by their kind: what they are called before a run, and behind it
    states: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ConvertedModel:
    """What is made of a GGUF file or a folder of the hub, in memory: the contents of a folder of onnxruntime-genai."""

    model: onnx.ModelProto  # whose weights lie nowhere
    weights: Mapping[str, Any]  # their contents, by name: most are read of the path when they are needed
    config: Mapping[str, Any]  # of genai_config.json
    tokenizer: Any = None  # of the package ``tokenizers``; ``None``: the path has tokenizer.json, and what is beside it
    tokenizer_config: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of tokenizer_config.json


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """What a folder says of its model.

    Attributes:
        path: the folder, or the file.
        model: the ONNX file, or what a model was made of.
        tokenizer: the file of the ``tokenizers`` package, or what its contents were made of.
        names: of inputs and outputs.
        layers: how many there are.
        key_heads: heads of each layer's caches, or of all; 0: it has none, and sees those of another.
        head_sizes: elements of a head of each layer, or of all.
        window: keys that caches of a window have room for at least; 0: there are none.
        vocabulary: how many tokens there are.
        context_length: tokens that the model can look back at, the new one included.
        max_length: tokens that the folder wants room for.
        end_tokens: tokens that end a text.
        sampling: how the folder wants tokens to be chosen.
        special_tokens: texts of tokens by their role: ``bos_token``, ``eos_token`` and so on.
        chat_template: Jinja text that turns messages into a prompt; empty where there is none.
        converted: what was made of a path that is no folder of onnxruntime-genai; ``None``: it is one.
    """

    path: Path
    model: Path
    tokenizer: Path
    names: Names
    layers: int
    key_heads: tuple[int, ...]
    head_sizes: tuple[int, ...]
    window: int
    vocabulary: int
    context_length: int
    max_length: int
    end_tokens: frozenset[int]
    sampling: Sampling
    special_tokens: Mapping[str, str]
    chat_template: str
    converted: ConvertedModel | None = dataclasses.field(default=None, repr=False, compare=False)

    def has_caches(self, layer: int) -> bool:
        """Whether a layer has some of its own, or a state."""
        return self.cache_sizes(layer)[0] > 0

    def cache_sizes(self, layer: int) -> tuple[int, int]:
        """Heads of a layer's caches, and elements of a head."""
        return self.key_heads[layer % len(self.key_heads)], self.head_sizes[layer % len(self.head_sizes)]

    @classmethod
    def read(cls, path: Path | str, converted: ConvertedModel | None = None) -> ModelFolder:
        """Reads genai_config.json, and what is beside it.

        Args:
            converted: what was made of the path, where that is a GGUF file or a folder of the hub.

        Raises:
            ModelFileError: a file or a member is missing, damaged or of no possible value.
            InvalidArgumentError: it is no path.
            UnsupportedError: the folder has a model of another kind (several files, pictures, speech).
        """
        named = checked_path(path, "LanguageModel")
        config = JsonMembers(named, converted.config) if converted is not None else _genai_config(named)
        model = config.inside("model")
        if "decoder" not in model.values or any(part in model.values for part in ("encoder", "vision", "speech")):
            raise UnsupportedError(f"{config.file}: only models of one decoder for text are run")
        decoder, search = model.inside("decoder"), config.inside("search", default={})
        has_own = converted is None or converted.tokenizer is None
        if has_own and not os.path.isfile(named / _TOKENIZER):
            raise ModelFileError(f"{named}: has no {_TOKENIZER}, without which texts are no tokens")
        if named.is_dir():
            tokens, template = _tokenizer_facts(named)
        else:
            tokens, template = _facts(named, {} if converted is None else converted.tokenizer_config)
        vocabulary, context = model.whole("vocab_size"), model.whole("context_length")
        return cls(
            named,
            named if converted is not None else _onnx_file(named, decoder),
            named / _TOKENIZER if has_own else named,
            _names(decoder),
            decoder.whole("num_hidden_layers"),
            decoder.wholes("num_key_value_heads", decoder.whole("num_hidden_layers"), least=0),
            decoder.wholes("head_size", decoder.whole("num_hidden_layers")),
            decoder.inside("sliding_window", default={}).whole("window_size", default=0, least=0),
            vocabulary,
            context,
            min(context, search.whole("max_length", default=context)),
            _end_tokens(model, vocabulary),
            _sampling(search),
            tokens,
            template,
            converted,
        )


def _genai_config(folder: Path) -> JsonMembers:
    if not os.path.isdir(folder):  # as below: pathlib raises for names that are too long
        is_no = "is no folder" if os.path.exists(folder) else "there is no such file or folder"
        raise ModelFileError(
            f"{folder}: {is_no}; a language model is one with {_CONFIG} and {_TOKENIZER}, or with config.json "
            "and safetensors, or a GGUF file"
        )
    return JsonMembers(folder / _CONFIG, read_json(folder / _CONFIG))


def _onnx_file(folder: Path, decoder: JsonMembers) -> Path:
    name = decoder.text("filename")
    file = folder / name  # which may be a link: caches of downloads consist of them
    if ".." in Path(name).parts or os.path.isabs(name) or not os.path.isfile(file):
        raise ModelFileError(f"{decoder.file}: model.decoder.filename {name!r:.200} is no file of the folder")
    return file


def _check_layers(decoder: JsonMembers) -> None:
    """Refuses kinds of layers that are not known; what each has is told by the model's inputs."""
    kinds = decoder.values.get("layer_types")
    if kinds is None:
        return
    if not isinstance(kinds, list) or len(kinds) != decoder.whole("num_hidden_layers"):
        raise ModelFileError(f"{decoder.file}: model.decoder.layer_types must be a list with a kind for each layer")
    for kind in kinds:
        if kind not in _LAYERS:
            raise UnsupportedError(
                f"{decoder.file}: model.decoder.layer_types has {kind!r:.100}; {', '.join(_LAYERS)} are run"
            )


def _names(decoder: JsonMembers) -> Names:
    inputs, outputs = decoder.inside("inputs"), decoder.inside("outputs")
    _check_layers(decoder)
    kinds = [kind for kind in _STATES if f"past_{kind}_names" in inputs.values]
    names = Names(
        inputs.text("input_ids", default="input_ids"),
        inputs.text("attention_mask", default="attention_mask"),
        inputs.text("position_ids", default="position_ids"),
        outputs.text("logits", default="logits"),
        inputs.pattern("past_key_names"),
        inputs.pattern("past_value_names"),
        outputs.pattern("present_key_names"),
        outputs.pattern("present_value_names"),
        {kind: (inputs.pattern(f"past_{kind}_names"), outputs.pattern(f"present_{kind}_names")) for kind in kinds},
    )
    of_inputs: tuple[str, ...] = (
        names.input_ids,
        names.attention_mask,
        names.position_ids,
        names.past_key,
        names.past_value,
    )
    of_outputs: tuple[str, ...] = (names.logits, names.present_key, names.present_value)
    of_inputs += tuple(past for past, _ in names.states.values())
    of_outputs += tuple(present for _, present in names.states.values())
    for where, used in (("inputs", of_inputs), ("outputs", of_outputs)):
        if len(set(used)) < len(used):
            raise ModelFileError(f"{decoder.file}: model.decoder.{where} has a name twice, of {', '.join(used):.400}")
    return names


def _end_tokens(model: JsonMembers, vocabulary: int) -> frozenset[int]:
    found = model.values.get("eos_token_id", [])
    listed = found if isinstance(found, list) else [found]
    if not all(isinstance(token, int) and not isinstance(token, bool) and 0 <= token < vocabulary for token in listed):
        raise ModelFileError(f"{model.file}: model.eos_token_id must be tokens below {vocabulary}; got {found!r:.200}")
    return frozenset(listed)


def _sampling(search: JsonMembers) -> Sampling:
    try:
        return Sampling(
            temperature=search.number("temperature", 1.0) if search.values.get("do_sample", False) is True else 0.0,
            top_k=search.whole("top_k", default=50, least=0),
            top_p=search.number("top_p", 1.0),
            repetition_penalty=search.number("repetition_penalty", 1.0),
        )
    except InvalidArgumentError as error:
        raise ModelFileError(f"{search.file}: search: {error}") from error


def _tokenizer_facts(folder: Path) -> tuple[dict[str, str], str]:
    """Special tokens' texts, and the template of conversations."""
    file = folder / _TOKENIZER_CONFIG
    values = JsonMembers(file, read_json(file)).values if os.path.isfile(file) else {}
    tokens, template = _facts(file, values)
    return tokens, _text(folder / _TEMPLATE) if os.path.isfile(folder / _TEMPLATE) else template


def _facts(file: Path, values: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The same of the contents of tokenizer_config.json."""
    tokens = {
        name: text
        for name, token in values.items()
        if isinstance(text := token.get("content") if isinstance(token, dict) else token, str)
        and name.endswith("_token")
    }
    template = values.get("chat_template", "")
    if isinstance(template, list):  # several of them by name
        named = (item for item in template if isinstance(item, dict) and item.get("name") == "default")
        template = next(named, {}).get("template", "")
    if not isinstance(template, str):
        raise ModelFileError(f"{file}: chat_template must be a text; got {type(template).__name__}")
    return tokens, template


def _text(file: Path) -> str:
    try:
        if not file.is_file():
            raise ModelFileError(f"{file.parent}: has no {file.name}")
        if file.stat().st_size > _MOST_CONFIG_BYTES:
            raise ModelFileError(f"{file}: has {file.stat().st_size} bytes; at most {_MOST_CONFIG_BYTES} are read")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{file}: cannot be read: {error}") from error


def read_json(file: Path) -> Any:
    """The contents of a JSON file.

    Raises:
        ModelFileError: it is missing, too large or none.
    """
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{file}: is no JSON: {error}") from error


class JsonMembers:
    """A JSON object with the words for what it lacks.

    Args:
        where: its name in the file.
    """

    def __init__(self, file: Path, values: Any, where: str = "") -> None:
        if not isinstance(values, dict):
            raise ModelFileError(f"{file}: {where or 'the file'} must be a JSON object; got {type(values).__name__}")
        self.file, self.values, self._where = file, values, where

    def inside(self, name: str, default: dict[str, Any] | None = None) -> JsonMembers:
        """An object of the object."""
        return JsonMembers(self.file, self._value(name, default), self._full(name))

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._value(name, default)
        if not isinstance(value, str) or not value:
            raise ModelFileError(f"{self.file}: {self._full(name)} must be a text; got {value!r:.200}")
        return value

    def pattern(self, name: str) -> str:
        """A text with one ``%d``."""
        value = self.text(name)
        if value.count("%") != 1 or "%d" not in value:
            raise ModelFileError(f"{self.file}: {self._full(name)} must have one %d for the layer; got {value!r:.200}")
        return value

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """An integer of at least so much."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
            raise ModelFileError(
                f"{self.file}: {self._full(name)} must be an integer from {least} on; got {value!r:.200}"
            )
        return value

    def wholes(self, name: str, count: int, least: int = 1) -> tuple[int, ...]:
        """An integer of all of so many, or one of each, of at least so much."""
        value = self._value(name, None)
        if not isinstance(value, list):
            return (self.whole(name),)
        listed = JsonMembers(self.file, {str(place): each for place, each in enumerate(value)}, self._full(name))
        if len(value) != count:
            raise ModelFileError(f"{self.file}: {self._full(name)} must have {count} integers; got {len(value)}")
        return tuple(listed.whole(str(place), least=least) for place in range(count))

    def number(self, name: str, default: float) -> float:
        """A number."""
        value = self._value(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ModelFileError(f"{self.file}: {self._full(name)} must be a number; got {value!r:.200}")
        try:
            return float(value)
        except OverflowError as error:
            raise ModelFileError(f"{self.file}: {self._full(name)} is too large for a number") from error

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelFileError(f"{self.file}: has no {self._full(name)}")
        return value

    def _full(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name
