"""Convert frozen dataclasses to plain data and back: recipes and models are stored as JSON, never pickled.

A field that may be one of several kinds, such as a solver, is stored with its name in the registry:
`{"kind": "anderson", "memory": 3, ...}`. Everything else follows from the annotations.
"""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from equilibria.plugins import MissingPlugin, Need, group_of, load_plugins, need_of

Registries = Mapping[type, Mapping[str, type]]  # an abstract kind -> names -> its members
LARGEST_INTEGER = 2**63  # integers of a description are smaller, because torch has no larger ones
MOST_SHOWN = 200  # characters of a value in an error message
LATER = {"added_later": True}  # metadata of a field that older descriptions do not have


class UnknownKind(ValueError):
    """A description names a kind that no registry has."""

    def __init__(self, message: str, group: str, name: str) -> None:
        super().__init__(message)
        self.group, self.name = group, name


def to_data(thing: Any, registries: Registries, *, brief: bool = False) -> Any:
    """Convert `thing` to dicts, lists, strings and numbers. Plain data is returned unchanged.

    `brief` omits fields that were added `LATER` and have their default, so that older descriptions do not change.
    """
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = [name for _, name in _entries(thing, registries)]
        if not names and isinstance(thing, tuple(registries)):
            raise TypeError(
                f"cannot describe a {type(thing).__name__}: it is not in a registry; {_how(thing, registries)}"
            )
        data = {
            field.name: to_data(getattr(thing, field.name), registries, brief=brief)
            for field in dataclasses.fields(thing)
            if not (brief and field.metadata.get("added_later") and getattr(thing, field.name) == field.default)
        }
        return {"kind": names[0], **data} if names else data
    if isinstance(thing, (tuple, list)):
        return [to_data(part, registries, brief=brief) for part in thing]
    if isinstance(thing, dict):
        return {key: to_data(value, registries, brief=brief) for key, value in thing.items()}
    if isinstance(thing, Path):
        return str(thing)
    if thing is None or isinstance(thing, (str, int, float, bool)):
        return thing
    raise TypeError(f"cannot describe a {type(thing).__name__}; use a dataclass whose kind is registered")


def needs(thing: Any, registries: Registries) -> list[Need]:
    """The kinds in `thing` that are not part of the package."""
    found = {need_of(members, name) for members, name in _entries(thing, registries)}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        for field in dataclasses.fields(thing):
            found |= set(needs(getattr(thing, field.name), registries))
    elif isinstance(thing, (tuple, list)):
        found |= {need for part in thing for need in needs(part, registries)}
    return sorted((need for need in found if need), key=lambda need: (need.group, need.name))


@contextlib.contextmanager
def stating_needs(known: Sequence[Need], what: str) -> Iterator[None]:
    """Where a kind is unknown inside the block, say where `what` says that it comes from."""
    try:
        yield
    except UnknownKind as error:
        for need in known:
            if (need.group, need.name) == (error.group, error.name):
                raise MissingPlugin(f"{what} needs {need}") from error
        hint = "if it is your own, pass --import with the module that registers it"
        raise UnknownKind(f"{error}; {hint}", error.group, error.name) from error


def from_data(data: Any, kind: Any, registries: Registries, where: str = "") -> Any:
    """Create the `kind` that `to_data` described. Errors name the field, its value and the allowed values."""
    if isinstance(kind, type) and kind in registries:
        return _member(data, kind, registries, where)
    if dataclasses.is_dataclass(kind):
        return _dataclass(data, kind, registries, where)  # pyright: ignore[reportArgumentType]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(data, arguments, registries, where)
    if origin is Literal:
        if data not in arguments:
            raise _wrong(where, data, f"one of {', '.join(map(repr, arguments))}")
        return data
    if (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis) or origin is Sequence:
        if not isinstance(data, (list, tuple)):
            raise _wrong(where, data, "a list")
        return tuple(from_data(part, arguments[0], registries, f"{where}[{i}]") for i, part in enumerate(data))
    if origin is tuple:
        if not isinstance(data, (list, tuple)) or len(data) != len(arguments):
            raise _wrong(where, data, f"a list of {len(arguments)}")
        return tuple(from_data(part, arguments[i], registries, f"{where}[{i}]") for i, part in enumerate(data))
    return _plain(data, kind, where)


