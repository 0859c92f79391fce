"""The backend for ``torch.compile``: graphs forward and backward, in parts where the device lacks something."""

from __future__ import annotations

import dataclasses
import enum
import functools
import logging
import operator
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import torch
from torch._dynamo import register_backend, trace_rules
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import OutputType, ViewAndMutationMeta
from torch._functorch.partitioners import default_partition
from torch._guards import TracingContext
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from dmlvk.device import Device
from dmlvk.errors import DeviceRemovedError, InvalidArgumentError
from dmlvk.support.recent import Recent
from dmlvk.torch import operators
from dmlvk.torch.decompositions import decompositions
from dmlvk.torch.devices import check_options, device_for
from dmlvk.torch.host_nodes import is_on_host, put_numbers_on_host, put_on_host
from dmlvk.torch.lowering import LOWERINGS, NotLowered, has_lowering, name_of
from dmlvk.torch.parts import DevicePart
from dmlvk.torch.refusals import refused_node, unless_refused
from dmlvk.torch.residency import Residency
from dmlvk.torch.sizes import NoNumber, depends_on_data
from dmlvk.torch.support import NOT_LOWERED
from dmlvk.torch.types import NAME


def views_among(metadata: ViewAndMutationMeta) -> frozenset[int]:
    """Places of the results of which AOTAutograd makes views of another tensor's memory.

    Where sizes are open it takes shape, strides and offset from the result, so that this must lie as in eager PyTorch.
    """
    no_views = (OutputType.non_alias, OutputType.unsafe_view_alias)
    first = metadata.num_mutated_inp_runtime_indices
    return frozenset(
        first + number for number, info in enumerate(metadata.output_info) if info.output_type not in no_views
    )


def share_memory_of_results(module: GraphModule, views: Collection[int], *, all_results: bool) -> None:
    """Has results that are views made of the tensor whose memory they have, on the host, where a view costs nothing.

    The device gives each of its results memory of its own. So it gives only the tensor that the others are views of,
    and the nodes that make these of it are repeated for the host; what the device itself reads stays as it is.

    Args:
        module: a graph of ATen's operators, which is changed.
        views: places of results that are views, be it of one another, of arguments, or of neither.
        all_results: whether any others that are views of one another are made so, too.
    """
    output = next(iter(reversed(module.graph.nodes)))
    results = list(output.args[0])
    made: dict[Node, Node] = {}
    with module.graph.inserting_before(output):
        for number in views:
            for storage in _storages(results[number]) if isinstance(results[number], Node) else ():
                _repeat(results[number], storage, made)
        for storage, sharing in _related(module, results).items() if all_results else ():
            for result in sharing:
                _repeat(result, storage, made)
    if not made:
        return
    output.args = ([made.get(each, each) for each in results],)
    for node in reversed(made):
        if not node.users:
            module.graph.erase_node(node)
    module.recompile()


def _related(module: GraphModule, results: list[Any]) -> dict[int, list[Node]]:
    """Results by the memory that they share; what shares an argument's memory is AOTAutograd's."""
    places: dict[int, list[Node]] = {}
    for result in results:
        for storage in _storages(result) if isinstance(result, Node) else ():
            places.setdefault(storage, []).append(result)
    of_arguments = {storage for node in module.graph.nodes if node.op == "placeholder" for storage in _storages(node)}
    return {
        storage: sharing for storage, sharing in places.items() if len(set(sharing)) > 1 and storage not in of_arguments
    }


def _storages(node: Node) -> list[int]:
    value = node.meta.get("val")
    listed = value if isinstance(value, (tuple, list)) else [value]
    strided = [item for item in listed if isinstance(item, torch.Tensor) and item.layout is torch.strided]
    return [item.untyped_storage()._cdata for item in strided]


def _repeat(node: Node, storage: int, made: dict[Node, Node]) -> Node:
    """A node once more, with what it is a view of likewise; the one whose memory it is stays itself."""
    source = next((each for each in node.all_input_nodes if storage in _storages(each)), None)
    if source is None:
        return node
    if node not in made:
        sources = {source: _repeat(source, storage, made)}
        made[node] = node.graph.node_copy(node, lambda each: sources.get(each, each))
        put_on_host(made[node])
    return made[node]


assert operators  # importing it registers the lowerings

_log = logging.getLogger("dmlvk")

