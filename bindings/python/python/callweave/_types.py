"""The words and types of the package, for annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Union

from callweave._callweave import (
    AttachmentEvent,
    BlockEndEvent,
    BlockStartEvent,
    ChoiceStartEvent,
    CorrectionEvent,
    DeltaEvent,
    EndEvent,
    ErrorEvent,
    ExtraEvent,
    FinishEvent,
    IdentityEvent,
    ItemEndEvent,
    ItemStartEvent,
    MarkupEvent,
    NoticeEvent,
    ProgressEvent,
    StartEvent,
    Tools,
    UsageEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Buffer

    #: Anything with bytes in it: ``bytes``, ``bytearray``, ``memoryview`` and the like.
    BytesLike: TypeAlias = Buffer
    #: A JSON Schema, or a type that has one: a pydantic model, a dataclass, a typed dictionary.
    SchemaLike: TypeAlias = Mapping[str, Any] | type[Any]
    #: One tool: a JSON Schema in the shape of any provider, a type, or a function.
    ToolLike: TypeAlias = Mapping[str, Any] | type[Any] | Callable[..., Any] | object
    #: Tools: ready ones, or anything that they are made of.
    ToolsLike: TypeAlias = Tools | Mapping[str, Any] | Iterable[ToolLike]
else:
    BytesLike = SchemaLike = ToolLike = ToolsLike = Any

#: A type that arguments are validated into.
T = TypeVar("T")

AttachmentKind = Literal["signature", "encrypted", "annotation", "logprobs"]
BlockCompletion = Literal["complete", "truncated", "after_damage"]
BlockKind = Literal["text", "reasoning", "refusal", "tool_call", "tool_result", "opaque"]
CallKind = Literal["function", "custom", "builtin"]
CallResolution = Literal[
    "native", "from_text", "coerced", "repaired", "unchecked", "invalid", "retried", "truncated"
]
ChangeClass = Literal["lossless", "structural", "guess"]
DeltaKind = Literal["text", "reasoning", "refusal", "arguments"]
ErrorClass = Literal[
    "authentication",
    "permission",
    "rate_limit",
    "overloaded",
    "invalid_request",
    "context_too_long",
    "not_found",
    "server",
    "transport",
    "other",
]
EventScope = Literal["response", "choice", "item", "block"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error", "other"]
InvalidReason = Literal[
    "incomplete",
    "after_damage",
    "not_json",
    "not_an_object",
    "no_name",
    "unknown_tool",
    "schema_mismatch",
]
NextStep = Literal["send", "read", "interrupt", "over"]
NoticeCode = Literal[
    "malformed_frame",
    "invalid_utf8",
    "truncated",
    "empty",
    "late_fragment",
    "cumulative",
    "repeated",
    "missing_name",
    "incomplete_arguments",
    "malformed_call",
    "after_damage",
    "unknown_tool",
    "schema_mismatch",
    "unchecked",
    "stray_markup",
    "judged",
    "matcher",
    "repaired",
    "other",
]
ReasoningForm = Literal["raw", "summary", "redacted"]
RepairVerdict = Literal["valid", "repaired", "incomplete", "hopeless"]

#: An event of a response.
Event = Union[
    StartEvent,
    ChoiceStartEvent,
    ItemStartEvent,
    ItemEndEvent,
    BlockStartEvent,
    DeltaEvent,
    IdentityEvent,
    CorrectionEvent,
    BlockEndEvent,
    AttachmentEvent,
    ProgressEvent,
    UsageEvent,
    FinishEvent,
    MarkupEvent,
    NoticeEvent,
    ErrorEvent,
    ExtraEvent,
    EndEvent,
]
