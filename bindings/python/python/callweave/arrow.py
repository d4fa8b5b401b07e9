"""Columns of recorded responses or texts, in any engine that speaks Arrow.

Every function takes an array, a record batch, a table or a stream of any library with the Arrow PyCapsule interface
(pyarrow, Polars, DuckDB, pandas, DataFusion, nanoarrow and others; none of them is required), and returns an object
with the same interface: a :class:`Batch` for one array or batch, a :class:`Stream` for anything that comes in chunks.
A stream is read one chunk at a time, and only as fast as its reader takes the result.

A row never fails. A null stays a null, and what is wrong with a row is in its columns ``error_class`` and ``error``.
"""

from callweave._callweave import Batch, Stream
from callweave._callweave import arrow_convert as convert
from callweave._callweave import arrow_decode as decode
from callweave._callweave import arrow_demo as demo
from callweave._callweave import arrow_extract as extract
from callweave._callweave import arrow_repair as repair

__all__ = ["Batch", "Stream", "convert", "decode", "demo", "extract", "repair"]
