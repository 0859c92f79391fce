"""Attention of decoders, whose keys and values lie in caches that are filled up to lengths in a tensor. dmlvk's own."""

from __future__ import annotations

from dmlvk.operators.words import *

LARGEST_HEAD = 512  # Elements of a head at most

INTEGERS = (DataType.INT8, DataType.UINT8)
"""Of caches that hold integers: of 8 bits; or of 4 bits, to which 8 is added, two in a byte."""


def head_size(cache: TensorDesc) -> int:
    size: int = cache.sizes[3]
    return 2 * size if cache.data_type is DataType.UINT8 else size


def _caches(desc: CachedAttention | Draft) -> tuple[TensorDesc, TensorDesc]:
    """Of keys and of values: those of the past, where nothing goes into caches."""
    keys, values = desc.present_key_tensor, desc.present_value_tensor
    if keys is None or values is None:
        keys, values = desc.past_key_tensor, desc.past_value_tensor
    assert keys is not None and values is not None  # the shape rule looked
    return keys, values


def _sizes(desc: CachedAttention | Draft) -> Mapping[str, Sequence[int]]:
    _check_reading(desc)
    heads, key_heads = desc.query_head_count, desc.key_value_head_count
    if heads < 1 or key_heads < 1 or heads % key_heads:
        refuse(desc, "query_head_count", f"must be a multiple of KeyValueHeadCount {key_heads}; got {heads}")
    batch, tokens, hidden = desc.query_tensor.sizes
    keys, values = _caches(desc)
    capacity, line, value_line = keys.sizes[2], keys.sizes[3], values.sizes[3]
    size, value_size = head_size(keys), head_size(values)
    _check_scales(desc, size, value_size)
    written = "past" if desc.present_key_tensor is None else "present"
    for what, length in ((f"{written}_key_tensor", size), (f"{written}_value_tensor", value_size)):
        if length % 2 or length > LARGEST_HEAD:
            refuse(desc, f"{what}.sizes", f"must end with an even size up to {LARGEST_HEAD}; got {length}")
    if (desc.key_tensor is None) != (desc.value_tensor is None):
        refuse(desc, "key_tensor", "and ValueTensor must be given together")
    apart = desc.key_tensor is not None
    wanted = (
        heads * size
        if apart or desc.present_key_tensor is None
        else (heads + key_heads) * size + key_heads * value_size
    )
    if hidden != wanted:
        refuse(desc, "query_tensor.sizes", f"must end with {wanted}; got {hidden}")
    if apart:
        check_sizes(desc, "key_tensor", (batch, tokens, key_heads * size))
        check_sizes(desc, "value_tensor", (batch, tokens, key_heads * value_size))
    _check_past(desc, (batch, key_heads, capacity, line), value_line)
    _check_window(desc, capacity)
    check_sizes(desc, "ends_tensor", (1,) if desc.counts_past else (batch,))
    check_sizes(desc, "total_tensor", (1,))
    _check_angles(desc, size)
    if desc.bias_tensor is not None:
        given = desc.bias_tensor.sizes
        if given[0] not in (1, batch) or given[1] not in (1, heads) or given[2] != tokens:
            refuse(desc, "bias_tensor.sizes", f"must be those of [{batch}, {heads}, {tokens}] or 1; got {list(given)}")
    if desc.sink_tensor is not None:
        check_sizes(desc, "sink_tensor", (heads,))
    _check_beams(desc, batch)
    made: dict[str, Sequence[int]] = {"output_tensor": (batch, tokens, heads * value_size)}
    if desc.present_key_tensor is not None:
        made["present_key_tensor"] = (batch, key_heads, capacity, line)
        made["present_value_tensor"] = (batch, key_heads, capacity, value_line)
    if desc.scores_tensor is not None:
        made["scores_tensor"] = (batch, heads, tokens, _shown_keys(desc, desc.scores_tensor.sizes[3], capacity))
    return made


