"""Answers of a given form: which tokens may come next, by the package ``llguidance``."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.serving.errors import ApiError, invalid
from dmlvk.support.recent import Recent

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.fields import Fields

_MOST_KEPT = 32  # Of compiled schemas

_OBJECT = '{"type": "object"}'


class Grammars:
    """Compiles JSON schemas for a model's tokens."""

    def __init__(self, model: LanguageModel) -> None:
        self._folder = model.folder
        self._tokenizer: Any = None
        self._tokenizer_text: str = model.tokenizer.to_str()
        self._compiled: Recent[str, Any] = Recent(_MOST_KEPT)
        self._lock = threading.Lock()

    @staticmethod
    def of_response_format(fields: Fields) -> str:
        """The schema that ``response_format`` asks for; empty: none.

        Raises:
            ApiError: it has no possible value.
        """
        asked = fields.inside("response_format")
        if asked is None:
            return ""
        kind = asked.one_of("type", ("text", "json_object", "json_schema"))
        inner = asked.inside("json_schema")
        asked.check()
        if inner is not None:
            schema = inner.value("schema")
            inner.ignore(("name", "description", "strict"))
            inner.check()
        if kind != "json_schema":
            return "" if kind == "text" else _OBJECT
        if inner is None:
            raise invalid("response_format.json_schema must be an object with a schema", "response_format")
        if not isinstance(schema, (dict, bool)):
            raise inner.fault("schema", "a JSON schema")
        if schema is False:
            raise _unmet("nothing has it")
        return json.dumps({} if schema is True else schema)

    def constraint(self, schema: str) -> TokenConstraint:
        """What an answer of a schema's form may consist of.

        Raises:
            ApiError: nothing has this form, or the schema is not understood.
        """
        with self._lock:
            matcher = self._compiled.of(schema, lambda: self._matcher(schema))
            made = TokenConstraint(matcher.deep_copy(), self._folder.vocabulary, self._folder.end_tokens)
        is_stuck = made.is_stuck()
        if made.fault:
            raise _unmet(made.fault)
        if is_stuck:
            raise invalid("response_format: no token may come first in what the schema describes", "response_format")
        return made

    def _matcher(self, schema: str) -> Any:
        try:
            from llguidance import LLMatcher, LLTokenizer
        except ImportError as error:
            raise ApiError(
                501, f"answers of a given form need the extra serve: pip install dmlvk[serve] ({error})"
            ) from error
        ends = sorted(self._folder.end_tokens)
        if not ends:
            raise invalid("response_format: the model has no token that ends a text", "response_format")
        try:
            if self._tokenizer is None:
                self._tokenizer = LLTokenizer(self._tokenizer_text, n_vocab=self._folder.vocabulary, eos_token=ends)
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
            matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        except (ValueError, RuntimeError) as error:
            raise invalid(f"response_format: {_in_short(str(error))}", "response_format") from error
        if matcher.is_error():
            raise _unmet(_in_short(matcher.get_error()))
        return matcher


def _in_short(reason: str) -> str:
    """A reason of llguidance's, without the state of its parser behind it."""
    return " ".join(reason.partition("<state>")[0].split())[:300]


def _unmet(reason: str) -> ApiError:
    return invalid(f"response_format: the schema cannot be met: {reason}", "response_format")


class TokenConstraint:
    """Which tokens may come next in one answer.

    Args:
        matcher: of llguidance, at the beginning of the answer.
        vocabulary: how many tokens there are.
        ends: those that end an answer.
    """

    def __init__(self, matcher: Any, vocabulary: int, ends: frozenset[int]) -> None:
        from llguidance import numpy as bits

        self._matcher, self._vocabulary, self._ends, self._fill = (
            matcher,
            vocabulary,
            ends,
            bits.fill_next_token_bitmask,
        )
        # why the answer is not of the form; empty: it is, as far as it came. Other threads may read it, while the
        # matcher is of those alone who continue the answer
        self.fault = ""
        self._mask = bits.allocate_token_bitmask(1, vocabulary)

    def _allowed(self) -> npt.NDArray[np.uint8]:
        self._fill(self._matcher, self._mask, 0)
        return np.unpackbits(self._mask.view(np.uint8).reshape(-1), bitorder="little")[: self._vocabulary]

    def is_stuck(self) -> bool:
        """Whether no token may come."""
        found = self._allowed()
        self._note_fault()
        return not found.any()

    def allowed(self) -> npt.NDArray[np.uint8]:
        """For each token, whether it may come next; at the end, and behind a fault, those that end the answer."""
        found = np.zeros(self._vocabulary, np.uint8)
        if not self._matcher.is_stopped():
            found = self._allowed()
        if not found.any() or found[list(self._ends)].any():
            found[list(self._ends)] = 1
        return found

    def accept(self, token: int) -> None:
        """A token that was chosen."""
        if token not in self._ends:
            self._matcher.consume_token(token)
        self._note_fault()

    def _note_fault(self) -> None:
        if self._matcher.is_error():
            self.fault = _in_short(self._matcher.get_error())
