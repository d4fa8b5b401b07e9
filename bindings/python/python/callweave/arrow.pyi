from typing import Any, final

from callweave._types import ToolsLike

__all__ = ["Batch", "Report", "Stream", "convert", "decode", "demo", "extract", "repair", "report"]

@final
class Batch:
    """The rows of one chunk, in columns."""
    def __arrow_c_array__(self, requested_schema: Any | None = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any: ...
    def __len__(self) -> int: ...

@final
class Stream:
    """The rows of a stream, in columns. It can be read once."""
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any: ...

@final
class Report:
    """Counts of recorded traffic by model, protocol, dialect, outcome and class of error."""
    @property
    def calls(self) -> int: ...
    @property
    def responses(self) -> int: ...
    def groups(self) -> Any: ...
    def html(self) -> str: ...
    def svg(self) -> str: ...

def convert(
    data: Any,
    to: str,
    *,
    column: str | None = None,
    protocol: str | None = None,
    dialect: str = "auto",
    tools: ToolsLike | None = None,
    repair: bool = True,
    coerce: bool = True,
) -> Any: ...
def decode(
    data: Any,
    *,
    column: str | None = None,
    protocol: str | None = None,
    dialect: str = "auto",
    tools: ToolsLike | None = None,
    repair: bool = True,
    coerce: bool = True,
    validate: bool = True,
) -> Any: ...
def demo(rows: int, *, start: int = 0) -> Stream: ...
def extract(
    data: Any,
    *,
    column: str | None = None,
    dialect: str = "auto",
    tools: ToolsLike | None = None,
    repair: bool = True,
    coerce: bool = True,
    validate: bool = True,
) -> Any: ...
def repair(data: Any, *, column: str | None = None) -> Any: ...
def report(table: Any, *, time: str | None = None, column: str | None = None) -> Report: ...
