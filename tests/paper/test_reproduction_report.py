"""The report: every number in every form, what differs in front, and a page that needs nothing but itself."""

import base64
import csv
import dataclasses
import io
import math
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from types import MappingProxyType

import pytest

from evogt_study.paper.agreement import Entry, Measure, Verdict, verdict
from evogt_study.paper.reproduction_report import (
    COMMAND,
    MARKS,
    Kind,
    Picture,
    by_severity,
    counts,
    csv_text,
    explanations,
    html,
    judged,
    kind,
    markdown,
    overview,
    pivot,
    relative,
    runs_behind,
    shown,
    summary_line,
    terminal_table,
)

PROVENANCE = {"title": "Numbers & more", "date": "2026-11-21", "git revision": "7fd380e", "machine": "<two> cores"}
MISPRINT = "Most likely a misprint, by a factor of ten."


def entry(labels, published, computed, file="main", table="main1d", measure=Measure.digits, known="", n_ok=20):
    words = dict(pair.split("=") for pair in labels.split())
    return Entry(
        file, table, words, published, computed, measure, verdict(published, computed, measure), n_ok, 20, known
    )


GOOD = entry("epsilon=0.2 dictionary=transnet variable=error statistic=mean", "4.50e-2", 0.0449683)
MEDIAN = entry("epsilon=0.2 dictionary=transnet variable=error statistic=median", "3.17e-2", 0.0317)
STD = entry("epsilon=0.2 dictionary=gtransnet variable=error statistic=mean", "5.43e-2", 0.05437, n_ok=19)
OTHER = entry("epsilon=0.1 dictionary=gtransnet variable=error statistic=mean", "3.60e-4", 3.601e-4)
GAIN = entry("epsilon=0.1 dictionary=transnet/gtransnet variable=error statistic=gain", "125.0", 125.02)
NOISE = entry("dictionary=transnet variable=mass_defect", "1.83e-10", 3e-10, "noise", "diagnostics", Measure.order)
WORD = entry("dictionary=transnet variable=raw_condition", "singular", "singular", "noise", "diagnostics")
COUNT = entry("dictionary=transnet variable=raw_unresolved", "20", 20.0, "noise", "diagnostics")
BOUND = entry("variable=condition", "500", 431.2, "limit", "text", Measure.bound)
KNOWN = entry("k=8 method=regression", "2.34e-1", 2.3401, "modes", "global_diagnostic", known=MISPRINT)
WRONG = entry("k=12 method=regression", "3.30e1", 41.0, "modes", "global_diagnostic")
NOTHING = entry("k=16 method=regression", "5.54e2", math.nan, "modes", "global_diagnostic", n_ok=0)
ENTRIES = [GOOD, STD, OTHER, GAIN, MEDIAN, NOISE, WORD, COUNT, BOUND, KNOWN, WRONG, NOTHING]
PICTURES = [
    Picture("Field", "A caption <b>", 'three "panels"', '<svg xmlns="http://www.w3.org/2000/svg"></svg>'),
    Picture("Energy", "Another caption", "two curves", b"\x89PNG\r\n\x1a\n..."),
]
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """A page taken apart: its elements with attributes, and the text of each; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        element = (tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, _, text in self.open:
            text.append(data)

    def all(self, tag):
        return [(attrs, " ".join("".join(text).split())) for name, attrs, text in self.elements if name == tag]


PAGE = html(ENTRIES, PROVENANCE, PICTURES)
PARSED = Page(PAGE)


@pytest.mark.parametrize(
    ("published", "computed", "expected"),
    [
        ("4.50e-2", 0.0449683, "4.49683e-2"),
        ("4.50e-2", 2.3, "2.30000e0"),
        ("-1.92e-5", -1.918954e-5, "-1.91895e-5"),
        ("9.13e-14", 9.13366e-14, "9.13366e-14"),
        ("4.636e-5", 4.6364851e-5, "4.636485e-5"),
        ("1e15", 1.18182e15, "1.182e15"),
        ("99.8", 99.765432, "99.7654"),
        ("125.0", 124.99999, "125.0000"),
        ("2.000", 2.00029123, "2.000291"),
        ("150", 150.0, "150"),
        ("150", 149.6, "149.600"),
        ("20", 20, "20"),
        ("0", 0.0, "0"),
        ("1.16", 0.0, "0.00000"),
        ("1.16", 1.6e-12, "1.60000e-12"),
        ("1.16", -3.25e9, "-3.25000e9"),
        ("singular", "singular", "singular"),
        ("1e15", "singular", "singular"),
        ("singular", 1.23456e15, "1.235e+15"),
        ("1.16", math.nan, "nan"),
        ("1.16", -math.inf, "-inf"),
    ],
)
def test_computed_values_have_three_more_digits_than_printed(published, computed, expected):
    assert shown(published, computed) == expected


def test_counts_have_every_verdict():
    assert counts(ENTRIES) == {
        Verdict.all_digits: 7,
        Verdict.one_unit: 1,
        Verdict.same_order: 1,
        Verdict.differs: 3,
    }
    assert counts([]) == dict.fromkeys(Verdict, 0)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], "no published numbers"),
        ([GOOD], "1 published number: 1 agrees in all printed digits, none differs"),
        (
            [GOOD, GAIN, STD, NOISE, KNOWN],
            "5 published numbers: 2 agree in all printed digits, 1 within one unit of the last digit, "
            "1 in order of magnitude, 1 differs (known)",
        ),
        ([WRONG], "1 published number: 0 agree in all printed digits, 1 differs (unexplained)"),
        ([KNOWN, KNOWN], "2 published numbers: 0 agree in all printed digits, 2 differ (known)"),
        (
            [GOOD, WRONG, KNOWN, NOTHING],
            "4 published numbers: 1 agrees in all printed digits, 3 differ (1 known, 2 unexplained)",
        ),
    ],
)
def test_summary_line(entries, expected):
    assert summary_line(entries) == expected


def test_a_known_difference_is_told_from_an_unexplained_one():
    assert (kind(KNOWN), kind(WRONG), kind(GOOD)) == (Kind.known, Kind.differs, Kind.all_digits)
    assert (judged(KNOWN), judged(WRONG)) == ("differs (known)", "differs")
    assert judged(BOUND) == "within the printed bound"
    assert len({mark.symbol for mark in MARKS.values()}) == len(MARKS) == len(Kind)


def test_relative_difference_in_two_digits():
    assert (relative(KNOWN), relative(WRONG), relative(NOTHING), relative(WORD)) == ("+9.0e0", "+2.4e-1", "—", "—")


def test_what_is_worst_comes_first_and_agreement_not_at_all():
    assert by_severity(ENTRIES) == [WRONG, NOTHING, KNOWN, STD, NOISE]
    assert explanations([*ENTRIES, KNOWN]) == [MISPRINT]


def test_overview_has_one_row_for_each_file():
    header, body = overview(ENTRIES)
    assert header == ["file", "table", "numbers", "all digits", "one unit", "order", "differs"]
    assert body == [
        ["main", "main1d", "5", "4", "1", "0", "0"],
        ["noise", "diagnostics", "3", "2", "0", "1", "0"],
        ["limit", "text", "1", "1", "0", "0", "0"],
        ["modes", "global_diagnostic", "3", "0", "0", "0", "3"],
    ]


def test_terminal_table():
    totals, rest, note, summary = terminal_table(ENTRIES).split("\n\n")
    assert len(totals.splitlines()) == 2 + 4
    columns = [re.split(r"\s{2,}", line) for line in rest.splitlines()]
    assert columns[0] == ["table", "number", "published", "computed", "rel. diff.", "verdict", "runs"]
    assert columns[2:] == [
        ["global_diagnostic", "k=12, regression", "3.30e1", "4.10000e1", "+2.4e-1", "differs", "20/20"],
        ["global_diagnostic", "k=16, regression", "5.54e2", "nan", "—", "differs", "0/20"],
        ["global_diagnostic", "k=8, regression", "2.34e-1", "2.34010e0", "+9.0e0", "differs (known) [1]", "20/20"],
        [
            *("main1d", "epsilon=0.2, gtransnet, error, mean", "5.43e-2", "5.43700e-2", "+1.3e-3"),
            *("within one unit of the last digit", "19/20"),
        ],
        [
            *("diagnostics", "transnet, mass_defect", "1.83e-10", "3.00000e-10", "+6.4e-1"),
            *("same order of magnitude", "20/20"),
        ],
    ]
    assert note == f"[1] {MISPRINT}"
    assert summary == summary_line(ENTRIES)


def test_terminal_table_of_full_agreement_has_no_list():
    totals, summary = terminal_table([GOOD]).split("\n\n")
    assert "4.50e-2" not in totals
    assert summary.endswith("none differs")


def test_markdown_has_a_row_for_each_number():
    text = markdown(ENTRIES, PROVENANCE)
    assert text.startswith(f"# Numbers & more\n\n{summary_line(ENTRIES)}.\n\n")
    assert f"1. {MISPRINT}" in text
    section = text.split("## main: main1d")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    assert rows[0][:6] == ["epsilon", "dictionary", "variable", "statistic", "published", "computed"]
    assert rows[2] == [
        *("0.2", "transnet", "error", "mean", "4.50e-2", "4.49683e-2", "-7.0e-4"),
        *("agrees in all printed digits", "20/20"),
    ]
    assert sum(bool(re.search(r"/20 +\|$", line)) for line in text.splitlines()) == len(ENTRIES)
    assert "- git revision: 7fd380e" in text
    assert f"`{COMMAND}`" in text
    assert text.endswith("\n")


def test_a_bar_or_a_line_break_in_a_label_does_not_break_the_markdown_table():
    odd = Entry("f", "t", {"variable": "a|b\nc"}, "1.0", 1.0, Measure.digits, Verdict.all_digits, 1, 1)
    (line,) = [line for line in markdown([odd], {}).splitlines() if "a\\|b c" in line]
    assert len(re.findall(r"(?<!\\)\|", line)) == 7


def test_csv_reads_back_in_full_precision():
    rows = list(csv.DictReader(io.StringIO(csv_text(ENTRIES))))
    assert len(rows) == len(ENTRIES)
    assert rows[0] == {
        "file": "main",
        "table": "main1d",
        "labels": "epsilon=0.2; dictionary=transnet; variable=error; statistic=mean",
        "published": "4.50e-2",
        "computed": "0.0449683",
        "relative_difference": repr(GOOD.relative_difference),
        "measure": "digits",
        "verdict": "agrees in all printed digits",
        "known": "",
        "n_ok": "20",
        "n_planned": "20",
    }
    for row, original in zip(rows, ENTRIES, strict=True):
        if isinstance(original.computed, str):
            assert row["computed"] == original.computed
        else:
            assert float(row["computed"]) == pytest.approx(original.computed, rel=0, abs=0, nan_ok=True)
    assert rows[9]["known"] == MISPRINT
    assert (rows[-1]["computed"], rows[-1]["relative_difference"]) == ("nan", "nan")


def test_pivot_is_the_paper_s_table():
    table = pivot("main", [GOOD, STD, OTHER, GAIN, MEDIAN])
    assert table.row_labels == ("epsilon",)
    assert table.heads == (
        (("transnet", 2), ("gtransnet", 1), ("transnet/gtransnet", 1)),
        (("mean", 1), ("median", 1), ("mean", 1), ("gain", 1)),
    )
    assert table.rows == (
        (("0.2",), ((GOOD,), (MEDIAN,), (STD,), ())),
        (("0.1",), ((), (), (OTHER,), (GAIN,))),
    )
    assert table.constant == {"variable": "error"}


def test_pivot_of_a_declared_table():
    entries = [entry(f"epsilon={e} dictionary={d} variable={v}", "1.0", 1.0) for e in "12" for d in "ab" for v in "rc"]
    table = pivot("conditioning", entries)
    assert table.row_labels == ("epsilon", "dictionary")
    assert [row for row, _ in table.rows] == [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")]
    assert table.heads == ((("r", 1), ("c", 1)),)


def test_pivot_without_columns_and_with_numbers_in_column_heads():
    assert pivot("limit", [BOUND]).heads == ((("number", 1),),)
    assert pivot("limit", [BOUND]).rows == ((("condition",), ((BOUND,),)),)
    elements = [entry(f"epsilon=1 dofs={n}", "1.0", 1.0) for n in (60, 180)]
    assert pivot("p1_fem", elements).heads == ((("dofs = 60", 1), ("dofs = 180", 1)),)


BARE = [Entry("f", "t", {}, "1", 1.0, Measure.digits, verdict_, 1, 1) for verdict_ in Verdict]


@pytest.mark.parametrize("entries", [ENTRIES, [GOOD, GOOD, WRONG], BARE])
def test_pivot_loses_no_entry_where_labels_repeat_or_are_absent(entries):
    cells = [cell for _, row in pivot("any", entries).rows for cell in row]
    assert Counter(map(id, entries)) == Counter(id(own) for cell in cells for own in cell)


def test_the_page_is_well_formed_and_says_its_language():
    assert PAGE.startswith("<!DOCTYPE html>\n")
    assert PARSED.all("html")[0][0] == {"lang": "en"}
    assert PARSED.all("title")[0][1] == PARSED.all("h1")[0][1] == "Numbers & more"
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in [a for a, _ in PARSED.all("meta")]
    identifiers = [attrs["id"] for _, attrs, _ in PARSED.elements if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))
    named = [attrs["aria-labelledby"] for _, attrs, _ in PARSED.elements if "aria-labelledby" in attrs]
    linked = [attrs["href"].removeprefix("#") for attrs, _ in PARSED.all("a")]
    assert set(named) | set(linked) <= set(identifiers)


def test_headings_are_in_order():
    levels = [int(tag[1]) for tag, _, _ in PARSED.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_page_loads_and_runs_nothing():
    tags = {tag for tag, _, _ in PARSED.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attrs, _ in PARSED.elements:
        assert not [name for name in attrs if name.startswith("on")]
        assert attrs.get("src", "data:image/").startswith("data:image/")
        assert attrs.get("href", "#").startswith("#")
    assert "http:" not in PAGE
    assert "https:" not in PAGE
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in PAGE
    assert "@import" not in PAGE
    assert "url(" not in PAGE


def test_every_table_has_a_caption_and_scoped_heads_and_scrolls_by_itself():
    tables = len(PARSED.all("table"))
    captions = {attrs["id"]: text for attrs, text in PARSED.all("p") if attrs.get("class") == "caption"}
    assert tables == len(captions) == 2 + 4  # overview, near misses, one for each file
    assert all(captions[attrs["aria-labelledby"]] for attrs, _ in PARSED.all("table"))
    assert all(attrs.get("scope") in {"col", "colgroup", "row"} for attrs, _ in PARSED.all("th"))
    regions = [attrs for attrs, _ in PARSED.all("div") if attrs.get("role") == "region"]
    assert len(regions) == tables
    assert all(attrs["tabindex"] == "0" and attrs["class"] == "scroll" for attrs in regions)


def test_header_cells_span_as_many_columns_as_the_rows_have():
    for table in re.findall(r"<table.*?</table>", PAGE, re.DOTALL):
        head, body = (Page("".join(re.findall(r"<tr>.*?</tr>", part, re.DOTALL))) for part in table.split("</thead>"))
        covered = sum(int(a.get("colspan", 1)) * int(a.get("rowspan", 1)) for a, _ in head.all("th"))
        width = covered / len(head.all("tr"))
        assert len(body.all("th")) + len(body.all("td")) == width * len(body.all("tr"))


def test_each_cell_has_both_numbers_and_a_verdict_that_is_read_out():
    cells = [text for attrs, text in PARSED.all("span") if attrs.get("class", "").startswith("entry")]
    assert len(cells) == len(ENTRIES)
    assert "4.50e-2 4.49683e-2 ✓" in cells
    assert "5.43e-2 5.43700e-2 ±1 19 of 20 runs" in cells
    assert "2.34e-1 2.34010e0 †" in cells
    assert "3.30e1 4.10000e1 ✗" in cells
    assert "5.54e2 nan ✗ 0 of 20 runs" in cells
    assert "singular singular ✓" in cells
    marks = [attrs for attrs, _ in PARSED.all("span") if attrs.get("role") == "img"]
    assert Counter(attrs["aria-label"] for attrs in marks) == Counter(map(judged, ENTRIES))
    assert all(attrs["title"] == attrs["aria-label"] for attrs in marks)


def test_the_summary_and_the_legend_are_on_top():
    assert PARSED.all("p")[0][1] == f"{summary_line(ENTRIES)}."
    legend = [text for _, text in PARSED.all("li")][: len(MARKS)]
    assert legend == [f"{mark.symbol} {mark.words}" for mark in MARKS.values()]


def test_what_differs_is_listed_with_its_explanation():
    items = [text for attrs, text in PARSED.all("li") if "class" in attrs][len(MARKS) :]
    assert len(items) == 3
    assert items[0].startswith("✗ modes: k = 12, regression (global_diagnostic) Published 3.30e1, computed 4.10000e1")
    assert items[0].endswith("relative difference +2.4e-1. Unexplained.")
    assert items[1].endswith("computed nan, from 0 of 20 runs. Unexplained.")
    assert items[2].endswith(f"Known: {MISPRINT}")


def test_without_differences_and_figures_the_page_says_so():
    page = Page(html([GOOD], {}))
    headings = [text for _, text in page.all("h2")]
    assert headings == ["What differs", "The paper's tables", "Where these numbers come from", "Compute them again"]
    assert "None of the published numbers differs." in [text for _, text in page.all("p")]
    assert Page(html([], {})).all("h1")


def test_figures_are_inside_the_page_with_their_words():
    images = [attrs for attrs, _ in PARSED.all("img")]
    assert [attrs["alt"] for attrs in images] == ['three "panels"', "two curves"]
    kinds, contents = zip(*(attrs["src"].split(";base64,") for attrs in images), strict=True)
    assert kinds == ("data:image/svg+xml", "data:image/png")
    assert [base64.b64decode(content) for content in contents] == [PICTURES[0].image.encode(), PICTURES[1].image]
    assert [text for _, text in PARSED.all("figcaption")] == ["A caption <b>", "Another caption"]
    as_bytes = html(ENTRIES, PROVENANCE, [PICTURES[0]._replace(image=PICTURES[0].image.encode())])
    assert as_bytes == html(ENTRIES, PROVENANCE, [tuple(PICTURES[0])])


def test_a_wide_figure_is_scrolled_on_a_phone_and_another_shrinks():
    def sized(width, height):
        png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4)
        return [f'<svg viewBox="0 0 {width}.5 {height}"></svg>', png]

    images = [*sized(650, 225), *sized(410, 260), "<svg></svg>"]
    page = Page(html([GOOD], {}, [Picture("Figure", "caption", "alt", image) for image in images]))
    assert [attrs.get("class") for attrs, _ in page.all("img")] == ["wide", "wide", None, None, None]


def test_provenance_and_the_command_are_at_the_end():
    assert [text for _, text in PARSED.all("dt")] == ["date", "git revision", "machine"]
    assert [text for _, text in PARSED.all("dd")] == ["2026-11-21", "7fd380e", "<two> cores"]
    assert PARSED.all("code")[0][1] == COMMAND


def test_nothing_from_data_is_taken_for_markup():
    bad = "<script>alert(1)</script>\"'&"
    entries = [
        Entry(f"f{bad}", f"t{bad}", {f"k{bad}": f"v{bad}", "variable": bad}, bad, bad, Measure.digits, v, 1, 2, bad)
        for v in Verdict
    ]
    page = html(entries, {"title": bad, bad: bad}, [Picture(bad, bad, bad, bad)])
    parsed = Page(page)
    assert "<script" not in page
    assert "alert" not in {name for _, attrs, _ in parsed.elements for name in attrs}
    assert parsed.all("h1")[0][1] == bad
    assert parsed.all("img")[0][0]["alt"] == bad


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_enough_contrast(scheme):
    """4.5:1 at least, as WCAG asks for text, for every verdict's ink on its ground and for the page's own."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", rule))
        for rule in re.findall(r":root \{ (.*?)\}", PAGE, re.DOTALL)[:2]
    )
    assert light.keys() == dark.keys()
    inks = light if scheme == "light" else dark
    pairs = re.findall(r"^\.[\w-]+ \{ background: var\(--([\w-]+)\); color: var\(--(\w+)\); \}", PAGE, re.MULTILINE)
    assert len(pairs) == len(Kind)
    pairs += [(ground, ink) for ground, _ in pairs for ink in ("ink", "quiet")]
    pairs += [(ground, ink) for ground in ("ground", "solid") for ink in ("ink", "quiet", "link")]
    for ground, ink in pairs:
        assert contrast(inks[ground], inks[ink]) >= 4.5, (ground, ink)


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("form", [html, markdown])
def test_the_same_entries_give_the_same_report(form):
    assert form(ENTRIES, PROVENANCE) == form(tuple(ENTRIES), MappingProxyType(PROVENANCE))


def test_every_class_of_a_verdict_has_a_style():
    style = PAGE.split("<style>")[1].split("</style>")[0]
    assert all(f".{name} {{" in style for name in Kind)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([(20, 20)], "each from 20 runs"),
        ([(1, 1), (1, 1)], "each from 1 run"),
        ([(3, 3), (40, 40)], "from 3 to 40 runs each"),
        ([(19, 20), (20, 20)], "from 19 to 20 runs each, 1 of them from fewer than planned"),
    ],
)
def test_the_runs_behind_the_numbers_are_told(counts, words):
    entries = [
        dataclasses.replace(entry("epsilon=0.2", "1.0", 1.0), n_ok=ok, n_planned=planned) for ok, planned in counts
    ]
    assert runs_behind(entries) == words