def _check_past(desc: CachedAttention | Draft, caches: tuple[int, int, int, int], value_line: int) -> None:
    """Caches that stand apart from those which are written, of these sizes and width of values."""
    if (desc.past_key_tensor is None) != (desc.past_value_tensor is None):
        refuse(desc, "past_key_tensor", "and PastValueTensor must be given together")
    if desc.past_key_tensor is not None:
        batch, key_heads, capacity, line = caches
        past = desc.past_key_tensor.sizes[2]
        check_sizes(desc, "past_key_tensor", (batch, key_heads, past, line))
        check_sizes(desc, "past_value_tensor", (batch, key_heads, past, value_line))
        if desc.keeps_past or past > capacity:
            refuse(desc, "past_key_tensor", f"of {past} keys must go into the {capacity} of PresentKeyTensor")


def _check_reading(desc: CachedAttention | Draft) -> None:
    """Where nothing goes into caches, they are there, and nothing says what would go into them."""
    if (desc.present_key_tensor is None) != (desc.present_value_tensor is None):
        refuse(desc, "present_key_tensor", "and PresentValueTensor must be given together")
    if desc.present_key_tensor is not None:
        return
    if desc.past_key_tensor is None or desc.past_value_tensor is None:
        refuse(desc, "past_key_tensor", "must be given where PresentKeyTensor is not")
    if desc.key_tensor is not None or desc.value_tensor is not None:
        refuse(desc, "key_tensor", "must not be given where PresentKeyTensor is not")
    if desc.keeps_past or desc.keeps_window or desc.beams_tensor is not None:
        refuse(desc, "present_key_tensor", "must be given where KeepsPast, KeepsWindow or BeamsTensor are")


def _shown_keys(desc: CachedAttention | Draft, columns: int, capacity: int) -> int:
    """The keys that there may be scores of, which all go into the cache."""
    if desc.keeps_window or desc.query_lengths_tensor is not None:
        refuse(desc, "scores_tensor", "does not go with KeepsWindow and QueryLengthsTensor")
    if columns > capacity:
        refuse(desc, "scores_tensor.sizes", f"must end with at most the {capacity} keys of PresentKeyTensor")
    return columns


def _check_beams(desc: CachedAttention | Draft, batch: int) -> None:
    """Beams are whole groups of sequences, of one new token each, whose keys have numbers of their own type."""
    beams = desc.beams_tensor
    if beams is None:
        if desc.beam_width > 1:
            refuse(desc, "beams_tensor", f"must be given where BeamWidth is {desc.beam_width}")
        return
    if desc.beam_width < 1 or batch % desc.beam_width:
        refuse(desc, "beam_width", f"must divide the {batch} sequences; got {desc.beam_width}")
    if desc.query_tensor.sizes[1] != 1 or desc.query_head_count != desc.key_value_head_count:
        refuse(desc, "beams_tensor", "goes with one new token of each sequence, and a head of keys for each of queries")
    if desc.keeps_window or not desc.counts_past or _caches(desc)[0].data_type in INTEGERS:
        refuse(desc, "beams_tensor", "goes with CountsPast and caches of the queries' type, which keep no window")
    if beams.sizes[0] != batch:
        check_sizes(desc, "beams_tensor", (batch, beams.sizes[1]))


def _check_angles(desc: CachedAttention | Draft, size: int) -> None:
    """Both tables are there, for no more elements than a head has, and a place for each token."""
    if (desc.cosine_tensor is None) != (desc.sine_tensor is None):
        refuse(desc, "cosine_tensor", "and SineTensor must be given together")
    if desc.cosine_tensor is not None:
        rows, turned = desc.cosine_tensor.sizes
        if 2 * turned > size:
            refuse(desc, "cosine_tensor.sizes", f"must end with at most {size // 2}; got {turned}")
        check_sizes(desc, "sine_tensor", (rows, turned))
    if desc.position_tensor is not None:
        check_sizes(desc, "position_tensor", desc.query_tensor.sizes[:2])


def _check_window(desc: CachedAttention | Draft, capacity: int) -> None:
    """Caches of a window have room for it, before as after, and lengths are those of each sequence."""
    if desc.query_lengths_tensor is not None:
        check_sizes(desc, "query_lengths_tensor", (desc.query_tensor.sizes[0],))
    if desc.counts_past and (desc.keeps_window or desc.query_lengths_tensor is not None):
        refuse(desc, "counts_past", "does not go with KeepsWindow and QueryLengthsTensor")
    if not desc.keeps_window:
        return
    if not 0 < desc.window <= capacity:
        refuse(desc, "window", f"must be from 1 to the {capacity} keys of PresentKeyTensor; got {desc.window}")
    if desc.keeps_past == (desc.past_key_tensor is not None):
        refuse(desc, "past_key_tensor", "must be given, or KeepsPast be true, and not both")
    if desc.past_key_tensor is not None and desc.past_key_tensor.sizes[2] != capacity:
        refuse(desc, "past_key_tensor.sizes", f"must have the {capacity} keys of PresentKeyTensor")


