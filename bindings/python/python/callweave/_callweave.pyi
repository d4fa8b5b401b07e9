from _typeshed import SupportsGetItem
from callweave._errors import UpstreamError
from callweave._types import AttachmentKind, BlockCompletion, BlockKind, BytesLike, CallKind, CallResolution, ChangeClass, DeltaKind, Event, EventScope, FinishReason, InvalidReason, NextStep, NoticeCode, ReasoningForm, RepairVerdict, SchemaLike, T, ToolsLike
from typing import Any, Final, Literal, SupportsFloat, SupportsIndex, final

__all__ = ["__version__", "Attachment", "AttachmentEvent", "Batch", "Block", "BlockEndEvent", "BlockStartEvent", "CallOutcome", "Choice", "ChoiceStartEvent", "CoercedValue", "CoercionChange", "ConvertedRequest", "Converter", "CorrectionEvent", "Decoder", "DeltaEvent", "EndEvent", "ErrorEvent", "Exchange", "ExchangeEngine", "ExtraEvent", "Extractor", "FinishEvent", "HttpRequest", "IdentityEvent", "InvalidCall", "ItemEndEvent", "ItemStartEvent", "Loss", "MarkupEvent", "Message", "Notice", "NoticeEvent", "PartialJson", "ProcessStream", "ProgressEvent", "PromptAgent", "RepairChange", "RepairedJson", "Report", "ResponseHead", "StartEvent", "Stream", "ToolCall", "ToolCallAggregator", "Tools", "Usage", "UsageEvent", "arrow_convert", "arrow_decode", "arrow_demo", "arrow_extract", "arrow_repair", "augment_system_prompt", "coerce", "convert", "convert_request", "decode", "decode_all", "dialect_of", "dialects", "extract", "partial", "process_response", "protocols", "repair", "report", "run_program", "teach"]

__version__: Final[str]
"""
The version of the package.
"""

@final
class Attachment:
    """
    An attachment to a block, an item, a choice or the response.
    """
    def __repr__(self, /) -> str: ...
    @property
    def kind(self, /) -> AttachmentKind:
        """
        The kind: ``signature``, ``encrypted``, ``annotation`` or ``logprobs``.
        """
    @property
    def value(self, /) -> Any:
        """
        The attachment, as the provider wrote it.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of the attachment.
        """

