"""Talks to a language model: messages become a prompt by the folder's template, tokens become text as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmlvk.errors import InvalidArgumentError
from dmlvk.language.templates import rendered

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.language.sampling import Sampling
    from dmlvk.language.stream import TokenStream

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What tokens are decoded to that hold the first bytes of a character only."""


class Conversation:
    """Messages of a user and of the model.

    Attributes:
        messages: what was said so far; may be changed between answers.

    Args:
        model: who answers; other conversations with it change nothing of this one.
        system: a message that stands before all others; ``None``: the template's own, if it has one.
    """

    def __init__(self, model: LanguageModel, system: str | None = None) -> None:
        self._model = model
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]
        self._answer: object = None
        self._stream: TokenStream | None = None

    @property
    def length(self) -> int:
        """Tokens of the latest prompt and its answer so far."""
        return 0 if self._stream is None else self._stream.length

    def prompt(self) -> str:
        """The messages as the model wants them, up to where its answer begins.

        Raises:
            ModelFileError: the folder's template is damaged, refuses the messages, or makes or takes too much.
            InvalidArgumentError: a message is no dictionary.
        """
        folder = self._model.folder
        strange = next((message for message in self.messages if not isinstance(message, dict)), None)
        if strange is not None:
            raise InvalidArgumentError(f"Conversation: a message must be a dictionary; got {strange!r}")
        if not folder.chat_template:
            return "".join(str(message.get("content", "")) for message in self.messages)
        return rendered(folder.chat_template, self.messages, folder.special_tokens, str(folder.path))

    def reply(self, message: str, sampling: Sampling | None = None, *, most: int | None = None) -> Iterator[str]:
        """The model's answer to a message, piece by piece as it comes.

        An answer that nobody wants to hear more of, or that an error or interrupt ends, counts as far as it came.

        Args:
            message: what the user says.
            sampling: how tokens are chosen; ``None``: as the folder wants.
            most: how many tokens at most.

        Raises:
            InvalidArgumentError: there is no room for the message; the conversation is as before. Or another message
                was said in the middle of this answer, which has ended it.
            ModelFileError: as :meth:`prompt`.
        """
        if not isinstance(message, str):
            raise InvalidArgumentError(f"Conversation.reply: the message must be a text; got {message!r}")
        own: dict[str, str] = {"role": "assistant", "content": ""}
        before = list(self.messages)
        said = [*before, {"role": "user", "content": message}]
        self._answer = own
        self.messages[:] = said
        try:
            tokens = self._model.encode(self.prompt())
            if len(tokens) >= self._model.max_length:
                raise InvalidArgumentError(
                    f"{self._model.folder.path}: the conversation has {len(tokens)} tokens; there is room for "
                    f"{self._model.max_length}"
                )
            self._stream = self._model.generate(tokens, sampling, most=most)
            self.messages.append(own)
            for piece in self._text_of(self._stream):
                self._check_turn(own)
                own["content"] += piece
                yield piece
                self._check_turn(own)
        except BaseException:
            if self._answer is own and not own["content"]:  # nothing was said
                self.messages[:] = before
            raise

    def _check_turn(self, answer: object) -> None:
        if self._answer is not answer:
            raise InvalidArgumentError("Conversation.reply: another message was said in the middle of this answer")

    def _text_of(self, tokens: Iterator[int]) -> Iterator[str]:
        """Text of tokens, as soon as its characters are whole."""
        waiting: list[int] = []
        shown = ""
        for token in tokens:
            waiting.append(token)
            text = self._model.decode(waiting)
            if text.endswith(_UNFINISHED):
                continue
            yield text[len(shown) :]
            # A token's text can depend on the one before it (a blank, say), but not on those before that.
            waiting = [token]
            shown = self._model.decode(waiting)
        rest = self._model.decode(waiting)[len(shown) :]
        if rest:
            yield rest


__all__ = ["Conversation"]
