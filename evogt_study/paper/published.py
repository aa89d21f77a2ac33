"""Each published number of the paper and the study that computes it.

A CSV file in data/published holds the numbers of one table or of a passage of text, one in each row.  For each file,
`TABLES` names the studies, reads the number of a row from their results, and gives the `Measure` of the comparison.
The readers do not see the published values.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from evogt_study.analysis.statistics import IncompleteWarning, summary
from evogt_study.errors import InputError
from evogt_study.paper.agreement import Entry, Measure, Verdict, verdict
from evogt_study.pde.methods.variables import VARIABLES
from evogt_study.schema.variables import Status, status_codes

KNOWN = "known_differences"
"""The CSV that explains differences: the file, labels that single out the entries, and the explanation."""

UNRESOLVED = 2.22e-16  # tab:diagnostics: sigma_min(M_q) <= eps_mach sigma_max(M_q)

Results = Mapping[str, xr.Dataset]
"""Results by the study's name; a pilot's runs by "NAME/pilot"."""
Labels = Mapping[str, str]


class Computed(NamedTuple):
    """A number or string, and the runs behind it."""

    value: float | str
    n_ok: int
    n_planned: int


@dataclass(frozen=True)
class Row:
    """One published number: its place, what it is, and its text."""

    file: str
    table: str
    labels: Labels
    published: str


@dataclass(frozen=True)
class Table:
    """Computation of the numbers of one CSV: from which studies (of a row), and by what reading of their results."""

    studies: Callable[[Labels], tuple[str, ...]]
    read: Callable[[Results, Labels], Computed]
    measure: Callable[[Labels], Measure] = lambda labels: Measure.digits


# Reading a number off a result


class NotComputedError(Exception):
    """The given studies do not compute this number: they have other values on their axes."""


def at(values: xr.DataArray, labels: Labels) -> xr.DataArray:
    """The values at those labels that are dimensions; others say something else about the number.

    Raises NotComputedError where a label is not on its axis.
    """
    for name, label in labels.items():
        if name not in values.dims:
            continue
        words = values[name].dtype.kind in "OU"
        try:
            values = values.sel({name: label if words else float(label)})
        except KeyError:
            raise NotComputedError from None
    return values


def measured(data: xr.Dataset, variable: str) -> xr.DataArray:
    """A variable of the result; all missing where no run was ok and so none returned it."""
    if variable in data:
        return data[variable]
    if variable not in VARIABLES:
        raise InputError(f"unknown variable {variable!r}")
    return xr.full_like(data["run_status"], np.nan, dtype=float).rename(variable)


def statistic(values: xr.DataArray, name: str) -> Computed:
    """A statistic over all dimensions that are left, by the paper's name for it, from unrounded values."""
    n_ok, n_planned = int(np.isfinite(values.values).sum()), values.size
    if name == "max":
        return Computed(float(values.max()), n_ok, n_planned)
    if not values.dims:
        return Computed(float(values), n_ok, n_planned)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)  # n_ok says it
        found = summary(values.reset_coords(drop=True), over=[str(dim) for dim in values.dims], statistics=[name])
        return Computed(float(found[name]), n_ok, n_planned)


def ratio(values: xr.DataArray, dictionaries: str, name: str) -> Computed:
    """Return the gain T/G: the statistic of one dictionary over the statistic of another."""
    over = {"gain": "mean", "median_gain": "median"}[name]
    first, second = (statistic(values.sel(dictionary=each), over) for each in dictionaries.split("/"))
    value = float(first.value) / float(second.value)  # of unrounded statistics, as the paper's gains are
    return Computed(value, first.n_ok + second.n_ok, first.n_planned + second.n_planned)


def single(values: xr.DataArray) -> Computed:
    """The one number of a single run."""
    return statistic(values, "mean")


def _of_study(name: str) -> Callable[[Results, Labels], Computed]:
    """A table of statistics over seeds of one study."""

    def read(results: Results, labels: Labels) -> Computed:
        # gains are of "transnet/gtransnet", which is no label of the axis
        values = at(
            measured(results[name], labels["variable"]), {key: text for key, text in labels.items() if "/" not in text}
        )
        if "/" in labels["dictionary"]:
            return ratio(values, labels["dictionary"], labels["statistic"])
        return statistic(values, labels["statistic"])

    return read


def _operator_2d(results: Results, labels: Labels) -> Computed:
    modulation = {"fixed": "0", "time_dependent": "1"}[labels["operator"]]
    return _of_study("operator_2d")(results, {**labels, "modulation": modulation})