@final
class AttachmentEvent:
    """
    An attachment to a block, an item, a choice or the response.
    """
    __match_args__: Final[tuple[Literal["kind"], Literal["value"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int | None:
        """
        The block, where it is about one.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def item(self, /) -> int | None:
        """
        The item, where it is about one.
        """
    @property
    def kind(self, /) -> AttachmentKind:
        """
        The kind of attachment.
        """
    @property
    def scope(self, /) -> EventScope:
        """
        What it is attached to: the ``response``, the ``choice``, an ``item`` or a ``block``.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def value(self, /) -> Any:
        """
        The attachment, as the provider wrote it.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of the attachment.
        """

@final
class Block:
    """
    A piece of content: text, reasoning, a refusal, a tool call, a tool result, or what only the protocol has.
    """
    def __repr__(self, /) -> str: ...
    @property
    def attachments(self, /) -> list[Attachment]:
        """
        Its attachments.
        """
    @property
    def extra(self, /) -> dict[str, Any]:
        """
        Fields that only the protocol has, by path.
        """
    @property
    def id(self, /) -> int:
        """
        Its number in the stream of events.
        """
    @property
    def is_ended(self, /) -> bool:
        """
        Whether it has ended.
        """
    @property
    def kind(self, /) -> BlockKind:
        """
        The kind of its content: ``text``, ``reasoning``, ``refusal``, ``tool_call``, ``tool_result`` or ``opaque``.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        Its position in the text, in bytes, if it was found there.
        """
    @property
    def text(self, /) -> str | None:
        """
        Its text, where it is text, reasoning or a refusal.
        """
    @property
    def tool_call(self, /) -> ToolCall | None:
        """
        The call, where it is one.
        """
    @property
    def value(self, /) -> Any | None:
        """
        The value of a tool result or of content that only the protocol has.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of the block.
        """

@final
class BlockEndEvent:
    """
    A block ended.
    """
    __match_args__: Final[tuple[Literal["block"], Literal["completion"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int:
        """
        The block.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def completion(self, /) -> BlockCompletion:
        """
        Whether the block is complete.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class BlockStartEvent:
    """
    A block opened.
    """
    __match_args__: Final[tuple[Literal["block"], Literal["kind"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int:
        """
        Its number, unique in the response.
        """
    @property
    def call(self, /) -> str | None:
        """
        The id of the call that a result belongs to.
        """
    @property
    def call_kind(self, /) -> CallKind | None:
        """
        Who runs the call.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def extra(self, /) -> Any | None:
        """
        Fields that only the protocol has.
        """
    @property
    def form(self, /) -> ReasoningForm | None:
        """
        The form of reasoning.
        """
    @property
    def has_made_id(self, /) -> bool:
        """
        Whether the id was made here, because the provider gave none.
        """
    @property
    def id(self, /) -> str | None:
        """
        The id of a call.
        """
    @property
    def index(self, /) -> int | None:
        """
        The wire's own number for it, where it has one.
        """
    @property
    def item(self, /) -> int | None:
        """
        The item it belongs to.
        """
    @property
    def kind(self, /) -> BlockKind:
        """
        The kind of its content.
        """
    @property
    def name(self, /) -> str | None:
        """
        The name of the called tool.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def value(self, /) -> Any | None:
        """
        The value of a tool result or of content that only the protocol has.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of the block.
        """

@final
class CallOutcome:
    """
    A call that is over, and its outcome.
    """
    def __repr__(self, /) -> str: ...
    @property
    def dialect(self, /) -> str | None:
        """
        The dialect of the text, where the response has calls in its text.
        """
    @property
    def id(self, /) -> str:
        """
        Its id, as the client gets it.
        """
    @property
    def name(self, /) -> str:
        """
        Its name, as the client gets it.
        """
    @property
    def outcome(self, /) -> CallResolution:
        """
        Its outcome, such as ``native``, ``from_text``, ``repaired`` or ``invalid``.
        """
    @property
    def reason(self, /) -> str | None:
        """
        The reason why it cannot be run.
        """

@final
class Choice:
    """
    One candidate response.
    """
    def __repr__(self, /) -> str: ...
    @property
    def attachments(self, /) -> list[Attachment]:
        """
        Attachments to the choice as a whole, such as log probabilities.
        """
    @property
    def blocks(self, /) -> list[Block]:
        """
        Its content, in the order in which the blocks began.
        """
    @property
    def extra(self, /) -> dict[str, Any]:
        """
        Fields that only the protocol has, by path.
        """
    @property
    def finish_reason(self, /) -> FinishReason | None:
        """
        The normalized reason why it finished; ``None`` while it has not.
        """
    @property
    def number(self, /) -> int:
        """
        Its number.
        """
    @property
    def raw_finish_reason(self, /) -> str | None:
        """
        The provider's own name of the reason.
        """
    @property
    def reasoning(self, /) -> str:
        """
        All reasoning, joined.
        """
    @property
    def refusal(self, /) -> str:
        """
        All refusal text, joined.
        """
    @property
    def text(self, /) -> str:
        """
        All visible text, joined.
        """
    @property
    def tool_calls(self, /) -> list[ToolCall]:
        """
        The tool calls, in the order in which they began.
        """

@final
class ChoiceStartEvent:
    """
    A choice begins, before or without any block.
    """
    __match_args__: Final[tuple[()]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class CoercedValue:
    """
    The outcome of coercing a value to a schema.
    """
    def __repr__(self, /) -> str: ...
    @property
    def changes(self, /) -> list[CoercionChange]:
        """
        Every change that was made.
        """
    @property
    def problems(self, /) -> list[tuple[str, str]]:
        """
        The problems that could not be coerced away, each with its path; the values stay as they were.
        """
    @property
    def value(self, /) -> Any:
        """
        The value, coerced as far as possible.
        """

@final
class CoercionChange:
    """
    One change of a coerced value.
    """
    def __repr__(self, /) -> str: ...
    @property
    def after(self, /) -> Any:
        """
        The value after the change.
        """
    @property
    def before(self, /) -> Any:
        """
        The value before the change.
        """
    @property
    def kind(self, /) -> str:
        """
        The kind of change, such as ``number`` or ``renamed``.
        """
    @property
    def path(self, /) -> str:
        """
        The path in the value as it was, like ``$.items[2].name``.
        """

@final
class ConvertedRequest:
    """
    A request as it is sent, and the parts of it that could not be carried.
    """
    def __repr__(self, /) -> str: ...
    @property
    def body(self, /) -> Any:
        """
        The body, as dictionaries and lists.
        """
    @property
    def dialect(self, /) -> str | None:
        """
        The dialect in which the tools are taught, if they are: responses are to be read with it.
        """
    @property
    def losses(self, /) -> list[Loss]:
        """
        The parts that could not be carried.
        """
    @property
    def names(self, /) -> list[tuple[str, str]]:
        """
        Names of tools that the provider would have refused: as they are sent, and as they were.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the body.
        """
    @property
    def wrapped(self, /) -> list[str]:
        """
        Tools with free text that are sent as functions with one string, by their names as they are sent.
        """

@final
class Converter:
    """
    Bytes of a streamed response, split anywhere, in; bytes of a stream in another protocol out.

    >>> converter = Converter("anthropic-messages", id="msg_1")
    >>> out = converter.push(b'data: {"choices":[{"delta":{"content":"Hello"}}]}\\n\\n')
    >>> out += converter.push(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\\n\\ndata: [DONE]\\n\\n')
    >>> out += converter.finish()
    >>> out.startswith(b'event: message_start\\n'), decode(out).text
    (True, 'Hello')
    """
    def __new__(cls, /, to: str, *, protocol: str | None = None, dialect: str | None = None, tools: ToolsLike | None = None, coerce: bool = False, validate: bool = False, normalize: bool = False, id: str | None = None, created: SupportsIndex | None = None, model: str | None = None) -> Converter: ...
    def finish(self, /) -> bytes:
        """
        Says that no bytes will come any more, and returns the last.
        """
    def push(self, /, data: BytesLike) -> bytes:
        """
        Takes the next bytes, and returns those that can be sent on.
        """

@final
class CorrectionEvent:
    """
    The provider's closing restatement differs from the text it streamed: this is the complete text.
    """
    __match_args__: Final[tuple[Literal["block"], Literal["text"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int:
        """
        The block.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    @property
    def text(self, /) -> str:
        """
        The complete text of the block.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class Decoder:
    """
    Bytes of a response, split anywhere, in; typed events, and one message, out.

    >>> decoder = Decoder()
    >>> for piece in [b'data: {"choices":[{"delta":{"content":"Hel', b'lo"}}]}\\n\\ndata: [DONE]\\n\\n']:
    ...     for event in decoder.push(piece):
    ...         match event:
    ...             case DeltaEvent("text", text):
    ...                 print(text)
    Hello
    >>> _ = decoder.finish()
    >>> decoder.message.text
    'Hello'
    """
    def __new__(cls, /, *, protocol: str | None = None, dialect: str | None = None, tools: ToolsLike | None = None, repair: bool = False, coerce: bool = False, validate: bool = False, id_seed: str | None = None, max_frame_bytes: SupportsIndex | None = None) -> Decoder:
        """
        A decoder. The protocol is detected unless it is given. ``dialect`` finds calls in text, ``repair``, ``coerce`` and
        ``validate`` make the arguments of calls fit for use.
        """
    @property
    def dialect(self, /) -> str | None:
        """
        The dialect in which something was found.
        """
    def feed(self, /, data: BytesLike) -> None:
        """
        Takes the next bytes for the message alone: cheaper where nobody looks at the events.
        """
    def finish(self, /) -> list[Event]:
        """
        Says that no bytes will come any more, and returns the last events.
        """
    @property
    def message(self, /) -> Message:
        """
        The message so far; where the input has several responses, that of the last.
        """
    def partial_arguments(self, /, block: SupportsIndex) -> Any | None:
        """
        The value of a call's arguments as far as they have come, by the number of the call's block; ``None`` before there
        is something to show.

        >>> decoder = Decoder()
        >>> start = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":'
        >>> events = decoder.push(start + b'{"name":"look","arguments":"{\\\\"at\\\\": \\\\"the sk"}}]}}]}\\n\\n')
        >>> decoder.partial_arguments(events[-1].block)
        {'at': 'the sk'}
        """
    @property
    def protocol(self, /) -> str | None:
        """
        The name of the protocol, once it is known.
        """
    def push(self, /, data: BytesLike) -> list[Event]:
        """
        Takes the next bytes, and returns the events that they make.
        """
    def take_earlier(self, /) -> list[Message]:
        """
        Takes the messages of the responses before the last. They are kept until they are taken.
        """

@final
class DeltaEvent:
    """
    A block grew. Most events are deltas, so this class has its text as Python has it.
    """
    __match_args__: Final[tuple[Literal["kind"], Literal["text"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int:
        """
        The block.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def kind(self, /) -> DeltaKind:
        """
        The kind of the block's content: ``text``, ``reasoning``, ``refusal`` or ``arguments``.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    @property
    def text(self, /) -> str:
        """
        The text to append; never empty.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class EndEvent:
    """
    The response is over: the last event of every response. Another response may follow in the same input.
    """
    __match_args__: Final[tuple[()]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class ErrorEvent:
    """
    The upstream reported an error.
    """
    __match_args__: Final[tuple[Literal["error"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def error(self, /) -> UpstreamError:
        """
        The error; it can be raised.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class Exchange:
    """
    One request and its response. It names the next step; its driver does it, and reports the outcome.
    """
    def abort(self, /, what: str) -> None:
        """
        Ends the exchange by the driver's decision.
        """
    def accept(self, /, headers: SupportsGetItem[int, tuple[str, str]]) -> None:
        """
        Reports that the upstream answers with success.
        """
    @property
    def error(self, /) -> UpstreamError | None:
        """
        The first error of the response.
        """
    def fail(self, /, what: str, waited: SupportsFloat | SupportsIndex | None = None) -> None:
        """
        Reports that the upstream fails: ``what`` is a sentence without its subject, such as ``closed the connection``. With
        ``waited``, it did not do something within so many seconds.
        """
    @property
    def failure(self, /) -> UpstreamError | None:
        """
        The error of a response of which the client has seen nothing.
        """
    def finish(self, /) -> None:
        """
        Reports that the upstream's response is at its end.
        """
    @property
    def has_bytes(self, /) -> bool:
        """
        Whether there are bytes for the client.
        """
    def head(self, /) -> ResponseHead:
        """
        The status and the headers of the client's response. From now on a failure is an error in the stream.
        """
    def interrupt(self, /) -> None:
        """
        Reports that the connection was closed, as ``next`` demanded.
        """
    @property
    def is_broken(self, /) -> bool:
        """
        Whether the upstream has answered with success, but its response cannot be used.
        """
    @property
    def is_ready(self, /) -> bool:
        """
        Whether the client's response has begun. Its head has its final status then.
        """
    @property
    def is_streamed(self, /) -> bool:
        """
        Whether the client wants its response streamed.
        """
    @property
    def losses(self, /) -> list[Loss]:
        """
        The parts of the client's request that the upstream did not get.
        """
    @property
    def message(self, /) -> Message:
        """
        The message, when the exchange is over and the response was not streamed.
        """
    @property
    def model(self, /) -> str:
        """
        The name that the client uses for the model.
        """
    def next(self, /) -> tuple[NextStep, float | None]:
        """
        The next step of the driver, and for ``read`` the seconds of silence after which ``silence`` is due: ``send``
        (``take_outgoing``, then ``accept`` or ``refuse``), ``read`` (``push``, ``finish`` or ``fail``), ``interrupt`` (close
        the connection, then ``interrupt``) or ``over``.
        """
    @property
    def outcomes(self, /) -> list[CallOutcome]:
        """
        The calls of all responses that are over, with their outcomes.
        """
    def push(self, /, data: BytesLike) -> None:
        """
        Takes the next bytes of the upstream's response.
        """
    def refuse(self, /, status: SupportsIndex, headers: SupportsGetItem[int, tuple[str, str]], body: BytesLike, fault: str | None = None) -> None:
        """
        Reports that the upstream answers with another status. The names of headers are in lower case; 64 KiB of the body
        are enough. ``fault`` says what kept the rest of the body from coming.
        """
    def silence(self, /) -> None:
        """
        Reports that nothing came for as long as ``next`` said.
        """
    def take_bytes(self, /) -> bytes:
        """
        The next bytes for the client: of a stream while it comes, of a complete body when the exchange is over.
        """
    def take_outgoing(self, /) -> HttpRequest | None:
        """
        The request that is due. ``None`` if it cannot be written for the upstream: the exchange has failed then.
        """
    @property
    def usage(self, /) -> Usage:
        """
        The tokens of all responses.
        """

@final
class ExchangeEngine:
    """
    A policy for the exchange between clients and one upstream, made ready once; it is shared by all exchanges.
    """
    def __new__(cls, /, *, name: str = "upstream", protocol: str | None = None, other_protocols: SupportsGetItem[int, str] = ..., base_url: str = "", api_key: str | None = None, forwards_client_key: bool = True, provider: str | None = None, dialect: str = "auto", splits_reasoning: bool | None = None, teaching: str = "native", repair: bool = True, schema: str = "coerce", invalid_calls: str = "pass", max_reasks: SupportsIndex = 2, stop: str | None = None, stop_grace_ms: SupportsIndex | None = None, suppress_tail: bool | None = None, parallel_calls: bool | None = None, max_calls: SupportsIndex | None = None, keeps_responses: bool | None = None, seals_in_ids: bool = False, max_response_bytes: SupportsIndex | None = None, max_argument_bytes: SupportsIndex | None = None) -> ExchangeEngine: ...
    def open(self, /, path: str, body: BytesLike, *, id: str, created: SupportsIndex = 0, headers: SupportsGetItem[int, tuple[str, str]] = ..., api_key: str | None = None, query: str | None = None) -> Exchange:
        """
        Opens an exchange for a client's request. ``path`` is without its version. ``id`` consists of letters and digits
        that no other request has, ``created`` is the time in seconds since 1970. Raises ``UpstreamError`` with the error
        that the client is to get, if the request cannot be read.
        """
    @staticmethod
    def serves(path: str) -> bool:
        """
        Whether a path (without its version: ``/chat/completions``, ``/models/m:generateContent``) is one that clients ask
        for responses.
        """

@final
class ExtraEvent:
    """
    An extra field: one that only this protocol has. It is emitted when it is new or has changed.
    """
    __match_args__: Final[tuple[Literal["path"], Literal["value"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int | None:
        """
        The block, where it is about one.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def item(self, /) -> int | None:
        """
        The item, where it is about one.
        """
    @property
    def path(self, /) -> str:
        """
        The path of the field: keys joined by dots, a dot inside a key written as ``\\\\.``.
        """
    @property
    def scope(self, /) -> EventScope:
        """
        What has the field: the ``response``, the ``choice``, an ``item`` or a ``block``.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def value(self, /) -> Any:
        """
        The value of the field.
        """

@final
class Extractor:
    """
    Text of a model, split anywhere, in; typed events out: for text without a protocol around it, as local models write it.

    >>> extractor = Extractor("hermes")
    >>> events = extractor.push('<tool_call>{"name": "look", "arg')
    >>> events += extractor.push('uments": {"at": "sky"}}</tool_call>') + extractor.finish()
    >>> [event.name for event in events if isinstance(event, BlockStartEvent)]
    ['look']
    """
    def __new__(cls, /, dialect: str = "auto", *, tools: ToolsLike | None = None, starts_in_reasoning: bool = False) -> Extractor:
        """
        An extractor of a dialect. ``starts_in_reasoning`` says that the prompt has opened the model's reasoning.
        """
    @property
    def dialect(self, /) -> str | None:
        """
        The dialect being read; with several, the one that the text has settled on.
        """
    def finish(self, /) -> list[Event]:
        """
        Says that the model has ended its response, and returns the last events.
        """
    def push(self, /, text: str) -> list[Event]:
        """
        Takes the next text, and returns the events whose meaning is certain.
        """

@final
class FinishEvent:
    """
    The choice is finished.
    """
    __match_args__: Final[tuple[Literal["reason"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def raw(self, /) -> str | None:
        """
        The provider's last name of the reason.
        """
    @property
    def reason(self, /) -> FinishReason:
        """
        The normalized reason, derived from content where the provider's is wrong.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class HttpRequest:
    """
    A request for an upstream.
    """
    @property
    def body(self, /) -> bytes:
        """
        The body.
        """
    @property
    def headers(self, /) -> list[tuple[str, str]]:
        """
        The headers, with names in lower case.
        """
    @property
    def is_streamed(self, /) -> bool:
        """
        Whether the response is to be streamed.
        """
    @property
    def method(self, /) -> str:
        """
        The method.
        """
    @property
    def model(self, /) -> str:
        """
        The model, as the upstream calls it.
        """
    @property
    def protocol(self, /) -> str:
        """
        The protocol's name.
        """
    @property
    def url(self, /) -> str:
        """
        The URL; only its path where the engine has no base URL.
        """

@final
class IdentityEvent:
    """
    An id or a model name that came late, or changed.
    """
    __match_args__: Final[tuple[Literal["scope"], Literal["id"], Literal["model"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int | None:
        """
        The block, where it is about one.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def id(self, /) -> str | None:
        """
        The provider's id.
        """
    @property
    def item(self, /) -> int | None:
        """
        The item, where it is about one.
        """
    @property
    def model(self, /) -> str | None:
        """
        The model (of a response).
        """
    @property
    def scope(self, /) -> EventScope:
        """
        What it names: the ``response``, the ``choice``, an ``item`` or a ``block``.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class InvalidCall:
    """
    The reason why a call cannot be run.
    """
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str: ...
    @property
    def detail(self, /) -> str:
        """
        A description of the reason.
        """
    @property
    def reason(self, /) -> InvalidReason:
        """
        The reason, such as ``not_json`` or ``unknown_tool``.
        """

@final
class ItemEndEvent:
    """
    An item is over.
    """
    __match_args__: Final[tuple[Literal["item"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def item(self, /) -> int:
        """
        The item.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class ItemStartEvent:
    """
    An item begins: a group of blocks on the wire, such as an output item of OpenAI Responses.
    """
    __match_args__: Final[tuple[Literal["item"], Literal["wire_type"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def extra(self, /) -> Any | None:
        """
        Fields that only the protocol has.
        """
    @property
    def id(self, /) -> str | None:
        """
        The provider's id of it.
        """
    @property
    def item(self, /) -> int:
        """
        Its number, unique in the response.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of the item.
        """

@final
class Loss:
    """
    A part of a request or response that the other side has no place for.
    """
    def __repr__(self, /) -> str: ...
    @property
    def is_malformed(self, /) -> bool:
        """
        Whether it had not the form that its protocol demands.
        """
    @property
    def place(self, /) -> str:
        """
        Where it stood.
        """
    @property
    def what(self, /) -> str:
        """
        What was lost.
        """

@final
class MarkupEvent:
    """
    Dialect syntax that is neither text nor argument; ``source`` says where it stood.
    """
    __match_args__: Final[tuple[Literal["text"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    @property
    def text(self, /) -> str:
        """
        The syntax.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class Message:
    """
    A response, finished or growing.
    """
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def attachments(self, /) -> list[Attachment]:
        """
        Attachments to the response as a whole.
        """
    @property
    def choices(self, /) -> list[Choice]:
        """
        The candidate responses; usually one.
        """
    def encode(self, /, protocol: str, *, id: str | None = None, created: SupportsIndex | None = None, model: str | None = None) -> bytes:
        """
        The message as the complete body of a protocol.
        """
    @property
    def errors(self, /) -> list[UpstreamError]:
        """
        Errors that the upstream reported; they can be raised.
        """
    @property
    def extra(self, /) -> dict[str, Any]:
        """
        Fields that only the protocol has, by path.
        """
    @property
    def finish_reason(self, /) -> FinishReason | None:
        """
        The normalized reason why the first choice finished.
        """
    @property
    def id(self, /) -> str | None:
        """
        The provider's id of the response.
        """
    @property
    def is_truncated(self, /) -> bool:
        """
        Whether the end is missing: the input ended before the provider's end marker, or a limit truncated the response.
        """
    @property
    def model(self, /) -> str | None:
        """
        The model that generated it.
        """
    @property
    def notices(self, /) -> list[Notice]:
        """
        Oddities that were recovered from.
        """
    @property
    def protocol(self, /) -> str | None:
        """
        The name of the protocol that the response came in, where one is known.
        """
    def raise_for_error(self, /) -> Message:
        """
        Raise the upstream's error, if the response failed; else return the message itself.
        """
    @property
    def reasoning(self, /) -> str:
        """
        The reasoning of the first choice.
        """
    @property
    def refusal(self, /) -> str:
        """
        The refusal of the first choice.
        """
    @property
    def text(self, /) -> str:
        """
        The visible text of the first choice.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The message as dictionaries and lists.
        """
    def to_json(self, /, *, indent: bool = False) -> str:
        """
        The JSON text of the message, as the program ``callweave`` prints it; with ``indent`` in several lines.
        """
    @property
    def tool_calls(self, /) -> list[ToolCall]:
        """
        The tool calls of the first choice, in the order in which they began.
        """
    @property
    def usage(self, /) -> Usage | None:
        """
        Token counts, if any were reported.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of such a response.
        """

@final
class Notice:
    """
    An oddity that was recovered from.
    """
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int | None:
        """
        The number of the block that it is about, if it is about one.
        """
    @property
    def code(self, /) -> NoticeCode:
        """
        The kind of oddity, such as ``repaired`` or ``truncated``.
        """
    @property
    def detail(self, /) -> str:
        """
        A description that names the thing.
        """
    @property
    def offset(self, /) -> int:
        """
        The position in the input, in bytes.
        """
    @property
    def text(self, /) -> str | None:
        """
        Text that has no other place.
        """

@final
class NoticeEvent:
    """
    An oddity that was recovered from.
    """
    __match_args__: Final[tuple[Literal["notice"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def notice(self, /) -> Notice:
        """
        The oddity.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """

@final
class PartialJson:
    """
    A JSON value that grows with its text: the best value so far at any moment.

    >>> value = PartialJson()
    >>> value.push('{"city": "Os')
    {'city': 'Os'}
    >>> value.push('lo", "days": 1')
    {'city': 'Oslo'}
    >>> value.push('4}')
    {'city': 'Oslo', 'days': 14}
    """
    def __new__(cls, /, *, unfinished: str = "strings") -> PartialJson: ...
    @property
    def is_complete(self, /) -> bool:
        """
        Whether the value is complete.
        """
    def push(self, /, text: str) -> Any | None:
        """
        Takes the next text, and returns the value so far; ``None`` before there is something to show.
        """
    @property
    def value(self, /) -> Any | None:
        """
        The value so far; ``None`` before there is something to show.
        """

@final
class ProcessStream:
    """
    A streamed response, chunk by chunk: bytes, or chunks as providers' clients have them.
    """
    def __new__(cls, /, agent: PromptAgent) -> ProcessStream: ...
    def finish(self, /) -> tuple[list[dict[str, Any]], Any | None]:
        """
        Says that no chunk will come any more; returns the last items, and the error that ended the stream.
        """
    @property
    def message(self, /) -> Message:
        """
        The message so far, with usage, reasoning and everything else that is no item.
        """
    def push(self, /, chunk: Any) -> tuple[list[dict[str, Any]], Any | None]:
        """
        Takes a chunk; returns the items that it makes, and the error that ended the stream.
        """

@final
class ProgressEvent:
    """
    The progress of an item or of the response; not part of the message.
    """
    __match_args__: Final[tuple[Literal["wire_type"], Literal["value"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def block(self, /) -> int | None:
        """
        The block, where it is about one.
        """
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def item(self, /) -> int | None:
        """
        The item, where it is about one.
        """
    @property
    def scope(self, /) -> EventScope:
        """
        What progresses: the ``response``, the ``choice``, an ``item`` or a ``block``.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def value(self, /) -> Any | None:
        """
        The value of the step, if it has one.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of this step.
        """

@final
class PromptAgent:
    """
    The agent: the provider that was asked, and the request to it.
    """
    def __new__(cls, /, provider: str, *, model: str | None = None, name: str | None = None, api: str | None = None, outputs: bool = False) -> PromptAgent: ...
    @property
    def provider(self, /) -> str:
        """
        The provider.
        """

@final
class RepairChange:
    """
    One difference of a repaired text from the input.
    """
    def __repr__(self, /) -> str: ...
    @property
    def at(self, /) -> int:
        """
        The byte of the input at which it begins.
        """
    @property
    def change_class(self, /) -> ChangeClass:
        """
        The risk of the change: ``lossless``, ``structural`` or a ``guess``.
        """
    @property
    def end(self, /) -> int:
        """
        The byte of the input before which it ends.
        """
    @property
    def kind(self, /) -> str:
        """
        The kind of change, such as ``quote``.
        """
    @property
    def replaced(self, /) -> str:
        """
        The text that was replaced.
        """
    @property
    def replacement(self, /) -> str:
        """
        The text that replaces it.
        """

@final
class RepairedJson:
    """
    The outcome of repairing a text.
    """
    def __repr__(self, /) -> str: ...
    @property
    def changes(self, /) -> list[RepairChange]:
        """
        The changes, in the order of the input.
        """
    @property
    def text(self, /) -> str:
        """
        Valid JSON; empty if the text is hopeless, or truncated and not to be closed.
        """
    @property
    def value(self, /) -> Any:
        """
        The value. Raises ``JSONError`` if the text is hopeless, or truncated and not to be closed.
        """
    @property
    def verdict(self, /) -> RepairVerdict:
        """
        ``valid``, ``repaired``, ``incomplete`` (it was truncated) or ``hopeless``.
        """

@final
class ResponseHead:
    """
    The beginning of the client's response.
    """
    @property
    def headers(self, /) -> list[tuple[str, bytes]]:
        """
        The headers, with names in lower case.
        """
    @property
    def status(self, /) -> int:
        """
        The status.
        """

@final
class StartEvent:
    """
    The response begins: the first event of every response.
    """
    __match_args__: Final[tuple[Literal["id"], Literal["model"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def extra(self, /) -> Any | None:
        """
        Fields that only the protocol has.
        """
    @property
    def id(self, /) -> str | None:
        """
        The provider's id of the response.
        """
    @property
    def model(self, /) -> str | None:
        """
        The model that generates it.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The wire's own type of such a response.
        """

@final
class ToolCall:
    """
    A tool call.
    """
    def __repr__(self, /) -> str: ...
    @property
    def arguments(self, /) -> str:
        """
        The arguments as JSON text (for a custom tool: free text).
        """
    @property
    def block(self, /) -> Block:
        """
        The block of the call.
        """
    @property
    def completion(self, /) -> BlockCompletion:
        """
        Whether it is ``complete``, ``truncated``, or stands ``after_damage`` in text.
        """
    @property
    def error_result(self, /) -> str | None:
        """
        A ready-made result for the model that made an invalid call; ``None`` for a valid one.
        """
    @property
    def has_made_id(self, /) -> bool:
        """
        Whether the id was made here, because the provider gave none.
        """
    @property
    def id(self, /) -> str:
        """
        The provider's id, or a made one.
        """
    @property
    def invalid(self, /) -> InvalidCall | None:
        """
        The reason why the call cannot be run, if it cannot.
        """
    @property
    def kind(self, /) -> CallKind:
        """
        Who runs it: ``function`` and ``custom`` are yours, ``builtin`` was run by the provider.
        """
    @property
    def name(self, /) -> str:
        """
        The tool's name; empty if the provider never gave one.
        """
    def object(self, /) -> dict[str, Any]:
        """
        The arguments as a dictionary. Raises ``InvalidError`` if they are no JSON object, or the call is truncated.
        """
    def parse(self, /, type: type[T]) -> T:
        """
        The arguments as a value of a type: a pydantic model, a dataclass, a typed dictionary. Raises ``InvalidError`` if
        they do not fit.
        """
    @property
    def raw_arguments(self, /) -> str:
        """
        The argument text as it came, byte for byte; empty if there was none.
        """

@final
class ToolCallAggregator:
    """
    Payloads of any wrapping in; records of the tool calls, and their changes, out.

    >>> aggregator = ToolCallAggregator()
    >>> first = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"at":'}}]}
    >>> aggregator.ingest_delta(first)["updated"]
    True
    >>> _ = aggregator.ingest_delta({"tool_calls": [{"index": 0, "function": {"arguments": '"sky"}'}}]})
    >>> aggregator.snapshot()
    [{'id': 'c', 'type': 'function', 'function': {'name': 'look'}, 'arguments': '{"at":"sky"}'}]
    """
    def __new__(cls, /) -> ToolCallAggregator: ...
    @property
    def choices(self, /) -> list[int]:
        """
        The choices that have calls.
        """
    def function_call(self, /, choice: SupportsIndex | None = None) -> Any | None:
        """
        The first call of a choice as a message's singular ``function_call``.
        """
    def has_calls(self, /, choice: SupportsIndex | None = None) -> bool:
        """
        Whether the choice has calls.
        """
    def ingest_delta(self, /, payload: Any, choice: SupportsIndex | None = None) -> dict[str, Any]:
        """
        Takes one delta or event, and returns the calls that it changed: ``updated`` and ``deltas``.
        """
    def ingest_message(self, /, payload: Any, choice: SupportsIndex | None = None, *, emit_if_missing: bool = False) -> dict[str, Any]:
        """
        Takes a complete message. Argument text in it replaces the text that deltas emitted before.
        """
    def reset_turn(self, /) -> None:
        """
        Forgets all calls, for the next turn.
        """
    def snapshot(self, /, choice: SupportsIndex | None = None) -> list[dict[str, Any]]:
        """
        The calls of a choice as they stand, in the order in which they became known.
        """
    @property
    def supports_parallel_calls(self, /) -> bool:
        """
        Whether calls may run in parallel: until a payload says otherwise.
        """
    def tool_calls(self, /, choice: SupportsIndex | None = None) -> Any:
        """
        The calls of a choice as a message's ``tool_calls``.
        """

@final
class Tools:
    """
    Tools that were declared to a model, made ready once: pydantic models, dataclasses, typed dictionaries, functions, or
    JSON Schemas in the shape of any provider.

    >>> tools = Tools([{"name": "look", "parameters": {"type": "object"}}])
    >>> "look" in tools
    True
    """
    def __bool__(self, /) -> bool: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __new__(cls, /, tools: ToolsLike) -> Tools: ...
    def to_list(self, /) -> Any:
        """
        The tools as a list of dictionaries.
        """

@final
class Usage:
    """
    Token counts. A missing counter was not reported.
    """
    def __repr__(self, /) -> str: ...
    @property
    def cache_write_tokens(self, /) -> int | None:
        """
        Input tokens written to a cache.
        """
    @property
    def cached_tokens(self, /) -> int | None:
        """
        Input tokens read from a cache.
        """
    @property
    def input_tokens(self, /) -> int | None:
        """
        All input tokens, cached ones included.
        """
    @property
    def output_tokens(self, /) -> int | None:
        """
        All output tokens, reasoning included.
        """
    @property
    def raw(self, /) -> Any:
        """
        The provider's own object.
        """
    @property
    def reasoning_tokens(self, /) -> int | None:
        """
        Output tokens spent on reasoning.
        """
    @property
    def total_tokens(self, /) -> int | None:
        """
        The provider's own total, else input + output.
        """

@final
class UsageEvent:
    """
    Token counts so far.
    """
    __match_args__: Final[tuple[Literal["usage"]]]
    def __eq__(self, other: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @property
    def choice(self, /) -> int:
        """
        The choice (candidate response) it belongs to.
        """
    @property
    def source(self, /) -> tuple[int, int] | None:
        """
        The bytes of the text that it was made from, where a dialect was found in text.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The event as a dictionary.
        """
    def to_json(self, /) -> str:
        """
        The JSON text of the event, as the program ``callweave`` prints it.
        """
    @property
    def usage(self, /) -> Usage:
        """
        The counts.
        """
    @property
    def wire_type(self, /) -> str:
        """
        The place of the counts on the wire.
        """

def augment_system_prompt(prompt: str | None, tools: ToolsLike, dialect: str = "fence", *, compact: bool = False) -> str:
    """
    Appends to a system prompt how calls are written in a dialect, and which tools there are.

    >>> prompt = augment_system_prompt("Be brief.", [{"name": "look", "parameters": {"type": "object"}}], "hermes")
    >>> prompt.startswith("Be brief.\\n\\n"), "<tool_call>" in prompt
    (True, True)
    """

def coerce(value: Any, schema: SchemaLike) -> CoercedValue:
    """
    Coerces a value to a JSON Schema, a pydantic model, a dataclass or a typed dictionary: ``"5"`` becomes 5 where a number
    is wanted. A ``str`` is taken as text of a model: JSON, broken JSON, JSON in prose, or a sentence that names the value.

    >>> coerce({"times": "5"}, {"properties": {"times": {"type": "integer"}}}).value
    {'times': 5}
    >>> coerce("The answer is **True**.", {"type": "boolean"}).value
    True
    """

def convert(data: BytesLike | str, to: str, *, stream: bool | None = None, protocol: str | None = None, dialect: str | None = None, tools: ToolsLike | None = None, coerce: bool = False, validate: bool = False, normalize: bool = False, id: str | None = None, created: SupportsIndex | None = None, model: str | None = None) -> bytes:
    """
    Writes a complete response, streamed or not, in another protocol.

    ``stream`` says whether a stream is written; by default one is if one came. In the protocol in which it came, a
    response is written as it was, unless ``normalize`` is set; in another, as its clients expect it.

    >>> import json
    >>> body = b'{"id": "c", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
    >>> json.loads(convert(body, "anthropic-messages"))["content"]
    [{'type': 'text', 'text': 'Hello'}]
    """

def convert_request(body: Any, to: str, *, protocol: str, provider: str | None = None, model: str | None = None, dialect: str | None = None, normalize: bool = False) -> ConvertedRequest:
    """
    Writes the body of a request in another protocol, by the rules of a provider where many speak it.

    With ``dialect`` (``auto``: that of the model) the tools are taught in the prompt.

    >>> body = {"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    >>> request = convert_request(body, "gemini-generatecontent", protocol="anthropic-messages")
    >>> request.body["generationConfig"], request.losses
    ({'maxOutputTokens': 9}, [])
    """

def decode(data: BytesLike | str, *, protocol: str | None = None, dialect: str | None = None, tools: ToolsLike | None = None, repair: bool = False, coerce: bool = False, validate: bool = False) -> Message:
    """
    Decodes a complete response, streamed or not, of any protocol. Of several responses it is the first, with a notice.

    Calls that the model wrote into its text are found with ``dialect="auto"`` or the name of a dialect.

    >>> body = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
    >>> decode(body).text
    'Hello'
    """

def decode_all(data: BytesLike | str, *, protocol: str | None = None, dialect: str | None = None, tools: ToolsLike | None = None, repair: bool = False, coerce: bool = False, validate: bool = False) -> list[Message]:
    """
    Decodes all responses of an input: several bodies or streams, one after the other.

    >>> body = b'{"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
    >>> [message.text for message in decode_all(body)]
    ['Hello']
    """

def dialect_of(model: str) -> str | None:
    """
    The dialect of a model, by its name; ``None`` if none is known.

    >>> dialect_of("Qwen2.5-7B-Instruct")
    'hermes'
    """

def dialects() -> list[str]:
    """
    The names of the dialects in which models write calls into their text.

    >>> "hermes" in dialects()
    True
    """

def extract(text: str, tools: ToolsLike | None = None, *, dialect: str = "auto", repair: bool = True, coerce: bool = True, validate: bool = True) -> Message:
    """
    Finds the calls and the reasoning that a model wrote into its text.

    The arguments of the calls are repaired, coerced to the schemas of the tools and checked against them: the
    ``invalid`` of a call says whether it can be run. Without tools only markup that leaves no doubt is a call.

    >>> properties = {"at": {"type": "string"}, "times": {"type": "integer"}}
    >>> tools = [{"name": "look", "parameters": {"type": "object", "properties": properties}}]
    >>> message = extract("<think>Up.</think>Sure. [look(at='sky', times='2')]", tools=tools)
    >>> message.text, message.reasoning
    ('Sure. ', 'Up.')
    >>> [call] = message.tool_calls
    >>> call.name, call.object()
    ('look', {'at': 'sky', 'times': 2})
    """

def partial(text: str, *, unfinished: str = "strings") -> Any | None:
    """
    The value of a JSON text that has not come to its end; ``None`` before there is something to show.

    >>> partial('{"city": "Oslo", "days": [1, 2')
    {'city': 'Oslo', 'days': [1]}
    """

def process_response(agent: PromptAgent, response: Any) -> Any:
    """
    The result of a provider's complete response.
    """

def protocols() -> list[str]:
    """
    The names of the protocols.

    >>> "openai-chat" in protocols()
    True
    """

def repair(text: str, *, close_truncated: bool = False, prefix: bool = False, drop_unfinished_strings: bool = False, allow_prose: bool = True, allow: str | None = None) -> RepairedJson:
    """
    Repairs JSON that is not quite JSON. The result has the text, the value, and every change.

    >>> repair("{'at': 'sky', n: 7,}").value
    {'at': 'sky', 'n': 7}
    >>> repair('{"at": "sk').verdict
    'incomplete'
    >>> repair('{"at": "sk', close_truncated=True).value
    {'at': 'sk'}
    """

def run_program(words: SupportsGetItem[int, str]) -> int:
    """
    Runs the program with the words of a command line, of which the first is the name of the program; returns its exit
    code.
    """

def teach(body: Any, dialect: str = "auto", *, protocol: str = "openai-chat", compact: bool = False) -> ConvertedRequest:
    """
    Rewrites a request for a model that has no tools of its own, but knows a dialect: tools, past calls and their results
    are put into words. Responses are to be read with the same dialect.

    >>> tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    >>> body = {"model": "qwen2.5:7b", "tools": [tool], "messages": [{"role": "user", "content": "The sky?"}]}
    >>> taught = teach(body)
    >>> taught.dialect, "tools" in taught.body, "<tool_call>" in taught.body["messages"][0]["content"]
    ('hermes', False, True)
    """

@final
class Batch:
    """
    The rows of one chunk, in columns.
    """
    def __arrow_c_array__(self, /, requested_schema: Any | None = None) -> Any: ...
    def __arrow_c_schema__(self, /) -> Any: ...
    def __arrow_c_stream__(self, /, requested_schema: Any | None = None) -> Any: ...
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...

@final
class Stream:
    """
    The rows of a stream, in columns. It can be read once.
    """
    def __arrow_c_schema__(self, /) -> Any: ...
    def __arrow_c_stream__(self, /, requested_schema: Any | None = None) -> Any: ...
    def __repr__(self, /) -> str: ...

@final
class Report:
    """
    Counts of recorded traffic by model, protocol, dialect, outcome and class of error.
    """
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str: ...
    @property
    def calls(self, /) -> int: ...
    def groups(self, /) -> Any: ...
    def html(self, /) -> str: ...
    @property
    def responses(self, /) -> int: ...
    def svg(self, /) -> str: ...

def arrow_convert(data: Any, to: str, *, column: str | None = None, protocol: str | None = None, dialect: str = "auto", tools: ToolsLike | None = None, repair: bool = True, coerce: bool = True) -> Any: ...
def arrow_decode(data: Any, *, column: str | None = None, protocol: str | None = None, dialect: str = "auto", tools: ToolsLike | None = None, repair: bool = True, coerce: bool = True, validate: bool = True) -> Any: ...
def arrow_demo(rows: int, *, start: int = 0) -> Stream: ...
def arrow_extract(data: Any, *, column: str | None = None, dialect: str = "auto", tools: ToolsLike | None = None, repair: bool = True, coerce: bool = True, validate: bool = True) -> Any: ...
def arrow_repair(data: Any, *, column: str | None = None) -> Any: ...
def report(table: Any, *, time: str | None = None, column: str | None = None) -> Report: ...
