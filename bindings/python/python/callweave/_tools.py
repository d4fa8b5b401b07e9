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
    pydantic = _pydantic()
    if pydantic is None:
        return _schema(kind)
    return pydantic.TypeAdapter(kind).json_schema()


def parse(name: str, arguments: Any, kind: Any) -> Any:
    """The arguments of a call of the tool ``name`` as a value of a type: a pydantic model, a dataclass, a typed dictionary."""
    pydantic = _pydantic()
    try:
        if pydantic is None:
            return _value(arguments, kind, "$")
        return pydantic.TypeAdapter(kind).validate_python(arguments)
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
    kinds: dict[str, Any] = {}
    required = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kinds[parameter.name] = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            required.add(parameter.name)
    schema = schema_of(typing.TypedDict(function.__name__, kinds))  # type: ignore[operator]
    schema = {key: value for key, value in schema.items() if key != "title"}
    schema["required"] = [name for name in kinds if name in required]
    return schema


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


def _schema(kind: Any) -> Any:
    """The JSON Schema of a type of the standard library, where pydantic is not installed."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in _WRAPPERS:
        return _schema(parts[0])
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(part) for part in parts]}
    if origin in (list, set, frozenset) or origin is tuple and parts[-1:] == (...,):
        return {"type": "array", "items": _schema(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1])}
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = dataclasses.fields(kind)
        missing = dataclasses.MISSING
        required = [own.name for own in fields if own.default is missing and own.default_factory is missing]
        return _object({own.name: hints[own.name] for own in fields}, required)
    if typing.is_typeddict(kind):
        return _object(get_type_hints(kind, include_extras=True), sorted(kind.__required_keys__))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": _WORDS[kind]} if kind in _WORDS else {}


def _object(members: Mapping[str, Any], required: list[str]) -> Any:
    properties = {name: _schema(kind) for name, kind in members.items()}
    return {"type": "object", "properties": properties, "required": required}


def _value(value: Any, kind: Any, path: str) -> Any:
    """A JSON value as one of a type of the standard library, where pydantic is not installed."""
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
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind, include_extras=True)
        members = _members(value, {own.name: hints[own.name] for own in dataclasses.fields(kind)}, path)
        try:
            return kind(**members)
        except TypeError as error:
            raise ValueError(f"{path}: {error}") from None
    if typing.is_typeddict(kind):
        members = _members(value, get_type_hints(kind, include_extras=True), path)
        missing = sorted(getattr(kind, "__required_keys__") - members.keys())
        if missing:
            raise ValueError(f"{path}: {', '.join(missing)} missing")
        return members
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in _WORDS:
        return _is(value, kind, path)
    return value


def _members(value: Any, kinds: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {
        name: _value(member, kinds[name], f"{path}.{name}")
        for name, member in _is(value, dict, path).items()
        if name in kinds
    }


def _is(value: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
        raise ValueError(f"{path}: {value!r} is no {_WORDS[kind]}")
    return value
