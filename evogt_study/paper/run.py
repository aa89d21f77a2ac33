"""Read studies and their results, compare the results with published numbers, draw figures and write the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.analysis.tables import render_table
from evogt_study.errors import InputError
from evogt_study.paper.board import SUMMARY, format_board, list_levels, read_board, summarise_board
from evogt_study.paper.published import KnownDifference, Results, Row, judge_numbers
from evogt_study.paper.report import summarise, to_csv, to_markdown, to_terminal
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import LABEL, MAIN, Status, status_codes
from evogt_study.study.study import Study

if TYPE_CHECKING:
    from evogt_study.plots.canvas import PlottedFigure


@dataclass(frozen=True)
class Reproduction:
    """Text for the terminal, files by name, and a conclusion.

    `holds` is True if all numbers agree and all runs are ok.
    """

    text: str
    files: Mapping[str, bytes]
    conclusion: str
    holds: bool


def read_studies(paths: Iterable[Path]) -> list[Study]:
    """Return the studies of files and folders, in the order of their names.

    Raises InputError if the paths hold no study.
    """
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(
                f"`STUDIES` must be study files or folders, got {path}, which does not exist. Run from a checkout of "
                "the project, or name the study files."
            )
        files += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files:
        raise InputError("`STUDIES` must be study files or folders with study files, got none")
    studies = [Study.from_file(file) for file in files]
    ((name, count),) = Counter(study.name for study in studies).most_common(1)
    if count > 1:
        raise InputError(f"`STUDIES` must have different names, got {name!r} twice")
    return studies


def read_results(paths: Iterable[Path]) -> Results:
    """Read result files.  The key of a main phase is the name of the study, and the key of a pilot is "NAME/pilot"."""
    return {
        path.stem if phase == MAIN else f"{path.stem}/{phase}": data
        for path in paths
        for phase, data in read_result(path).items()
    }


def count_failures(results: Results) -> tuple[int, str]:
    """Return the number of planned runs that are not ok, and a text such as "118 runs, 0 not ok"."""
    planned = [status_codes(data["run_status"])[data["run_key"].values != ""] for data in results.values()]
    failures = sum(int(np.count_nonzero(each != Status.ok)) for each in planned)
    return failures, f"{sum(each.size for each in planned)} runs, {failures} not ok"


def judge_results(rows: Sequence[Row], known: Sequence[KnownDifference], results: Results) -> Reproduction:
    """Judge every published number that the results contain, and draw the figures of the paper."""
    from evogt_study.plots.style import encode_figure  # 0.4 s, with matplotlib, after the runs
    from evogt_study.publishing.report import PROVENANCE

    entries = judge_numbers(rows, results, known)
    failures, counts = count_failures(results)
    figures = draw_figures(results)
    versions = {}  # all different values of each attribute of the results
    for attribute, name in PROVENANCE.items():
        values = sorted({str(data.attrs[attribute]) for data in results.values() if attribute in data.attrs})
        versions[name] = f"{values[0]} to {values[-1]}" if name == "date" and len(values) > 1 else "; ".join(values)
    files = {
        "report.md": to_markdown(entries, versions, figures).encode(),
        "report.csv": to_csv(entries).encode(),
        **{f"{each.name}.png": encode_figure(each.figure, "png", 200) for each in figures},
    }
    conclusion = f"{counts}; {summarise(entries)}"
    if len(entries) < len(rows):
        conclusion += f"\n{len(rows) - len(entries)} published numbers belong to studies that were not given"
    holds = all(entry.agrees for entry in entries) and not failures
    return Reproduction(to_terminal(entries), files, conclusion, holds)


def compare_methods(published: Sequence[Mapping[str, str]], results: Results) -> Reproduction:
    """Return tables that compare the methods of the board."""
    rows = read_board(published, results)
    failures, counts = count_failures(results)
    files = {"board.md": format_board(rows).encode(), "board.csv": list_levels(rows).encode()}
    return Reproduction(render_table(SUMMARY, summarise_board(rows), "text"), files, counts, not failures)


def draw_figures(results: Results) -> list[PlottedFigure]:
    """Draw each of the two figures of the paper if the results contain its studies."""
    from evogt_study.plots.catalogue import draw_kind
    from evogt_study.plots.groups import PlotRequest

    found = []
    if "nonseparable_2d_field" in results:
        made = draw_kind(results["nonseparable_2d_field"], "fields", PlotRequest(notes=False))
        title = "Final field of the two-dimensional nonseparable benchmark"
        found.append(replace(made, name="nonseparable_2d_fields", title=title, caption=made.alt))
    if {"allen_cahn_2d", "allen_cahn_reference"} <= set(results):
        request = PlotRequest("energy", hue="method", notes=False)
        made = draw_kind(compare_energies(results), "time_series", request)
        falls = "Two curves that fall from 1 at every saved time."
        found.append(replace(made, name="allen_cahn_energy", title="Energy of the Allen-Cahn test", alt=falls))
    return found


def compare_energies(results: Results) -> xr.Dataset:
    """Return energy over initial energy of the finite differences and of GTransNet with seed 0."""
    reference = results["allen_cahn_reference"].sel(points=160, dt=0.002)
    run = results["allen_cahn_2d"].sel(dictionary="gtransnet", seed=0)
    energies = [each["free_energy_history"].reset_coords(drop=True) for each in (reference, run)]
    shares = [each / each.isel(time=0) for each in energies]
    energy = xr.concat(shares, xr.Variable("method", ["finite differences", "GTransNet"]), join="outer")
    attributes = {"long_name": "energy divided by its initial value", LABEL: "$E_q(t) / E_q(0)$"}
    data = energy.to_dataset(name="energy")
    data["energy"].attrs, data["time"].attrs = attributes, reference["time"].attrs
    return data.assign(run_status=("method", ["ok", "ok"]))
