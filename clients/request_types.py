"""Holds the requests that callweave writes for each provider against the types of the provider's own client.

Every member must be one that the type knows, of the type it says, and every member that the type demands must be there.
The types are walked here because the clients themselves look at little: pydantic reads lists of dictionaries lazily,
Cohere's and Ollama's models let anything pass. Converse is checked by botocore's own validator.

usage: request_types.py WRITTEN (a line for each request: title, target, body)
"""

import base64
import collections.abc
import inspect
import json
import sys
import types
import typing

import typing_extensions
from answers import Matrix


class Mismatch(Exception):
    """What does not fit, with its path and how far the value went: of several ways to read it the furthest counts."""

    def __init__(self, path, why):
        super().__init__(f"{path or 'the body'}: {why}")
        self.depth = path.count("/") + ("type" not in why)


def is_wrapper(kind, *wrappers):
    return typing.get_origin(kind) in wrappers


def fields(kind):
    """The members of a typed dictionary or a model: name → (type, whether it is demanded)."""
    if typing_extensions.is_typeddict(kind):
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        return {name: (hint, name in kind.__required_keys__) for name, hint in hints.items()}
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    return {
        (field.alias or name): (hints.get(name, field.annotation), field.is_required())
        for name, field in kind.model_fields.items()
    }


def is_record(kind):
    return typing_extensions.is_typeddict(kind) or hasattr(kind, "model_fields")


FIELDS = {}
REQUIRED = (typing.Required, typing_extensions.Required, typing.NotRequired, typing_extensions.NotRequired)


def check(value, kind, path=""):
    if isinstance(kind, typing.TypeVar) or kind in (typing.Any, object, inspect.Parameter.empty):
        return
    if is_wrapper(kind, typing.Annotated, *REQUIRED):
        return check(value, typing.get_args(kind)[0], path)
    if hasattr(kind, "__value__"):
        return check(value, kind.__value__, path)
    if is_wrapper(kind, typing.Union, types.UnionType):
        return check_union(value, typing.get_args(kind), path)
    if is_wrapper(kind, typing.Literal):
        if value not in typing.get_args(kind):
            raise Mismatch(path, f"{value!r} is not the type's word")
        return
    origin = typing.get_origin(kind)
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        if not isinstance(value, list):
            raise Mismatch(path, f"the type is a list, not {value!r:.60}")
        for number, element in enumerate(value):
            check(element, typing.get_args(kind)[0], f"{path}/{number}")
        return
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise Mismatch(path, f"the type is an object, not {value!r:.60}")
        for key, member in value.items():
            check(member, typing.get_args(kind)[1], f"{path}/{key}")
        return
    if is_record(kind):
        return check_record(value, kind, path)
    check_plain(value, kind, path)


def check_union(value, kinds, path):
    failures = []
    for kind in kinds:
        try:
            return check(value, kind, path)
        except Mismatch as failure:
            failures.append(failure)
    raise max(failures, key=lambda failure: failure.depth)


def check_record(value, kind, path):
    if not isinstance(value, dict):
        raise Mismatch(path, f"the type is {kind.__name__}, not {value!r:.60}")
    if kind not in FIELDS:
        FIELDS[kind] = fields(kind)
    known = FIELDS[kind]
    # The word that tells what it is comes first: the rest is compared with the right type.
    for key in sorted(value, key=lambda key: key not in ("type", "role")):
        if key not in known and not allows_more(kind):
            raise Mismatch(f"{path}/{key}", f"{kind.__name__} has no such member")
        if key in known:
            check(value[key], known[key][0], f"{path}/{key}")
    missing = [key for key, (_, is_demanded) in known.items() if is_demanded and key not in value]
    if missing:
        raise Mismatch(f"{path}/{missing[0]}", f"{kind.__name__} demands it")


def allows_more(kind):
    """Schemas of tools may say anything: the clients type only what they need themselves."""
    return "InputSchema" in kind.__name__ or kind.__name__ in ("Parameters", "Property")