_KEPT_SIZES = 64  # Graphs that are kept of a program whose sizes vary; those not used for longest go first

_LEAST_NODES = 2  # Nodes of a part that is worth the way to the device and back, where the CPU computes others

_said: set[str] = set()


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What ``torch.compile(model, backend="dmlvk", options={"device": …})`` calls with each graph.

    Args:
        module: the graph that TorchDynamo found.
        example_inputs: its inputs.
        options: ``device``: a ``dmlvk.Device``, or what it takes to choose one; ``arithmetic``: as ``dmlvk.Device``
            takes it; ``weights``: ``"compared"``, the default, with what the device has of them, in every call;
            ``"counted"``: the program promises that they change only by what PyTorch counts, which costs a call
            nothing. Tensors on PyTorch's device ``dmlvk`` are computed on it, and have no use for options.
        mode: accepted for PyTorch's sake.

    Raises:
        InvalidArgumentError: there is no such option.
    """
    check_options(options or {})
    compilers = {kind: functools.partial(_compiled, dict(options or {}), kind) for kind in _Kind}
    compile_both = aot_autograd(
        fw_compiler=compilers[_Kind.FORWARD],
        bw_compiler=compilers[_Kind.BACKWARD],
        inference_compiler=compilers[_Kind.INFERENCE],
        partition_fn=_forward_and_backward,
        decompositions=unless_refused(decompositions()),
    )
    try:
        with sdpa_kernel(SDPBackend.MATH):  # attention as products and a softmax, which have gradients
            made: Callable[..., Any] = compile_both(module, list(example_inputs))
    except DeviceRemovedError as error:
        return _raising(error)  # in the call: what a backend raises, TorchDynamo makes another error of
    return made


def _forward_and_backward(joint: GraphModule, inputs: Any, **options: Any) -> tuple[GraphModule, GraphModule]:
    """AOTAutograd's two graphs; random numbers are drawn in the first, and kept where checkpoints compute them again.

    PyTorch's own way, which draws them twice from one state of a generator, is for its own devices.
    """
    for node in joint.graph.nodes:
        if "recompute" in node.meta and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            for each in (node, *(user for user in node.users if user.target is operator.getitem)):
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    made: tuple[GraphModule, GraphModule] = default_partition(joint, inputs, **options)
    return made


def _raising(error: DeviceRemovedError) -> Callable[..., Any]:
    message = str(error)

    def call(*_: Any) -> Any:
        raise DeviceRemovedError(message)

    return call


trace_rules.add("dmlvk")  # what computes operators is no part of the programs that call them

if not any(point.name == "dmlvk" for point in entry_points(group="torch_dynamo_backends")):
    # A checkout. PyTorch itself registers what the entry points of installed packages name, and nothing twice.
    register_backend(backend, name="dmlvk")  # type: ignore[arg-type]  # its annotation knows one signature only


def load(program: torch.export.ExportedProgram, **options: Any) -> torch.nn.Module:
    """A program of ``torch.export`` on the device.

    Args:
        program: what ``torch.export.export`` or ``torch.export.load`` gave.
        options: as for :func:`backend`.

    Returns:
        a module that is called as the exported one was.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise InvalidArgumentError(f"dmlvk.torch.load: needs a torch.export.ExportedProgram; got {program!r}")
    check_options(options)
    made: torch.nn.Module = torch.compile(program.module(), backend=functools.partial(backend, options=options))
    return made


class _Kind(enum.Enum):
    FORWARD = enum.auto()
    BACKWARD = enum.auto()
    INFERENCE = enum.auto()


@dataclasses.dataclass(frozen=True)
class _CompilerSetting:
    """Where a graph is computed, and what of its arguments and results is known."""

    # the device, and what lies there; ``None``: tensors are PyTorch's on its device ``dmlvk``
    device: tuple[Device, Residency] | None
    weights: frozenset[str] = frozenset()  # names of the arguments that are parameters and buffers of modules
    are_lasting: bool = False  # whether these seldom change
    # how many results the program gets; the others are for the backward graph. ``None``: all
    returned: int | None = None
    is_open: bool = False  # whether sizes are open
    # whether results that are views of one another are made so; in training AOTAutograd does that
    shares_memory: bool = False
    views: frozenset[int] = frozenset()  # places of results that AOTAutograd makes views, which lie as in eager PyTorch


