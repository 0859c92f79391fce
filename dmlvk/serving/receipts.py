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
from dmlvk.language.sampling import Sampling
from dmlvk.language.slots import checked_tokens
from dmlvk.serving.constraints import Grammars
from dmlvk.serving.errors import ApiError

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.asking import Choice
    from dmlvk.serving.engine import Token

_VERSION = 2
_DIGITS = 16  # Hexadecimal ones of a running hash that are kept for each token

_MOST_BYTES = 2**26


def receipt(model: LanguageModel, choice: Choice, tokens: Sequence[Token], schema: str) -> dict[str, Any]:
    """What an answer can be verified by.

    Args:
        tokens: what was given, with the running hashes of the logits' bits.
        schema: of JSON, that the answer had to follow; empty: none.
    """
    return {
        "version": _VERSION,
        "files": file_hashes(model.folder.path),
        "prompt": choice.prompt[:1] if choice.forced else choice.prompt,
        "forced": len(choice.forced),
        "sampling": dataclasses.asdict(choice.sampling),
        "schema": schema,
        "tokens": [token.number for token in tokens],
        "digests": [token.digest[:_DIGITS] for token in tokens],
    }


@functools.lru_cache(maxsize=4)
def file_hashes(path: Path) -> dict[str, str]:
    """SHA-256 of each of a model's files, by their names: of a GGUF file all parts, of a folder all files in it.

    Raises:
        ModelFileError: one cannot be read.
    """
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    if not path.is_dir() and "-00001-of-" in path.name:
        files = sorted(path.parent.glob(path.name.replace("-00001-of-", "-*-of-")))
    made = {}
    for file in files:
        if file.is_file() and not file.name.startswith("."):
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
        file: JSON: the receipt, or an answer of the server with one.
    """

    def __init__(self, file: Path) -> None:
        try:
            if file.stat().st_size > _MOST_BYTES:
                raise ModelFileError(f"{file}: has {file.stat().st_size} bytes; at most {_MOST_BYTES} are read")
            found = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise ModelFileError(f"{file}: is no receipt: {error}") from error
        self._file = file
        choices = found.get("choices") if isinstance(found, dict) else None
        if isinstance(choices, list) and choices and isinstance(choices[0], dict) and "receipt" in choices[0]:
            found = choices[0]["receipt"]
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            raise ModelFileError(f"{file}: is no receipt of version {_VERSION}")
        self.files = self._of(found, "files", dict)
        self.prompt, self.tokens = self._of(found, "prompt", list), self._of(found, "tokens", list)
        self.digests, self.schema = self._of(found, "digests", list), self._of(found, "schema", str)
        self.forced = self._of(found, "forced", int)
        if len(self.digests) != len(self.tokens) or not self.tokens:
            raise ModelFileError(f"{file}: has {len(self.tokens)} tokens and {len(self.digests)} digests")
        try:
            self.sampling = Sampling(**self._of(found, "sampling", dict))
        except (TypeError, InvalidArgumentError) as error:
            raise ModelFileError(f"{file}: sampling: {error}") from error

    def _of(self, found: Mapping[str, Any], name: str, kind: type) -> Any:
        value = found.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelFileError(f"{self._file}: {name} must be {kind.__name__}; got {value!r:.100}")
        return value

    def other_files(self, model: LanguageModel) -> list[str]:
        """Names of the receipt's files whose contents the model has in none of its own."""
        own = set(file_hashes(model.folder.path).values())
        return sorted(str(name) for name, value in self.files.items() if value not in own)

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
