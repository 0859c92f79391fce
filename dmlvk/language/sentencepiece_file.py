"""SentencePiece's files (tokenizer.model), read as the fields with which GGUF files say the same.

The layout is that of sentencepiece_model.proto, in Protocol Buffers' encoding (protobuf.dev, "Encoding"); types of
pieces have the numbers of GGUF's types of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]  # has no annotations
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no annotations
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]  # has no annotations

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.language.folder import JsonMembers, read_json
from dmlvk.language.gguf_file import GgufFile
from dmlvk.language.gguf_tokenizer import PREFIX
from dmlvk.support.files import read_bytes

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_KIND, _SUFFIX, _NUMBERS = 3, 24, {"unknown": 40, "bos": 41, "eos": 42, "padding": 43}  # In the part of the trainer
_CHARACTERS, _PREFIX, _SPACES, _MARKS = 2, 3, 4, 5  # In the part of the normalizer
_MERGES = 2  # The kind that merges pieces, in the order of their scores
_CONTROL, _DEFINED = 3, 4  # Types of pieces that stand for no text, and of those that are found before all others


def piece_file(path: Path) -> GgufFile:
    """A file of pieces, with the tokens that tokenizer_config.json beside it adds, as a GGUF file without tensors.

    Raises:
        ModelFileError: one of them cannot be read, or is damaged.
        UnsupportedError: its pieces are not merged, or texts are changed before they are cut.
    """
    try:
        fields = _fields(path, read_bytes(path))
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise ModelFileError(f"{path}: is no file of SentencePiece: {error}") from error
    beside = path.parent / "tokenizer_config.json"
    if beside.is_file():
        _add(fields, JsonMembers(beside, read_json(beside)))
    return GgufFile.of_fields(path, fields)


def _add(fields: dict[str, Any], config: JsonMembers) -> None:
    """Tokens behind the pieces, or in their place, and which of them stand around texts."""
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"].tolist()
    added = config.inside("added_tokens_decoder", default={})
    for name in sorted(added.values, key=lambda name: (len(name), name)):
        token = added.inside(name)
        if name == str(len(tokens)):
            tokens.append("")
            kinds.append(0)
        elif not name.isdecimal() or int(name) >= len(tokens):
            raise ModelFileError(f"{config.file}: added_tokens_decoder leaves out the token before {name!r:.100}")
        tokens[int(name)] = token.text("content")
        kinds[int(name)] = _CONTROL if token.values.get("special") is True else _DEFINED
    scores = np.zeros(len(tokens), np.float32)
    scores[: len(fields["tokenizer.ggml.scores"])] = fields["tokenizer.ggml.scores"]
    fields |= {"tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": np.array(kinds)}
    if config.values.get("legacy") is True:
        fields[PREFIX] = "always"
    for role in ("bos", "eos"):
        if isinstance(config.values.get(f"add_{role}_token"), bool):
            fields[f"tokenizer.ggml.add_{role}_token"] = config.values[f"add_{role}_token"]


def _fields(path: Path, data: bytes) -> dict[str, Any]:
    pieces = list[tuple[str, int, int]]()  # with the bits of scores
    parts: dict[int, Mapping[int, Any]] = {_TRAINER: {}, _NORMALIZER: {}}
    for number, value in _members(data):
        if number == _PIECES:
            own = dict(_members(value))
            text, kind = _checked(own.get(1, b""), bytes).decode(), _checked(own.get(3, 1), int)
            score = _checked(own.get(2, 0), int)
            pieces.append((text.replace("\u2581", " ") if kind == _DEFINED else text, score, kind))
        elif number in parts:
            parts[number] = dict(_members(value))
    trainer, normalizer = parts[_TRAINER], parts[_NORMALIZER]
    if trainer.get(_KIND, 1) != _MERGES:
        raise UnsupportedError(f"{path}: pieces of the type {trainer.get(_KIND, 1)} are not run; {_MERGES} (BPE) are")
    if normalizer.get(_CHARACTERS) or normalizer.get(_SPACES, 1) or not normalizer.get(_MARKS, 1):
        raise UnsupportedError(f"{path}: changes characters or spaces of texts (normalizer_spec), which is not run")
    if trainer.get(_SUFFIX):
        raise UnsupportedError(f"{path}: spaces end words (treat_whitespace_as_suffix), which is not run")
    made: dict[str, Any] = {
        "general.architecture": "sentencepiece",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [text for text, _, _ in pieces],
        "tokenizer.ggml.scores": np.array([score for _, score, _ in pieces], np.uint32).view(np.float32),
        "tokenizer.ggml.token_type": np.array([kind for _, _, kind in pieces], np.int64),
        "tokenizer.ggml.add_space_prefix": bool(normalizer.get(_PREFIX, 1)),
        PREFIX: "first",
    }
    roles = {role: _checked(trainer.get(own, place), int, 2**64) for place, (role, own) in enumerate(_NUMBERS.items())}
    return made | {f"tokenizer.ggml.{role}_token_id": number for role, number in roles.items() if number < len(pieces)}


def _checked(value: Any, kind: type, end: int = 2**32) -> Any:
    """A member's value, if it is of its type: bytes, or an integer below an end; else DecodeError."""
    if not isinstance(value, kind) or (isinstance(value, int) and value >= end):
        raise DecodeError("a member has another type than SentencePiece's")
    return value


def _members(data: object) -> Iterator[tuple[int, Any]]:
    """Numbers of members, and their values: integers, or bytes.

    Raises:
        DecodeError: it is no message.
    """
    message = Empty()  # to which all members are unknown ones
    message.ParseFromString(_checked(data, bytes))
    for member in UnknownFieldSet(message):
        yield member.field_number, member.data
