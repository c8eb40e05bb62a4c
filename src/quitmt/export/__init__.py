"""Training data from scored candidates: corpora, preference pairs and rewards, in the formats that trainers read.

    read (entries) → filter (filters) → choose (choose) → format (formats) → write (writers)

Invariants: everything streams, so memory doesn't grow with the input (except 8 bytes per source to find duplicates).
Existing files are never overwritten. Sources that give no row are counted by reason.
"""

from quitmt.export.export import ExportSettings, Summary, export

__all__ = ["ExportSettings", "Summary", "export"]