def _conditioning(results: Results, labels: Labels) -> Computed:
    data, variable = results["oscillatory_1d"], labels["variable"]
    if variable not in ("raw_condition", "raw_unresolved"):
        return statistic(at(measured(data, variable), labels), labels["statistic"])
    resolution = at(measured(data, "raw_resolution"), labels)
    n_ok, unresolved = int(np.isfinite(resolution.values).sum()), int((resolution <= UNRESOLVED).sum())
    if variable == "raw_unresolved":
        return Computed(float(unresolved), n_ok, resolution.size)
    if unresolved:
        return Computed("singular" if unresolved == n_ok else "partly singular", n_ok, resolution.size)
    if not n_ok:
        return Computed(math.nan, 0, resolution.size)
    decade = math.floor(math.log10(float((1.0 / resolution).median())))
    return Computed(f"1e{decade}", n_ok, resolution.size)


def _temporal_convergence(results: Results, labels: Labels) -> Computed:
    errors = measured(results[f"temporal_{labels['problem']}"], "coefficient_error")
    error = single(at(errors, labels))
    if labels["variable"] == "coefficient_error":
        return error
    before = single(at(errors, {"dt": repr(2.0 * float(labels["dt"]))}))  # the paper's steps are halved from row to row
    order = math.log2(float(before.value) / float(error.value))
    return Computed(order, before.n_ok + error.n_ok, before.n_planned + error.n_planned)


def _reference_tolerance(results: Results, labels: Labels) -> Computed:
    if "condition estimate" in labels["variable"]:
        return statistic(measured(results["space_time_regression"], "scaled_condition"), "max")
    states = measured(results["temporal_tolerance"], "reference_coefficients")
    return _difference(*(at(states, {"coefficient_rtol": rtol}) for rtol in ("1e-12", "1e-13")))


def _difference(values: xr.DataArray, reference: xr.DataArray, weights: xr.DataArray | float = 1.0) -> Computed:
    """Relative weighted L2 difference of two runs' vectors."""
    number = np.sqrt(float((weights * (values - reference) ** 2).sum()) / float((weights * reference**2).sum()))
    n_ok = sum(int(np.isfinite(run.values).any()) for run in (values, reference))
    return Computed(float(number), n_ok, 2)


# by the words of data/published/allen_cahn_reference.csv
REFINEMENTS = {
    "relative difference 160^2 vs 320^2 grid, dt=0.002": ((160, 0.002), (320, 0.002)),
    "relative difference dt=0.002 vs dt=0.001 on 320^2": ((320, 0.002), (320, 0.001)),
    "relative difference 160^2, dt=0.002 vs 320^2, dt=0.001": ((160, 0.002), (320, 0.001)),
}


def _allen_cahn_reference(results: Results, labels: Labels) -> Computed:
    data = results["allen_cahn_reference"]
    values = measured(data, "validation_values")
    coarse, fine = (
        at(values, {"points": str(points), "dt": str(dt)}) for points, dt in REFINEMENTS[labels["variable"]]
    )
    return _difference(coarse, fine, data.get("weight", 1.0))


def _heat_modes(labels: Labels) -> str:
    return "space_time_evolution" if labels["method"] == "evolution" else labels["method"]


def _space_time_diagnostic(results: Results, labels: Labels) -> Computed:
    return statistic(at(measured(results[_heat_modes(labels)], labels["variable"]), labels), labels["statistic"])


def _finite_elements(labels: Labels) -> str:
    return f"p1_fem_{labels['problem'].removesuffix('_1d')}"


# the number of unknowns is a constant of the study, and no axis on which the label could be looked up
def _p1_fem(results: Results, labels: Labels) -> Computed:
    data = results[_finite_elements(labels)]
    unknowns = single(at(measured(data, "degrees_of_freedom"), labels))
    if unknowns.n_ok and unknowns.value != float(labels["dofs"]):
        raise NotComputedError
    return single(at(measured(data, labels["variable"]), labels))


PRESCRIBED = {"space_time_diagnostic": "space_time_regression", "temporal_convergence": "temporal_autonomous"}
"""Studies whose names differ from those in the paper's table of shape parameters."""


def _gamma_study(labels: Labels) -> str:
    return PRESCRIBED.get(labels["study"], labels["study"])


def _gamma_selected(results: Results, labels: Labels) -> Computed:
    """The pilot's choice with the pilot's runs, or the value that the study file prescribes with the study's."""
    name = _gamma_study(labels)
    runs = results.get(f"{name}/pilot", results[name])
    planned = at(runs["run_key"], labels) != ""
    ok = planned & (status_codes(at(runs["run_status"], labels)) == Status.ok)
    # as a word, so that the choice has to be met and not only to be near
    return Computed(f"{float(at(results[name]['gamma'], labels)):g}", int(ok.sum()), int(planned.sum()))


