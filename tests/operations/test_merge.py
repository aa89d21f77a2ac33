"""Results joined: every run once, none lost, none chosen where two differ, and inputs never touched."""

import json
import tomllib

import numpy as np
import pytest
from helpers import PARABOLA, PILOTED, read_study, rewritten, same_numbers

import evogt_study as evs
from evogt_study.errors import InputError, ResultError, StoreWarning
from evogt_study.operations.merge import merge
from evogt_study.operations.verify import verify
from evogt_study.results.finished import shard_folder, write_description
from evogt_study.results.index import write_shard
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import Status, to_status
from evogt_study.storage.lease import lock_result
from evogt_study.study.plan import plan_study
from evogt_study.workers.batch import Batch, compute_here

OWN = """
    def method(family, seed, scale=1.0):
        if seed == 2 and family == "b":
            raise ValueError("no luck")
        error = float("nan") if seed == 6 else scale * (1 + seed)
        return {"error": error, "trace": ("n", [0.1 * seed] * (1 + seed)), "word": family}
"""


@pytest.fixture
def part(own_study, result_of, tmp_path):
    """Called with a name, the seeds and families: the study and its result NAME.nc."""

    def make(name, seeds, families=("a", "b"), constants="", method=OWN):
        rest = f"{constants}[axes]\nfamily = {json.dumps(families)}\nseed = {json.dumps(list(seeds))}\n"
        study = own_study(method, rest)
        return study, result_of(study, tmp_path / f"{name}.nc")

    return make


def refused(match, *arguments, **options):
    """A merge that is refused leaves its inputs as they were and makes nothing."""
    folder = arguments[1].parent
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises((ResultError, InputError), match=match) as caught:
        merge(*arguments, **options)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return str(caught.value)


TYPED = "import numpy as np\ndef method(seed):\n    return np.int8(seed) if seed < 2 else np.int64(2**40)\n"


def test_unfinished_runs_keep_the_types_that_they_returned(own_study, result_of, tmp_path):
    """Also runs that were added to a result and are not in it yet."""
    studies = [own_study(TYPED, f"[axes]\nseed = {seeds}\n") for seeds in ([0], [0, 1, 2], [3])]
    a, b = (result_of(study, tmp_path / name) for study, name in ((studies[0], "a.nc"), (studies[2], "b.nc")))
    write_description(a, studies[1])
    plan = plan_study(studies[1])[-1]
    write_shard(shard_folder(a), compute_here(Batch.from_cases(plan.spec, [plan.case(1), plan.case(2)])))
    whole = own_study(TYPED, "[axes]\nseed = [0, 1, 2, 3]\n")
    assert merge([a, b], tmp_path / "m.nc", study=whole)["value"].values.tolist() == [0, 1, 2**40, 2**40]
    with pytest.warns(StoreWarning):
        few = evs.run(own_study(TYPED, "[axes]\nseed = [0, 1]\n"), output=tmp_path / "m.nc")
    assert few["value"].dtype == np.int8


def test_a_result_that_is_being_written_is_no_place_to_merge_into(part, tmp_path):
    _, a = part("a", [0, 1])
    _, b = part("b", [2, 3], families=("a",))
    with lock_result(tmp_path / "c.nc"):
        refused("another process is writing .*c.nc", [a, b], tmp_path / "c.nc")


# --- what is joined ---------------------------------------------------------------------------------------------------


def test_seeds_split_in_two_are_the_whole(part, tmp_path):
    _, a = part("a", range(3))
    _, b = part("b", range(3, 8))
    study, whole = part("whole", range(8))
    data = merge([a, b], tmp_path / "c.nc", study=study)
    same_numbers(data, read_study(whole))
    same_numbers(read_study(tmp_path / "c.nc"), read_study(whole))
    assert verify(tmp_path / "c.nc", rerun=3).well
    same_numbers(evs.run(study, output=tmp_path / "c.nc", workers=1), data)  # nothing is left to compute
    with pytest.raises(InputError, match="`paths` must be two results or more, got 1"):
        merge(str(tmp_path / "c.nc"), tmp_path / "copy.nc")  # one path is no list of letters


