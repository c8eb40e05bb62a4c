"""Studies: their settings, their files, and the test sets that they name."""

from quitmt.lab.study.file import load, parse, template
from quitmt.lab.study.settings import Study

__all__ = ["Study", "load", "parse", "template"]