CROSS_GRID_STUDIES = ("operator_2d", "nonseparable_2d", "nonseparable_3d")
REFINED: Mapping[str, tuple[str, Labels]] = {
    "relative change of final error, refined assembly, fixed 2-D operator": ("operator_2d", {"modulation": "0"}),
    "relative change of final error, refined assembly, time-dependent 2-D operator": (
        "operator_2d",
        {"modulation": "1"},
    ),
    "relative change of final error, refined assembly, nonseparable 2-D": ("nonseparable_2d", {}),
    "relative change of final error, 3-D Gaussian RF seed 0, 20^3 to 24^3": ("nonseparable_3d", {}),
}


def _cross_grid_studies(labels: Labels) -> tuple[str, ...]:
    if labels["variable"] not in REFINED:
        return CROSS_GRID_STUDIES
    study = REFINED[labels["variable"]][0]
    return (study, f"refined_{study}")


def _cross_grid(results: Results, labels: Labels) -> Computed:
    """The largest defect over the multidimensional studies, or the largest change by a refined assembly rule."""
    variable = labels["variable"]
    if variable in REFINED:
        study, place = REFINED[variable]
        return _refined(results[study], results[f"refined_{study}"], place)
    found = [statistic(measured(results[study], variable), "max") for study in CROSS_GRID_STUDIES]
    largest = max(float(each.value) for each in found)
    return Computed(largest, sum(each.n_ok for each in found), sum(each.n_planned for each in found))


def _refined(data: xr.Dataset, refined: xr.Dataset, place: Labels) -> Computed:
    """|e_fine - e| / e of the final errors; in 2-D for the case with the largest stiffness defect, which is checked."""
    errors = at(measured(refined, "error"), place)
    defects = at(measured(data, "stiffness_defect_cross_grid"), place)
    if "epsilon" not in errors.dims and np.isfinite(defects.values).any():
        worst = defects.isel(defects.argmax(...))
        chosen = [str(refined[name].item()) == str(worst[name].item()) for name in ("epsilon", "dictionary", "seed")]
        if not all(chosen):
            return Computed("another case has the largest defect", errors.size, errors.size)
    coarse, fine = errors.isel(quadrature=0), errors.isel(quadrature=1)  # first the rule of the study itself
    return Computed(float((abs(fine - coarse) / coarse).max()), int(np.isfinite(errors.values).sum()), errors.size)


def _from(*studies: str) -> Callable[[Labels], tuple[str, ...]]:
    """All rows of a table come from these studies."""
    return lambda labels: studies


def _by_order(*variables: str) -> Callable[[Labels], Measure]:
    """Numbers that are rounding noise, so that the order of magnitude is all that they mean."""
    return lambda labels: Measure.order if labels["variable"] in variables else Measure.digits


def _tolerance_measure(labels: Labels) -> Measure:
    """The change under tighter tolerances is rounding noise of an adaptive solver; the condition is a bound."""
    return Measure.bound if "upper bound" in labels["variable"] else Measure.order


TABLES: Mapping[str, Table] = {
    "oscillatory_1d": Table(_from("oscillatory_1d"), _of_study("oscillatory_1d")),
    "target_1d": Table(_from("target_1d"), _of_study("target_1d")),
    "p1_fem": Table(lambda labels: (_finite_elements(labels),), _p1_fem),
    "feature_count": Table(_from("feature_count"), _of_study("feature_count")),
    "conditioning": Table(_from("oscillatory_1d"), _conditioning, _by_order("mass_defect")),
    "threshold": Table(_from("threshold"), _of_study("threshold"), _by_order("mass_defect")),
    "quadrature": Table(_from("quadrature"), _of_study("quadrature")),
    "temporal_convergence": Table(lambda labels: (f"temporal_{labels['problem']}",), _temporal_convergence),
    "reference_tolerance": Table(
        _from("temporal_tolerance", "space_time_regression"), _reference_tolerance, _tolerance_measure
    ),
    "space_time_diagnostic": Table(lambda labels: (_heat_modes(labels),), _space_time_diagnostic),
    "operator_2d": Table(_from("operator_2d"), _operator_2d),
    "nonseparable_2d": Table(_from("nonseparable_2d"), _of_study("nonseparable_2d")),
    "nonseparable_3d": Table(_from("nonseparable_3d"), _of_study("nonseparable_3d")),
    "cross_grid": Table(_cross_grid_studies, _cross_grid),
    "allen_cahn_2d": Table(_from("allen_cahn_2d"), _of_study("allen_cahn_2d")),
    "allen_cahn_reference": Table(_from("allen_cahn_reference"), _allen_cahn_reference),
    "gamma_selected": Table(lambda labels: (_gamma_study(labels),), _gamma_selected),
}


# The published numbers


