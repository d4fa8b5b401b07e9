"""Tools, as people declare them in Python, as a list of JSON Schemas; arguments as the types that declared them."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from callweave import _json
from callweave._errors import InvalidError


def declare(tools: Any) -> str:
    """The JSON text of a list of tools, each with a name and the schema of its arguments."""
    if isinstance(tools, Mapping):
        tools = [tools] if _is_tool(tools) else [_named(name, tool) for name, tool in tools.items()]
    elif isinstance(tools, type) or inspect.isroutine(tools):
        tools = [tools]
    declared: list[Any] = []
    for tool in tools:
        declared.extend(_declared(tool))
    return _json.dumps(declared)


def schema_of(kind: Any) -> Any:
    """The JSON Schema of a type; a schema is its own."""
    if isinstance(kind, (Mapping, bool)):
        return kind
    definitions: dict[str, Any] = {}
    schema = _schema(kind, definitions, ())
    return {**schema, "$defs": definitions} if definitions else schema


def parse(name: str, arguments: Any, kind: Any) -> Any:
    """The arguments of a call of the tool ``name`` as a value of a type: a pydantic model, a dataclass, a typed dictionary."""
    try:
        return _value(arguments, kind, "$")
    except ValueError as error:  # pydantic's ValidationError is one, too
        shown = getattr(kind, "__name__", str(kind))
        raise InvalidError(f"the arguments of {name} do not fit {shown}: {error}") from error


def _pydantic() -> Any:
    try:
        import pydantic
    except ImportError:
        return None
    return pydantic


def _is_tool(tool: Mapping[str, Any]) -> bool:
    names = ("name", "function", "toolSpec", "functionDeclarations", "function_declarations")
    return any(name in tool for name in names)


def _named(name: str, tool: Any) -> Any:
    """A tool that is declared under a name."""
    if isinstance(tool, Mapping):
        return {"name": name, "parameters": tool}
    [declared] = _declared(tool)
    return {**declared, "name": name}


def _declared(tool: Any) -> list[Any]:
    if isinstance(tool, Mapping):
        for several in ("functionDeclarations", "function_declarations"):  # Gemini's
            if several in tool:
                return list(tool[several])
        if "toolSpec" in tool:  # Bedrock's
            spec = dict(tool["toolSpec"])
            schema = spec.get("inputSchema")
            if isinstance(schema, Mapping) and "json" in schema:
                spec["inputSchema"] = schema["json"]
            return [spec]
        return [tool]
    if isinstance(tool, type):
        schema = schema_of(tool)
        return [_described(tool.__name__, inspect.getdoc(tool) if "__doc__" in vars(tool) else None, schema)]
    if inspect.isroutine(tool):
        return [_described(tool.__name__, inspect.getdoc(tool), _parameters(tool))]
    return [tool]


def _described(name: str, description: str | None, schema: Any) -> Any:
    described = schema.get("description") if isinstance(schema, Mapping) else None
    tool = {"name": name, "description": described or description, "parameters": schema}
    return {key: value for key, value in tool.items() if value is not None}


def _parameters(function: Any) -> Any:
    """The schema of the parameters of a function."""
    hints = get_type_hints(function, include_extras=True)
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        properties[parameter.name] = _schema(hints.get(parameter.name, Any), definitions, ())
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "$defs": definitions} if definitions else schema


#: Forms around a type that say nothing about its values. Python 3.10 has not all of them.
_WRAPPERS = [
    getattr(typing, name) for name in ("Annotated", "Required", "NotRequired", "ReadOnly") if hasattr(typing, name)
]

_WORDS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
    set: "array",
}


def _schema(kind: Any, definitions: dict[str, Any], outer: tuple[Any, ...]) -> Any:
    """The JSON Schema of a type. What only pydantic knows is asked of it; its definitions are put aside."""

    def inner(part: Any) -> Any:
        return _schema(part, definitions, outer)

    origin, parts = get_origin(kind), get_args(kind)
    if origin in _WRAPPERS:
        return inner(parts[0])
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [inner(part) for part in parts]}
    if origin in (list, set, frozenset) or origin is tuple and parts[-1:] == (...,):
        return {"type": "array", "items": inner(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": inner(parts[1])}
    if kind in _WORDS:
        return {"type": _WORDS[kind]}
    members = _members_of(kind)
    if members is not None:
        if kind in outer:  # a type that has itself as a part: anything fits there
            return {}
        kinds, required = members
        properties = {name: _schema(part, definitions, (*outer, kind)) for name, part in kinds.items()}
        return {"type": "object", "properties": properties, "required": required}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    pydantic = _pydantic()
    if pydantic is None or kind is Any:
        return {}
    schema = pydantic.TypeAdapter(kind).json_schema()
    definitions.update(schema.pop("$defs", {}))
    return schema


def _members_of(kind: Any) -> tuple[dict[str, Any], list[str]] | None:
    """The members of a dataclass or a typed dictionary with their types, and the names of those that must be there."""
    if hasattr(kind, "__pydantic_validator__"):
        return None
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = [own for own in dataclasses.fields(kind) if own.init]
        missing = dataclasses.MISSING
        required = [own.name for own in fields if own.default is missing and own.default_factory is missing]
        return {own.name: hints[own.name] for own in fields}, required
    if typing.is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        keys = getattr(kind, "__required_keys__")
        return hints, [name for name in hints if name in keys]
    return None


def _value(value: Any, kind: Any, path: str) -> Any:
    """A JSON value as one of a type of the standard library, where pydantic is not needed."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in _WRAPPERS:
        return _value(value, parts[0], path)
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{path}: {value!r} is none of {parts!r}")
        return value
    if origin in (Union, types.UnionType):
        problems = []
        for part in parts:
            try:
                return _value(value, part, path)
            except ValueError as problem:
                problems.append(str(problem))
        raise ValueError("; ".join(problems))
    if origin in (list, set, frozenset, tuple):
        elements = [_value(element, parts[0], f"{path}[{at}]") for at, element in enumerate(_is(value, list, path))]
        return elements if origin is list else origin(elements)
    if origin is dict:
        return {key: _value(member, parts[1], f"{path}.{key}") for key, member in _is(value, dict, path).items()}
    parts_of_it = _members_of(kind)
    if parts_of_it is not None:
        kinds, required = parts_of_it
        given = _is(value, dict, path)
        missing = [name for name in required if name not in given]
        if missing:
            raise ValueError(f"{path}: {', '.join(missing)} missing")
        members = {name: _value(given[name], part, f"{path}.{name}") for name, part in kinds.items() if name in given}
        return kind(**members)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in _WORDS:
        return _is(value, kind, path)
    pydantic = _pydantic()
    return value if pydantic is None or kind is Any else pydantic.TypeAdapter(kind).validate_python(value)


def _is(value: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
        raise ValueError(f"{path}: {value!r} is no {_WORDS[kind]}")
    return value
