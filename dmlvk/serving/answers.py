"""What comes of a request's texts: their words as they come, and OpenAI's JSON of them."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlvk.language.pieces import Words, token_bytes
from dmlvk.serving.constraints import TokenConstraint
from dmlvk.serving.errors import TIMEOUT, ApiError, invalid
from dmlvk.serving.receipts import receipt

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.asking import Asked, Choice
    from dmlvk.serving.engine import Generation, Token


@dataclasses.dataclass(frozen=True)
class Piece:
    """What came of an answer."""

    text: str  # whole characters that are certain to be of it
    tokens: Sequence[Token]  # those that came since the last piece
    finish: str | None  # why nothing more comes: ``stop`` or ``length``; ``None``: more may come


async def pieces_of(model: LanguageModel, asked: Asked, generation: Generation, until: float) -> AsyncIterator[Piece]:
    """What comes of a text, piece by piece; tokens that were forced come as well, and are none of its words.

    Args:
        model: whose tokens they are.
        asked: what the request wants.
        generation: the text.
        until: when it is too late, by :func:`time.monotonic`.

    Raises:
        ApiError: it failed, or took too long.
    """
    words, left = Words(model, asked.stops), len(generation.wishes.forced)
    if not generation.most:
        yield Piece("", (), "length")
        return
    while True:
        try:
            event = await asyncio.wait_for(generation.events.get(), max(0.0, until - time.monotonic()))
        except asyncio.TimeoutError as error:
            raise ApiError(504, "the answer took longer than this server allows", TIMEOUT) from error
        if isinstance(event, ApiError):
            raise event
        if left:
            left -= 1
            yield Piece("", (event,), "length" if event.is_last else None)
            if event.is_last:
                return
            continue
        text, is_stopped = ("", False) if event.ends else words.push(event.number)
        if is_stopped or event.is_last:
            if not is_stopped:
                rest, is_stopped = words.rest()
                text += rest
            constraint = generation.wishes.constraint
            if isinstance(constraint, TokenConstraint) and constraint.fault:
                reason = f"response_format: the answer cannot be kept in its form: {constraint.fault}"
                raise invalid(reason, "response_format")
            yield Piece(text, (event,), "stop" if is_stopped or event.ends else "length")
            return
        yield Piece(text, (event,), None)


class Writer:
    """OpenAI's JSON of the answers of one request.

    Args:
        own: what tells the request from others.
    """

    def __init__(self, model: LanguageModel, name: str, asked: Asked, own: str) -> None:
        self._model, self._asked = model, asked
        kind = "chat.completion" if asked.is_chat else "text_completion"
        self._kind = f"{kind}.chunk" if asked.is_chat and asked.streams else kind
        self._common = {"created": 0, "model": name}
        self._own, self._characters = own, collections.Counter[int]()  # by answers, of tokens told
        self._id = f"{'chatcmpl' if asked.is_chat else 'cmpl'}-{own}"

    def whole(self, choices: Sequence[Mapping[str, Any]], usage: Mapping[str, int] | None) -> dict[str, Any]:
        """The object around choices."""
        made = {"id": self._id, "object": self._kind, **self._common, "choices": list(choices)}
        return made if usage is None else {**made, "usage": dict(usage)}

    def usage(self, completion_tokens: int) -> dict[str, int]:
        """Counts of tokens."""
        prompt = self._asked.prompt_tokens
        total = prompt + completion_tokens
        return {"prompt_tokens": prompt, "completion_tokens": completion_tokens, "total_tokens": total}

    def choice(self, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """A whole answer."""
        asked, tokens = self._asked, [token for piece in pieces for token in piece.tokens]
        text, finish = "".join(piece.text for piece in pieces), pieces[-1].finish
        made: dict[str, Any] = {"index": number}
        if asked.is_chat:
            content, calls = asked.tools.calls(text)
            message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
            if calls:
                message["tool_calls"], finish = self._calls(number, calls), "tool_calls"
            made["message"] = message
        else:
            made["text"] = self._prompt(number) + text
        made |= {"logprobs": self.likelihoods(number, tokens, is_first=True), "finish_reason": finish}
        if asked.wants_receipt:
            made["receipt"] = self.receipt(number, tokens)
        return made

    def chunk(self, number: int, piece: Piece, *, is_first: bool) -> dict[str, Any]:
        """A piece of an answer that comes piece by piece."""
        if self._asked.is_chat:
            made: dict[str, Any] = {"index": number, "delta": {"content": piece.text} if piece.text else {}}
        else:
            made = {"index": number, "text": (self._prompt(number) if is_first else "") + piece.text}
        logprobs = self.likelihoods(number, piece.tokens, is_first=is_first)
        return {**made, "logprobs": logprobs, "finish_reason": piece.finish}

    def role(self, number: int) -> dict[str, Any]:
        """With which an answer of a chat begins."""
        return {"index": number, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}

    def said(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """A whole answer of a chat as one piece, where calls are only known at its end."""
        message = {name: value for name, value in whole["message"].items() if name != "role" and value}
        if "tool_calls" in message:
            message["tool_calls"] = [{"index": n, **call} for n, call in enumerate(message["tool_calls"])]
        return {name: value for name, value in whole.items() if name != "message"} | {"delta": message}

    def _prompt(self, number: int) -> str:
        return self._model.decode(self._asked.choices[number].prompt) if self._asked.echoes else ""

    def _calls(self, number: int, calls: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self._own[:16]}_{number}_{place}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for place, (name, arguments) in enumerate(calls)
        ]

    def receipt(self, number: int, tokens: Sequence[Token]) -> dict[str, Any]:
        """What an answer can be verified by."""
        choice: Choice = self._asked.choices[number]
        return receipt(self._model, choice, tokens, self._asked.grammar, self._asked.stops)

    def likelihoods(self, number: int, tokens: Sequence[Token], *, is_first: bool) -> dict[str, Any] | None:
        """How likely tokens were, in the form of chats or of completions; ``None``: nobody wants to know."""
        asked = self._asked
        if asked.likeliest is None:
            return None
        told = [token for token in tokens if token.likelihood is not None and not token.ends]
        if asked.is_chat:
            return {"content": [self._told(token) for token in told], "refusal": None}
        tokens_told, values, tops = list[int](), list[float | None](), list[dict[str, float] | None]()
        if is_first and asked.echoes:
            tokens_told, values, tops = [asked.choices[number].prompt[0]], [None], [None]
        for token in told:
            assert token.likelihood is not None  # just looked at
            tokens_told.append(token.number)
            values.append(_finite(token.likelihood.logarithm))
            top: dict[str, float] = {}
            for other, value in token.likelihood.likeliest:
                top.setdefault(self._text(other, "bytes:"), _finite(value))
            tops.append(top)
        names, offsets = [self._text(each, "bytes:") for each in tokens_told], list[int]()
        for each in tokens_told:
            offsets.append(self._characters[number])
            # where characters begin
            self._characters[number] += sum(byte & 0xC0 != 0x80 for byte in token_bytes(self._model, each))
        return {"tokens": names, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def _told(self, token: Token) -> dict[str, Any]:
        assert token.likelihood is not None  # its caller looked
        tops = [self._named(other, value) for other, value in token.likelihood.likeliest]
        return {**self._named(token.number, token.likelihood.logarithm), "top_logprobs": tops}

    def _named(self, token: int, value: float) -> dict[str, Any]:
        contents = list(token_bytes(self._model, token))
        return {"token": self._text(token), "logprob": _finite(value), "bytes": contents}

    def _text(self, token: int, prefix: str = "") -> str:
        """A token's text; where it is none, as half a character is, its bytes behind a prefix."""
        contents = token_bytes(self._model, token)
        try:
            return contents.decode()
        except UnicodeDecodeError:
            return prefix + "".join(f"\\x{byte:02x}" for byte in contents)


def _finite(logarithm: float) -> float:
    """A logarithm as JSON has it: of probability 0, what OpenAI says for it."""
    return logarithm if math.isfinite(logarithm) else -9999.0
