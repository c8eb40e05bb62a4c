"""Many segments on many machines: files in, files out, on Ray.

    inputs → plan (numbered parts) → workers (one engine each, several parts at once) → a file for each part

Invariants: the plan depends on the inputs and the settings alone; a part's file is written as a whole or not at all,
and always with the same name. So whatever dies, running the same job again goes on with the parts that have no file,
and nothing is lost or doubled. Only ``cluster`` and ``run`` know Ray.
"""
