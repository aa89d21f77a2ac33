"""Run the studies of the paper, compare their results with the published numbers, draw figures and write the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.errors import InputError
from evogt_study.operations.progress import Listener
from evogt_study.operations.run import run_all
from evogt_study.paper.agreement import Entry
from evogt_study.paper.published import Results, judged, known_differences, published
from evogt_study.paper.report import csv_text, markdown
from evogt_study.publishing.page import PROVENANCE
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import MAIN, Status, status_codes
from evogt_study.storage.atomic import check_writable, write_file
from evogt_study.study.study import Study
from evogt_study.workers.options import DEFAULT, RunOptions

if TYPE_CHECKING:
    from distributed import Client

    from evogt_study.plots.catalogue import Drawn

REPORT = "report"


@dataclass(frozen=True)
class Reproduction:
    """Outcome: the judged entries, how many published numbers no given study computes, and runs not ok."""

    entries: Sequence[Entry]
    not_computed: int
    runs: int
    runs_not_ok: int
    results: Results

    @property
    def holds(self) -> bool:
        """True where every entry agrees or is a known difference, and every run is ok."""
        return all(entry.agrees for entry in self.entries) and not self.runs_not_ok


def studies_at(paths: Iterable[Path]) -> list[Study]:
    """The studies of files and folders, in the order of their names.  Raises InputError where there are none."""
    paths = list(paths)
    for path in paths:
        if not path.exists():
            raise InputError(
                f"`STUDIES` must be study files or folders, got {path}, which does not exist; run from a checkout of "
                "the project, or name them"
            )
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
    options: RunOptions = DEFAULT,
    listener: Listener | None = None,
) -> Reproduction:
    """Run the studies, write their results to `output`, and judge every published number that they compute.

    Raises InputError where the published numbers cannot be read, and what `evogt_study.operations.run.run` raises.
    """
    rows, known = published(published_folder), known_differences(published_folder)
    # before the runs: a file that cannot be written is found out at once
    for suffix in ("md", "csv"):
        check_writable(output / f"{REPORT}.{suffix}")
    results: dict[str, xr.Dataset] = {}
    for path in run_all(studies, output, client=client, options=options, listener=listener):
        groups = read_result(path)
        results[path.stem] = groups[MAIN]
        if "pilot" in groups:
            results[f"{path.stem}/pilot"] = groups["pilot"]
    entries = judged(rows, results, known)
    planned = [status_codes(data["run_status"])[data["run_key"].values != ""] for data in results.values()]
    return Reproduction(
        entries,
        len(rows) - len(entries),
        sum(status.size for status in planned),
        sum(int(np.count_nonzero(status != Status.ok)) for status in planned),
        results,
    )


def write_report(reproduction: Reproduction, folder: Path) -> list[Path]:
    """Write the report as Markdown and CSV, and its figures as PNG; return the paths."""
    from evogt_study.plots.style import png  # 0.4 s, with matplotlib, after the runs

    origin, drawn = provenance(reproduction.results), draw_figures(reproduction.results)
    files: dict[str, str | bytes] = {
        f"{REPORT}.md": markdown(reproduction.entries, origin, drawn),
        f"{REPORT}.csv": csv_text(reproduction.entries),
        **{f"{each.name}.png": png(each.figure) for each in drawn},
    }
    for name, content in files.items():
        write_file(folder / name, content.encode() if isinstance(content, str) else content, tidy=True)
    return [folder / name for name in files]


def provenance(results: Results) -> dict[str, str]:
    """Versions that computed the results, from their own attributes; several where they differ."""
    found = {}
    for attribute, name in PROVENANCE.items():
        values = sorted({str(data.attrs[attribute]) for data in results.values() if attribute in data.attrs})
        found[name] = f"{values[0]} to {values[-1]}" if name == "date" and len(values) > 1 else "; ".join(values)
    return found


def draw_figures(results: Results) -> list[Drawn]:
    """The paper's two figures, where the studies that they show are among the results."""
    found = []
    if "nonseparable_2d_field" in results:
        found.append(_fields_drawn(results["nonseparable_2d_field"].squeeze(drop=True)))
    if {"allen_cahn_2d", "allen_cahn_reference"} <= set(results):
        found.append(_energies_drawn(energy_histories(results)))
    return found


def _fields_drawn(run: xr.Dataset) -> Drawn:
    from evogt_study.plots import field_panels
    from evogt_study.plots.catalogue import Drawn

    largest = float(np.abs(run["field"] - run["exact_field"]).max())
    return Drawn(
        "nonseparable_2d_fields",
        "Final field of the two-dimensional nonseparable benchmark",
        "Exact solution, numerical solution (common colour scale) and absolute error at T = 0.16, for epsilon = 0.1 "
        "and the GTransNet dictionary of seed 0.",
        f"Three square panels: the exact and the numerical field look the same; the error is at most {largest:.2g}.",
        field_panels(run["exact_field"], run["field"]),
    )


def _energies_drawn(histories: Mapping[str, xr.DataArray]) -> Drawn:
    from evogt_study import plots
    from evogt_study.plots.catalogue import Drawn

    falls = ", ".join(f"{name} to {float(each[-1] / each[0]):.4f}" for name, each in histories.items())
    return Drawn(
        "allen_cahn_energy",
        "Energy of the Allen-Cahn test",
        "Energy divided by its initial value, for the finite-difference reference (160 x 160, time step 0.002) and the "
        "GTransNet dictionary of seed 0.",
        f"Two curves that fall from 1 at every saved time: {falls}.",
        plots.energy_histories(histories),
    )


def energy_histories(results: Results) -> Mapping[str, xr.DataArray]:
    """The two histories of the paper's figure."""
    reference = results["allen_cahn_reference"].sel(points=160, dt=0.002)
    run = results["allen_cahn_2d"].sel(dictionary="gtransnet", seed=0)
    return {"finite differences": reference["free_energy_history"], "GTransNet": run["free_energy_history"]}
