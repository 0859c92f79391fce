"""A whole model file, read and checked, before any device is involved."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from dmlvk.models.commands import Command, CommandNames, parse_command
from dmlvk.models.dispatchables import ModelDispatchable, parse_dispatchable
from dmlvk.models.json_source import read_json_file
from dmlvk.models.onnx_dispatchables import OnnxDispatchable
from dmlvk.models.resources import FILES_BELOW, Resource, parse_resource
from dmlvk.models.values import Members, array
from dmlvk.support.files import checked_path


@dataclasses.dataclass(frozen=True)
class Model:
    """What a model file says.

    Attributes:
        path: the file.
        resources: its buffers by name.
        dispatchables: what can be run, by name.
        commands: what is to be done, in this order.
    """

    path: Path
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, ModelDispatchable | OnnxDispatchable]
    commands: tuple[Command, ...]


def load_model(path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Model:
    """Reads and checks a model file in DxDispatch's format.

    Everything that can be checked without a device is checked here, the files that it refers to included. Members that
    no part of the format knows are refused (a misspelt optional member would otherwise change results in silence);
    keys that begin with ``$`` are ignored.

    Args:
        path: the JSON file.
        root: the folder in which all files must lie that it names by ``sourcePath``, links followed; ``None``: it may
            name any file that the user may read. To be given where the model file comes from somebody else.

    Raises:
        ModelFileError: with the place of what is wrong.
        InvalidArgumentError: ``path`` or ``root`` is no path.
    """
    file, below = checked_path(path, "load_model"), None if root is None else checked_path(root, "load_model: root")
    token = FILES_BELOW.set(None if below is None else below.resolve())
    try:
        return _loaded(file)
    finally:
        FILES_BELOW.reset(token)


def _loaded(path: Path) -> Model:
    members = Members(read_json_file(path), "a model file")
    resource_nodes = Members(members.required("resources"), "resources").values
    dispatchable_nodes = Members(members.required("dispatchables"), "dispatchables").values
    command_nodes = array(members.required("commands"), "commands")
    members.finish()
    resources = {name: parse_resource(name, node, path.parent) for name, node in resource_nodes.items()}
    dispatchables = {
        name: parse_dispatchable(name, node, resources, path.parent) for name, node in dispatchable_nodes.items()
    }
    names = CommandNames(resources, dispatchables, path.parent)
    commands = tuple(parse_command(node, index, names) for index, node in enumerate(command_nodes))
    return Model(path, names.resources, names.dispatchables, commands)
