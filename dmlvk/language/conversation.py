"""Talks to a language model: messages become a prompt by the folder's template, tokens become text as they come."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from dmlvk.errors import InvalidArgumentError, ModelFileError, UnsupportedError

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.language.sampling import Sampling

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What tokens are decoded to that hold the first bytes of a character only."""


class Conversation:
    """Messages of a user and of the model.

    Args:
        model: who answers. Its caches are used for this conversation alone, until another one comes.
        system: a message that stands before all others; ``None``: the template's own, if it has one.
    """

    def __init__(self, model: LanguageModel, system: str | None = None) -> None:
        self._model = model
        self.messages: list[dict[str, str]] = [] if system is None else [{"role": "system", "content": system}]

    def prompt(self) -> str:
        """The messages as the model wants them, up to where its answer begins.

        Raises:
            ModelFileError: the folder's template is damaged, or refuses the messages.
        """
        folder = self._model.folder
        if not folder.chat_template:
            return "".join(message["content"] for message in self.messages)
        return _rendered(folder.chat_template, self.messages, dict(folder.special_tokens), str(folder.path))

    def reply(self, message: str, sampling: Sampling | None = None, *, most: int | None = None) -> Iterator[str]:
        """The model's answer to a message, piece by piece as it comes.

        Args:
            message: what the user says.
            sampling: how tokens are chosen; ``None``: as the folder wants.
            most: how many tokens at most.

        Raises:
            InvalidArgumentError: there is no room for the message. The conversation is as before.
            ModelFileError: as :meth:`prompt`.
        """
        self.messages.append({"role": "user", "content": message})
        text = ""
        try:
            tokens = self._model.encode(self.prompt())
            if len(tokens) >= self._model.max_length:
                raise InvalidArgumentError(
                    f"{self._model.folder.path}: the conversation has {len(tokens)} tokens; there is room for "
                    f"{self._model.max_length}"
                )
            for piece in self._text_of(self._model.generate(tokens, sampling, most=most)):
                text += piece
                yield piece
        except (InvalidArgumentError, ModelFileError):
            self.messages.pop()
            raise
        except BaseException:  # an interrupt, or nobody wants to hear more: what was said counts
            self.messages.append({"role": "assistant", "content": text})
            raise
        self.messages.append({"role": "assistant", "content": text})

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


def _rendered(template: str, messages: list[dict[str, str]], tokens: dict[str, str], where: str) -> str:
    """A template with messages, as transformers does it, in Jinja's sandbox."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error

    def refuse(reason: str) -> NoReturn:
        raise TemplateError(reason)

    def as_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = as_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(messages=messages, add_generation_prompt=True, **tokens)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"{where}: its chat template fails: {' '.join(str(error).split())[:300]}") from error


__all__ = ["Conversation"]
