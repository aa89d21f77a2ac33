"""Run the studies of the paper, compare their results with the published numbers, draw figures and write the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.errors import InputError
from evogt_study.operations.progress import Listener
from evogt_study.operations.run import run_all
from evogt_study.paper.published import Entry, Results, judge_numbers, read_known_differences, read_published
from evogt_study.paper.report import to_csv, to_markdown
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import LABEL, MAIN, Status, status_codes
from evogt_study.storage.atomic import check_writable, write_file
from evogt_study.study.study import Study
from evogt_study.workers.options import DEFAULT, RunOptions

if TYPE_CHECKING:
    from distributed import Client

    from evogt_study.plots.catalogue import PlottedFigure

REPORT = "report"


@dataclass(frozen=True)
class Reproduction:
    """The judged entries, the number of published numbers that no given study computes, and the runs not ok."""

    entries: Sequence[Entry]
    not_computed: int
    runs: int
    runs_not_ok: int
    results: Results

    @property
    def holds(self) -> bool:
        """True if every entry agrees or is a known difference, and every run is ok."""
        return all(entry.agrees for entry in self.entries) and not self.runs_not_ok


def read_studies(paths: Iterable[Path]) -> list[Study]:
    """Read the studies of files and folders, in the order of their names.  Raises InputError without any."""
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(
                f"`STUDIES` must be study files or folders, got {path}, which does not exist; run from a checkout of "
                "the project, or name them"
            )
        files += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files:
        raise InputError("`STUDIES` must be study files or folders that hold some, got none")
    studies = [Study.from_file(file) for file in files]
    names = sorted(study.name for study in studies)
    twice = [name for name in names if names.count(name) > 1]
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

    Raises InputError if the published numbers cannot be read, and what `evogt_study.operations.run.run` raises.
    """
    rows, known = read_published(published_folder), read_known_differences(published_folder)
    # before the runs, which take hours
    for suffix in ("md", "csv"):
        check_writable(output / f"{REPORT}.{suffix}")
    results = run_studies(studies, output, client=client, options=options, listener=listener)
    entries = judge_numbers(rows, results, known)
    return Reproduction(entries, len(rows) - len(entries), *count_failures(results), results)


def run_studies(
    studies: Iterable[Study],
    output: Path,
    *,
    client: Client | None = None,
    options: RunOptions = DEFAULT,
    listener: Listener | None = None,
) -> Results:
    """Run the studies, write their results to `output`, and read them."""
    results: dict[str, xr.Dataset] = {}
    for path in run_all(studies, output, client=client, options=options, listener=listener):
        for phase, data in read_result(path).items():
            results[path.stem if phase == MAIN else f"{path.stem}/{phase}"] = data
    return results


def count_failures(results: Results) -> tuple[int, int]:
    """Return the number of planned runs, and how many of them are not ok."""
    planned = [status_codes(data["run_status"])[data["run_key"].values != ""] for data in results.values()]
    return sum(each.size for each in planned), sum(int(np.count_nonzero(each != Status.ok)) for each in planned)


def write_reproduction(reproduction: Reproduction, folder: Path) -> list[Path]:
    """Write the report as Markdown and CSV, and its figures as PNG; return the paths."""
    from evogt_study.plots.style import encode_figure  # 0.4 s, with matplotlib, after the runs

    origin, figures = collect_versions(reproduction.results), draw_figures(reproduction.results)
    files = {
        f"{REPORT}.md": to_markdown(reproduction.entries, origin, figures).encode(),
        f"{REPORT}.csv": to_csv(reproduction.entries).encode(),
        **{f"{each.name}.png": encode_figure(each.figure, "png", 200) for each in figures},
    }
    for name, content in files.items():
        write_file(folder / name, content, tidy=True)
    return [folder / name for name in files]


def collect_versions(results: Results) -> dict[str, str]:
    """Return the versions that computed the results, from their own attributes; several if they differ."""
    from evogt_study.publishing.report import PROVENANCE  # with matplotlib

    found = {}
    for attribute, name in PROVENANCE.items():
        values = sorted({str(data.attrs[attribute]) for data in results.values() if attribute in data.attrs})
        found[name] = f"{values[0]} to {values[-1]}" if name == "date" and len(values) > 1 else "; ".join(values)
    return found


def draw_figures(results: Results) -> list[PlottedFigure]:
    """Draw the paper's two figures, if the studies that they show are among the results."""
    from evogt_study.plots.canvas import PlotRequest
    from evogt_study.plots.catalogue import draw_kind
    from evogt_study.plots.groups import PlotRoles

    found = []
    if "nonseparable_2d_field" in results:
        made = draw_kind(results["nonseparable_2d_field"], "fields", PlotRequest(notes=False))
        title = "Final field of the two-dimensional nonseparable benchmark"
        found.append(replace(made, name="nonseparable_2d_fields", title=title, caption=made.alt))
    if {"allen_cahn_2d", "allen_cahn_reference"} <= set(results):
        request = PlotRequest("energy", PlotRoles(hue="method"), notes=False)
        made = draw_kind(compare_energies(results), "time_series", request)
        falls = "Two curves that fall from 1 at every saved time."
        found.append(replace(made, name="allen_cahn_energy", title="Energy of the Allen-Cahn test", alt=falls))
    return found


def compare_energies(results: Results) -> xr.Dataset:
    """Return energy over initial energy of the finite differences and of GTransNet with seed 0, the paper's figure."""
    reference = results["allen_cahn_reference"].sel(points=160, dt=0.002)
    run = results["allen_cahn_2d"].sel(dictionary="gtransnet", seed=0)
    shares = [each["free_energy_history"].reset_coords(drop=True) for each in (reference, run)]
    shares = [each / each.isel(time=0) for each in shares]
    energy = xr.concat(shares, xr.Variable("method", ["finite differences", "GTransNet"]), join="outer")
    attributes = {"long_name": "energy divided by its initial value", LABEL: "$E_q(t) / E_q(0)$"}
    data = energy.to_dataset(name="energy")
    data["energy"].attrs, data["time"].attrs = attributes, reference["time"].attrs
    return data.assign(run_status=("method", ["ok", "ok"]))
