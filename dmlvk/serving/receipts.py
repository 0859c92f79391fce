"""Receipts: what any device needs to compute an answer again, and to name the first token that differs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlvk.errors import InvalidArgumentError, ModelFileError
from dmlvk.language.batch import Wishes
from dmlvk.language.pieces import Words
from dmlvk.language.sampling import Sampling
from dmlvk.language.slots import checked_tokens
from dmlvk.serving.constraints import Grammars
from dmlvk.serving.errors import ApiError
from dmlvk.serving.tools import Tools

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.asking import Choice
    from dmlvk.serving.engine import Token

_VERSION = 3
_DIGITS = 16  # Hexadecimal ones of a running hash that are kept for each token

_MOST_BYTES = 2**26


def receipt(
    model: LanguageModel, choice: Choice, tokens: Sequence[Token], schema: str, stops: Sequence[str]
) -> dict[str, Any]:
    """What an answer can be verified by.

    Args:
        tokens: what was given, with the running hashes of the logits' bits.
        schema: of JSON, that the answer had to follow; empty: none.
        stops: texts before which it ended.
    """
    return {
        "version": _VERSION,
        "files": file_hashes(model.folder.path),
        "prompt": choice.prompt[:1] if choice.forced else choice.prompt,
        "forced": len(choice.forced),
        "sampling": dataclasses.asdict(choice.sampling),
        "schema": schema,
        "stop": list(stops),
        "tokens": [token.number for token in tokens],
        "digests": [token.digest[:_DIGITS] for token in tokens],
    }


@functools.lru_cache(maxsize=4)
def file_hashes(path: Path) -> dict[str, str]:
    """SHA-256 of each of a model's files, by their names: of a GGUF file all parts, of a folder all but ``.md``.

    Raises:
        ModelFileError: one cannot be read.
    """
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    if not path.is_dir() and "-00001-of-" in path.name:
        files = sorted(path.parent.glob(path.name.replace("-00001-of-", "-*-of-")))
    made = {}
    for file in files:
        if file.is_file() and not file.name.startswith(".") and file.suffix != ".md":
            try:
                with open(file, "rb") as contents:
                    own = hashlib.sha256()
                    while part := contents.read(2**22):
                        own.update(part)
            except OSError as error:
                raise ModelFileError(f"{file}: cannot be read: {error}") from error
            made[file.name] = own.hexdigest()
    return made


@dataclasses.dataclass(frozen=True)
class Difference:
    """Where a replay went another way."""

    place: int  # of the token among those of the answer, from 0 on
    reason: str  # what differs


class Receipt:
    """A receipt that was read from a file.

    Args:
        file: for messages.
        found: the JSON object.
        answer: the choice that it stands in; empty: it stands alone.

    Raises:
        ModelFileError: it is none.
    """

    def __init__(self, file: Path, found: Any, answer: Mapping[str, Any]) -> None:
        self._file, self._answer = file, answer
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            raise ModelFileError(f"{file}: is no receipt of version {_VERSION}")
        self.files = self._of(found, "files", dict)
        self.prompt, self.tokens = self._of(found, "prompt", list), self._of(found, "tokens", list)
        self.digests, self.schema = self._of(found, "digests", list), self._of(found, "schema", str)
        self.forced, self._stops = self._of(found, "forced", int), self._of(found, "stop", list)
        if len(self.digests) != len(self.tokens) or not self.tokens:
            raise ModelFileError(f"{file}: has {len(self.tokens)} tokens and {len(self.digests)} digests")
        if not 0 <= self.forced <= len(self.tokens):
            raise ModelFileError(f"{file}: forced must be from 0 to {len(self.tokens)}; got {self.forced}")
        if not all(isinstance(each, str) for each in (*self.files.values(), *self.digests, *self._stops)):
            raise ModelFileError(f"{file}: hashes of files, digests and stop must be texts")
        try:
            self.sampling = Sampling(**self._of(found, "sampling", dict))
        except (TypeError, InvalidArgumentError) as error:
            raise ModelFileError(f"{file}: sampling: {error}") from error

    @classmethod
    def read(cls, file: Path) -> list[Receipt]:
        """The receipt of a JSON file, or all those of an answer of the server.

        Raises:
            ModelFileError: it is neither, or a part of the answer has none.
        """
        try:
            if file.stat().st_size > _MOST_BYTES:
                raise ModelFileError(f"{file}: has {file.stat().st_size} bytes; at most {_MOST_BYTES} are read")
            found = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFileError(f"{file}: is no receipt: {error}") from error
        choices = found.get("choices") if isinstance(found, dict) else None
        if not isinstance(choices, list) or not choices:
            return [cls(file, found, {})]
        missing = [n for n, each in enumerate(choices) if not isinstance(each, dict) or "receipt" not in each]
        if missing:
            raise ModelFileError(f"{file}: choices[{missing[0]}] has no receipt")
        return [cls(file, each["receipt"], each) for each in choices]

    def _of(self, found: Mapping[str, Any], name: str, kind: type) -> Any:
        value = found.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelFileError(f"{self._file}: {name} must be {kind.__name__}; got {value!r:.100}")
        return value

    def other_files(self, model: LanguageModel) -> list[str]:
        """Names of files of the receipt, or of the model, whose contents the other has in none of its own."""
        own = file_hashes(model.folder.path)
        both = set(own.values()).intersection(self.files.values())
        return sorted({str(name) for each in (own, self.files) for name, value in each.items() if value not in both})

    def has_other_words(self, model: LanguageModel) -> bool:
        """Whether the answer around the receipt says what its tokens do not.

        Raises:
            InvalidArgumentError: the receipt's tokens are none of the model's.
            ModelFileError: it is no answer of the server.
        """
        tokens = checked_tokens(model.folder, self.tokens)
        words, said, is_stopped = Words(model, self._stops), "", False
        for token in tokens[self.forced :]:
            if is_stopped or token in model.folder.end_tokens:
                break
            text, is_stopped = words.push(token)
            said += text
        said += "" if is_stopped else words.rest()[0]
        if "text" in self._answer:
            prompt = model.decode([*self.prompt, *tokens[: self.forced]])
            return self._answer["text"] not in (said, prompt + said)
        message = self._answer.get("message", {"content": said})
        try:
            called = [each["function"] for each in message.get("tool_calls") or ()]
            calls = [(each["name"], each["arguments"]) for each in called]
            content = message["content"] or ""
        except (AttributeError, KeyError, TypeError) as error:
            raise ModelFileError(f"{self._file}: its message is none of the server's: {error!r:.100}") from error
        tools = Tools([{"function": each} for each in called], "auto" if calls else "none")
        return tools.calls(said) != (content, calls)

    def difference(self, model: LanguageModel) -> Difference | None:
        """Computes the answer again; the first token that differs, or before which logits do.

        Raises:
            InvalidArgumentError: the receipt's tokens are none of the model's, or more than it has room for.
            ModelFileError: its schema cannot be met.
        """
        checked_tokens(model.folder, self.tokens)
        try:
            constraint = Grammars(model).constraint(self.schema) if self.schema else None
        except ApiError as error:
            raise ModelFileError(f"{self._file}: {error.message}") from error
        batch = model.batch()
        text = batch.add(self.prompt, self.sampling, Wishes(None, constraint, self.tokens, hashes=True))
        try:
            for place, (token, digest) in enumerate(zip(self.tokens, self.digests, strict=True)):
                if text.room <= 0:
                    raise InvalidArgumentError(f"{self._file}: its text has more tokens than {model.max_length}")
                while text.generated == place:
                    batch.step()
                if place >= self.forced and text.chosen != token:
                    return Difference(place, f"the receipt has the token {token}; this device chooses {text.chosen}")
                if text.hash.hexdigest()[:_DIGITS] != digest:
                    return Difference(place, "the logits before it have other bits than the receipt says")
        finally:
            batch.remove(text)
        return None
