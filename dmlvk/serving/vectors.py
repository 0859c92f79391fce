"""Vectors of texts, by a model that was trained for it: /v1/embeddings."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.errors import InvalidArgumentError
from dmlvk.serving.errors import NOT_FOUND, ApiError, invalid
from dmlvk.serving.fields import Fields, parsed

if TYPE_CHECKING:
    from dmlvk.language.embedding import EmbeddingModel

_MOST_TEXTS = 2048


class Vectors:
    """Answers requests for vectors, one after the other."""

    def __init__(self, model: EmbeddingModel, name: str) -> None:
        self._model, self._name, self._lock = model, name, threading.Lock()

    def described(self) -> dict[str, Any]:
        """The model, in a list of models."""
        return {"id": self._name, "object": "model", "created": 0, "owned_by": "dmlvk"}

    def answer(self, body: bytes) -> dict[str, Any]:
        """OpenAI's JSON for a request's body.

        Raises:
            ApiError: it breaks a rule.
        """
        fields = Fields(parsed(body))
        name = fields.text("model", self._name)
        if name != self._name:
            raise ApiError(
                404,
                f"there is no model {name[:100]!r} for embeddings; this server has {self._name!r}",
                NOT_FOUND,
                "model",
                "model_not_found",
            )
        texts, lengths = self._texts(fields)
        is_base64 = fields.one_of("encoding_format", ("float", "base64")) == "base64"
        wanted = fields.whole("dimensions", self._model.dimensions, 1, 2**31 - 1)
        if wanted != self._model.dimensions:
            raise fields.fault("dimensions", f"{self._model.dimensions}, as the model has them")
        fields.ignore(("user",))
        fields.check()
        with self._lock:
            vectors = self._model.encode(texts)
        data = [
            {
                "object": "embedding",
                "index": place,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
                if is_base64
                else vector.tolist(),
            }
            for place, vector in enumerate(np.asarray(vectors, np.float32))
        ]
        usage = {"prompt_tokens": sum(lengths), "total_tokens": sum(lengths)}
        return {"object": "list", "data": data, "model": self._name, "usage": usage}

    def _texts(self, fields: Fields) -> tuple[list[str], list[int]]:
        """The texts, and how many tokens each has."""
        value = fields.value("input")
        texts = [value] if isinstance(value, str) else value
        if (
            not isinstance(texts, list)
            or not 0 < len(texts) <= _MOST_TEXTS
            or not all(isinstance(t, str) for t in texts)
        ):
            raise fields.fault("input", f"a text, or a list of 1 to {_MOST_TEXTS}; tokens are not read")
        lengths = []
        with self._lock:
            for place, text in enumerate(texts):
                try:
                    text.encode()
                    if self._model.is_cut(text):
                        raise invalid(
                            f"input[{place}] has more than {self._model.max_length} tokens",
                            "input",
                            "context_length_exceeded",
                        )
                    lengths.append(self._model.count_tokens(text))
                except (InvalidArgumentError, UnicodeEncodeError) as error:
                    raise invalid(f"input[{place}]: {error}", "input") from error
        return texts, lengths
