"""The exceptions of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callweave._types import ErrorClass, Event


class CallweaveError(Exception):
    """The base of all exceptions of this package."""

    #: Whether the same request may succeed if it is sent again.
    is_retryable: bool = False

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        #: The description of the failure.
        self.message = message
        #: The byte of the input at which it was noticed; ``None`` where no byte is to blame.
        self.offset = offset
        #: The events before the error, where a decoder failed; they are valid.
        self.events: list[Event] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.offset)


class LimitError(CallweaveError):
    """A configured limit (line, frame, total size) was exceeded."""


class FramingError(CallweaveError):
    """The framing of the bytes is damaged: a bad checksum, a truncated binary frame."""

    is_retryable = True


class JSONError(CallweaveError, ValueError):
    """A text that had to be JSON is not, and cannot be repaired."""


class UnknownError(CallweaveError, LookupError):
    """No protocol, dialect or provider has this name; or the shape of the input is not known."""


class InvalidError(CallweaveError, ValueError):
    """A value does not have the form that its place demands."""


class UpstreamError(CallweaveError):
    """The error that a provider reported, in neutral form.

    ``error_class`` says how to react; the provider's own words are in ``code``, ``message`` and ``raw``.
    """

    def __init__(
        self,
        message: str,
        error_class: ErrorClass = "other",
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        raw: Any = None,
        is_retryable: bool = False,
    ) -> None:
        super().__init__(message)
        #: The class of the error.
        self.error_class: ErrorClass = error_class
        #: The HTTP status, where one is known.
        self.status = status
        #: The provider's own name (or number) of it, the most specific one.
        self.code = code
        #: The seconds to wait before another try, where the provider reports them.
        self.retry_after = retry_after
        #: The provider's id of the request, where one is known.
        self.request_id = request_id
        #: The provider's error object or text.
        self.raw = raw
        self.is_retryable = is_retryable

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.message,
            self.error_class,
            self.status,
            self.code,
            self.retry_after,
            self.request_id,
            self.raw,
            self.is_retryable,
        )
