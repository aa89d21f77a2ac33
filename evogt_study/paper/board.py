"""Compare several methods on published problems, at equal time and at equal error.

A study in studies/board has the axes `method`, `level` and `seed`.  Its variables are `error`, `error_joint` (all
fields in one norm), `seconds` (CPU time), `unknowns` and `reference_error`.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from evogt_study.analysis.tables import render_table
from evogt_study.errors import InputError
from evogt_study.paper.published import OWN, Results, read_csv

MEASURES = ["unknowns", "error", "error_joint", "seconds"]
ROWS = "<!-- all rows -->"  # between the summary and the tables of the problems, for pages that include one part
SUMMARY = (
    "problem", "published best", "gtransnet: error", "in one norm", "CPU s", "best other: error in no more seconds",
    "gtransnet over best other", "fastest other: CPU s for no more error", "error of reference",
)  # fmt: skip
METHODS = ("method", "unknowns", "error", "CPU s", "least error in no more seconds", "least CPU s for no more error")


class BoardRow(NamedTuple):
    """Published value and source of one problem, and medians over the seeds by method and level."""

    published: Mapping[str, str]
    levels: pd.DataFrame
    reference_error: float

    def compare_methods(self) -> pd.DataFrame:
        """Return the best level of each method, compared with the best level of the method `OWN`."""
        levels = self.levels
        best = levels.loc[levels.groupby("method", sort=False)["error"].idxmin()].set_index("method")
        own = best.loc[OWN]
        best["least_error"] = levels[levels["seconds"] <= own["seconds"]].groupby("method")["error"].min()
        best["least_seconds"] = levels[levels["error"] <= own["error"]].groupby("method")["seconds"].min()
        return best


def check_board(folder: Path) -> list[dict[str, str]]:
    """Read the published values in the file board.csv.  An unreadable file raises InputError."""
    return read_csv(folder / "board.csv", "study", "problem", "published", "by", "source", "note")


def read_board(published: Sequence[Mapping[str, str]], results: Results) -> list[BoardRow]:
    """Return a row for each published problem with a result.  Raises InputError for a result of another study."""
    rows = []
    for row in published:
        if (data := results.get(row["study"])) is None:
            continue
        needed = (*MEASURES, "reference_error", "method", "level", "seed")
        missing = next((name for name in needed if name not in data.variables), None)
        if missing or OWN not in data["method"].values:
            raise InputError(f"the result {row['study']} must have {missing or f'the method {OWN}'}")
        medians = data[MEASURES].median("seed").reset_coords(drop=True).to_dataframe(dim_order=["method", "level"])
        levels = medians.reset_index().dropna(subset=["error"])  # NaN for a level without a successful run
        rows.append(BoardRow(row, levels, float(data["reference_error"].max())))
    return rows


def summarise_board(rows: Sequence[BoardRow]) -> list[list[str]]:
    """Return the cells of the summary table, with one row for each problem."""
    body = []
    for row in rows:
        table, value, levels = row.compare_methods(), row.published["published"], row.levels
        own, others = table.loc[OWN].to_dict(), table.drop(OWN)
        best, fastest = others["least_error"].dropna(), others["least_seconds"].dropna()
        factor = own["error"] / best.min()
        body.append([
            row.published["problem"], f"{value} ({row.published['by']})" if value else "no number published",
            _show(own["error"]), _show(levels["error_joint"][levels["method"] == OWN].min()),
            _show(own["seconds"], ".2g"), f"{best.idxmin()}: {_show(best.min())}" if len(best) else _show(math.nan),
            _show(float(f"{factor:.2g}"), ",.0f") if factor >= 100.0 else _show(factor, ".2g"),
            f"{fastest.idxmin()}: {_show(fastest.min(), '.2g')}" if len(fastest) else _show(math.nan),
            _show(row.reference_error) if row.reference_error else "exact solution",
        ])  # fmt: skip
    return body


def format_board(rows: Sequence[BoardRow]) -> str:
    """Return Markdown with the summary, and a table of the best levels of all methods for each problem."""
    summary = render_table(SUMMARY, summarise_board(rows), "markdown")
    parts = ["<!-- made by: evogt reproduce --board -->", summary, ROWS]
    for row in rows:
        published = row.published
        body = [
            [str(name), f"{each['unknowns']:.0f}", _show(each["error"]), _show(each["seconds"], ".2g"),
             _show(each["least_error"]), _show(each["least_seconds"], ".2g")]
            for name, each in row.compare_methods().iterrows()
        ]  # fmt: skip
        parts += [
            f"## {published['problem']}",
            f"Published: {published['published'] or 'no number published'} ({published['note']}). "
            f"Source: {published['source']}. Study: `studies/board/{published['study']}.toml`.",
            render_table(METHODS, body, "markdown"),
        ]
    return "\n\n".join(parts) + "\n"


def list_levels(rows: Sequence[BoardRow]) -> str:
    """Return CSV with one row for each problem, method and level."""
    header = ["study", "method", *MEASURES, "published", "source"]
    body = [
        [row.published["study"], level["method"], f"{level['unknowns']:.0f}", f"{level['error']:.6g}",
         f"{level['error_joint']:.6g}", f"{level['seconds']:.3g}", row.published["published"], row.published["source"]]
        for row in rows
        for _, level in row.levels.iterrows()
    ]  # fmt: skip
    return render_table(header, body, "csv") + "\n"


def _show(value: float, form: str = ".1e") -> str:
    """Format a number with a short power of ten, such as "1.0e-4", or NaN as a dash."""
    return "—" if math.isnan(value) else f"{value:{form}}".replace("e-0", "e-").replace("e+00", "")
