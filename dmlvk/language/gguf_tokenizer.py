"""The tokenizer of a GGUF file as the `tokenizers` package has it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.tokenizer import tokenized, tokenizer_class

_SPECIAL_TOKEN = 3
"""GGUF's type of tokens that stand for no text."""

_DIGIT_BY_DIGIT = {"type": "Digits", "individual_digits": True}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_PRE_TOKENIZERS: Mapping[str, list[dict[str, object]]] = {"gpt-2": [_BYTES], "smollm": [_DIGIT_BY_DIGIT, _BYTES]}
"""How text is cut before its bytes are merged, by GGUF's name."""


@dataclasses.dataclass(frozen=True)
class GgufTokenizer:
    """A tokenizer that merges bytes.

    Attributes:
        source: the file.
        tokens: their texts.
        special: numbers of those that stand for no text.
        begin, end, padding: numbers of tokens with these roles.
    """

    source: GgufSource
    tokens: list[str]
    special: list[int]
    begin: int
    end: int
    padding: int

    @classmethod
    def of(cls, source: GgufSource) -> GgufTokenizer:
        """The one of a file.

        Raises:
            ModelFileError: a field is missing, or does not fit the others.
            UnsupportedError: it is of another kind.
        """
        kind, cut = source.text("tokenizer.ggml.model"), source.fields.get("tokenizer.ggml.pre", "gpt-2")
        if kind != "gpt2" or not isinstance(cut, str) or cut not in _PRE_TOKENIZERS:
            raise source.refusal(f"the tokenizer {kind!r:.100}, {cut!r:.100}; 'gpt2' with {list(_PRE_TOKENIZERS)}")
        tokens, types = source.texts("tokenizer.ggml.tokens"), source.field("tokenizer.ggml.token_type")
        if not isinstance(types, np.ndarray) or len(types) != len(tokens):
            raise source.fault(f"tokenizer.ggml.token_type must be a number for each of {len(tokens)} tokens")
        if len(set(tokens)) < len(tokens):
            raise source.fault("tokenizer.ggml.tokens has a token twice")
        most = len(tokens) - 1
        return cls(
            source,
            tokens,
            np.flatnonzero(types == _SPECIAL_TOKEN).tolist(),
            source.whole("tokenizer.ggml.bos_token_id", least=0, most=most),
            source.whole("tokenizer.ggml.eos_token_id", least=0, most=most),
            source.whole("tokenizer.ggml.padding_token_id", 0, least=0, most=most),
        )

    def tokenizer(self) -> dict[str, object]:
        """The contents of tokenizer.json.

        Raises:
            ModelFileError: the package does not take them: a merge is none of two tokens, say.
        """
        special = [
            {"id": number, "content": self.tokens[number], "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": False, "special": True}
            for number in self.special
        ]
        made: dict[str, object] = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": special,
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": _PRE_TOKENIZERS[self.source.fields.get("tokenizer.ggml.pre", "gpt-2")],
            },
            "post_processor": None,
            "decoder": _BYTES,
            "model": {
                "type": "BPE",
                "vocab": {token: number for number, token in enumerate(self.tokens)},
                "merges": self.source.texts("tokenizer.ggml.merges"),
            },
        }
        text = json.dumps(made, ensure_ascii=False)
        try:
            tokenized(lambda: tokenizer_class().from_str(text))
        except ValueError as error:
            raise self.source.fault(f"its tokenizer is none: {error}") from error
        return made

    def configuration(self) -> dict[str, object]:
        """The contents of tokenizer_config.json.

        Raises:
            ModelFileError: the template is no text.
        """
        made: dict[str, object] = {
            "bos_token": self.tokens[self.begin],
            "eos_token": self.tokens[self.end],
            "add_bos_token": bool(self.source.fields.get("tokenizer.ggml.add_bos_token", False) is True),
        }
        if "tokenizer.chat_template" in self.source.fields:
            made["chat_template"] = self.source.text("tokenizer.chat_template")
        return made


__all__ = ["GgufTokenizer"]