def inside(kind: Any, data: Any, name: str, registries: Registries) -> Any:
    """The annotation of the field `name` of the object that `data` describes and whose annotation is `kind`."""
    kind = _without_none(kind)
    if isinstance(kind, type) and kind in registries:
        kind = registries[kind][data["kind"]]
    return _annotations(kind)[name] if dataclasses.is_dataclass(kind) else get_args(kind)[0]


def complete(data: Any, kind: Any, registries: Registries, where: str) -> Any:
    """Data with every default written out: the bare name of a kind becomes that kind with its defaults."""
    parts = _without_none(kind)
    parts = get_args(parts)[0] if get_origin(parts) is tuple else parts
    if data is None or not (parts in registries or dataclasses.is_dataclass(parts)):
        return data
    return to_data(from_data(data, kind, registries, where), registries)


def fingerprint(data: Any) -> str:
    """Twelve hexadecimal digits that depend only on the content."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:12]


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of an error about an unknown name."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(sorted(names))}"


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _member(data: Any, kind: type, registries: Registries, where: str) -> Any:
    members = registries[kind]
    if isinstance(data, str):  # a bare name means all defaults
        data = {"kind": data}
    if not isinstance(data, dict) or "kind" not in data:
        raise _wrong(where, data, f"the name of one of {', '.join(members)}")
    name = data["kind"]
    if isinstance(name, str) and name not in members:
        load_plugins()
    if not isinstance(name, str) or name not in members:
        near = nearest(str(name)[:MOST_SHOWN], list(members))
        raise UnknownKind(f"{where or 'kind'} cannot be {_short(name)}; {near}", group_of(members), str(name))
    return _dataclass(data, members[name], registries, where)


def _entries(thing: Any, registries: Registries) -> list[tuple[Mapping[str, type], str]]:
    """The registries that have the type of `thing`, and its name there."""

    def find() -> list[tuple[Mapping[str, type], str]]:
        kinds = [(members, name, kind) for members in registries.values() for name, kind in members.items()]
        return [(members, name) for members, name, kind in kinds if kind is type(thing)]

    if not (found := find()) and isinstance(thing, tuple(registries)):
        load_plugins()
        return find()
    return found


def _how(thing: Any, registries: Registries) -> str:
    """How to register the kind of `thing`."""
    group = next(group_of(members) for base, members in registries.items() if isinstance(thing, base))
    return f'register its kind: {group.upper()}["a_name"] = {type(thing).__name__}'


_annotations = functools.cache(typing.get_type_hints)  # cached, because it takes longer than everything else here


def _dataclass(data: Any, kind: type, registries: Registries, where: str) -> Any:
    if not isinstance(data, dict):
        raise _wrong(where, data, f"the fields of {kind.__name__}")
    annotations = _annotations(kind)
    named = data.get("kind", "")
    if isinstance(named, str) and any(members.get(named) is kind for members in registries.values()):
        data = {key: value for key, value in data.items() if key != "kind"}  # the annotation implies it
    known = [field.name for field in dataclasses.fields(kind)]
    for name in data:
        if name not in known:
            raise ValueError(f"{_join(where, name)} is not a field; {nearest(str(name)[:MOST_SHOWN], known)}")
    values = {name: from_data(value, annotations[name], registries, _join(where, name)) for name, value in data.items()}
    try:
        return kind(**values)
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from error


def _one_of(data: Any, arguments: tuple, registries: Registries, where: str) -> Any:
    if data is None and type(None) in arguments:
        return None
    errors = []
    for kind in arguments:
        if kind is not type(None):
            try:
                return from_data(data, kind, registries, where)
            except ValueError as error:
                errors.append(error)
    raise errors[0]


def _plain(data: Any, kind: Any, where: str) -> Any:
    if kind is Any:
        return data
    if kind is Path and isinstance(data, str):
        return Path(data)
    if isinstance(data, int) and not abs(data) < LARGEST_INTEGER:
        raise _wrong(where, data, f"smaller than {LARGEST_INTEGER}")
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        names = {int: "an integer", float: "a number", bool: "true or false", str: "text", Path: "a path"}
        raise _wrong(where, data, names.get(kind, kind.__name__))
    return data


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _wrong(where: str, data: Any, allowed: str) -> ValueError:
    return ValueError(f"{where or 'the value'} must be {allowed}, got {_short(data)}")


def _short(data: Any) -> str:
    if isinstance(data, int) and abs(data) >= LARGEST_INTEGER:
        return f"an integer of {data.bit_length()} bits"
    text = repr(data)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
