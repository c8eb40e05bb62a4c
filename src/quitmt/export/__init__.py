"""Training data from scored candidates: corpora, preference pairs and rewards, in the forms that trainers read.

    read (entries) → filter (filters) → choose (choose) → format (formats, voice) → write (writers)

Invariants: everything streams, so memory does not grow with the input (but for 8 bytes per source, by which duplicates
are found); nothing that exists is overwritten; what gives no row is counted with its reason.
"""

from quitmt.export.export import ExportSettings, export, export_async
from quitmt.export.summary import Summary

__all__ = ["ExportSettings", "Summary", "export", "export_async"]