def _check_scales(desc: CachedAttention | Draft, size: int, value_size: int) -> None:
    """Integers have scales, and floats are of the queries' type."""
    caches = _caches(desc)
    for role, length, cache in zip(("key", "value"), (size, value_size), caches, strict=True):
        scale = getattr(desc, f"{role}_scale_tensor")
        of_integers = cache.data_type in INTEGERS
        if of_integers != (scale is not None):
            found = "is missing" if of_integers else f"is for caches of integers; got {cache.data_type.name}"
            refuse(desc, f"{role}_scale_tensor", found)
        if not of_integers and cache.data_type is not desc.query_tensor.data_type:
            expected = desc.query_tensor.data_type.name
            refuse(desc, f"present_{role}_tensor", f"must be {expected}, INT8 or UINT8; got {cache.data_type.name}")
        if scale is not None and scale.sizes != (1,):
            check_sizes(desc, f"{role}_scale_tensor", (desc.key_value_head_count * length,))
    if caches[0].data_type is not caches[1].data_type:
        refuse(desc, "present_value_tensor", "must have the data type of PresentKeyTensor")
    scales = (desc.key_scale_tensor, desc.value_scale_tensor)
    if len({scale.sizes == (1,) for scale in scales if scale is not None}) > 1:
        refuse(desc, "value_scale_tensor", "must have one number where KeyScaleTensor has one, and only there")


_OF_FLOATS = (
    "query_tensor", "key_tensor", "value_tensor", "cosine_tensor", "sine_tensor", "bias_tensor", "sink_tensor",
    "output_tensor", "scores_tensor",
)  # fmt: skip
_CACHE_TYPES = (*FLOATS, *INTEGERS)
_CACHES = ("past_key_tensor", "past_value_tensor", "present_key_tensor", "present_value_tensor")
_OF_TOKENS = ("query_tensor", "key_tensor", "value_tensor", "output_tensor")
_SCALES = ("key_scale_tensor", "value_scale_tensor")
_LISTS = ("ends_tensor", "total_tensor", "query_lengths_tensor", "sink_tensor", *_SCALES)
_TABLES = ("cosine_tensor", "sine_tensor", "position_tensor", "beams_tensor")


