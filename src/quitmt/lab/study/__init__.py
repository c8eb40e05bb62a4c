"""Studies: their settings, their files, and the test sets that they name."""

from quitmt.lab.study.file import load, parse
from quitmt.lab.study.settings import Study
from quitmt.lab.study.template import template

__all__ = ["Study", "load", "parse", "template"]
