"""The tool-call aggregator: payloads of any wrapping in; records of the tool calls, and their changes, out."""

from callweave._callweave import ToolCallAggregator

__all__ = ["ToolCallAggregator"]