def check_plain(value, kind, path):
    if isinstance(kind, type) and issubclass(kind, str):
        # Enums of the wire's words, and texts.
        words = [member.value for member in kind] if hasattr(kind, "__members__") else None
        is_fit = isinstance(value, str) and (words is None or value in words)
        # Google's enums take any case.
        if "CaseInSensitiveEnum" in [base.__name__ for base in kind.__mro__]:
            is_fit = isinstance(value, str) and value.upper() in (word.upper() for word in words)
    elif kind is bytes:
        is_fit = isinstance(value, str)
    elif kind is float:
        is_fit = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif kind is int:
        is_fit = isinstance(value, int) and not isinstance(value, bool)
    elif kind in (bool, dict, list):
        is_fit = isinstance(value, kind)
    elif kind in (None, type(None)):
        is_fit = value is None
    else:
        # Of what Python alone can hold (files, images) nothing comes from JSON.
        is_fit = False
    if not is_fit:
        raise Mismatch(path, f"the type is {getattr(kind, '__name__', kind)}, not {value!r:.60}")


def parameters(function, *others):
    """The keyword parameters of a method, as a typed dictionary."""
    hints = typing_extensions.get_type_hints(function, include_extras=True)
    kept = {key: hint for key, hint in hints.items() if key not in ("self", "return", "request_options", *others)}
    return typing_extensions.TypedDict(function.__qualname__, kept, total=False)


def openai_chat():
    from openai.types.chat import completion_create_params as params

    return lambda body: check(with_model(body), params.CompletionCreateParams)


def openai_responses():
    from openai.types.responses import response_create_params as params

    return lambda body: check(with_model(body), params.ResponseCreateParams)


def with_model(body):
    """Some wires name the model in the URL: then a body has none."""
    return {"model": "m", **body}


def anthropic_messages():
    from anthropic.types.beta import message_create_params as params

    # Older models take them, newer ones do not: this client passes them on as `extra_body`.
    older = ("temperature", "top_p", "top_k")
    return lambda body: check(
        {key: value for key, value in with_model(body).items() if key not in older}, params.MessageCreateParams
    )


def gemini_generatecontent():
    from google.genai import types as gemini

    body_type = typing_extensions.TypedDict(
        "Body",
        {
            "contents": typing.Required[list[gemini.Content]],
            "systemInstruction": gemini.Content,
            "tools": list[gemini.Tool],
            "toolConfig": gemini.ToolConfig,
            "generationConfig": gemini.GenerationConfig,
            "serviceTier": str,
        },
        total=False,
    )
    return lambda body: check(body, body_type)


def ollama():
    from ollama import _types as wire

    return lambda body: check(with_model(body), wire.ChatRequest)


def cohere_v2():
    from cohere.v2.client import V2Client

    body_type = parameters(V2Client.chat)
    body_type.__annotations__["stream"] = bool
    return lambda body: check(with_model(body), body_type)


def bedrock_converse():
    import botocore.session
    from botocore.validate import ParamValidator

    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("ConverseStream").input_shape

    def look(body):
        report = ParamValidator().validate(decoded({"modelId": "m", **body}, shape), shape)
        if report.has_errors():
            raise Mismatch("", report.generate_report().splitlines()[0])

    return look


def decoded(value, shape):
    """The value as the client holds it: bytes where JSON has base64."""
    if shape.type_name == "structure" and isinstance(value, dict):
        unknown = [key for key in value if not getattr(shape, "is_document_type", False) and key not in shape.members]
        if unknown:
            raise Mismatch(unknown[0], f"{shape.name} has no such member")
        return {
            key: decoded(member, shape.members[key]) if key in shape.members else member for key, member in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [decoded(element, shape.member) for element in value]
    if shape.type_name == "blob":
        if shape.name == "Blob":
            # Encrypted thoughts, which are made up in cases and recordings.
            return value.encode()
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise Mismatch(shape.name, f"no base64: {value!r:.60}") from None
    return value


TARGETS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic-messages": anthropic_messages,
    "gemini-generatecontent": gemini_generatecontent,
    "ollama": ollama,
    "cohere-v2": cohere_v2,
    "bedrock-converse": bedrock_converse,
}


def main(path):
    looks, matrix = {}, Matrix("python, by the types of requests")
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            target = row["target"]
            if target not in looks:
                looks[target] = TARGETS[target]()
            faults = []
            try:
                looks[target](row["body"])
            except Mismatch as failure:
                faults.append(str(failure))
            matrix.add(target, "requests", None, faults, row["title"])
    matrix.conclude()


if __name__ == "__main__":
    main(*sys.argv[1:])
