"""Mistakes in a study and the line for each: the table `refusals.toml`.

An entry changes one of the studies in `refusal_bases.toml`, or gives a whole one.  A line ``key = value`` sets a key,
``- key`` removes it, and ``- [section]`` removes a section.  In a message, ``...`` is any text.  After a change of
messages, ``python tests/study/test_refusals.py`` writes them again, except those with ``...``; read the difference.
"""

import json
import os
import re
import tempfile
import tomllib
from pathlib import Path

import pytest

from evogt_study.errors import StudyError
from evogt_study.study.study import Study

FILE = Path(__file__).with_name("refusals.toml")
REFUSALS = tomllib.loads(FILE.read_text(encoding="utf-8"))
BASES = tomllib.loads(FILE.with_name("refusal_bases.toml").read_text(encoding="utf-8"))


def change(base, lines):
    """The text of a study with some lines changed."""
    sections, rest = {"": {}}, []
    for text in (base, lines):
        section = ""
        for line in text.splitlines():
            if rest or line.startswith("[["):
                rest.append(line)
            elif line.startswith("- ["):
                del sections[line[3:-1]]
            elif line.startswith("["):
                section = line.strip("[]")
                sections.setdefault(section, {})
            elif line.startswith("- "):
                del sections[section][line[2:]]
            elif line:
                key, _, value = line.partition(" = ")
                sections[section][key] = value
    lines = [f"[{name}]\n{_lines(entries)}" if name else _lines(entries) for name, entries in sections.items()]
    return "\n".join([*lines, *rest, ""])


def _lines(entries):
    return "\n".join(f"{key} = {value}" for key, value in entries.items())


def refuse(folder, base="pde", change_="", files=()):
    """The message for a study in a folder."""
    for name, text in {"own.py": BASES["own"], **dict(files)}.items():
        (folder / name).write_text(text)
    text = change_ if base == "nothing" else change(BASES["bases"][base], change_)
    (folder / "tiny.toml").write_text(text)
    before = sorted(os.listdir(folder))
    with pytest.raises(StudyError) as caught:
        Study.from_file(folder / "tiny.toml")
    assert sorted(name for name in os.listdir(folder) if name != "__pycache__") == before
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 1000
    assert str(folder / "tiny.toml") in message
    return message.replace(f"{folder}/", "")


def refuse_entry(folder, entry):
    return refuse(folder, entry.get("base", "pde"), entry.get("change", ""), entry.get("files", {}))


@pytest.mark.parametrize("name", REFUSALS)
def test_a_mistake_is_refused_in_one_line(tmp_path, name):
    found, message = refuse_entry(tmp_path, REFUSALS[name]), REFUSALS[name]["message"]
    assert found == message or re.fullmatch(re.escape(message).replace(re.escape("..."), ".*"), found), found


LONG = {
    "arrays without end": ("nothing", "a = " + "[" * 100_000, "must be TOML: 'it is nested too deeply'"),
    "tables without end": ("nothing", "a = " + "{a = " * 100_000, "must be TOML: 'it is nested too deeply'"),
    "a key without end": ("pde", f"title{'.a' * 3000} = 1", "must be TOML: 'a key has more than 100 parts'"),
    "an integer of 401 digits": ("pde", f"[constants]\ngamma = 1{'0' * 400}", "`gamma` must be a positive number"),
    "an integer of ten thousand digits": ("pde", f"[constants]\ngamma = 0x{'f' * 10_000}", "`gamma` must be"),
    "a name of ten thousand digits": ("pde", f"name = 0x{'f' * 10_000}", "`name` must be"),
    "times beyond floats": ("pde", f"[output]\ntimes = [0, 1{'0' * 400}]", "`output.times[1]` must be a number"),
    "a list in lists": ("pde", f"[constants]\ngamma = {'[' * 300}{']' * 300}", "`gamma` must be"),
    "axes": (
        "pde", "\n".join(["[axes]", *(f"a{i} = [1]" for i in range(70)), "[problem]",
                          f'diffusion = "1 + {"*".join(f"a{i}" for i in range(70))}"']),
        "a study must have at most 30 axes, got 71",
    ),
    "cases of a pilot": (
        "pde", '[constants]\n- gamma\n[pilot]\nparameter = "gamma"\nseeds = { start = 7, count = 4000 }\nby = []\n'
        f"candidates = {list(range(1, 2601))}", "a pilot must have at most 10,000,000 cases, got 10,400,000",
    ),
    "a formula of terms": ("pde", f'[problem]\nexact = "{"x" + "+x" * 2500}"', "`exact` must"),
    "a formula of signs": ("pde", f'[problem]\nexact = "{"-" * 3000}x"', "`exact` must"),
    "a formula of brackets": ("pde", f'[problem]\nexact = "{"(" * 1500}x{")" * 1500}"', "`exact` must"),
    "a field of a table": (
        "design", '[[table]]\nname = "case"\nfile = "cases.csv"', "got field larger than field limit"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_a_mistake_of_any_size_is_refused_in_one_line(tmp_path, name):
    base, lines, message = LONG[name]
    assert message in refuse(tmp_path, base, lines, {"cases.csv": f"N,k\n1,{140_000 * '1'}\n"})


def _write(refusals):
    """The table as TOML, with texts as they are."""
    lines = []
    for name, entry in refusals.items():
        lines.append(f"[{json.dumps(name, ensure_ascii=False)}]")
        for key in ("base", "change", "files", "message"):
            each = entry.get(key, {})
            parts = {key: each} if isinstance(each, str) else {f"{key}.{json.dumps(n)}": each[n] for n in each}
            lines += [f"{part} = {_literal(text)}" for part, text in parts.items()]
        lines.append("")
    return "\n".join(lines)


def _literal(text):
    """A string without escapes, if its characters can be read."""
    if not text.replace("\n", "").isprintable() or "'''" in text or text.endswith("'"):
        return json.dumps(text)
    if "\n" in text:
        return f"'''\n{text}'''"
    return f"'{text}'" if "'" not in text else f"'''{text}'''"


if __name__ == "__main__":
    for each in REFUSALS.values():
        if "..." not in each["message"]:
            with tempfile.TemporaryDirectory() as name:
                each["message"] = refuse_entry(Path(name), each)
    FILE.write_text(_write(REFUSALS), encoding="utf-8")
    assert tomllib.loads(FILE.read_text(encoding="utf-8")) == REFUSALS
