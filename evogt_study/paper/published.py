"""Judge each published number of the paper by the number that a study computes.

A CSV file in data/published holds the printed numbers of one table or of a passage of text, one number in each row.
`find_calculation` returns the function and the variables that compute the number of a row.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from evogt_study.analysis.statistics import IncompleteWarning, summary
from evogt_study.errors import InputError
from evogt_study.pde.methods.declarations import VARIABLES
from evogt_study.schema.variables import Status, to_status

KNOWN = "known_differences"  # name of the CSV file that explains the known differences
CLAIM_FILES = ("reference_tolerance", "cross_grid", "allen_cahn_reference", "claims")  # numbers that `CLAIMS` computes
TABLES = (
    "oscillatory_1d", "target_1d", "p1_fem", "feature_count", "conditioning", "threshold", "quadrature",
    "temporal_convergence", "reference_tolerance", "space_time_diagnostic", "operator_2d", "nonseparable_2d",
    "nonseparable_3d", "cross_grid", "allen_cahn_2d", "allen_cahn_reference", "gamma_selected", "claims",
)  # fmt: skip
"""Names of the CSV files, in the order of the paper."""
_STUDIES = {
    "p1_fem": "p1_fem_{problem}", "conditioning": "oscillatory_1d", "temporal_convergence": "temporal_{problem}",
    "space_time_diagnostic": "{method}", "gamma_selected": "{study}",
}  # fmt: skip
"""Name of the study for each CSV file with another name.  The labels of a row complete the name."""
RENAMED = {
    "space_time_diagnostic": "space_time_regression", "temporal_convergence": "temporal_autonomous",
    "evolution": "space_time_evolution", "p1_fem_oscillatory_1d": "p1_fem_oscillatory",
    "p1_fem_target_1d": "p1_fem_target",
}  # fmt: skip
"""Names of studies by the value of the label `study`."""
OWN = "gtransnet"
VECTOR_DIMS = ("mode", "node")  # dimensions of vectors that a run returns
UNRESOLVED = 2.22e-16  # tab:diagnostics: sigma_min(M_q) <= eps_mach sigma_max(M_q)
Results = Mapping[str, xr.Dataset]
"""Mapping from the name of a study, or "NAME/pilot" for its pilot, to the result."""
Labels = Mapping[str, str]


# --- verdicts ---------------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """Verdict on the agreement of a computed value with a printed value."""

    all_digits = "agrees in all printed digits"
    one_unit = "within one unit of the last digit"
    same_order = "same order of magnitude"
    differs = "differs"


class Measure(StrEnum):
    """Property of a published number to compare: all digits, the order of magnitude or an upper bound."""

    digits = "digits"
    order = "order"
    bound = "bound"


@dataclass(frozen=True)
class Row:
    """Published number, with its CSV file, its table in the paper, its labels and its printed text."""

    file: str
    table: str
    labels: Labels
    published: str


@dataclass(frozen=True)
class Entry(Row):
    """Published number with the computed number and the verdict.  `known` explains a known difference, or is ""."""

    computed: float | str
    measure: Measure
    verdict: Verdict
    n_ok: int
    n_planned: int
    known: str = ""

    @property
    def relative_difference(self) -> float:
        """Relative difference (computed - published) / |published|, or NaN for strings and zero."""
        published = to_number(self.published)
        if isinstance(self.computed, str) or not published:
            return math.nan
        return (self.computed - published) / abs(published)

    @property
    def agrees(self) -> bool:
        """True if the computed number agrees with the published number, or the difference is known."""
        return bool(self.known) or self.verdict is not Verdict.differs


def to_number(text: str) -> float | None:
    """Parse a printed number, or return None for a string such as "singular"."""
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


def find_measure(row: Row) -> Measure:
    """Return the property of a published number to compare.  For rounding errors, this is the order of magnitude."""
    variable = row.labels["variable"]
    if "upper bound" in variable:
        return Measure.bound
    noise = row.file == "reference_tolerance" or variable.replace(" ", "_").startswith(("mass_defect", "identity-mass"))
    return Measure.order if noise and row.file != "cross_grid" else Measure.digits


def judge_value(published: str, computed: float | str, measure: Measure = Measure.digits) -> Verdict:
    """Compare a computed value with a printed number or string, and return the verdict.

    "All digits" means that the computed value rounds to the printed value.  "One unit" means that the computed value
    differs by one unit of the last printed digit.  "Same order" requires the measure `order`, and means that the values
    differ by less than half a decade.
    """
    if isinstance(computed, str):
        return Verdict.all_digits if computed == published else Verdict.differs
    target = to_number(published)
    if target is None or not math.isfinite(computed):
        return Verdict.differs
    if measure is Measure.bound:
        return Verdict.all_digits if computed <= target else Verdict.differs
    units = abs(computed - target) / find_last_digit(published)
    if units <= 0.5 * (1.0 + 1e-9):  # exactly half a unit may round up or down
        return Verdict.all_digits
    if measure is Measure.order:
        # no ratio for zero and for numbers of different signs
        near = computed * target > 0.0 and abs(math.log10(computed / target)) < 0.5
        return Verdict.same_order if near else Verdict.differs
    return Verdict.one_unit if units <= 1.5 * (1.0 + 1e-9) else Verdict.differs


# --- functions that compute a published number ------------------------------------------------


class ComputedNumber(NamedTuple):
    """Computed number or string, with the numbers of ok and planned runs."""

    value: float | str
    n_ok: int
    n_planned: int


def compute_statistic(values: xr.DataArray, statistic: str = "mean") -> float:
    """Compute the statistic of a published number over all dimensions."""
    if statistic == "max" or not values.dims:
        return float(values.max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)  # `n_ok` gives the number of runs
        found = summary(values.reset_coords(drop=True), over=[str(dim) for dim in values.dims], statistics=[statistic])
    return float(found[statistic])


def _compute_gain(*pair: xr.DataArray, gain: str) -> float:
    """Return the gain T/G, which is the ratio of a statistic of two dictionaries."""
    first, second = (compute_statistic(each, {"gain": "mean", "median_gain": "median"}[gain]) for each in pair)
    return first / second


def _describe_condition(resolution: xr.DataArray) -> float | str:
    n_ok, unresolved = int(np.isfinite(resolution.values).sum()), _count_unresolved(resolution)
    if unresolved:
        return "singular" if unresolved == n_ok else "partly singular"
    return f"1e{math.floor(math.log10(float((1.0 / resolution).median())))}" if n_ok else math.nan


def _count_unresolved(resolution: xr.DataArray) -> float:
    return float((resolution <= UNRESOLVED).sum())


def _read_choice(gamma: xr.DataArray, keys: xr.DataArray, status: xr.DataArray) -> ComputedNumber:
    """Return the chosen gamma as a string, so that the comparison is exact, and the run counts of its pilot."""
    planned = keys != ""
    ok = planned & (to_status(status) == Status.ok)
    return ComputedNumber(f"{float(gamma):g}", int(ok.sum()), int(planned.sum()))


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


def _find_largest(*values: xr.DataArray) -> float:
    return max(float(each.max()) for each in values)


def _compute_difference(values: xr.DataArray, reference: xr.DataArray) -> float:
    """Return the relative weighted L2 difference between the vectors of two runs."""
    weights = values.coords.get("weight", 1.0)
    return math.sqrt(float((weights * (values - reference) ** 2).sum()) / float((weights * reference**2).sum()))


def _compare_refined(errors: xr.DataArray, defects: xr.DataArray) -> float | str:
    """Return the largest |e_fine - e| / e.  In two dimensions, the case must have the largest stiffness defect."""
    if "epsilon" not in errors.dims and np.isfinite(defects.values).any():
        worst = defects.isel(defects.argmax(...))
        if any(str(errors[name].item()) != str(worst[name].item()) for name in ("epsilon", "dictionary", "seed")):
            return "another case has the largest defect"
    coarse, fine = errors.isel(quadrature=0), errors.isel(quadrature=1)  # the study uses the first quadrature rule
    return float((abs(fine - coarse) / coarse).max())


# --- variables of the published numbers ---------------------------------------------------------------------------

Function = Callable[..., float | str | ComputedNumber]
_FAMILIES = ("oscillatory_1d", "target_1d", "p1_fem_oscillatory", "p1_fem_target")
_IN_SPACE = ("operator_2d", "nonseparable_2d", "nonseparable_3d")
_COMPARED = ("oscillatory_1d", "target_1d", *_IN_SPACE, "allen_cahn_2d")
_CHANGE = "relative change of final error, "
_GRIDS = [f"allen_cahn_reference validation_values {at}" for at in (
    "points=160 dt=0.002", "points=320 dt=0.002", "points=320 dt=0.001")]  # fmt: skip
_REFINED = {study: (f"refined_{study} error", f"{study} stiffness_defect_cross_grid") for study in _IN_SPACE}
CLAIMS: Mapping[str, tuple[Function, *tuple[str, ...]]] = {
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
    "runs with a monotone decay of the energy": (
        lambda increments: float((increments <= 0.0).sum()), "allen_cahn_2d energy_increment"
    ),
    "mean error of gaussian_rf over gtransnet, three dimensions": (_compute_ratio, "nonseparable_3d error"),
    "setups in which gtransnet has the smallest mean error": (
        _count_smallest, *(f"{study} error" for study in _COMPARED)
    ),
    **{
        name: (_find_largest, *(f"{study} {name}" for study in _IN_SPACE))
        for name in ("mass_defect_cross_grid", "stiffness_defect_cross_grid")
    },
    **{
        f"{_CHANGE}refined assembly, {name} 2-D operator": (
            _compare_refined, *(f"{each} modulation={modulation}" for each in _REFINED["operator_2d"])
        )
        for modulation, name in enumerate(("fixed", "time-dependent"))
    },
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
"""Function and arguments, such as "STUDY VARIABLE AXIS=VALUE", that compute each number of the text."""


class StudyVariable(NamedTuple):
    """Variable of a study at selected axis values.  Labels that are not an axis have no effect."""

    study: str
    variable: str
    labels: Labels

    def read(self, results: Results) -> xr.DataArray | None:
        """Read the values from the results.  Return NaN without a value, or None for an unknown axis value."""
        data, variable = results[self.study], self.variable
        if variable not in data and variable not in VARIABLES:
            raise InputError(f"unknown variable {variable!r}")
        values = data[variable] if variable in data else xr.full_like(data["run_status"], np.nan, dtype=float)
        for name in [name for name in self.labels if name in values.dims]:
            text = self.labels[name]
            label = text if values[name].dtype.kind in "OU" else float(text)
            if label not in values[name].values:
                return None
            values = values.sel({name: label})
        return values


def find_calculation(row: Row, results: Results | None = None) -> tuple[Function, list[StudyVariable]]:
    """Return the function and the arguments that compute a published number."""
    labels, variable = dict(row.labels), row.labels["variable"]
    if row.file in CLAIM_FILES:
        function, *texts = CLAIMS[variable]
        parts = [text.split() for text in texts]
        return function, [
            StudyVariable(study, name, dict(at.split("=") for at in places)) for study, name, *places in parts
        ]
    study = _STUDIES.get(row.file, row.file).format(**labels)
    study = RENAMED.get(study, study)
    if row.file == "gamma_selected":
        runs = f"{study}/pilot" if results is not None and f"{study}/pilot" in results else study
        places = ((study, variable), (runs, "run_key"), (runs, "run_status"))
        return _read_choice, [StudyVariable(place, name, labels) for place, name in places]
    if row.file == "operator_2d":
        labels["modulation"] = {"fixed": "0", "time_dependent": "1"}[labels["operator"]]
    if "/" in labels.get("dictionary", ""):  # a pair of dictionaries, such as "transnet/gtransnet"
        pair = [
            StudyVariable(study, variable, {**labels, "dictionary": each}) for each in labels["dictionary"].split("/")
        ]
        return partial(_compute_gain, gain=labels["statistic"]), pair
    if variable in ("raw_condition", "raw_unresolved"):
        function = _count_unresolved if variable == "raw_unresolved" else _describe_condition
        return function, [StudyVariable(study, "raw_resolution", labels)]
    if variable == "observed_order":  # in the paper, the step size halves from row to row
        before = {**labels, "dt": repr(2.0 * float(labels["dt"]))}
        pair = [StudyVariable(study, "coefficient_error", each) for each in (before, labels)]
        return lambda coarse, fine: math.log2(float(coarse) / float(fine)), pair
    return partial(compute_statistic, statistic=labels.get("statistic", "mean")), [
        StudyVariable(study, variable, labels)
    ]


def judge_numbers(rows: Sequence[Row], results: Results, known: Sequence[KnownDifference] = ()) -> list[Entry]:
    """Judge each published number with a result.  Raises InputError for a row with unknown labels."""
    entries = []
    for row in rows:
        try:
            function, sources = find_calculation(row, results)
            if not all(source.study in results for source in sources):
                continue
            arrays = [values for source in sources if (values := source.read(results)) is not None]
            if len(arrays) < len(sources):
                continue
            made = function(*arrays)
        except (KeyError, ValueError) as error:  # invalid labels
            raise InputError(f"cannot read the published number {row.labels} of {row.file}: {error!r}") from None
        if not isinstance(made, ComputedNumber):
            finite = [(abs(each) < np.inf).any([dim for dim in each.dims if dim in VECTOR_DIMS]) for each in arrays]
            made = ComputedNumber(made, sum(int(each.sum()) for each in finite), sum(each.size for each in finite))
        measure, reason = find_measure(row), ""
        verdict = judge_value(row.published, made.value, measure)
        if made.n_ok < made.n_planned:
            verdict = Verdict.differs  # a statistic over fewer runs is not comparable
        elif verdict is Verdict.differs:
            reason = next((each.explanation for each in known if each.explains(row, made.value)), "")
        facts = (made.value, measure, verdict, made.n_ok, made.n_planned, reason)
        entries.append(Entry(row.file, row.table, row.labels, row.published, *facts))
    return entries


# --- files ------------------------------------------------------------------------------------------------------------


def read_published(folder: Path) -> list[Row]:
    """Read all published numbers in a folder, in the order of the paper.  Raises InputError for a missing file."""
    rows, columns = [], ("table", "source", "value")
    place = ("study", "epsilon")  # in the table of shape parameters, all other columns are dictionaries
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
    """Read the rows of a CSV file that must have the columns `needed`.  An InputError names the line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
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
        if len(row) != len(header):
            raise InputError(f"{path}, line {line} must have {len(header)} columns ({', '.join(header)})")
    return [dict(zip(header, row, strict=True)) for row in rows]


@dataclass(frozen=True)
class KnownDifference:
    """Known difference of some published numbers, with the computed value and the explanation."""

    file: str
    labels: Labels
    computed: str
    explanation: str

    def explains(self, row: Row, computed: float | str) -> bool:
        """Return True if the known difference applies to a published number and its computed value."""
        named = self.file == row.file and all(row.labels.get(key) == text for key, text in self.labels.items())
        return named and judge_value(self.computed, computed) is Verdict.all_digits


def read_known_differences(folder: Path) -> list[KnownDifference]:
    """Read the known differences.  A cell of `entries` has labels such as "k=8; statistic=mean"."""
    path, found = folder / f"{KNOWN}.csv", []
    for row in read_csv(path, "file", "entries", "computed", "explanation"):
        if row["file"] not in TABLES:
            raise InputError(f"`file` must be one of {', '.join(TABLES)}, got {row['file']!r} ({path})")
        pairs = (part.partition("=") for part in row["entries"].split(";"))
        labels = {key.strip(): value.strip() for key, _, value in pairs}
        found.append(KnownDifference(row["file"], labels, row["computed"], row["explanation"]))
    return found
