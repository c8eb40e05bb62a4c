"""How easy pages are to read: words per sentence, and the share of long sentences, in their running text.

    python benchmarks/readability.py README.md docs/*.md
    python benchmarks/readability.py --at v0.1.0 README.md docs/rules.md      # as they were at a commit

Only prose counts. Code blocks, tables, headings, pictures and comments are left out. Inline code counts as one word,
however long it is; so does a number. A paragraph, an item of a list and a quotation each end a sentence. A colon or a
semicolon does not: what a reader must keep in mind until the full stop is one sentence.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONG = 25
"""Words. A sentence with more of them is long."""

_LEFT_OUT = re.compile(r"\A---\n.*?\n---\n|^ *(```|~~~).*?^ *\1[`~]*$|<!--.*?-->", re.DOTALL | re.MULTILINE)
_NO_PROSE = re.compile(r" *(\||#|!\[|</?[a-z])|(?: {4}|\t)(?! *([-*+]|\d+\.) )")
"""Tables, headings, pictures, HTML, and code by indentation."""
_ITEM = re.compile(r"\A\s*(?:[-*+]|\d\.|>)\s+")
_CODE = re.compile(r"(`+)(?!`).+?\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_END = re.compile(r"(?<![A-Z]\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bet al\.)[.!?…][\"”’)*_]*\s+(?=[\"“‘(*_[]*[A-Z0-9À-Þ])")
_WORD = re.compile(r"[^\W_](?:[\w.,'’%/×-]*\w)?")


@dataclass(frozen=True, slots=True)
class Prose:
    sentences: tuple[str, ...]

    @property
    def lengths(self) -> list[int]:
        return [len(_WORD.findall(sentence)) for sentence in self.sentences]

    @property
    def words(self) -> int:
        return sum(self.lengths)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.lengths) if self.sentences else 0.0

    @property
    def long(self) -> float:
        """The share of sentences that are long."""
        return statistics.fmean(length > LONG for length in self.lengths) if self.sentences else 0.0


def prose(markdown: str) -> Prose:
    """
    >>> page = "# Title\\n\\nUse `quitmt score -m a`. It is [quick](page.md)!\\n\\n| a table |\\n\\n- One item\\n- Two"
    >>> prose(page).sentences
    ('Use CODE.', 'It is quick!', 'One item', 'Two')
    >>> prose(page).mean, prose("```\\ncode\\n```\\n").words
    (2.0, 0)
    >>> prose("It is chrF++ at N =\\n100. So it is.").sentences
    ('It is chrF++ at N = 100.', 'So it is.')
    """
    text = _LEFT_OUT.sub("\n", markdown)
    found = [sentence.strip() for block in _blocks(text) for sentence in _split(block)]
    return Prose(tuple(sentence for sentence in found if _WORD.search(sentence)))


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs and items, each on one line."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        in_item = bool(block) and line.startswith(" ")  # the second line of an item is no code
        ends = not line.strip() or bool(_ITEM.match(line)) or (bool(_NO_PROSE.match(line)) and not in_item)
        if ends and block:
            yield " ".join(block)
            block = []
        if line.strip() and (in_item or not _NO_PROSE.match(line)):
            block.append(_ITEM.sub("", line, count=1).strip())


def _split(block: str) -> list[str]:
    plain = _LINK.sub(r"\1", _CODE.sub("CODE", block))
    ends = [match.end() for match in _END.finditer(plain)]
    return [plain[start:end] for start, end in zip([0, *ends], [*ends, len(plain)], strict=True)]


def read(path: str, commit: str | None) -> str:
    if commit is None:
        return Path(path).read_text(encoding="utf-8")
    found = subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, check=True)
    return found.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    parser.add_argument("--at", metavar="COMMIT", help="read the pages as they were there")
    parser.add_argument("--longest", action="store_true", help="print each page's five longest sentences too")
    args = parser.parse_args()
    print(f"| page | words of prose | sentences | words per sentence | over {LONG} words |")
    print("|---|---:|---:|---:|---:|")
    pages = {path: prose(read(path, args.at)) for path in args.pages}
    for path, page in pages.items():
        print(f"| {path} | {page.words:,} | {len(page.sentences)} | {page.mean:.1f} | {page.long:.0%} |")
    if args.longest:
        for path, page in pages.items():
            for length, sentence in sorted(zip(page.lengths, page.sentences, strict=True), reverse=True)[:5]:
                print(f"\n{path}, {length} words: {sentence}")


if __name__ == "__main__":
    main()
