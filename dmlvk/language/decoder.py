"""What a decoder for text is: all that is not in the weights."""

from __future__ import annotations

import dataclasses

from dmlvk.language.rotary import Rotary


@dataclasses.dataclass(frozen=True)
class Layer:
    angles: int | None  # which of the decoder's kinds of angles; ``None``: nothing turns
    window: int  # keys that a query sees, its own included; 0: all
    head: int  # elements of a head
    key_heads: int  # of keys and values; each serves as many heads of queries
    feed_forward: int  # elements inside of the gated MLP
    taps: int = 0  # of a short convolution in the place of attention; 0: there is none
    source: int | None = None  # the layer whose keys and values it sees; ``None``: it has its own
    values_are_keys: bool = False  # whether values are what keys are made of


@dataclasses.dataclass(frozen=True)
class DeltaRule:
    """Linear attention with the gated delta rule, in layers whose convolution is over its queries, keys and values."""

    heads: int  # of values, each with a state
    key_heads: int  # of queries and keys
    size: int  # elements of a head of keys
    value_size: int  # of a head of values
    # whether heads of values take turns with heads of keys, instead of each head of keys having neighbours
    is_tiled: bool = False

    @property
    def keys(self) -> int:
        return self.key_heads * self.size

    @property
    def values(self) -> int:
        return self.heads * self.value_size


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture of experts in the place of an MLP."""

    experts: int  # how many there are
    chosen: int  # how many a token chooses, by what a product gives for each
    feed_forward: int  # elements inside of one
    is_whole: bool = True  # whether the shares of those that are chosen add up to 1, and not those of all
    limit: float = 0.0  # what gates are kept below, and what they multiply between (less the sign); 0: nothing
    slope: float = 1.0  # of a gate with a limit, inside of the sigmoid; what it multiplies has 1 added then
    has_biases: bool = False  # whether experts and the choice add something
    shared: int = 0  # elements inside of an expert that all tokens take; 0: there is none
    has_shared_gate: bool = True  # whether it is taken by a share of its own, and not wholly
    # whether it is beside an MLP, with norms of their own; then experts are chosen by the state, and each has a scale
    is_beside: bool = False
    first: int = 0  # the first layer that has it: those before have MLPs
    # whether shares are sigmoids of what is chosen by, to which the choice alone adds a bias, times the scale
    has_sigmoids: bool = False
    has_choice_bias: bool = False  # whether there is such a bias
    scale: float = 1.0  # what these shares are multiplied by
    least: float = 1e-6  # what is added to their sum, which divides them


@dataclasses.dataclass(frozen=True)
class Decoder:
    """All that is not in the weights."""

    name: str  # of the architecture
    hidden: int  # elements of a state
    heads: int  # of queries
    context: int  # tokens that it can look back at, the new one included
    vocabulary: int  # tokens
    epsilon: float  # of norms
    scale: float  # of queries times keys
    layers: tuple[Layer, ...]  # each of them
    angles: tuple[Rotary, ...]  # kinds of angles of positions
    gate: str = "silu"  # ``"silu"``, ``"tanh"`` (GELU by tanh) or ``"erf"`` (GELU)
    has_head_norms: bool = False  # whether heads of queries and keys are normalized
    has_value_norms: bool = False  # whether those of values are, too, without weights
    layer_input: int = 0  # elements of what each layer takes from the tokens themselves; 0: nothing
    has_wide_norms: bool = False  # whether all queries of a token are normalized as one instead, and all keys
    has_pre_norms: bool = True  # whether what attention and MLP read is normalized
    has_post_norms: bool = False  # whether what attention and MLP give is normalized before it is added
    has_joined_heads: bool = False  # whether queries, keys and values are one matrix
    has_joined_gates: bool = False  # whether gate and up are
    attention_cap: float = 0.0  # what scores are kept below by tanh; 0: nothing
    logit_cap: float = 0.0  # likewise, of logits
    embedding_scale: float = 1.0  # what embeddings are multiplied by
    residual_scale: float = 1.0  # what attention and MLP give is multiplied by
    logit_divisor: float = 1.0  # what logits are divided by
    biases: frozenset[str] = frozenset()  # products that have one
    mixture: Mixture | None = None  # of experts, in all layers; ``None``: there is an MLP
    delta: DeltaRule | None = None  # what layers with a convolution are; ``None``: they are short convolutions
    has_head_gates: bool = False  # whether what heads give is gated, by what their queries' matrix has beside these
    has_sinks: bool = False  # whether each head has a score that takes its share, and is no key's
    is_causal: bool = True  # whether tokens see those before them only, and caches go on with more
    has_gate: bool = True  # whether the MLP is gated
    has_means: bool = False  # whether norms take off the mean, and add a bias
    # whether each sum is normalized, and goes on as such (post-norm), instead of what layers read
    normalizes_sums: bool = False
    places: int = 0  # rows that are added by the place of a token; 0: none
    first_place: int = 0  # the row of the first token
    segments: int = 0  # rows that are added by the text that a token belongs to; 0: none

    @property
    def has_norms_apart(self) -> bool:
        """Whether heads are normalized in front of attention's node, which can do it for queries and keys alone."""
        return self.has_value_norms or self.has_wide_norms
