"""The reproduction from study files to a report: run them on one set of workers, judge, draw, and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.analysis.judgement import Entry
from evogt_study.analysis.reproduction import Results, judged, known_differences, published
from evogt_study.analysis.reproduction_report import Picture, csv_text, html, markdown
from evogt_study.errors import InputError
from evogt_study.sweep.files import written_whole
from evogt_study.sweep.progress import Listener
from evogt_study.sweep.run import run_all
from evogt_study.sweep.schema import Status
from evogt_study.sweep.store import read_result
from evogt_study.sweep.study import Study

if TYPE_CHECKING:
    from distributed import Client

REPORT = "report"
PROVENANCE = {
    "date_created": "date",
    "product_version": "evogt-study",
    "git_revision": "revision",
    "git_dirty": "uncommitted changes",
    "versions": "versions",
    "platform": "platform",
    "cpu": "processor",
}
"""Attributes of the results that the report shows, and what it calls them."""


@dataclass(frozen=True)
class Reproduction:
    """What came of it: the judged entries, how many published numbers no given study computes, and runs not ok."""

    entries: Sequence[Entry]
    not_computed: int
    runs: int
    runs_not_ok: int
    results: Results

    @property
    def holds(self) -> bool:
        """Whether every entry agrees or is a known difference, and every run is ok."""
        return all(entry.agrees for entry in self.entries) and not self.runs_not_ok


def studies_at(paths: Iterable[Path]) -> list[Study]:
    """The studies of files and folders, in the order of their names.  Raises InputError where there are none."""
    files = [file for path in paths for file in (sorted(path.glob("*.toml")) if path.is_dir() else [path])]
    if not files:
        raise InputError("`STUDIES` must be study files or folders that hold some, got none")
    studies = [Study.from_file(file) for file in files]
    names = [study.name for study in studies]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"`STUDIES` must have different names, got {twice[0]!r} twice")
    return studies


def reproduce(
    studies: Iterable[Study],
    published_folder: Path,
    output: Path,
    *,
    client: Client | None = None,
    workers: int | None = None,
    listener: Listener | None = None,
) -> Reproduction:
    """Run the studies, write their results to `output`, and judge every published number that they compute.

    Raises InputError where the published numbers cannot be read, and what `evogt_study.sweep.run.run` raises.
    """
    rows, known = published(published_folder), known_differences(published_folder)
    results: dict[str, xr.Dataset] = {}
    for path in run_all(studies, output, client=client, workers=workers, listener=listener):
        groups = read_result(path)
        results[path.stem] = groups["study"]
        if "pilot" in groups:
            results[f"{path.stem}/pilot"] = groups["pilot"]
    entries = judged(rows, results, known)
    planned = [data["status"].values[data["case_key"].values != ""] for data in results.values()]
    return Reproduction(
        entries,
        len(rows) - len(entries),
        sum(status.size for status in planned),
        sum(int(np.count_nonzero(status != Status.ok)) for status in planned),
        results,
    )


def write_report(reproduction: Reproduction, folder: Path) -> list[Path]:
    """The report as Markdown, CSV and one HTML page with the figures; the paths written."""
    origin = provenance(reproduction.results)
    texts = {
        "md": markdown(reproduction.entries, origin),
        "csv": csv_text(reproduction.entries),
        "html": html(reproduction.entries, origin, pictures(reproduction.results)),
    }
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{REPORT}.{suffix}"
        with written_whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def provenance(results: Results) -> dict[str, str]:
    """What computed the results, from their own attributes; several where they differ."""
    found = {}
    for attribute, name in PROVENANCE.items():
        values = sorted({str(data.attrs[attribute]) for data in results.values() if attribute in data.attrs})
        found[name] = f"{values[0]} to {values[-1]}" if name == "date" and len(values) > 1 else "; ".join(values)
    return found


def pictures(results: Results) -> list[Picture]:
    """The paper's two figures, where the studies that they show are among the results."""
    from evogt_study.analysis import plots  # matplotlib, when the runs are done

    drawn = []
    if "nonseparable_2d_field" in results:
        run = results["nonseparable_2d_field"].squeeze(drop=True)
        drawn.append(Picture(
            "Final field of the two-dimensional nonseparable benchmark",
            "Exact solution, numerical solution (common colour scale) and absolute error at T = 0.16, for "
            "epsilon = 0.1 and the GTransNet dictionary of seed 0.",
            "Three square panels: the exact and the numerical field look the same; the error is "
            f"at most {float(np.abs(run.field - run.exact_field).max()):.2g}.",
            plots.svg(plots.field_panels(run["exact_field"], run["field"])),
        ))  # fmt: skip
    if {"allen_cahn_2d", "allen_cahn_reference"} <= set(results):
        histories = energy_histories(results)
        falls = ", ".join(f"{name} to {float(each[-1] / each[0]):.4f}" for name, each in histories.items())
        drawn.append(Picture(
            "Energy of the Allen-Cahn test",
            "Energy divided by its initial value, for the finite-difference reference (160 x 160, time step 0.002) and "
            "the GTransNet dictionary of seed 0.",
            f"Two curves that fall from 1 in every step: {falls}.",
            plots.svg(plots.energy_histories(histories)),
        ))  # fmt: skip
    return drawn


def energy_histories(results: Results) -> Mapping[str, xr.DataArray]:
    """The two histories of the paper's figure."""
    reference = results["allen_cahn_reference"].sel(points=160, dt=0.002)
    run = results["allen_cahn_2d"].sel(dictionary="gtransnet", seed=0)
    return {"finite differences": reference["free_energy_history"], "GTransNet": run["free_energy_history"]}