def test_the_file_whose_axes_have_everything_gives_the_study(part, tmp_path):
    _, a = part("a", [0])
    study, b = part("b", range(3))
    same_numbers(merge([a, b], tmp_path / "c.nc"), read_study(b))
    assert read_study(tmp_path / "c.nc").attrs["study"] == study.text


def test_several_axes_may_leave_runs_that_no_file_has(part, tmp_path):
    _, a = part("a", [0, 1], ["a"])
    _, b = part("b", [0], ["a", "b"])
    study, _ = part("whole", [0, 1], ["a", "b"])
    data = merge([a, b], tmp_path / "c.nc", study=study)
    assert to_status(data.run_status).tolist() == [[Status.ok, Status.ok], [Status.ok, Status.not_run]]
    assert [line for line in verify(tmp_path / "c.nc").findings if "1 run of 4 with the status not run" in line]


def test_a_run_that_is_ok_is_taken_before_one_that_is_not(part, tmp_path):
    def fail(data):
        data["run_status"].values[0, 0] = Status.failed
        data["run_message"].values[0, 0] = "MemoryError"
        for name in ("error", "trace"):
            data[name].values[0, 0] = np.nan
        data["word"].values[0, 0] = ""

    _, a = part("a", range(2))
    _, b = part("b", range(2))
    rewritten(a, fail)
    for order in ([a, b], [b, a]):
        data = merge(order, tmp_path / f"{order[0].stem}{order[1].stem}.nc")
        assert (to_status(data.run_status) == Status.ok).all()
        assert (data.run_message == "").all()
        assert data.error.values[0, 0] == 1.0


def test_pilots_of_both_machines(own_study, result_of, tmp_path):
    studies = [own_study(PARABOLA, PILOTED.replace("[0, 1]", seeds)) for seeds in ("[0, 1]", "[2, 3]", "[0, 1, 2, 3]")]
    a, b, whole = (result_of(study, tmp_path / f"{name}.nc") for name, study in zip("abw", studies, strict=True))
    same_numbers(merge([a, b], tmp_path / "c.nc", study=studies[2]), read_study(whole))
    same_numbers(read_result(tmp_path / "c.nc")["pilot"], read_result(whole)["pilot"])
    assert verify(tmp_path / "c.nc", rerun=3).well


def test_a_machine_without_pilot_that_was_given_the_choice(own_study, result_of, tmp_path):
    """One machine's pilot chooses; another has its choice in rules: the runs are the same computations."""
    rules = "[axes]\ntarget = [2, 5]\nseed = [2]\n"
    rules += "".join(
        f"[[when]]\nmatch = {{ target = {at} }}\nset = {{ gamma = {to} }}\n" for at, to in ((2, 1), (5, 4))
    )
    b = result_of(own_study(PARABOLA, rules), tmp_path / "b.nc")
    a = result_of(own_study(PARABOLA, PILOTED), tmp_path / "a.nc")
    whole = own_study(PARABOLA, PILOTED.replace("[0, 1]", "[0, 1, 2]"))
    data = merge([a, b], tmp_path / "c.nc", study=whole)
    assert (to_status(data.run_status) == Status.ok).all()
    assert verify(tmp_path / "c.nc", rerun=3).well


def test_provenance_of_all_is_kept(part, tmp_path):
    def older(data):
        sets = data["run_software"].attrs["software_sets"]
        data["run_software"].attrs["software_sets"] = sets.replace(np.__version__, "1.0.0")
        data.attrs.update(git_revision="f" * 40, history="2020-01-01T00:00:00Z: made by hand")

    _, a = part("a", [0])
    _, b = part("b", [1])
    rewritten(a, older)
    study, c = part("c", [3])
    study, _ = part("whole", [0, 1, 3])
    merge([a, b], tmp_path / "ab.nc", study=part("ab_", [0, 1])[0])
    data = merge([tmp_path / "ab.nc", c], tmp_path / "abc.nc", study=study)
    sets = json.loads(data["run_software"].attrs["software_sets"])
    assert [sets[i]["numpy"] for i in data.run_software.sel(family="a").values] == [
        "1.0.0",
        np.__version__,
        np.__version__,
    ]
    history = data.attrs["history"].splitlines()
    assert history[0] == "2020-01-01T00:00:00Z: made by hand"
    assert [line.split(" merged ")[1] for line in history if " merged " in line] == ["a.nc, b.nc", "ab.nc, c.nc"]
    origins = json.loads(data.attrs["merged_from"])
    assert [origin["file"] for origin in origins] == ["a.nc", "b.nc", "c.nc"]
    assert origins[0]["git_revision"] == "f" * 40


