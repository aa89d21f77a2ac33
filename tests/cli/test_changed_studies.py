"""KEY=VALUE, JSON documents, lists of results and differences of results, by the command line."""

import json

import pytest

import evogt_study as evs
from evogt_study.cli.inputs import AxisValues, read_assignments

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


def test_assignments_set_constants_and_axes(run, folder, evogt):
    assert run("scale=2", "n=20", "seed=0..1", "-o", "new.nc")[0] == 0
    with evs.open(folder / "new.nc") as data:
        assert dict(data.run_status.sizes) == {"kind": 2, "seed": 2}
        assert (data.scale.item(), data.n.item(), data.error.sel(kind="a").values.tolist()) == (2.0, 20, [40.0, 42.0])
    assert evogt("verify", "new.nc")[0] == 0


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


def test_results_are_listed_by_conditions(run, folder, evogt, document):
    run()
    run("n=10", "-o", "results/small.nc")
    (folder / "results" / "other.nc").write_text("no result")
    assert "other.nc" in evogt("list")[2]
    (found,) = document("list", "-w", "n>40 and method=method")["results"]
    assert (found["file"], found["counts"]["ok"]) == ("results/own.nc", 5)
    assert found["axes"] == {"n": 2, "kind": 2, "seed": 3}
    found = document("list", "results", "-w", "status=failed and kind=b")["results"]
    assert [each["runs"] for each in found] == [2, 1]


def test_results_are_compared_by_parameter_values(run, folder, evogt, document):
    run("-o", "a.nc")
    code = (folder / "method.py").read_text()
    (folder / "method.py").write_text(code.replace("n + seed", "n + seed * 2").replace("seed == 1", "seed == 2"))
    run("-o", "c.nc")
    made = document("diff", "a.nc", "c.nc")
    assert (made["common"], made["different"], made["code"]) == (12, 8, ["method.py"])
    assert [(each["name"], each["runs"]) for each in made["variables"]] == [("error", 4)]
    at = {"scale": "1", "n": "10", "kind": "a", "seed": "1"}
    assert made["runs"][0] == {"at": at, "status": ["ok", "ok"], "differs": ["error"]}
    frame = evs.diff("a.nc", "c.nc").to_dataframe()
    assert frame.query("kind == 'b' and seed == '1'").status_b.tolist() == ["ok", "ok"]
    run("scale=3", "-o", "d.nc")
    assert "scale is 1 in a.nc and 3 in d.nc" in evogt("diff", "a.nc", "d.nc")[1]
