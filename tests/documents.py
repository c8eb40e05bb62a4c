"""The pages that readers see, as tests read them: blocks of code, commands in them, links and headings.

A console block has commands after ``$``, continued after ``>``, and what they print. A comment ``<!-- run -->`` before
a block says that the test of its page runs it; ``…`` in what it prints stands for anything. ``<!-- file: mine.py -->``
says that a reader puts the block into a file of that name, and so does the test.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "tables"),
]

_FENCE = re.compile(
    r"(?P<run><!-- (?:run|file: (?P<file>\S+)) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
_ENDS = frozenset(("|", "||", "&&", ";", ">", "<", ">>", "2>", "&"))


@dataclass(frozen=True)
class Command:
    text: str
    printed: str = ""

    def calls(self) -> Iterator[list[str]]:
        """The words of each call of quitmt in it."""
        lexer = shlex.shlex(self.text.partition("<<")[0].replace("\\\n", " "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in _ENDS:
                words.append(word)
                continue
            if words[:1] == ["quitmt"]:
                yield words[1:]
            words = [word] if word in (">", "<", ">>", "2>") else []  # what follows a > is a file


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    run: bool
    file: str | None = None

    def commands(self) -> list[Command]:
        if self.file:
            return [Command(f"cat > {self.file} <<'END'\n{self.text}END")]
        if self.language == "sh":
            return [Command(line) for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]
        found: list[tuple[list[str], list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(([line[2:]], []))
            elif found and not found[-1][1] and _goes_on(found[-1][0]):
                found[-1][0].append(line[2:] if line.startswith(">") else line)
            else:
                found[-1][1].append(line)
        return [Command("\n".join(command), "\n".join(printed)) for command, printed in found]


def _goes_on(lines: list[str]) -> bool:
    """Whether a command is not at its end: a here-document is open, or the line goes on."""
    open_until = re.search(r"<<'(\w+)'", lines[0])
    return lines[-1].endswith("\\") or bool(open_until and open_until[1] not in lines)


def blocks(page: Path) -> list[Block]:
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(one["language"], one["text"], bool(one["run"]), one["file"]) for one in found]


def prose(page: Path) -> str:
    """Without blocks of code and inline code."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    """Those to other files here."""
    found = [match["target"] for match in _LINK.finditer(prose(page))]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def fragments(page: Path) -> set[str]:
    """What a link can name: the headings by which both GitHub and the site find them."""
    titles = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title) for title in titles]
    return {_of_site(title) for title in plain} & {_of_github(title) for title in plain}


def _of_site(title: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def _of_github(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-")


def matches(printed: str, expected: str) -> bool:
    """``…`` stands for anything, also for many lines."""
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return not expected or re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
