"""Translates files on many machines with Ray.

    inputs → plan (numbered parts) → workers (one engine each, several parts at once) → one file per part

Invariants: the plan depends only on the inputs and the settings. A part's file is written completely or not at all, and
always under the same name. So after any crash, rerunning the same job continues with the parts that have no file, and
every row is translated exactly once. Only ``cluster``, ``actor`` and ``run`` know Ray.
"""
