"""Each published number of the paper and the study that computes it.

A CSV file in data/published holds the numbers of one table or of a passage of text.  Each row of the file has one
number.  For each file, `TABLES` names the studies and has a function that reads the number of a row from their results.
`CLAIMS` has the functions for the numbers of the text.  `find_measure` returns the method of comparison.  These
functions do not see the published values.  The files store numbers as printed, because the number of printed digits
decides the verdict.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from evogt_study.analysis.statistics import IncompleteWarning, summary
from evogt_study.errors import InputError
from evogt_study.pde.methods.declarations import VARIABLES
from evogt_study.schema.variables import Status, status_codes

KNOWN = "known_differences"
"""Name of the CSV file with the known differences and their explanations."""

OWN = "gtransnet"
VECTORS = ("mode", "node")
"""Dimensions of the vectors that one run returns."""
UNRESOLVED = 2.22e-16  # tab:diagnostics: sigma_min(M_q) <= eps_mach sigma_max(M_q)

Results = Mapping[str, xr.Dataset]
"""Results by the name of the study, and results of pilots by "NAME/pilot"."""
Labels = Mapping[str, str]


class Verdict(StrEnum):
    """Relation of a computed value to a printed value."""

    all_digits = "agrees in all printed digits"
    one_unit = "within one unit of the last digit"
    same_order = "same order of magnitude"
    differs = "differs"


class Measure(StrEnum):
    """Meaning of a published number: digits, order of magnitude (for rounding errors) or upper bound."""

    digits = "digits"
    order = "order"
    bound = "bound"


def to_number(text: str) -> float | None:
    """Return a printed number, or None for a string such as "singular"."""
    try:
        return float(text)
    except ValueError:
        return None


def find_last_digit(text: str) -> float:
    """Return the size of one unit in the last printed digit.

    >>> find_last_digit("4.50e-2")
    0.0001
    """
    mantissa, _, exponent = text.lower().partition("e")
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def judge_value(published: str, computed: float | str, measure: Measure = Measure.digits) -> Verdict:
    """Return the verdict on a printed number or string.

    "All digits" means that the computed value rounds to the printed value.  "One unit" means that the computed value
    rounds to a neighbour of the printed value.  "Same order" means that the values differ by less than half a decade,
    if the measure is the order.
    """
    if isinstance(computed, str):
        return Verdict.all_digits if computed == published else Verdict.differs
    target = to_number(published)
    if target is None or not math.isfinite(computed):
        return Verdict.differs
    if measure is Measure.bound:
        return Verdict.all_digits if computed <= target else Verdict.differs
    units = abs(computed - target) / find_last_digit(published)
    if units <= 0.5 * (1.0 + 1e-9):  # a value on the half unit may round up or down
        return Verdict.all_digits
    if measure is Measure.order:
        # zero and numbers of different signs have no ratio in decades
        near = computed * target > 0.0 and abs(math.log10(computed / target)) < 0.5
        return Verdict.same_order if near else Verdict.differs
    return Verdict.one_unit if units <= 1.5 * (1.0 + 1e-9) else Verdict.differs


class Computed(NamedTuple):
    """A computed number or string, with its numbers of ok and planned runs."""

    value: float | str
    n_ok: int
    n_planned: int


@dataclass(frozen=True)
class Row:
    """One published number with its file, table, labels and printed text."""

    file: str
    table: str
    labels: Labels
    published: str


@dataclass(frozen=True)
class Entry(Row):
    """A published number with the computed number and the verdict.

    `file` is the CSV file in data/published without suffix, and `table` is the label in the paper or "text".  The
    `labels` are printed values of epsilon, dictionary, variable, statistic and others.  `known` is the explanation of a
    known difference.
    """

    computed: float | str
    measure: Measure
    verdict: Verdict
    n_ok: int
    n_planned: int
    known: str = ""

    @property
    def relative_difference(self) -> float:
        """Value of (computed - published) / |published|, or NaN for a string and for zero."""
        published = to_number(self.published)
        if isinstance(self.computed, str) or not published:
            return math.nan
        return (self.computed - published) / abs(published)

    @property
    def is_known(self) -> bool:
        """True if the number differs and the list of known differences explains the difference."""
        return self.verdict is Verdict.differs and bool(self.known)

    @property
    def agrees(self) -> bool:
        """True if the number does not differ or its difference is known."""
        return self.verdict is not Verdict.differs or self.is_known


class PublishedTable(NamedTuple):
    """Two functions for the rows of a CSV file.  The functions return the studies of a row and the computed number."""

    studies: Callable[[Labels], tuple[str, ...]]
    read: Callable[[Results, Labels], Computed]


class NotComputedError(Exception):
    """The given studies do not compute this number, because their axes have other values."""


def select(data: xr.Dataset, variable: str, labels: Labels) -> xr.DataArray:
    """Return a variable at the labels that are dimensions, or NaN if no run returned the variable.

    Raises NotComputedError if a label is not on its axis, and InputError for an unknown variable.
    """
    if variable not in data and variable not in VARIABLES:
        raise InputError(f"unknown variable {variable!r}")
    values = data[variable] if variable in data else xr.full_like(data["run_status"], np.nan, dtype=float)
    for name in [name for name in labels if name in values.dims]:
        label: str | float = labels[name] if values[name].dtype.kind in "OU" else float(labels[name])
        try:
            values = values.sel({name: label})
        except KeyError:
            raise NotComputedError from None
    return values


def count_runs_behind(value: float | str, *arrays: xr.DataArray) -> Computed:
    """Return a value with the number of runs in the arrays, and the number of runs with a finite value."""
    known = [(abs(each) < np.inf).any([dim for dim in each.dims if dim in VECTORS]) for each in arrays]
    return Computed(value, sum(int(each.sum()) for each in known), sum(each.size for each in known))


def compute(values: xr.DataArray, statistic: str = "mean") -> Computed:
    """Return a statistic of unrounded values over all dimensions.  The name of the statistic is from the paper."""
    if statistic == "max" or not values.dims:
        return count_runs_behind(float(values.max()), values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)  # `n_ok` has this information
        found = summary(values.reset_coords(drop=True), over=[str(dim) for dim in values.dims], statistics=[statistic])
    return count_runs_behind(float(found[statistic]), values)


def compute_gain(values: xr.DataArray, dictionaries: str, name: str) -> Computed:
    """Return the gain T/G, the ratio of the statistics of two dictionaries."""
    pair = [values.sel(dictionary=each) for each in dictionaries.split("/")]
    first, second = (float(compute(each, {"gain": "mean", "median_gain": "median"}[name]).value) for each in pair)
    return count_runs_behind(first / second, *pair)  # the paper also divides unrounded statistics


def read_statistic(data: xr.Dataset, labels: Labels) -> Computed:
    """Return a statistic over seeds, or the gain of two dictionaries such as "transnet/gtransnet"."""
    values = select(data, labels["variable"], {key: text for key, text in labels.items() if "/" not in text})
    if "/" in labels.get("dictionary", ""):
        return compute_gain(values, labels["dictionary"], labels["statistic"])
    return compute(values, labels["statistic"])


def _make_study_table(template: str, read: Callable[[xr.Dataset, Labels], Computed] = read_statistic) -> PublishedTable:
    """Return a table with one study for each row.  The labels of the row complete the name `template`."""
    return PublishedTable(
        lambda labels: (_find_study(template, labels),),
        lambda results, labels: read(results[_find_study(template, labels)], labels),
    )


def _find_study(template: str, labels: Labels) -> str:
    name = template.format(**labels)
    return RENAMED.get(name, name)


def _read_conditioning(data: xr.Dataset, labels: Labels) -> Computed:
    variable = labels["variable"]
    if variable not in ("raw_condition", "raw_unresolved"):
        return read_statistic(data, labels)
    resolution = select(data, "raw_resolution", labels)
    n_ok, unresolved = int(np.isfinite(resolution.values).sum()), int((resolution <= UNRESOLVED).sum())
    value: float | str = float(unresolved)
    if variable == "raw_condition" and unresolved:
        value = "singular" if unresolved == n_ok else "partly singular"
    elif variable == "raw_condition":
        value = f"1e{math.floor(math.log10(float((1.0 / resolution).median())))}" if n_ok else math.nan
    return count_runs_behind(value, resolution)


def _read_temporal_convergence(data: xr.Dataset, labels: Labels) -> Computed:
    error = select(data, "coefficient_error", labels)
    if labels["variable"] == "coefficient_error":
        return compute(error)
    # the step in the paper halves from row to row
    before = select(data, "coefficient_error", {"dt": repr(2.0 * float(labels["dt"]))})
    return count_runs_behind(math.log2(float(before) / float(error)), before, error)


# the number of unknowns is a constant of the study, not an axis
def _read_p1_fem(data: xr.Dataset, labels: Labels) -> Computed:
    unknowns = compute(select(data, "degrees_of_freedom", labels))
    if unknowns.n_ok and unknowns.value != float(labels["dofs"]):
        raise NotComputedError
    return compute(select(data, labels["variable"], labels))


def _read_gamma_selected(results: Results, labels: Labels) -> Computed:
    """Return gamma with the runs of the pilot that chose it.  Without a pilot, use the runs of the study."""
    name = _find_study("{study}", labels)
    runs = results.get(f"{name}/pilot", results[name])
    planned = select(runs, "run_key", labels) != ""
    ok = planned & (status_codes(select(runs, "run_status", labels)) == Status.ok)
    # as a string, so that the choice must be equal
    gamma = float(select(results[name], "gamma", labels))
    return Computed(f"{gamma:g}", int(ok.sum()), int(planned.sum()))


# --- numbers of the text, each a function of one or several variables -------------------------------------------------


def _count_below_elements(oscillatory: xr.DataArray, target: xr.DataArray, *elements: xr.DataArray) -> float:
    pairs = zip((oscillatory, target), elements, strict=True)
    return float(sum(int((errors.mean("seed") < linear).sum()) for errors, linear in pairs))


def _compute_largest_change(errors: xr.DataArray) -> float:
    fixed, moving = (errors.sel(modulation=each).mean("seed") for each in (0, 1))
    return float((100.0 * abs(moving - fixed) / fixed).max())


def _compute_ratio(errors: xr.DataArray) -> float:
    means = errors.mean("seed")
    return float((means.sel(dictionary="gaussian_rf") / means.sel(dictionary=OWN)).mean())


def _count_smallest(*errors: xr.DataArray) -> float:
    means = [each.mean("seed") for each in errors]
    return float(sum(int((each.sel(dictionary=OWN) <= each.min("dictionary")).sum()) for each in means))


def _count_decays(increments: xr.DataArray) -> float:
    return float((increments <= 0.0).sum())


def _find_largest(*values: xr.DataArray) -> float:
    return max(float(each.max()) for each in values)


def _compute_difference(values: xr.DataArray, reference: xr.DataArray) -> float:
    """Return the relative weighted L2 difference of the vectors of two runs."""
    weights = values.coords.get("weight", 1.0)
    return math.sqrt(float((weights * (values - reference) ** 2).sum()) / float((weights * reference**2).sum()))


def _compare_refined(errors: xr.DataArray, defects: xr.DataArray) -> float | str:
    """Return the largest |e_fine - e| / e of the final errors.

    In 2-D, the given case must have the largest stiffness defect.
    """
    if "epsilon" not in errors.dims and np.isfinite(defects.values).any():
        worst = defects.isel(defects.argmax(...))
        if any(str(errors[name].item()) != str(worst[name].item()) for name in ("epsilon", "dictionary", "seed")):
            return "another case has the largest defect"
    coarse, fine = errors.isel(quadrature=0), errors.isel(quadrature=1)  # the first rule is the rule of the study
    return float((abs(fine - coarse) / coarse).max())


_FAMILIES = ("oscillatory_1d", "target_1d", "p1_fem_oscillatory", "p1_fem_target")
_IN_SPACE = ("operator_2d", "nonseparable_2d", "nonseparable_3d")
_COMPARED = ("oscillatory_1d", "target_1d", *_IN_SPACE, "allen_cahn_2d")
_CHANGE = "relative change of final error, "
_GRIDS = [f"allen_cahn_reference validation_values {at}" for at in (
    "points=160 dt=0.002", "points=320 dt=0.002", "points=320 dt=0.001")]  # fmt: skip
_REFINED = {study: (f"refined_{study} error", f"{study} stiffness_defect_cross_grid") for study in _IN_SPACE}
CLAIMS: Mapping[str, tuple[Callable[..., float | str], *tuple[str, ...]]] = {
    **{
        f"cases with a lower mean error of {name} than of p1_fem": (
            _count_below_elements, *(f"{study} error dictionary={name}" for study in _FAMILIES)
        )
        for name in (OWN, "transnet")
    },
    "largest relative change of a mean error by the time-dependent operator, percent": (
        _compute_largest_change, "operator_2d error"
    ),
    "identity-mass defect, largest of all runs": (
        _find_largest, "oscillatory_1d mass_defect", "threshold mass_defect"
    ),
    "runs with a monotone decay of the energy": (_count_decays, "allen_cahn_2d energy_increment"),
    "mean error of gaussian_rf over gtransnet, three dimensions": (_compute_ratio, "nonseparable_3d error"),
    "setups in which gtransnet has the smallest mean error": (
        _count_smallest, *(f"{study} error" for study in _COMPARED)
    ),
    **{
        name: (_find_largest, *(f"{study} {name}" for study in _IN_SPACE))
        for name in ("mass_defect_cross_grid", "stiffness_defect_cross_grid")
    },
    f"{_CHANGE}refined assembly, fixed 2-D operator": (
        _compare_refined, *(f"{each} modulation=0" for each in _REFINED["operator_2d"])
    ),
    f"{_CHANGE}refined assembly, time-dependent 2-D operator": (
        _compare_refined, *(f"{each} modulation=1" for each in _REFINED["operator_2d"])
    ),
    f"{_CHANGE}refined assembly, nonseparable 2-D": (_compare_refined, *_REFINED["nonseparable_2d"]),
    f"{_CHANGE}3-D Gaussian RF seed 0, 20^3 to 24^3": (_compare_refined, *_REFINED["nonseparable_3d"]),
    "augmented scaled condition estimate, upper bound": (_find_largest, "space_time_regression scaled_condition"),
    "relative change of the final DOP853 coefficient vector when tolerances are tightened": (
        _compute_difference,
        *(f"temporal_tolerance reference_coefficients coefficient_rtol={each}" for each in ("1e-12", "1e-13")),
    ),
    "relative difference 160^2 vs 320^2 grid, dt=0.002": (_compute_difference, _GRIDS[0], _GRIDS[1]),
    "relative difference dt=0.002 vs dt=0.001 on 320^2": (_compute_difference, _GRIDS[1], _GRIDS[2]),
    "relative difference 160^2, dt=0.002 vs 320^2, dt=0.001": (_compute_difference, _GRIDS[0], _GRIDS[2]),
}  # fmt: skip
"""Function that computes each number of the text, by variable, with its arguments as "STUDY VARIABLE AXIS=VALUE"."""


def _read_claim(results: Results, labels: Labels) -> Computed:
    function, *sources = CLAIMS[labels["variable"]]
    values = []
    for study, variable, *places in map(str.split, sources):
        values.append(select(results[study], variable, dict(each.split("=") for each in places)))
    return count_runs_behind(function(*values), *values)


def find_measure(row: Row) -> Measure:
    """Return the measure of a number.  The measure of rounding errors is their order of magnitude."""
    variable = row.labels["variable"]
    if "upper bound" in variable:
        return Measure.bound
    noise = row.file == "reference_tolerance" or variable.replace(" ", "_").startswith(("mass_defect", "identity-mass"))
    return Measure.order if noise and row.file != "cross_grid" else Measure.digits


_CLAIMED = PublishedTable(
    lambda labels: tuple(source.split()[0] for source in CLAIMS[labels["variable"]][1:]), _read_claim
)
_OPERATORS = {"fixed": "0", "time_dependent": "1"}
RENAMED = {
    "space_time_diagnostic": "space_time_regression", "temporal_convergence": "temporal_autonomous",
    "evolution": "space_time_evolution", "p1_fem_oscillatory_1d": "p1_fem_oscillatory",
    "p1_fem_target_1d": "p1_fem_target",
}  # fmt: skip
"""Names of studies by their names in the labels."""
_READERS: Mapping[str, PublishedTable] = {
    "p1_fem": _make_study_table("p1_fem_{problem}", _read_p1_fem),
    "conditioning": _make_study_table("oscillatory_1d", _read_conditioning),
    "temporal_convergence": _make_study_table("temporal_{problem}", _read_temporal_convergence),
    "space_time_diagnostic": _make_study_table("{method}"),
    "operator_2d": _make_study_table(
        "operator_2d",
        lambda data, labels: read_statistic(data, {**labels, "modulation": _OPERATORS[labels["operator"]]}),
    ),
    "gamma_selected": PublishedTable(lambda labels: (_find_study("{study}", labels),), _read_gamma_selected),
    **dict.fromkeys(("reference_tolerance", "cross_grid", "allen_cahn_reference", "claims"), _CLAIMED),
}
TABLES: Mapping[str, PublishedTable] = {
    name: _READERS.get(name) or _make_study_table(name)
    for name in (
        "oscillatory_1d", "target_1d", "p1_fem", "feature_count", "conditioning", "threshold", "quadrature",
        "temporal_convergence", "reference_tolerance", "space_time_diagnostic", "operator_2d", "nonseparable_2d",
        "nonseparable_3d", "cross_grid", "allen_cahn_2d", "allen_cahn_reference", "gamma_selected", "claims",
    )
}  # fmt: skip
"""Tables by the name of their CSV file, in the order of the paper."""


def read_published(folder: Path) -> list[Row]:
    """Read all published numbers of `folder`, in the order of `TABLES`.  Raises InputError for a missing file."""
    rows, columns = [], ("table", "source", "value")
    place = ("study", "epsilon")  # in the table of shape parameters, whose other columns are dictionaries
    for name in TABLES:
        if name == "gamma_selected":
            for raw in read_csv(folder / f"{name}.csv", *place):
                at = {key: raw[key] for key in place if raw[key]}
                found = {key: text for key, text in raw.items() if key not in place and text}
                rows += [Row(name, name, at | {"dictionary": key, "variable": "gamma"}, found[key]) for key in found]
        else:
            for raw in read_csv(folder / f"{name}.csv", "value"):
                labels = {key: text for key, text in raw.items() if key not in columns}
                rows.append(Row(name, raw.get("table") or "text", labels, raw["value"]))
    return rows


def read_csv(path: Path, *needed: str) -> list[dict[str, str]]:
    """Read the rows of a CSV file with at least the columns `needed`.

    Raises InputError with file and line if the file cannot be read, lacks a column, or has a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = reader.fieldnames or []
    except csv.Error as error:
        raise InputError(f"{path} must be CSV: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the published numbers {path}: {reason}") from None
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(f"{path} must have a column `{missing[0]}`, got {', '.join(header) or 'none'}")
    if not rows:
        raise InputError(f"{path} must have rows, got none")
    for line, row in enumerate(rows, start=2):
        # DictReader uses None as the key of extra cells and the value of missing cells
        if None in row or None in row.values():
            raise InputError(f"{path}, line {line} must have {len(header)} columns ({', '.join(header)})")
    return rows


