"""Fetches Firefox translation models from Mozilla's index into the user's cache.

    index (published models) → download (one file, resumed and checked) → install (a pair, all or nothing)

All network reads go through ``transfer``, which limits their size and time.

Only the standard library is used. Nothing is fetched unless the user requests it by name.
"""

from quitmt.fetch.index import Index, Published, RemoteFile, read
from quitmt.fetch.install import Installed, get

__all__ = ["Index", "Installed", "Published", "RemoteFile", "get", "read"]
