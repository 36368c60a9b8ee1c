"""Twin scripts: the header, and statements with the directives that stand before them. The format is in README.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path


class ScriptError(ValueError):
    """The script is not in the format; the message names file and line."""


@dataclass
class Statement:
    text: str
    line: int
    session: int = 1
    refuse_ok: tuple[str, ...] = ()
    unordered: bool = False
    copy_data: str | None = None  # what follows COPY … FROM STDIN, up to \.


@dataclass
class Column:
    name: str  # as stored
    kind: str
    generated: str | None = None
    default: str | None = None
    not_null: bool = False


@dataclass
class Table:
    name: str
    columns: list[Column]
    partition: list[str] = field(default_factory=list)


@dataclass
class Script:
    path: Path
    tables: list[Table] = field(default_factory=list)
    modes: list[str] = field(default_factory=lambda: ["decoupled", "tiered"])
    load: list[Statement] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)


HEADER = re.compile(r"--\s*(columns|modes|load|also|partition)\s*:\s*(.*)$")
DIRECTIVE = re.compile(r"--\s*(?:(session|refuse-ok)\s*:\s*(.*?)|(unordered))\s*$")
COPY_IN = re.compile(r"\s*copy\b.*\bfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)


def parse(path: Path) -> Script:
    script = Script(path)
    text = path.read_text()
    _header(script, text)
    if not script.tables or script.tables[0].name != "t":
        raise ScriptError(f"{path}: the first line has to be `-- columns: …`")
    script.body = list(_body(path, text))
    return script


def _header(script: Script, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        match = HEADER.match(line)
        if not match:
            continue
        key, value = match.group(1), match.group(2).strip()
        if key == "columns":
            script.tables.insert(0, Table("t", columns(value)))
        elif key == "also":
            name, _, rest = value.partition(":")
            script.tables.append(Table(name.strip(), columns(rest)))
        elif key == "partition":
            script.tables[0].partition = [part.strip() for part in _split_commas(value)]
        elif key == "modes":
            script.modes = value.split()
        elif key == "load":
            script.load.append(Statement(value.rstrip(";"), number))


COLUMN = re.compile(
    r"""\s*(?P<name>"(?:[^"]|"")*"|[^\s"]+)\s+(?P<kind>.+?)
    (?:\s+GENERATED\s+ALWAYS\s+AS\s+\((?P<generated>.*)\)\s+STORED)?
    (?:\s+DEFAULT\s+(?P<default>.+?))?
    (?P<not_null>\s+NOT\s+NULL)?\s*$""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def columns(text: str) -> list[Column]:
    """`id bigint, "a, b" numeric(12,4) DEFAULT 0 NOT NULL`: the commas between columns are those outside brackets."""
    found = []
    for part in _split_commas(text):
        match = COLUMN.match(part)
        if not match:
            raise ScriptError(f"not a column: {part!r}")
        name = match["name"]
        name = name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
        found.append(Column(name, match["kind"], match["generated"], match["default"], match["not_null"] is not None))
    return found


def _split_commas(text: str) -> list[str]:
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        char = text[position]
        if char in "\"'":
            position = _quoted(text, position, False)
            continue
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
        position += 1
    return [*parts, text[start:]]


def _body(path: Path, text: str):
    """Cut the text at top-level semicolons; directives apply to the statement they precede."""
    session, pending = 1, {}
    position = 0
    while position < len(text):
        match = re.compile(r"\s+|--[^\n]*(?:\n|$)").match(text, position)
        if match:  # between statements: white space, directives, remarks
            session, pending = _directive(path, text, match, session, pending)
            position = match.end()
            continue
        end = _statement_end(text, position)
        statement = Statement(text[position:end].strip(), text.count("\n", 0, position) + 1, session, **pending)
        pending = {}
        position = end + 1
        if COPY_IN.match(statement.text):
            statement.copy_data, position = _copy_data(path, text, position, statement.line)
        yield statement


def _directive(path: Path, text: str, match: re.Match, session: int, pending: dict) -> tuple[int, dict]:
    found = DIRECTIVE.match(match.group().strip())
    if not found:
        return session, pending
    key, value, unordered = found.groups()
    if unordered:
        return session, {**pending, "unordered": True}
    try:
        if key == "session":
            return int(value), pending
        codes = tuple(re.split(r"[,\s]+", value))
        if not all(re.fullmatch(r"[0-9A-Z]{5}", code) for code in codes):
            raise ValueError
        return session, {**pending, "refuse_ok": codes}
    except ValueError:
        line = text.count("\n", 0, match.start()) + 1
        raise ScriptError(f"{path}:{line}: cannot read {match.group().strip()!r}") from None


def _copy_data(path: Path, text: str, position: int, line: int) -> tuple[str, int]:
    start = text.find("\n", position) + 1
    end = re.compile(r"^\\\.$", re.MULTILINE).search(text, start)
    if not start or not end:
        raise ScriptError(f"{path}:{line}: COPY … FROM STDIN without a closing \\.")
    return text[start : end.start()], end.end()


def _statement_end(text: str, position: int) -> int:
    """Index of the semicolon that ends the statement starting at `position` (or the end of the text)."""
    depth, atomic, words = 0, 0, []
    while position < len(text):
        char = text[position]
        if char == ";" and depth <= 0 and atomic == 0:
            return position
        if char in "\"'":
            escapes = char == "'" and position > 0 and text[position - 1] in "eE" and not _word_char(text, position - 2)
            position = _quoted(text, position, escapes)
            continue
        if text.startswith("--", position):
            position = text.find("\n", position)
            position = len(text) if position < 0 else position
            continue
        if text.startswith("/*", position):
            position = _block_comment(text, position)
            continue
        if char == "$" and not _word_char(text, position - 1):
            tag = re.compile(r"\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$").match(text, position)
            if tag:
                close = text.find(tag.group(), tag.end())
                position = len(text) if close < 0 else close + len(tag.group())
                continue
        word = re.compile(r"[A-Za-z_][\w$]*").match(text, position)
        if word:
            words.append(word.group().lower())
            atomic += _atomic_change(words, atomic)
            position = word.end()
            continue
        depth += (char == "(") - (char == ")")
        position += 1
    return len(text)


def _atomic_change(words: list[str], atomic: int) -> int:
    """Bodies of SQL functions: BEGIN ATOMIC … END holds semicolons, and CASE … END inside it counts."""
    if words[0] != "create" or not {"function", "procedure"} & set(words[:4]):
        return 0
    if words[-1] == "atomic" and words[-2] == "begin":
        return 1
    if atomic and words[-1] == "case":
        return 1
    return -1 if atomic and words[-1] == "end" else 0


def _word_char(text: str, position: int) -> bool:
    return position >= 0 and (text[position].isalnum() or text[position] in "_$")


def _quoted(text: str, position: int, escapes: bool) -> int:
    """Position after the quoted text that starts at `position`; doubled quotes stay inside."""
    quote = text[position]
    position += 1
    while position < len(text):
        if escapes and text[position] == "\\":
            position += 2
        elif text[position] == quote:
            if text[position + 1 : position + 2] != quote:
                return position + 1
            position += 2
        else:
            position += 1
    return position


def _block_comment(text: str, position: int) -> int:
    depth = 0
    while position < len(text):
        if text.startswith("/*", position):
            depth, position = depth + 1, position + 2
        elif text.startswith("*/", position):
            depth, position = depth - 1, position + 2
            if depth == 0:
                return position
        else:
            position += 1
    return position