class CachedAttention(OperatorDesc, is_listed=False):
    """Attention over a cache of keys and values, to which those of new tokens are added (dmlvk's own operator).

    A sequence's first new token follows those that it has in the cache: their number is ``ends + 1 - tokens``, or 0
    where ``total`` is the number of new tokens. With ``counts_past`` it is what ``ends`` says, for all sequences; with
    ``query_lengths`` it is ``ends + 1 - query_lengths``, whatever ``total`` is.
    """

    query_tensor: TensorDesc = tensor_input("batch, tokens, heads * size; or with keys and values behind the queries")
    key_tensor: TensorDesc | None = tensor_input("batch, tokens, heads of keys * size", default=None)
    value_tensor: TensorDesc | None = tensor_input("batch, tokens, heads of keys * size of values", default=None)
    past_key_tensor: TensorDesc | None = tensor_input("batch, heads of keys, capacity of the past, size", default=None)
    past_value_tensor: TensorDesc | None = tensor_input("the same of values", default=None)
    ends_tensor: TensorDesc = tensor_input(
        "INT32, batch: the place of each sequence's last token; or, where CountsPast, one number: the keys of the past"
    )
    total_tensor: TensorDesc = tensor_input("INT32, one number: the length of the longest sequence")
    query_lengths_tensor: TensorDesc | None = tensor_input(
        "INT32, batch: how many tokens of a sequence count, its first ones; what others give may be anything",
        default=None,
    )
    cosine_tensor: TensorDesc | None = tensor_input("places, half of the elements that are turned", default=None)
    sine_tensor: TensorDesc | None = tensor_input("the same", default=None)
    position_tensor: TensorDesc | None = tensor_input("INT64, batch, tokens: which row of both tables", default=None)
    bias_tensor: TensorDesc | None = tensor_input("added to scores: batch or 1, heads or 1, tokens, keys", default=None)
    sink_tensor: TensorDesc | None = tensor_input("a score for each head, which takes a share", default=None)
    key_scale_tensor: TensorDesc | None = tensor_input(
        "FLOAT32, what keys in caches of integers are multiplied by: one number, or one for each head's element",
        default=None,
    )
    value_scale_tensor: TensorDesc | None = tensor_input("the same of values", default=None)
    beams_tensor: TensorDesc | None = tensor_input(
        "INT32, batch, places: from which sequence of its beams a sequence takes the key of each place of the past",
        default=None,
    )
    output_tensor: TensorDesc = tensor_output("batch, tokens, heads * size of values")
    present_key_tensor: TensorDesc | None = tensor_output(
        "batch, heads of keys, capacity, size; of UINT8, half of the size: two integers of 4 bits in a byte, 8 added. "
        "Without it, caches of the past have the new tokens' keys and values already, and only queries are given",
        default=None,
    )
    present_value_tensor: TensorDesc | None = tensor_output("the same of values", default=None)
    scores_tensor: TensorDesc | None = tensor_output(
        "batch, heads, tokens, keys at most: what shares are made of, 0 for keys that a query does not see. Rows have "
        "as many elements as the longest sequence has keys, and stand behind one another without gaps",
        default=None,
    )
    query_head_count: int = unsigned_attribute("heads of queries")
    key_value_head_count: int = unsigned_attribute("heads of keys and values; each serves as many of queries")
    scale: float = float_attribute("what products of queries and keys are multiplied by")
    softcap: float = float_attribute("scores are bent to stay below it; 0: they are not")
    window: int = unsigned_attribute("how many keys a query sees, its own last; 0: all")
    is_causal: bool = boolean_attribute("whether a query sees no key behind its own")
    is_interleaved: bool = boolean_attribute("whether elements are turned with their neighbours")
    has_empty_sink: bool = boolean_attribute("whether a score of 0 takes a share, where no sink is given")
    counts_past: bool = boolean_attribute(
        "whether EndsTensor has how many keys each sequence has before its new tokens"
    )
    keeps_past: bool = boolean_attribute("whether the present tensors hold the past already: only new rows are written")
    keeps_window: bool = boolean_attribute(
        "whether caches have the latest keys only, from row 0 on: all while there is room; one more, and as many go at "
        "once as leave Window of them"
    )
    shows_shares: bool = boolean_attribute("whether ScoresTensor has the shares instead")
    beam_width: int = unsigned_attribute("sequences of a group of beams; 0: there are none")
    declaration: ClassVar = Declaration(
        "composed",
        "softmax(Scale * Query * Key^T + Bias) * Value, over the keys that a query sees",
        shapes=_sizes,
        same_data_type=(_OF_FLOATS, _CACHES),
        accuracy=Accuracy("accurate", 2.0),
        support=(
            Support(
                "1_0",
                (1, 4),
                FLOATS,
                ends_tensor=(DataType.INT32,),
                total_tensor=(DataType.INT32,),
                query_lengths_tensor=(DataType.INT32,),
                beams_tensor=(DataType.INT32,),
                position_tensor=(DataType.INT64,),
                past_key_tensor=_CACHE_TYPES,
                past_value_tensor=_CACHE_TYPES,
                present_key_tensor=_CACHE_TYPES,
                present_value_tensor=_CACHE_TYPES,
                key_scale_tensor=(DataType.FLOAT32,),
                value_scale_tensor=(DataType.FLOAT32,),
                dimensions_of={
                    **dict.fromkeys(_OF_TOKENS, (3, 3)),
                    **dict.fromkeys((*_CACHES, "bias_tensor", "scores_tensor"), (4, 4)),
                    **dict.fromkeys(_LISTS, (1, 1)),
                    **dict.fromkeys(_TABLES, (2, 2)),
                },
            ),
        ),
    )

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, tokens, the size of a head of queries and keys, and that of one of values."""
        batch, tokens, _ = self.query_tensor.sizes
        keys, values = self.caches
        return batch, tokens, head_size(keys), head_size(values)

    @property
    def caches(self) -> tuple[TensorDesc, TensorDesc]:
        """The caches that queries see, of keys and of values."""
        return _caches(self)
