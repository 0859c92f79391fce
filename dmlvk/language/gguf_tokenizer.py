"""The tokenizer of a GGUF file as the `tokenizers` package has it.

How text is cut is what llama.cpp's llama-vocab.cpp and the models' own tokenizer.json say.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.tokenizer import tokenized, tokenizer_class

_CONTROL, _DEFINED = 3, 4
"""GGUF's types of tokens that stand for no text, and of those that are found in texts before all others."""

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_CUT_BYTES = _BYTES | {"use_regex": False}
_DIGITS = {"type": "Digits", "individual_digits": True}
_MARKS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_WORDS = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_REST_WITHOUT_MARKS = _REST.replace(r"\p{L}", r"\p{L}\p{M}", 1)
_BREAKS = r"[\r\n]*"
_LATER_REST = _REST.replace(_BREAKS, r"[\r\n/]*", 1)


def _cut(pattern: str) -> list[dict[str, object]]:
    by = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return [by, _CUT_BYTES]


_OF_LLAMA_3 = ("llama-bpe", "llama3", "llama-v3", "lfm2", "falcon3", "pixtral")
_LLAMA_3 = _cut(rf"{_MARKS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}")
_PRE_TOKENIZERS: Mapping[str, list[dict[str, object]]] = {
    **{name: [_BYTES] for name in ("gpt-2", "phi-2", "exaone4")},
    **{name: [_DIGITS, _BYTES] for name in ("smollm", "refact", "starcoder", "command-r")},
    **dict.fromkeys((*_OF_LLAMA_3, "dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), _LLAMA_3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _cut(rf"{_MARKS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}")),
    "qwen35": _cut(rf"{_MARKS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}|{_REST_WITHOUT_MARKS}"),
    **dict.fromkeys(
        ("gpt-4o", "llama4"), _cut(rf"{_WORDS[0]}{_MARKS}?|{_WORDS[1]}{_MARKS}?|\p{{N}}{{1,3}}|{_LATER_REST}")
    ),
    "seed-coder": _cut(rf"{_MARKS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST.replace(_BREAKS, '', 1)}"),
    "tekken": _cut(rf"{_WORDS[0]}|{_WORDS[1]}|\p{{N}}|{_LATER_REST}"),
}
"""How text is cut before its bytes are merged, by GGUF's name."""

_BEGINNING = frozenset({*_OF_LLAMA_3, "tekken"})
"""Tokenizers with a token that begins texts, unless files say no."""

_WHOLE_WORDS = _BEGINNING | {"glm4"}
"""Tokenizers that take a word as it is, where it is a token, whatever merges say."""

_OF_PIECES = ("llama", "gemma4")  # Kinds of tokenizers of SentencePiece's pieces

_SPACE = "\u2581"  # What stands for a space in SentencePiece's tokens

PREFIX = "tokenizer.ggml.prefix_scheme"
"""A field that no GGUF file has: where transformers puts a space in front of what has none, ``"first"`` or
``"always"``, of a text or of each part between added tokens."""

_LONGEST_PIECE = 512
"""Characters of a piece that is a merge of others: a file of a few bytes more cannot ask for the square of them."""

_ENDS = frozenset(
    {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<turn|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eom_id|>",
    }
)
"""Control tokens that end an answer, which files do not name."""


@dataclasses.dataclass(frozen=True)
class GgufTokenizer:
    """A tokenizer that merges bytes, or SentencePiece's pieces, by their scores or as the file's merges say.

    Attributes:
        source: the file.
        tokens: their texts.
        types: GGUF's type of each.
        begin, padding: numbers of tokens with these roles.
        ends: of those that end a text, the one that the file names first.
    """

    source: GgufSource
    tokens: list[str]
    types: list[int]
    begin: int
    padding: int
    ends: list[int]

    @classmethod
    def of(cls, source: GgufSource) -> GgufTokenizer:
        """The one of a file.

        Raises:
            ModelFileError: a field is missing, or does not fit the others.
            UnsupportedError: it is of another kind.
        """
        kind, cut = source.text("tokenizer.ggml.model"), source.fields.get("tokenizer.ggml.pre", "gpt-2")
        if kind not in _OF_PIECES and (kind != "gpt2" or not isinstance(cut, str) or cut not in _PRE_TOKENIZERS):
            raise source.refusal(
                f"the tokenizer {kind!r:.100}, {cut!r:.100}; {', '.join(map(repr, _OF_PIECES))} are run, and 'gpt2' "
                f"with {list(_PRE_TOKENIZERS)}"
            )
        tokens, types = source.texts("tokenizer.ggml.tokens"), source.field("tokenizer.ggml.token_type")
        if not isinstance(types, np.ndarray) or len(types) != len(tokens):
            raise source.fault(f"tokenizer.ggml.token_type must be a number for each of {len(tokens)} tokens")
        if kind == "llama":  # spaces are the marks that stand for them in texts, wherever these come from
            spaces = [number for number in np.flatnonzero(types == _DEFINED).tolist() if not tokens[number].strip(" ")]
            tokens = tokens.copy()
            for number in spaces:
                tokens[number] = tokens[number].replace(" ", _SPACE)
        if len(set(tokens)) < len(tokens):
            raise source.fault("tokenizer.ggml.tokens has a token twice")

        def role(name: str, default: int | None = None) -> int:
            return source.whole(f"tokenizer.ggml.{name}_token_id", default, least=0, most=len(tokens) - 1)

        ends = [role("eos")]
        ends += [role(name) for name in ("eot", "eom") if f"tokenizer.ggml.{name}_token_id" in source.fields]
        ends += [number for number in np.flatnonzero(types == _CONTROL).tolist() if tokens[number] in _ENDS]
        return cls(source, tokens, types.tolist(), role("bos", ends[0]), role("padding", 0), list(dict.fromkeys(ends)))

    def tokenizer(self) -> Any:
        """The tokenizer as the package has it.

        Raises:
            ModelFileError: the package refuses it: a merge is none of two tokens, say.
            UnsupportedError: the package is not installed.
        """
        try:
            return tokenized(self._tokenizer)
        except ValueError as error:
            raise self.source.fault(f"is no tokenizer: {error}") from error

    def _tokenizer(self) -> Any:
        kind = tokenizer_class()
        from tokenizers import AddedToken, models

        name = str(self.source.fields.get("general.name", "")).lower()
        takes_spaces = "phi-3" in name or "phi3" in name  # which GGUF has no field for: as llama.cpp does it
        added = [
            AddedToken(
                token,
                rstrip=takes_spaces and token not in ("<unk>", "<s>", "<|endoftext|>"),
                normalized=False,
                special=number == _CONTROL,
            )
            for token, number in zip(self.tokens, self.types, strict=True)
            if number in (_CONTROL, _DEFINED) and token
        ]
        is_of_pieces = self.source.text("tokenizer.ggml.model") in _OF_PIECES
        model, parts = self._pieces() if is_of_pieces else self._bytes()
        parts |= {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
        parts |= {"post_processor": self._around(), "model": {"type": "BPE", "vocab": {}, "merges": []}}
        made = kind.from_str(json.dumps(parts))
        made.model = models.BPE({token: number for number, token in enumerate(self.tokens)}, **model)
        made.add_tokens(added)
        return made

    def _around(self) -> dict[str, object]:
        """What stands around a whole text: the token that begins one, or that ends one, where the file wants it."""
        begins = self.source.text("tokenizer.ggml.model") in _OF_PIECES
        begins |= self.source.fields.get("tokenizer.ggml.pre") in _BEGINNING
        numbers = {"bos": self.begin, "eos": self.ends[0]}
        wanted = {
            role: self.source.fields.get(f"tokenizer.ggml.add_{role}_token", begins and role == "bos") is True
            for role in numbers
        }
        named = {role: self.tokens[number] for role, number in numbers.items() if wanted[role]}
        parts: list[dict[str, object]] = [{"Sequence": {"id": "A", "type_id": 0}}]
        for role, token in named.items():
            parts.insert(len(parts) * (role == "eos"), {"SpecialToken": {"id": token, "type_id": 0}})
        tokens = {token: {"id": token, "ids": [numbers[role]], "tokens": [token]} for role, token in named.items()}
        pair = [*parts, {"Sequence": {"id": "B", "type_id": 0}}]
        return {"type": "TemplateProcessing", "single": parts, "pair": pair, "special_tokens": tokens}

    def _merges(self) -> list[tuple[str, ...]]:
        merges = [tuple(merge.split(" ")) for merge in self.source.texts("tokenizer.ggml.merges")]
        if wrong := next((merge for merge in merges if len(merge) != 2), None):
            raise self.source.fault(f"tokenizer.ggml.merges has {' '.join(wrong)!r:.100}, which is no pair of tokens")
        return merges

    def _bytes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What merges bytes as the file's merges say: of a BPE, and of a tokenizer around it."""
        cut = self.source.fields.get("tokenizer.ggml.pre", "gpt-2")
        return {"ignore_merges": cut in _WHOLE_WORDS, "merges": self._merges()}, {
            "normalizer": {"type": "NFC"} if cut in ("qwen2", "qwen35") else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS[cut]},
            "decoder": _BYTES,
        }

    def _pieces(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same of SentencePiece's way: spaces are marks, and characters that are no pieces bytes."""
        has_merges = self.source.text("tokenizer.ggml.model") == "gemma4"
        merges = self._merges() if has_merges else self._merges_of_scores()
        has_prefix = self.source.fields.get("tokenizer.ggml.add_space_prefix", not has_merges) is not False
        to_spaces: dict[str, object] = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
        decoders: list[dict[str, object]] = [to_spaces, {"type": "ByteFallback"}, {"type": "Fuse"}]
        normalizers: list[dict[str, object]] = [{"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}]
        scheme, before = self.source.fields.get(PREFIX), None
        if has_prefix:
            if scheme in ("first", "always"):
                before = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": False}
            else:
                normalizers.insert(0, {"type": "Prepend", "prepend": _SPACE})
            decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        unknown = self.source.whole("tokenizer.ggml.unknown_token_id", 0, least=0, most=len(self.tokens) - 1)
        model = {"unk_token": self.tokens[unknown], "fuse_unk": True, "byte_fallback": True, "merges": merges}
        return model, {
            "normalizer": {"type": "Sequence", "normalizers": normalizers},
            "pre_tokenizer": before,
            "decoder": {"type": "Sequence", "decoders": decoders},
        }

    def _merges_of_scores(self) -> list[tuple[str, str]]:
        """Of all neighbours that together are a piece, those of the best score are merged first.

        Of equals SentencePiece takes the ones that come first in a text. Ranks, which are no more than an order, do the
        same where longer pieces go on first, as transformers has it (convert_slow_tokenizer.py).
        """
        scores = self.source.field("tokenizer.ggml.scores")
        if not isinstance(scores, np.ndarray) or len(scores) != len(self.tokens) or not np.isfinite(scores).all():
            raise self.source.fault(f"tokenizer.ggml.scores must be a number for each of {len(self.tokens)} tokens")
        vocabulary, pairs, keys = set(self.tokens), [], []
        for token, score, kind in zip(self.tokens, scores.tolist(), self.types, strict=True):
            if kind == _DEFINED and not token.strip(_SPACE):
                score = math.inf
            elif kind != 1:
                continue
            if len(token) > _LONGEST_PIECE:
                continue
            for place in range(1, len(token)):
                if token[:place] in vocabulary and token[place:] in vocabulary:
                    pairs.append((token[:place], token[place:]))
                    keys.append((place - len(token), -place, -score))
        order = np.lexsort(np.array(keys).reshape(-1, 3).T)  # by the last key first
        return [pairs[place] for place in order.tolist()]

    def roles(self) -> dict[str, object]:
        """Tokens that begin, end and fill texts."""
        return {"bos_token_id": self.begin, "eos_token_id": self.ends, "pad_token_id": self.padding}

    def configuration(self) -> dict[str, object]:
        """The contents of tokenizer_config.json.

        Raises:
            ModelFileError: the template is no text.
        """
        made: dict[str, object] = {
            "bos_token": self.tokens[self.begin],
            "eos_token": self.tokens[self.ends[0]],
        }
        if "tokenizer.chat_template" in self.source.fields:
            made["chat_template"] = self.source.text("tokenizer.chat_template")
        return made
