"""Tools as people declare them; arguments as the types that declared them."""

import dataclasses
import enum
import sys
from typing import Annotated, Literal, Optional, TypedDict

import callweave
import pydantic
import pytest
from callweave import _tools

CALL = "<tool_call>{'name': 'Weather', 'arguments': {'city': 'Oslo', 'days': '3', 'unit': 'c', 'notes': ['a']}}</tool_call>"


class Model(pydantic.BaseModel):
    """The weather of a city."""

    city: str
    days: int = 1
    unit: Literal["c", "f"] = "c"
    notes: list[str] = []


Model.__name__ = "Weather"


@dataclasses.dataclass
class Record:
    """The weather of a city."""

    city: str
    days: int = 1
    unit: Literal["c", "f"] = "c"
    notes: list[str] = dataclasses.field(default_factory=list)


Record.__name__ = "Weather"

Dictionary = TypedDict("Weather", {"city": str, "days": int, "unit": Literal["c", "f"], "notes": list[str]})


def Weather(city: str, days: int = 1, unit: Literal["c", "f"] = "c", notes: Optional[list[str]] = None) -> str:
    """The weather of a city."""
    return city


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["c", "f"]},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
}

DECLARED = {
    "pydantic": [Model],
    "dataclass": [Record],
    "typed dictionary": [Dictionary],
    "function": [Weather],
    "single function": Weather,
    "single type": Model,
    "mapping": {"Weather": SCHEMA},
    "mapping of types": {"Weather": Model},
    "openai": [{"type": "function", "function": {"name": "Weather", "parameters": SCHEMA}}],
    "anthropic": [{"name": "Weather", "input_schema": SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "Weather", "parameters": SCHEMA}]}],
    "bedrock": [{"toolSpec": {"name": "Weather", "inputSchema": {"json": SCHEMA}}}],
    "single": {"name": "Weather", "parameters": SCHEMA},
}


@pytest.fixture(params=["with pydantic", "without pydantic"])
def library(request, monkeypatch):
    if request.param == "without pydantic":
        monkeypatch.setitem(sys.modules, "pydantic", None)
    return request.param


@pytest.mark.parametrize("shape", DECLARED)
def test_tools_of_every_shape_are_taken(shape, library):
    declared = DECLARED[shape]
    if library == "without pydantic" and shape in ("pydantic", "single type", "mapping of types"):
        pytest.skip("a model of pydantic needs it")
    tools = callweave.Tools(declared)
    assert "Weather" in tools and "weather" not in tools and "Delete" not in tools
    for given in (declared, tools):
        [call] = callweave.extract(CALL, tools=given).tool_calls
        assert call.object() == {"city": "Oslo", "days": 3, "unit": "c", "notes": ["a"]}
        assert call.invalid is None


def test_invalid_arguments_are_found_by_the_types():
    [call] = callweave.extract("<tool_call>{'name': 'Weather', 'arguments': {'days': 3}}</tool_call>", [Model]).tool_calls
    assert call.invalid is not None and call.invalid.reason == "schema_mismatch"
    with pytest.raises(callweave.InvalidError, match="Weather") as raised:
        call.parse(Model)
    assert isinstance(raised.value.__cause__, pydantic.ValidationError)


@pytest.mark.parametrize("kind", [Record, Dictionary])
def test_arguments_become_values_of_a_type(kind, library):
    [call] = callweave.extract(CALL, tools=[Weather]).tool_calls
    weather = call.parse(kind)
    city = weather["city"] if isinstance(weather, dict) else weather.city
    assert city == "Oslo"
    if kind is Record:
        assert isinstance(weather, Record) and weather.days == 3
    [call] = callweave.extract("<tool_call>{'name': 'Weather', 'arguments': {'days': 'x'}}</tool_call>").tool_calls
    with pytest.raises(callweave.InvalidError, match="Weather"):
        call.parse(kind)


def test_arguments_become_a_model():
    [call] = callweave.extract(CALL, tools=[Model]).tool_calls
    assert call.parse(Model) == Model(city="Oslo", days=3, notes=["a"])
    assert call.parse(dict) == call.object()


def test_a_truncated_call_is_no_value():
    [call] = callweave.extract("<tool_call>{'name': 'Weather', 'arguments': {'city': 'Os").tool_calls
    assert call.completion == "truncated"
    for read in (call.object, lambda: call.parse(Record)):
        with pytest.raises(callweave.InvalidError, match="cut off"):
            read()


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Inner:
    x: float


@dataclasses.dataclass
class Nested:
    inner: Inner
    colour: Colour
    maybe: Optional[int] = None
    by_name: dict[str, Inner] = dataclasses.field(default_factory=dict)
    marked: Annotated[int, "a mark"] = 0
    pair: tuple[int, ...] = ()


def test_types_of_the_standard_library_need_no_pydantic(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    schema = _tools.schema_of(Nested)
    assert schema["required"] == ["inner", "colour"]
    assert schema["properties"]["inner"]["properties"] == {"x": {"type": "number"}}
    assert schema["properties"]["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    value = {"inner": {"x": 1}, "colour": "red", "by_name": {"a": {"x": 2.5}}, "pair": [1, 2]}
    expected = Nested(Inner(1.0), Colour.RED, None, {"a": Inner(2.5)}, 0, (1, 2))
    assert _tools.parse("nested", value, Nested) == expected
    for wrong in ({"inner": {"x": "1"}, "colour": "red"}, {"colour": "red"}, {"inner": {"x": 1}, "colour": "blue"}, 5):
        with pytest.raises(callweave.InvalidError):
            _tools.parse("nested", wrong, Nested)


@dataclasses.dataclass
class Journey:
    first: Model
    others: list[Model]


def test_models_may_stand_in_other_types():
    schema = _tools.schema_of(Journey)
    assert schema["properties"]["others"]["items"]["properties"]["city"]["type"] == "string"
    value = {"first": {"city": "Oslo"}, "others": [{"city": "Bergen"}]}
    assert _tools.parse("journey", value, Journey) == Journey(Model(city="Oslo"), [Model(city="Bergen")])


def test_coercion_takes_types():
    assert callweave.coerce({"city": "Oslo", "days": "3"}, Model).value == {"city": "Oslo", "days": 3}
    coerced = callweave.coerce("```json\n{city: 'Oslo', days: 3}\n```", Record)
    assert coerced.value == {"city": "Oslo", "days": 3} and not coerced.problems


def test_an_object_without_a_json_form_is_refused():
    with pytest.raises(TypeError, match="object"):
        callweave.extract("", tools=[object()])
