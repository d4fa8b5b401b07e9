"""Columns of recorded responses or texts, in any engine that speaks Arrow.

Every function takes an array, a record batch, a table or a stream of any library with the Arrow PyCapsule interface
(pyarrow, Polars, DuckDB, pandas, DataFusion, nanoarrow and others; none of them is required), and returns an object
with the same interface: a :class:`Batch` for one array or batch, a :class:`Stream` for anything that comes in chunks.
A stream is read one chunk at a time, and only as fast as its reader takes the result.

A row never fails. A null stays a null, and what is wrong with a row is in its columns ``error_class`` and ``error``.
"""

from callweave import _callweave

# The types are in arrow.pyi: the stub of the native module is made without Arrow.
_native = vars(_callweave)

Batch = _native["Batch"]
Report = _native["Report"]
Stream = _native["Stream"]
convert = _native["arrow_convert"]
decode = _native["arrow_decode"]
demo = _native["arrow_demo"]
extract = _native["arrow_extract"]
repair = _native["arrow_repair"]
report = _native["report"]

__all__ = ["Batch", "Report", "Stream", "convert", "decode", "demo", "extract", "repair", "report"]