def test_the_study_of_two_parts_has_the_axis_values_of_both(part, tmp_path):
    """Also in another order, and if the parts do not fill the product of the axes."""
    _, a = part("a", [7, 8, 9, 10], ["a"])
    _, b = part("b", range(8))
    data = merge([a, b], tmp_path / "c.nc")
    assert data.seed.values.tolist() == list(range(11))
    assert data.family.values.tolist() == ["a", "b"]
    assert np.count_nonzero(data.run_status.values == "ok") == 16
    assert tomllib.loads(data.attrs["study"])["axes"] == {"family": ["a", "b"], "seed": {"start": 0, "count": 11}}


# --- what is refused --------------------------------------------------------------------------------------------------


def test_no_file_whose_study_includes_all_runs(part, tmp_path):
    _, a = part("a", range(9))
    _, b = part("b", [7, 8, 9, 10], ["a"], constants="[constants]\nscale = 2.0\n")
    refused(
        r"no file has a study .* runs. .*a.nc and .*b.nc differ: .*constants.scale = 2.0 added",
        [a, b],
        tmp_path / "c.nc",
    )


def flip_bit(data):
    data["trace"].values[0, 1, 1] = np.nextafter(0.1, 1)


def diverge(data):
    data["run_status"].values[0, 0] = Status.diverged


def compute_elsewhere(data):
    data["error"].values[0, 0] *= 1 + 1e-12
    software = data["run_software"].attrs
    software["software_sets"] = software["software_sets"].replace(np.__version__, "1.0")


SCALE = {"constants": "[constants]\nscale = 2.0\n"}
CONFLICTS = [  # what the second result has, a change of it, and what is said
    (SCALE, None, "a.nc and .*b.nc differ: constants.scale = 2.0 added"),
    ({"method": OWN.replace("1 + seed)\n", "2 + seed)\n")}, None, r"b.nc holds 4 main runs .*\(code of the method\)"),
    ({}, flip_bit, r"run family=a, seed=1 has two values: trace\[1\]: 0.10{15}1 in .*a.nc, 0.10{15}2 in .*b.nc, rel"),
    ({}, diverge, "run family=a, seed=0 has two values: status: 'ok' in .*a.nc, 'diverged' in .*b.nc"),
    ({}, compute_elsewhere, f"The software differs: numpy {np.__version__} and 1.0"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "change", "message"), CONFLICTS)
def test_a_conflict_of_two_results_is_named(part, tmp_path, options, change, message):
    _, a = part("a", [0, 1])
    _, b = part("b", [0, 1], **options)
    if change:
        rewritten(b, change)
    refused(message, [a, b], tmp_path / "c.nc")


def test_pilots_that_disagree(own_study, result_of, tmp_path):
    def worse(pilot):
        pilot["error"].values[0, 0] += 1

    def chosen(data):
        data["gamma"].values[0] = 4

    whole = own_study(PARABOLA, PILOTED)
    a, b = (result_of(whole, tmp_path / f"{name}.nc") for name in "ab")
    rewritten(b, worse, "pilot")
    refused("pilot run target=2, candidate=0, seed=100 has two values: error", [a, b], tmp_path / "c.nc")
    rewritten(b, chosen)
    refused(r"chose different values for target=2: gamma is 1 in .*a.nc and 4 in .*b.nc", [a, b], tmp_path / "c.nc")


def test_a_pilot_that_no_file_has(own_study, result_of, tmp_path):
    study = own_study(PARABOLA, PILOTED)
    a = result_of(study, tmp_path / "a.nc")
    more = own_study(PARABOLA, PILOTED.replace("[2, 5]", "[2, 5, 7]"))
    refused("no file has a pilot's choice of `gamma` for target=7", [a, a], tmp_path / "c.nc", study=more)
