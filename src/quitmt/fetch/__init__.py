"""Fetches Firefox translation models by the index that Mozilla publishes, into the user's cache.

    index (what is published) → download (one file, resumed and checked) → install (a pair, all or nothing)

Both read through ``transfer``, which trusts no server with size or time.

Only the standard library is used. Nothing is fetched unless somebody asks for it by name.
"""

from quitmt.fetch.index import Index, Published, RemoteFile, last_known, read
from quitmt.fetch.install import Installed, get

__all__ = ["Index", "Installed", "Published", "RemoteFile", "get", "last_known", "read"]