def published(folder: Path) -> list[Row]:
    """All published numbers of `folder`, in the order of `TABLES`.  Raises InputError for a missing file."""
    return [row for name in TABLES for row in _rows(folder, name)]


def _rows(folder: Path, name: str) -> list[Row]:
    if name == "gamma_selected":
        raw = read_csv(folder / f"{name}.csv", "study", "epsilon")
        return [_gamma_row(row, dictionary) for row in raw for dictionary in _dictionaries(row)]
    return [_row(name, row) for row in read_csv(folder / f"{name}.csv", "value")]


def _row(name: str, raw: Mapping[str, str]) -> Row:
    labels = {key: text for key, text in raw.items() if key not in ("table", "source", "value")}
    return Row(name, raw.get("table") or "text", labels, raw["value"])


def _dictionaries(raw: Mapping[str, str]) -> list[str]:
    return [key for key, text in raw.items() if key not in ("study", "epsilon") and text]


def _gamma_row(raw: Mapping[str, str], dictionary: str) -> Row:
    place = {"study": raw["study"]} | ({"epsilon": raw["epsilon"]} if raw["epsilon"] else {})
    labels = {**place, "dictionary": dictionary, "variable": "gamma"}
    return Row("gamma_selected", "gamma_selected", labels, raw[dictionary])


def read_csv(path: Path, *needed: str) -> list[dict[str, str]]:
    """The rows of a CSV file with at least the columns `needed`.

    Raises InputError, with file and line, where it cannot be read, has no such column, or a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = reader.fieldnames or []
    except csv.Error as error:
        raise InputError(f"{path} must be CSV: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the published numbers {path}: {getattr(error, 'strerror', None) or error}"
        ) from None
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(f"{path} must have a column `{missing[0]}`, got {', '.join(header) or 'none'}")
    if not rows:
        raise InputError(f"{path} must have rows, got none")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():  # DictReader's key of cells too many, and value of cells too few
            raise InputError(f"{path}, line {line} must have {len(header)} columns ({', '.join(header)})")
    return rows


@dataclass(frozen=True)
class KnownDifference:
    """Entries of a file, selected by labels, with a known difference; the computed value and the explanation."""

    file: str
    labels: Labels
    computed: str
    explanation: str

    def explains(self, row: Row, computed: float | str) -> bool:
        """True where the row is one of these entries, and came out as it is known to."""
        named = self.file == row.file and all(row.labels.get(key) == text for key, text in self.labels.items())
        return named and verdict(self.computed, computed) is Verdict.all_digits


def known_differences(folder: Path) -> list[KnownDifference]:
    """The list of known differences: columns file, entries ("k=8; statistic=mean"), computed and explanation.

    Raises InputError where the list cannot be read or names a file that does not exist.
    """
    path = folder / f"{KNOWN}.csv"
    rows = read_csv(path, "file", "entries", "computed", "explanation")
    unknown = [row["file"] for row in rows if row["file"] not in TABLES]
    if unknown:
        raise InputError(f"`file` must be one of {', '.join(TABLES)}, got {unknown[0]!r} ({path})")
    return [
        KnownDifference(row["file"], _labels_in(row["entries"]), row["computed"], row["explanation"]) for row in rows
    ]


def _labels_in(text: str) -> Labels:
    pairs = (part.partition("=") for part in text.split(";"))
    return {key.strip(): value.strip() for key, _, value in pairs}


# Judging


def judged(rows: Sequence[Row], results: Results, known: Iterable[KnownDifference] = ()) -> list[Entry]:
    """An entry for each row that the `results` compute: whose studies are among them, with its values on their axes.

    Raises InputError for a row that nothing could compute.
    """
    known = list(known)
    entries = []
    for row in rows:
        try:
            if all(name in results for name in TABLES[row.file].studies(row.labels)):
                entries.append(_entry(row, results, known))
        except NotComputedError:
            continue
        except (KeyError, ValueError) as error:  # labels that no table has
            raise InputError(f"cannot read the published number {row.labels} of {row.file}: {error!r}") from None
    return entries


def _entry(row: Row, results: Results, known: list[KnownDifference]) -> Entry:
    table = TABLES[row.file]
    computed, measure = table.read(results, row.labels), table.measure(row.labels)
    found = verdict(row.published, computed.value, measure)
    if computed.n_ok < computed.n_planned:
        found = Verdict.differs  # a number over the runs that survived is another number
    whole = computed.n_ok == computed.n_planned
    reasons = [each.explanation for each in known if whole and each.explains(row, computed.value)]
    return Entry(
        row.file, row.table, row.labels, row.published, computed.value, measure, found,
        computed.n_ok, computed.n_planned, known=reasons[0] if reasons and found is Verdict.differs else "",
    )  # fmt: skip