def _compiled(options: dict[str, Any], kind: _Kind, module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
    """A graph of ATen's operators as a function of tensors; one with open sizes is made anew for each of them."""
    is_recorded = any(one.device.type == NAME for node in module.graph.nodes for one in _tensors_of(node))
    if is_recorded and not options.keys() <= {"weights"}:
        raise InvalidArgumentError(
            f"dmlvk.torch: the options device and arithmetic are for tensors of the CPU; got {options} with tensors on "
            f"{NAME}, whose device torch.{NAME}.use chooses"
        )
    if (refused := refused_node(module)) is not None:
        _log.warning("torch: PyTorch runs a graph by itself, as it refuses the types of %s", name_of(refused))
        return _boxed(module)
    setting = _CompilerSetting(None if is_recorded else device_for(options))
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    if metadata is not None and kind is not _Kind.BACKWARD:
        names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        setting = dataclasses.replace(
            setting,
            weights=frozenset(names[number] for number in metadata.static_input_indices),
            are_lasting=kind is _Kind.INFERENCE,
            returned=metadata.num_forward if kind is _Kind.FORWARD else None,
            views=views_among(metadata),
        )
    setting = dataclasses.replace(setting, shares_memory=kind is _Kind.INFERENCE)
    is_open = any(isinstance(item, (torch.SymInt, torch.SymFloat)) for item in examples) or any(
        isinstance(size, torch.SymInt) for item in examples if isinstance(item, torch.Tensor) for size in item.shape
    )
    setting = dataclasses.replace(setting, is_open=is_open)
    if not is_open:
        return _boxed(_in_parts(setting, module))
    if is_recorded:
        return _boxed(_OpenSizes(dataclasses.replace(setting, is_open=False), module))
    try:
        return _boxed(_in_parts(setting, module))
    except (NotLowered, NoNumber) as reason:
        _log.debug("torch: no plan for open sizes: %s", reason)
        return _boxed(_OpenSizes(dataclasses.replace(setting, is_open=False), module))


def _boxed(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function that takes its arguments in a list, which it empties, as AOTAutograd likes it."""

    def call(arguments: list[Any]) -> Any:
        given = list(arguments)
        arguments.clear()
        return function(*given)

    call._boxed_call = True  # type: ignore[attr-defined]  # PyTorch's mark
    return call


class _OpenSizes:
    """A graph whose sizes vary from call to call: one for each of them, and the last ones are kept."""

    def __init__(self, setting: _CompilerSetting, module: GraphModule) -> None:
        self._setting, self._module = setting, module
        self._made: Recent[tuple[object, ...], Callable[..., Any]] = Recent(_KEPT_SIZES)
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        key = tuple(
            (tuple(item.shape), item.dtype, item.stride()) if isinstance(item, torch.Tensor) else item
            for item in arguments
        )
        with self._lock:
            made = self._made.of(key, lambda: self._of_sizes(arguments))
        return made(*arguments)

    def _of_sizes(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        return _in_parts(self._setting, make_fx(self._module, tracing_mode="fake")(*arguments))


class _Supported(OperatorSupportBase):
    """What the device computes: what the table has, without nodes that turned out to be too much for it."""

    def __init__(self, refused: set[str], *, is_recorded: bool) -> None:
        self._refused, self._is_recorded = refused, is_recorded

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if is_on_host(node):
            return False
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            return self.is_node_supported(submodules, node.args[0])
        if self._is_recorded and not _is_on_device(node):
            return False
        return node.name not in self._refused and has_lowering(node)


def _tensors_of(node: Node) -> list[torch.Tensor]:
    return [one for one in tree_leaves(node.meta.get("val")) if isinstance(one, torch.Tensor)]


def _is_on_device(node: Node) -> bool:
    """Whether results and operands of a node are on PyTorch's device, but for numbers among the operands."""
    operands = [one for each in node.all_input_nodes for one in _tensors_of(each)]
    return all(one.device.type == NAME for one in _tensors_of(node)) and all(
        one.device.type == NAME or not one.dim() for one in operands
    )


def _in_parts(setting: _CompilerSetting, module: GraphModule) -> Callable[..., Any]:
    """The graph with as few and as large parts on the device as make no circles."""
    refused: set[str] = set()
    reasons: dict[str, str] = {}
    module = GraphModule(module, _copied(module.graph))
    views = setting.views | _with_gaps(module) if setting.device is None else setting.views
    share_memory_of_results(module, views, all_results=setting.shares_memory)
    put_numbers_on_host(module)
    while True:
        copy = GraphModule(module, _copied(module.graph))
        parts, nodes = _partitioned(copy, _Supported(refused, is_recorded=setting.device is None))
        try:
            for node in nodes:
                setattr(parts, str(node.target), _part(setting, getattr(parts, str(node.target)), node))
        except NotLowered as error:
            if error.node is None:
                raise
            refused.add(error.node.name)
            reasons[name_of(error.node)] = str(error)
            continue
        if setting.device is not None:  # else what is left is recorded, or says itself that the CPU computes it
            _tell(parts, reasons)
        return parts


def _with_gaps(module: GraphModule) -> set[int]:
    """Places of results that do not fill memory, such as repeated ones: on the device these are views of others."""
    from dmlvk.torch.device.geometry import flattened

    results = next(iter(reversed(module.graph.nodes))).args[0]
    shown = [node.meta.get("val") if isinstance(node, Node) else None for node in results]
    return {
        place
        for place, one in enumerate(shown)
        if isinstance(one, torch.Tensor)
        and not depends_on_data(one)
        and flattened(tuple(one.shape), one.stride()) is None
    }


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    made = torch.fx.Graph()
    values: dict[Node, Node] = {}
    for node in graph.nodes:
        values[node] = made.node_copy(node, lambda item: values[item])
    return made


def _part(setting: _CompilerSetting, module: GraphModule, node: Node) -> torch.nn.Module:
    if setting.device is None:
        from dmlvk.torch.device.compiled import RecordedPart  # PyTorch may be too old for its device

        return RecordedPart(module)
    weights = [
        number
        for number, given in enumerate(node.args)
        if isinstance(given, Node) and given.op == "placeholder" and given.name in setting.weights
    ]
    if setting.is_open and any(map(_has_open_sizes, node.all_input_nodes)):
        return DevicePart(*setting.device, module, weights, are_lasting=setting.are_lasting, is_open=True)
    inner = next(iter(reversed(module.graph.nodes))).args[0]
    count = 1 if isinstance(inner, Node) else len(inner)
    shown = {node: 0} if isinstance(inner, Node) else {user: user.args[1] for user in node.users}
    unread = set() if setting.returned is None else set(range(count))
    for given, number in shown.items():
        for user in given.users:
            returned = user.args[0][: setting.returned] if user.op == "output" else ()
            if user.op != "output" or given in returned:
                unread.discard(number)
    return DevicePart(*setting.device, module, weights, are_lasting=setting.are_lasting, unread=unread)


def _has_open_sizes(node: Node) -> bool:
    results = node.meta.get("val")
    listed = results if isinstance(results, (tuple, list)) else [results]
    return any(
        isinstance(size, (torch.SymInt, torch.SymFloat)) for item in listed for size in getattr(item, "shape", [item])
    )


def _partitioned(module: GraphModule, supported: _Supported) -> tuple[GraphModule, list[Node]]:
    """The module with parts for the device as modules inside it, and the nodes that call them."""
    partitioner = CapabilityBasedPartitioner(module, supported, allows_single_node_partition=True)
    found = partitioner.propose_partitions()
    computed = [
        node
        for node in module.graph.nodes
        if node.op == "call_function" and node.target is not operator.getitem and not is_on_host(node)
    ]
    large = [part for part in found if len(part.nodes) >= _LEAST_NODES or len(part.nodes) == len(computed)]
    fused = partitioner.fuse_partitions(large)
    return fused, [node for node in fused.graph.nodes if node.op == "call_module"]


def _tell(module: GraphModule, reasons: Mapping[str, str]) -> None:
    """Says once what the CPU computes."""
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or is_on_host(node):
            continue
        name = name_of(node) or str(node.target)
        if name not in _said:
            _said.add(name)
            _log.warning("torch: the CPU computes %s: %s", name, reasons.get(name, _why_not(node)))


def _why_not(node: Node) -> str:
    """Why the CPU computes a node that nothing refused."""
    if has_lowering(node):
        return "alone it is not worth the way to the device"
    if name_of(node) not in LOWERINGS:
        return NOT_LOWERED.get(name_of(node) or str(node.target), "it has no lowering")
    return "the device lacks its data types, or has no such tensors"
