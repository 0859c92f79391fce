"""Talks to a language model: messages become a prompt by the folder's template, tokens become text as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlvk.errors import InvalidArgumentError
from dmlvk.language.pieces import pieces
from dmlvk.language.templates import rendered

if TYPE_CHECKING:
    from dmlvk.language.folder import ModelFolder
    from dmlvk.language.generation import LanguageModel
    from dmlvk.language.sampling import Sampling
    from dmlvk.language.stream import TokenStream


class Conversation:
    """Messages of a user and of the model.

    Args:
        model: who answers; other conversations with it change nothing of this one.
        system: a message that stands before all others; ``None``: the template's own, if it has one.
    """

    def __init__(self, model: LanguageModel, system: str | None = None) -> None:
        self._model = model
        # what was said so far; may be changed between answers
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
        return chat_prompt(self._model.folder, self.messages)

    def reply(self, message: str, sampling: Sampling | None = None, *, most: int | None = None) -> Iterator[str]:
        """The model's answer to a message, piece by piece as it comes.

        An answer that nobody wants to hear more of, or that an error or interrupt ends, counts as far as it came.

        Args:
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
            tokens = self._model.encode(self.prompt(), is_whole=not self._model.folder.chat_template)
            if len(tokens) >= self._model.max_length:
                raise InvalidArgumentError(
                    f"{self._model.folder.path}: the conversation has {len(tokens)} tokens; there is room for "
                    f"{self._model.max_length}"
                )
            self._stream = self._model.generate(tokens, sampling, most=most)
            self.messages.append(own)
            for piece in pieces(self._model, self._stream):
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


def chat_prompt(folder: ModelFolder, messages: Sequence[Mapping[str, Any]], **more: Any) -> str:
    """Messages as a folder's model wants them, up to where its answer begins.

    Args:
        messages: each with a role and a content.
        more: what the template may read besides, such as ``tools``.

    Raises:
        ModelFileError: the folder's template is damaged, refuses the messages, or makes or takes too much.
        InvalidArgumentError: a message is no dictionary.
    """
    strange = next((message for message in messages if not isinstance(message, dict)), None)
    if strange is not None:
        raise InvalidArgumentError(f"Conversation: a message must be a dictionary; got {strange!r}")
    if not folder.chat_template:
        return "".join(str(message.get("content", "")) for message in messages)
    return rendered(folder.chat_template, messages, {**folder.special_tokens, **more}, str(folder.path))
