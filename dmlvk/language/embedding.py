"""Vectors and scores of texts: encoders, and decoders that were trained for it, from folders of the hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.errors import InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.language.architectures import decoder_of
from dmlvk.language.decoder import Decoder
from dmlvk.language.folder import JsonMembers, read_json
from dmlvk.language.hub_source import HubSource
from dmlvk.language.model_graph import ModelGraph
from dmlvk.language.pooling import Head, embedding_head, score_head
from dmlvk.language.source import Source
from dmlvk.language.tokenizer import read_tokenizer, tokenized
from dmlvk.language.weight_nodes import MICROSOFT
from dmlvk.language.weights import Matrix, Numbers
from dmlvk.support.files import checked_path

if TYPE_CHECKING:
    from dmlvk.device import Device


class EncoderGraph(ModelGraph):
    """Texts of one length in; a vector of each out."""

    def __init__(self, source: Source, decoder: Decoder) -> None:
        super().__init__(source, decoder)
        self._keys_and_values: dict[int, list[str]] = {}  # of layers, which later ones may see, too

    def model(self, head: Head) -> onnx.ModelProto:
        """The whole model.

        Args:
            head: what becomes of the states.
        """
        decoder, source = self._decoder, self._source
        self._source.drop("output.weight")
        states = self._states(source.matrix("token_embd.weight", decoder.vocabulary, decoder.hidden).in_order())
        made = self._pooled(states, head.pooling)
        for number, layer in enumerate(head.layers):
            name = f"head.{number}"
            made = self._biased(made, (name, Matrix(32, layer.weights), layer.bias))
            if layer.has_tanh:
                made = self._node("Tanh", [made], f"{name}.tanh")
        if head.is_normalized:
            made = self._node("LpNormalization", [made], "normalized", axis=-1, p=2)
        self._node("Identity", [made], "vectors")
        names = ["input_ids", *(["token_type_ids"] if decoder.segments else [])]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in names]
        width = head.layers[-1].weights.shape[0] if head.layers else decoder.hidden
        return self._onnx(inputs, [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", width])], 25)

    def _pooled(self, states: str, pooling: str) -> str:
        if pooling == "mean":
            return self._node("ReduceMean", [states, self._constant("one", np.array([1]))], "pooled", keepdims=0)
        place = self._constant("place", np.array(0 if pooling == "first" else -1))
        return self._node("Gather", [states, place], "pooled", axis=1)

    def _attended(self, layer: int, normed: str) -> str:
        decoder, kind = self._decoder, self._decoder.layers[layer]
        parts = self._normed_parts(layer, normed)
        inputs = [self._turned(layer, part, tensor) for part, tensor in zip("qkv", parts, strict=False)]
        if kind.source is None:
            self._keys_and_values[layer] = inputs[1:]
        else:
            inputs += self._keys_and_values[kind.source]
        more: dict[str, Any] = {"is_causal": int(decoder.is_causal)}
        if kind.window:
            more["left_window_size"] = kind.window - 1
            if not decoder.is_causal:
                more["right_window_size"] = kind.window - 1
        return self._node(
            "Attention",
            inputs,
            f"blk.{layer}.attended",
            q_num_heads=decoder.heads,
            kv_num_heads=kind.key_heads,
            scale=float(decoder.scale),
            softcap=decoder.attention_cap,
            **more,
        )

    def _turned(self, layer: int, part: str, tensor: str) -> str:
        """Queries and keys, turned by their positions."""
        decoder, kind = self._decoder, self._decoder.layers[layer]
        if kind.angles is None or part == "v":
            return tensor
        turned = 2 * len(decoder.angles[kind.angles].steps)
        return self._node(
            "RotaryEmbedding",
            [tensor, self._constant("start", np.array([0])), f"cosines.{kind.angles}", f"sines.{kind.angles}"],
            f"blk.{layer}.{part}.turned",
            domain=MICROSOFT,
            interleaved=int(self._source.has_pairs),
            num_heads=decoder.heads if part == "q" else kind.key_heads,
            rotary_embedding_dim=0 if turned == kind.head else turned,
        )


_MOST_TOKENS = 4096  # Of texts that are run at once, but for a single one that has more

_SENTENCES, _PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"


class _TextEncoder:
    """A model that reads whole texts. Those of one length run together, which changes no bit of any."""

    def __init__(
        self,
        path: Path | str,
        head: Callable[[HubSource, Decoder], Head],
        device: Device | int | str | None,
        arithmetic: str | None,
    ) -> None:
        try:
            import dmlvk.onnx
        except ImportError as error:
            raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error
        self.path = checked_path(path, type(self).__name__)  # its folder
        if not os.path.isfile(self.path / "config.json"):
            raise ModelFileError(f"{self.path}: is no folder with config.json, safetensors and tokenizer.json")
        if not os.path.isfile(self.path / "tokenizer.json"):
            raise ModelFileError(f"{self.path}: has no tokenizer.json, without which texts are no tokens")
        self.tokenizer = read_tokenizer(self.path / "tokenizer.json")  # of the package ``tokenizers``
        source = HubSource(self.path)
        decoder = decoder_of(source)
        self.max_length = _max_length(self.path, decoder.context)  # tokens of a text; those behind are left out
        self.tokenizer.enable_truncation(self.max_length)
        options: dict[str, Any] = {} if arithmetic is None else {"arithmetic": arithmetic}
        graph, weights = EncoderGraph(source, decoder), dmlvk.onnx.SessionOptions()
        model = graph.model(head(source, decoder))
        source.check_tensors()
        weights.add_external_initializers(list(graph.weights), list(graph.weights.values()))
        self._session: Any = dmlvk.onnx.InferenceSession(model, weights, device=device, **options)
        self._decoder = decoder
        session: Any = self._session
        self._width: int = session.get_outputs()[0].shape[-1]

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees what lies on the device."""
        self._session.close()

    @property
    def device(self) -> Device:
        device: Device = self._session.device
        return device

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as it is run, those that the tokenizer adds among them."""
        return len(self._encodings([text])[0].ids)

    def is_cut(self, text: str) -> bool:
        """Whether a text has more than ``max_length`` tokens, of which those behind are left out."""
        return bool(self._encodings([text])[0].overflowing)

    def _encodings(self, texts: Sequence[Any]) -> list[Any]:
        try:
            made: list[Any] = tokenized(lambda: self.tokenizer.encode_batch(list(texts)))
        except ValueError as error:
            raise InvalidArgumentError(f"{self.path}: a text has no tokens: {error}") from error
        for each in made:
            strange = next((token for token in each.ids if token >= self._decoder.vocabulary), None)
            if strange is not None or not each.ids:
                what = "a text of no tokens" if strange is None else f"the token {strange}"
                raise InvalidArgumentError(f"{self.path}: {what}; the vocabulary has {self._decoder.vocabulary}")
        return made

    def _run(self, texts: Sequence[Any]) -> Numbers:
        """What the model gives for texts, or for pairs of them: FLOAT32 [texts, width]."""
        encodings = self._encodings(texts)
        made = np.empty((len(encodings), self._width), np.float32)
        by_length: dict[int, list[int]] = {}
        for number, each in enumerate(encodings):
            by_length.setdefault(len(each.ids), []).append(number)
        for length, numbers in by_length.items():
            count = max(1, _MOST_TOKENS // length)
            for start in range(0, len(numbers), count):
                some = numbers[start : start + count]
                feed = {"input_ids": np.array([encodings[number].ids for number in some], np.int64)}
                if self._decoder.segments:
                    kinds = np.array([encodings[number].type_ids for number in some], np.int64)
                    feed["token_type_ids"] = np.minimum(kinds, self._decoder.segments - 1)
                made[some] = self._session.run(None, feed)[0]
        return made


class EmbeddingModel(_TextEncoder):
    """A model that makes a vector of each text, such that texts of one meaning have neighbours.

    The bits of a vector depend on its text alone: not on others that are encoded with it, and not on the device.

    Attributes:
        prompts: what is put before texts, by a name such as ``query`` or ``document``.

    Args:
        path: a folder of the hub (config.json, safetensors, tokenizer.json), of sentence-transformers or of
            transformers, of an architecture that is known. Without modules.json vectors are the mean of a text's
            states; of decoders the last state, divided by its length.
        device: where to run: a device, which stays open, or what ``dmlvk.Device`` takes to choose one.
        arithmetic: as for ``dmlvk.Device``.

    Raises:
        ModelFileError: a file is missing or damaged, or contradicts another.
        UnsupportedError: another architecture, or a module, tensor or field that is not read.
        InvalidArgumentError: the path is none.
    """

    def __init__(
        self, path: Path | str, device: Device | int | str | None = None, *, arithmetic: str | None = None
    ) -> None:
        def head(source: HubSource, decoder: Decoder) -> Head:
            return embedding_head(source, decoder.hidden, is_causal=decoder.is_causal)

        super().__init__(path, head, device, arithmetic)
        self.prompts, self._default_prompt = _prompts(self.path)

    @property
    def dimensions(self) -> int:
        """Elements of a vector."""
        return self._width

    def encode(self, texts: str | Sequence[str], *, prompt_name: str | None = None) -> Numbers:
        """The vectors of texts.

        Args:
            texts: one, or several. What is longer than ``max_length`` tokens is cut off.
            prompt_name: one of ``prompts``; ``None``: the one that the folder wants, if any.

        Returns:
            FLOAT32 [texts, dimensions]; [dimensions] of a single text.

        Raises:
            InvalidArgumentError: a text is none, or there is no prompt of this name.
        """
        several = [texts] if isinstance(texts, str) else list(texts)
        for text in several:
            if not isinstance(text, str):
                raise InvalidArgumentError(f"{self.path}: a text must be a str; got {type(text).__name__}")
        name = self._default_prompt if prompt_name is None else prompt_name
        if name is not None and name not in self.prompts:
            raise InvalidArgumentError(
                f"{self.path}: has no prompt {name!r:.100}; it has {', '.join(self.prompts) or 'none'}"
            )
        before = "" if name is None else self.prompts[name]
        made = self._run([before + text for text in several])
        return made[0] if isinstance(texts, str) else made


class Reranker(_TextEncoder):
    """An encoder that scores texts beside a query (a cross-encoder): the higher, the better the text answers it.

    Args:
        path: a folder of the hub whose encoder has a classifier behind it.
        device: as for :class:`EmbeddingModel`.
        arithmetic: as for ``dmlvk.Device``.

    Raises:
        DmlError: as :class:`EmbeddingModel`; the model has no classifier.
    """

    def __init__(
        self, path: Path | str, device: Device | int | str | None = None, *, arithmetic: str | None = None
    ) -> None:
        super().__init__(path, lambda source, decoder: score_head(source, decoder.hidden), device, arithmetic)

    def score(self, query: str, texts: Sequence[str]) -> Numbers:
        """The logits that the classifier gives for each text beside the query.

        Returns:
            FLOAT32 [texts], or [texts, classes] where the classifier has several.

        Raises:
            InvalidArgumentError: the query or a text is none.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in (query, *texts)):
            raise InvalidArgumentError(f"{self.path}: score needs a query, a str, and a sequence of texts")
        made = self._run([(query, text) for text in texts])
        return made[:, 0] if self._width == 1 else made


def _max_length(folder: Path, context: int) -> int:
    file = folder / _SENTENCES
    if not os.path.isfile(file):
        return context
    return min(context, JsonMembers(file, read_json(file)).whole("max_seq_length", default=context))


def _prompts(folder: Path) -> tuple[Mapping[str, str], str | None]:
    """The prompts of a folder by their names, and the name of that which it wants."""
    file = folder / _PROMPTS
    if not os.path.isfile(file):
        return {}, None
    members = JsonMembers(file, read_json(file))
    prompts = members.inside("prompts", default={}).values
    name = members.values.get("default_prompt_name")
    if not all(isinstance(text, str) for text in prompts.values()) or (name is not None and name not in prompts):
        raise ModelFileError(f"{file}: prompts must be texts by their names, and default_prompt_name one of these")
    return prompts, name
