"""KEY=VALUE, JSON documents, lists of results and differences of results, by the command line."""

import json

import pytest

import evogt_study as evs
from evogt_study.cli.inputs import AxisValues, read_assignments
from evogt_study.errors import InputError

METHOD = """
    def method(n, kind, seed, scale=1.0):
        if kind == "b" and seed == 1:
            raise ValueError("no luck")
        return {"error": scale * (n + seed)}
"""
REST = '[axes]\nn = [10, 50]\nkind = ["a", "b"]\nseed = { count = 3 }\n'


@pytest.fixture
def folder(own_study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_study(METHOD, REST)
    return tmp_path


@pytest.fixture
def run(folder, evogt):
    def call(*arguments):
        return evogt("run", "own.toml", "-q", "--workers", "0", *arguments)

    return call


@pytest.fixture
def document(evogt):
    """The JSON document of a command that succeeds."""

    def call(*arguments):
        code, out, _ = evogt(*arguments, "--json")
        assert code == 0
        return json.loads(out)

    return call


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=5", 5), ("a=5.0", 5.0), ("a=true", True), ("a=gtransnet", "gtransnet"), ('a="5"', "5"), ("a=-1e-3", -1e-3),
        ("a=[24, 12]", [24, 12]), ('a="x,y"', "x,y"), ("a=x y", "x y"), ("a=b=c", "b=c"),
        ("a=10,20", AxisValues([10, 20])), ("a=x,y", AxisValues(["x", "y"])), ("a=5,", AxisValues([5])),
        ("a=0..3", AxisValues([0, 1, 2, 3])), ("a=-1..0", AxisValues([-1, 0])), ("a=[1],[2]", AxisValues([[1], [2]])),
    ],
)  # fmt: skip
def test_values_of_assignments(text, value):
    found = read_assignments([text])["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("texts", [["a"], ["=1"], ["a="], ["a=1", "a=2"], ["a=3..1"]])
def test_assignments_that_are_refused(texts):
    with pytest.raises(InputError, match="KEY=VALUE|two assignments|FIRST..LAST"):
        read_assignments(texts)


def test_assignments_set_constants_and_axes(run, folder, evogt):
    assert run("scale=2", "n=20", "seed=0..1", "-o", "new.nc")[0] == 0
    with evs.open(folder / "new.nc") as data:
        assert dict(data.run_status.sizes) == {"kind": 2, "seed": 2}
        assert (data.scale.item(), data.n.item(), data.error.sel(kind="a").values.tolist()) == (2.0, 20, [40.0, 42.0])
    code, out, err = evogt("run", "own.toml", "scal=2")
    assert (code, out, "Did you mean `scale`?" in err) == (2, "", True)
    assert evogt("verify", "new.nc")[0] == 0


def test_options_without_effect_are_refused(folder, evogt):
    for options, said in [
        (("run", "own.toml", "-n", "--retry-failed"), "`--retry-failed` has no effect with --dry-run"),
        (("run", "own.toml", "--task", "1/2", "--scheduler", "tcp://a:1"), "must not be combined"),
        (("try", "own.toml", "--code", "method.py"), "`--code` has no effect with a study"),
        (("status", "own.nc", "-o", "b.nc"), "`--output` has no effect with a result"),
        (("summary", "own.nc", "--log"), "`--log` has no effect without --sensitivity"),
        (("summary", "own.nc", "--json", "--rows", "n"), "`--rows` has no effect with --json"),
        (("merge", "a.nc", "b.nc", "-o", "c.nc", "--along", "x", "--study", "own.toml"), "`--study` has no effect"),
    ]:
        code, out, err = evogt(*options)
        assert (code, out, said in err) == (2, "", True), err


def test_documents_have_stable_keys(run, folder, evogt, document):
    counts = {"not_run": 0, "ok": 10, "failed": 2, "diverged": 0, "timed_out": 0, "lost": 0}
    code, out, _ = run("--json", "-o", "own.nc")
    made = json.loads(out)
    assert (code, list(made), made["complete"]) == (0, ["result", "complete", "phases"], True)
    assert made["phases"]["main"]["counts"] == counts
    assert made["phases"]["main"]["messages"][0]["at"] == {"n": "10", "kind": "b", "seed": "1"}
    made = document("status", "own.nc")
    assert (made["running"], made["phases"]["main"]["counts"]) == (False, counts)
    made = document("summary", "own.nc", "--statistic", "mean,ci", "--over", "seed")
    row = made["variables"]["error"][0]
    assert (row["n"], row["kind"], row["mean"], row["n_ok"], len(row["ci"])) == (10, "a", 11.0, 3, 2)
    made = document("compare", "own.nc")
    assert (made["axis"], made["values"], len(made["setups"])) == ("kind", ["a", "b"], 2)
    assert {"leader", "p_value", "effect_ci", "conclusion"} <= made["setups"][0].keys()
    made = document("verify", "own.nc")
    assert (made["well"], made["results"][0]["findings"]) == (True, [])
    made = document("run", "own.toml", "-n", "-o", "new.nc", "--workers", "2")
    assert (made["workers"], made["phases"]["main"]["missing"], made["phases"]["main"]["finished"]) == (2, 0, 12)
    code, out, err = evogt("summary", "gone.nc", "--json")
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_results_are_listed_by_what_they_hold(run, folder, evogt, document):
    run()
    run("n=10", "-o", "results/small.nc")
    (folder / "results" / "other.nc").write_text("no result")
    code, out, err = evogt("list")
    assert (code, len(out.splitlines()), "other.nc" in err) == (0, 4, True)
    assert "2 n x 2 kind x 3 seed" in out
    (found,) = document("list", "-w", "n>40 and method=method")["results"]
    assert (found["file"], found["counts"]["ok"], found["axes"]) == (
        "results/own.nc",
        5,
        {"n": 2, "kind": 2, "seed": 3},
    )
    found = document("list", "results", "-w", "status=failed and kind=b")["results"]
    assert [each["runs"] for each in found] == [2, 1]
    for where, said in [("nn>1", "Did you mean `n`?"), ("n", "must be conditions"), ("kind>a", "has no order")]:
        code, out, err = evogt("list", "-w", where)
        assert (code, out, said in err) == (2, "", True), err


def test_results_are_compared_by_parameter_values(run, folder, evogt, document):
    run("-o", "a.nc")
    run("n=50,90", "-o", "b.nc")
    assert "6 common runs, 0 differ" in evogt("diff", "a.nc", "b.nc")[1]
    code = (folder / "method.py").read_text()
    (folder / "method.py").write_text(code.replace("n + seed", "n + seed * 2").replace("seed == 1", "seed == 2"))
    run("-o", "c.nc")
    made = document("diff", "a.nc", "c.nc")
    assert (made["common"], made["different"], made["code"]) == (12, 8, ["method.py"])
    assert [(each["name"], each["runs"]) for each in made["variables"]] == [("error", 4)]
    assert made["runs"][0] == {
        "at": {"scale": "1", "n": "10", "kind": "a", "seed": "1"},
        "status": ["ok", "ok"],
        "differs": ["error"],
    }
    frame = evs.diff("a.nc", "c.nc").to_dataframe()
    assert frame.query("kind == 'b' and seed == '1'").status_b.tolist() == ["ok", "ok"]
    out = evogt("diff", "a.nc", "c.nc")[1].splitlines()
    assert "  the code differs: method.py" in out
    assert "  4 runs, first error: 11 in a.nc, 12 in c.nc, relative difference 9.1e-02" in out
    run("scale=3", "-o", "d.nc")
    assert "scale is 1 in a.nc, 3 in d.nc" in evogt("diff", "a.nc", "d.nc")[1]
