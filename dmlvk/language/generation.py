"""A decoder that is run token by token: caches that stay on the device, and the tokens that it gives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError, InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.language.batch import MOST_SEQUENCES, Batch
from dmlvk.language.conversion import read_folder
from dmlvk.language.decoder_graph import POSITIONS
from dmlvk.language.sampling import Choices, Sampling
from dmlvk.language.sequence_caches import SequenceCaches
from dmlvk.language.slots import Slot, TokenSequence, checked_tokens
from dmlvk.language.stream import TokenStream
from dmlvk.language.tokenizer import read_tokenizer, tokenized

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.device import Device
    from dmlvk.onnx import NodeArg


class LanguageModel:
    """A folder's model on a device, with the caches of one text, in which any number of texts take turns.

    Each iterator of :meth:`generate`, each :class:`TokenSequence` and the model's own text has its tokens for itself.
    Where another one ran in between, it is computed again from where they part: bits and tokens are those that it has
    alone. Threads may share a model; one runs at a time.

    Attributes:
        folder: what its files say.
        tokenizer: of the package ``tokenizers``.
        max_length: tokens that there is room for.
        length: tokens of the model's own text, which :meth:`logits` and :meth:`keep` go on with.
        generated: tokens that the latest iterator of :meth:`generate` gave, the one that ended the text not among them.

    Raises:
        ModelFileError, UnsupportedError: the folder or file is none, its model is another than its configuration says,
            or of an architecture that is not known.
        InvalidArgumentError: max_length is below 1, or more than the model can look back at; or sequences are not from
            1 to 64.
        DeviceLimitError, OutOfMemoryError: the device cannot have it.
    """

    def __init__(
        self,
        # a folder (:class:`ModelFolder` says what must be there), a folder of the hub (config.json, safetensors,
        # tokenizer.json), or a GGUF file, the first one of several
        path: Path | str,
        # where to run: a device, which stays open, or what ``dmlvk.Device`` takes to choose one
        device: Device | int | str | None = None,
        *,
        max_length: int | None = None,  # tokens that there is room for; ``None``: what the folder wants
        sequences: int = 1,  # texts that :meth:`batch` continues together, at most; each has room for max_length tokens
        drafts: bool = False,  # whether texts of a batch may be drafted (:attr:`Wishes.drafter`)
        arithmetic: str | None = None,  # as for ``dmlvk.Device``
        # bits of the integers in which plain weights are packed, 4 or 8; ``None``: they stay as they are
        quantize: int | None = None,
    ) -> None:
        onnx = _onnx()
        self.folder = read_folder(path, quantize)
        converted = self.folder.converted
        self.tokenizer = (converted and converted.tokenizer) or read_tokenizer(self.folder.tokenizer)
        self.max_length = self._checked_length(max_length)
        if not isinstance(sequences, int) or isinstance(sequences, bool) or not 1 <= sequences <= MOST_SEQUENCES:
            raise InvalidArgumentError(
                f"{self.folder.path}: sequences must be from 1 to {MOST_SEQUENCES}; got {sequences!r}"
            )
        options, weights = {} if arithmetic is None else {"arithmetic": arithmetic}, onnx.SessionOptions()
        if converted is not None:
            weights.add_external_initializers(list(converted.weights), list(converted.weights.values()))
        model = self.folder.model if converted is None else converted.model
        self._opened = self._session = onnx.InferenceSession(model, weights, device=device, **options)
        try:
            if drafts:
                self._session = self._with_positions()
            self._inputs = {item.name: item for item in self._session.get_inputs()}
            self._data_type = self._checked()
            arrays, states = self._new_caches(sequences), [names for _, names in self._state_names()]
            if drafts and states:
                raise UnsupportedError(f"{self.folder.model}: has states, which forget no draft that was wrong")
            caches = SequenceCaches(self._session, self.folder, arrays, self.max_length, states)
        except BaseException:
            self._close_sessions()
            raise
        self._slots = [Slot(caches, place) for place in range(sequences)]
        self._choices = Choices(self.device, self.folder.vocabulary, self._data_type)
        self._slot = self._slots[0]
        self._text = TokenSequence(self._slot)
        self._latest: TokenStream | None = None

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees what lies on the device."""
        self._slot.caches.close()
        self._close_sessions()

    def _checked_length(self, wanted: int | None) -> int:
        length, most = self.folder.max_length if wanted is None else wanted, self.folder.context_length
        if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= most:
            raise InvalidArgumentError(f"{self.folder.path}: max_length must be from 1 to {most}; got {wanted!r}")
        return length

    def _with_positions(self) -> Any:
        """The session in which a run says behind which of its tokens logits are wanted."""
        try:
            return self._opened.with_inputs(frozenset([POSITIONS]))
        except UnsupportedError as error:
            raise UnsupportedError(f"{error}: it gives logits of last tokens only, and drafts need more") from error

    def _close_sessions(self) -> None:
        for session in dict.fromkeys([self._session, self._opened]):
            session.close()

    @property
    def device(self) -> Device:
        """Where it runs."""
        device: Device = self._session.device
        return device

    def encode(self, text: str, *, is_whole: bool = False) -> list[int]:
        """A text's tokens; those that stand for no text are found by their names.

        Args:
            is_whole: whether those that the tokenizer has around whole texts come with them, as one that begins a text.

        Raises:
            InvalidArgumentError: it is no text, or holds what is no character, as bytes that are no UTF-8 become.
            ModelFileError: the folder's tokenizer fails.
        """
        if not isinstance(text, str):
            raise InvalidArgumentError(f"{self.folder.path}: only a text has tokens; got {text!r}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{self.folder.path}: the text has {text[error.start]!a} at place {error.start}, which is no character"
            ) from error
        return list(self._tokenized(lambda: self.tokenizer.encode(text, add_special_tokens=is_whole).ids))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without those that stand for none.

        Raises:
            InvalidArgumentError: they are no tokens, or one is not in the vocabulary.
            ModelFileError: the folder's tokenizer fails.
        """
        checked = checked_tokens(self.folder, tokens)
        return str(self._tokenized(lambda: self.tokenizer.decode(checked, skip_special_tokens=True)))

    def _tokenized(self, work: Callable[[], Any]) -> Any:
        try:
            return tokenized(work)
        except ValueError as error:
            raise ModelFileError(f"{self.folder.tokenizer}: the tokenizer fails: {error}") from error

    @property
    def length(self) -> int:
        return self._text.length

    @property
    def generated(self) -> int:
        return 0 if self._latest is None else self._latest.generated

    def sequence(self) -> TokenSequence:
        """Another text that is run part by part, as :meth:`logits` and :meth:`keep` do with the model's own one."""
        return TokenSequence(self._slot)

    def logits(self, tokens: Sequence[int]) -> Array:
        """Runs tokens behind those of the model's own text: :meth:`TokenSequence.logits`."""
        return self._text.logits(tokens)

    def keep(self, tokens: Sequence[int]) -> int:
        """Forgets all of the model's own text but what these tokens begin with, too: :meth:`TokenSequence.keep`."""
        return self._text.keep(tokens)

    def generate(
        self, tokens: Sequence[int], sampling: Sampling | None = None, *, most: int | None = None
    ) -> TokenStream:
        """Tokens behind a prompt, until one that ends the text, or until there is no more room.

        Any number of these iterators, in turn or in threads, give what each gives alone.

        Args:
            tokens: the whole text so far; what the caches have of it already is not computed again.
            sampling: how tokens are chosen; ``None``: as the folder wants.
            most: how many tokens at most.

        Raises:
            InvalidArgumentError: as :meth:`logits`; or ``most`` is no count.
        """
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 0):
            raise InvalidArgumentError(f"{self.folder.path}: most must be a count of tokens; got {most!r}")
        if not isinstance(sampling, Sampling | None):
            raise InvalidArgumentError(f"{self.folder.path}: sampling must be a Sampling; got {sampling!r}")
        chosen = self.folder.sampling if sampling is None else sampling
        self._latest = TokenStream(self._slot, self._choices, tokens, chosen, most)
        return self._latest

    def batch(self) -> Batch:
        """Texts that are continued together, up to as many as the model has ``sequences``.

        It shares their places with the model's other texts: use one or the others.
        """
        return Batch(self._slots, self._choices)

    def _checked(self) -> DataType:
        """Looks whether the model is what its configuration says; the type of its logits."""
        folder = self.folder
        outputs = {item.name: item for item in self._session.get_outputs()}
        names = folder.names
        patterns = [names.past_key, names.past_value, *(past for past, _ in names.states.values())]
        caches = "|".join(re.escape(past).replace("%d", r"\d+") for past in patterns)
        known = (names.input_ids, names.attention_mask, names.position_ids, POSITIONS)
        others = [name for name in self._inputs if name not in known and not re.fullmatch(caches, name)]
        if others:
            raise UnsupportedError(
                f"{folder.model}: has the inputs {', '.join(others[:4])[:200]}, which genai_config.json does not name; "
                "of hybrid models those are run whose layers have caches of keys and values, or states of fixed sizes"
            )
        if folder.layers > len(self._inputs) + folder.key_heads.count(0):  # before each is gone through
            raise ModelFileError(
                f"{folder.model}: has {len(self._inputs)} inputs; genai_config.json says {folder.layers} layers, each "
                "with two caches, or states"
            )
        needed = [folder.names.input_ids, *(past for past, _ in self._cache_names())]
        for name in needed:
            if name not in self._inputs:
                raise ModelFileError(f"{folder.model}: has no input {name!r}, which genai_config.json names")
        if len(self._inputs) > len(needed) + len([name for name in known[1:] if name in self._inputs]):
            raise ModelFileError(
                f"{folder.model}: has caches for more layers than {folder.layers}, as genai_config.json says"
            )
        for name in (folder.names.logits, *(present for _, present in self._cache_names())):
            if name not in outputs:
                raise ModelFileError(f"{folder.model}: has no output {name!r}, which genai_config.json names")
        logits = outputs[folder.names.logits]
        for item in (self._inputs[folder.names.input_ids], logits):
            wanted = 2 if item is not logits else 3
            if item.shape is not None and len(item.shape) != wanted:
                raise ModelFileError(f"{folder.model}: {item.name!r} is {item.shape}, not of {wanted} dimensions")
        if logits.shape and isinstance(logits.shape[-1], int) and logits.shape[-1] != folder.vocabulary:
            raise ModelFileError(
                f"{folder.model}: its logits are {logits.shape[-1]}; genai_config.json says {folder.vocabulary}"
            )
        return _float_type(folder.model, logits)

    def _new_caches(self, sequences: int) -> dict[tuple[str, str], Array]:
        """A cache of the greatest length for keys and values of each layer, which is its own past and present.

        States are as large as the model says.
        """
        folder = self.folder
        rows, most = max(self.max_length, folder.window), self.device.info.limits.largest_buffer
        made: dict[tuple[str, str], Array] = {}
        states = [names for _, names in self._state_names()]
        for layer, (past, present) in self._caches():
            argument = self._inputs[past]
            if (past, present) in states:
                made[past, present] = self._new_state(argument, sequences)
                continue
            heads, head = folder.cache_sizes(layer)
            shape = (sequences, heads, rows, head)
            size = math.prod(shape) * _float_type(folder.model, argument).size_in_bytes
            if size > most:
                raise DeviceLimitError(
                    f"{folder.path}: a cache for {rows} tokens has {size} bytes for {sequences} sequences; a buffer of "
                    f"{self.device.info.name} has at most {most}: give a max_length of at most {most * rows // size}"
                )
            for got, wanted in zip(argument.shape, shape, strict=False):
                if len(argument.shape) != len(shape) or (isinstance(got, int) and got != wanted):
                    raise ModelFileError(
                        f"{folder.model}: the cache {past!r} is {argument.shape}; genai_config.json says {list(shape)}"
                    )
            made[past, present] = self.device.array(np.zeros(shape, _float_type(folder.model, argument).numpy_dtype))
        return made

    def _new_state(self, argument: NodeArg, sequences: int) -> Array:
        """The state of each sequence from which texts begin."""
        sizes = [size for size in (argument.shape or ())[1:] if isinstance(size, int) and size > 0]
        if not sizes or len(argument.shape or ()) != len(sizes) + 1:
            raise ModelFileError(f"{self.folder.model}: the state {argument.name!r} is {argument.shape}, of open sizes")
        return self.device.array(np.zeros((sequences, *sizes), _float_type(self.folder.model, argument).numpy_dtype))

    def _cache_names(self) -> list[tuple[str, str]]:
        return [names for _, names in self._caches()]

    def _caches(self) -> list[tuple[int, tuple[str, str]]]:
        """Of caches and states: the layer, and the names of an input and an output."""
        folder, names = self.folder, self.folder.names
        both = (names.past_key, names.present_key), (names.past_value, names.present_value)
        states = self._state_names()
        having = {layer for layer, _ in states}
        made = [
            (layer, (past % layer, present % layer))
            for layer in range(folder.layers)
            if layer not in having and folder.has_caches(layer)
            for past, present in both
        ]
        return [*made, *states]

    def _state_names(self) -> list[tuple[int, tuple[str, str]]]:
        """Of states that the model has: the layer, and the names of an input and an output."""
        named = self.folder.names.states.values()
        return [
            (layer, (past % layer, present % layer))
            for layer in range(self.folder.layers)
            for past, present in named
            if past % layer in self._inputs
        ]


def _float_type(model: Path, argument: NodeArg) -> DataType:
    types = {"tensor(float)": DataType.FLOAT32, "tensor(float16)": DataType.FLOAT16}
    if argument.type not in types:
        raise UnsupportedError(f"{model}: {argument.name!r} is a {argument.type}; {', '.join(types)} are run")
    return types[argument.type]


def _onnx() -> Any:
    try:
        import dmlvk.onnx
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error
    return dmlvk.onnx