@dataclass(frozen=True)
class KnownDifference:
    """Known difference of some entries of a file, with the computed value and the explanation."""

    file: str
    labels: Labels
    computed: str
    explanation: str

    def explains(self, row: Row, computed: float | str) -> bool:
        """Return True if a row is one of these entries and has the known value."""
        named = self.file == row.file and all(row.labels.get(key) == text for key, text in self.labels.items())
        return named and judge_value(self.computed, computed) is Verdict.all_digits


def read_known_differences(folder: Path) -> list[KnownDifference]:
    """Read the list of known differences from its CSV file.

    The file has the columns file, entries ("k=8; statistic=mean"), computed and explanation.

    Raises InputError if the list cannot be read or names a file that does not exist.
    """
    path = folder / f"{KNOWN}.csv"
    rows = read_csv(path, "file", "entries", "computed", "explanation")
    unknown = [row["file"] for row in rows if row["file"] not in TABLES]
    if unknown:
        raise InputError(f"`file` must be one of {', '.join(TABLES)}, got {unknown[0]!r} ({path})")
    found = []
    for row in rows:
        pairs = (part.partition("=") for part in row["entries"].split(";"))
        labels = {key.strip(): value.strip() for key, _, value in pairs}
        found.append(KnownDifference(row["file"], labels, row["computed"], row["explanation"]))
    return found


def judge_numbers(rows: Sequence[Row], results: Results, known: Sequence[KnownDifference] = ()) -> list[Entry]:
    """Return an entry for each published number that the `results` contain.

    Raises InputError for a row that no study can compute.
    """
    entries = []
    for row in rows:
        try:
            if not all(name in results for name in TABLES[row.file].studies(row.labels)):
                continue
            value, n_ok, n_planned = TABLES[row.file].read(results, row.labels)
        except NotComputedError:
            continue
        except (KeyError, ValueError) as error:  # no table has these labels
            raise InputError(f"cannot read the published number {row.labels} of {row.file}: {error!r}") from None
        measure, reason = find_measure(row), ""
        verdict = judge_value(row.published, value, measure)
        if n_ok < n_planned:
            verdict = Verdict.differs  # a statistic of fewer runs is another number
        elif verdict is Verdict.differs:
            reason = next((each.explanation for each in known if each.explains(row, value)), "")
        entries.append(Entry(**vars(row), computed=value, measure=measure, verdict=verdict, n_ok=n_ok,
                             n_planned=n_planned, known=reason))  # fmt: skip
    return entries
