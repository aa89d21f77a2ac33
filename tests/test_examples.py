"""Every example runs, and gives the number that is written here."""

import inspect
import linecache
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import evogt_study as evs
from evogt_study.accessor import Result
from evogt_study.cli.main import main
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.plots.catalogue import KINDS
from evogt_study.schema.variables import to_status

ROOT = Path(__file__).parents[1]


def study(name):
    return evs.Study.from_file(ROOT / "studies" / "examples" / f"{name}.toml")


def test_first_study(client):
    data = evs.run(study("first_study"), client=client)
    mean = evs.summary(data.error, over="seed")["mean"]
    assert float(mean.sel(dictionary="gtransnet", N=40)) == pytest.approx(2.555e-5, rel=1e-3)
    assert (mean.sel(dictionary="gtransnet") < mean.sel(dictionary="transnet")).all()
    assert (mean.diff("N") < 0).all()


OPEN = {"advection_layer": 1e-2, "fisher_kpp": 5e-4, "heat_l_shape": 5e-2, "periodic_transport": 3e-3}
"""Bounds of the mean errors of gtransnet, with all features."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN)
def test_open_problems(name, client):
    data = evs.run(study(name), client=client)
    assert (to_status(data.run_status) == 1).all()
    data = data.sel(dictionary="gtransnet") if "dictionary" in data.dims else data
    mean = data.error.mean("seed")
    assert (mean.isel(N=-1) < OPEN[name]).all()
    assert (mean.isel(N=-1) < mean.isel(N=0)).all()


@pytest.mark.slow
def test_anisotropic_diffusion(client):
    data = evs.run(study("anisotropic_diffusion"), client=client)
    mean = data.error.mean("seed").isel(N=-1)
    assert float(mean.sel(dictionary="sine")) < 1e-6
    assert float(mean.sel(dictionary="legendre")) < 1e-3
    assert (mean.sel(dictionary=["transnet", "gtransnet", "gaussian_rf", "uniform_elm"]) > 0.3).all()  # as it is


def test_own_method(client):
    data = evs.run(study("own_method"), client=client)
    mean = evs.summary(data.error, over="seed")["mean"]
    assert float(mean.sel(points=10000, antithetic=False)) == pytest.approx(3.932e-3, rel=1e-3)
    assert data.running_estimate.dims == ("points", "antithetic", "seed", "checkpoint")


def run_script(folder, code, *arguments):
    """What a script prints, which must give no warning."""
    (folder / "script.py").write_text(code)
    command = [sys.executable, str(folder / "script.py"), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def script(name, tmp_path):
    """What an example script prints; its picture is made."""
    picture = tmp_path / f"{name}.png"
    (tmp_path / "script.toml").write_text((ROOT / "studies" / "examples" / f"{name}.toml").read_text())
    printed = run_script(tmp_path, (ROOT / "studies" / "examples" / f"{name}.py").read_text(), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (ROOT / "studies" / "examples" / f"{name}.png").exists()
    return printed


@pytest.mark.long
def test_which_gamma(tmp_path):
    transnet, gtransnet = script("which_gamma", tmp_path).splitlines()
    assert transnet == "transnet: gamma = 4, mean error 2.20e-04 over 10 seeds"
    assert gtransnet.startswith("gtransnet: gamma = 8, mean error 2.17e-05")


@pytest.mark.long
def test_how_many_seeds(tmp_path):
    printed = script("how_many_seeds", tmp_path)
    shown = next(block for block in re.findall(r"```\n(.*?)```", (ROOT / "studies/README.md").read_text(), re.DOTALL))
    assert [line for line in printed.splitlines() if ", transnet" in line] == shown.splitlines()


def code_blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), re.DOTALL)


@pytest.mark.long
def test_the_documented_script_runs(tmp_path):
    """As a script, as a reader would paste it."""
    code = code_blocks("docs/how_to/in_python.md", "python")[0].replace('"studies/', f'"{ROOT}/studies/')
    assert run_script(tmp_path, code).splitlines()[0].split()[1] == "48"


@pytest.mark.long
def test_the_program_of_the_page_on_simulation_studies_prints_its_table(tmp_path):
    first, *others = code_blocks("docs/how_to/simulation_studies.md", "python")
    functions, line, rest = first.partition("study = ")
    main = "\n".join([line + rest, *others])
    script = f'{functions}if __name__ == "__main__":\n' + "".join(f"    {each}\n" for each in main.splitlines())
    page = (ROOT / "docs/how_to/simulation_studies.md").read_text()
    table, sentence = re.findall(r"```\n\n```\n(.*?)```", page, re.DOTALL)
    printed = re.sub(r" +\n", "\n", run_script(tmp_path, script))
    assert printed.startswith(table)
    assert " ".join(printed.split()).endswith(" ".join(sentence.split()))


def test_the_documented_questions_have_answers(capsys):
    code = (
        code_blocks("docs/how_to/in_python.md", "python")[1]
        .replace('"results/', '"data/results/')
        .replace('"data/', f'"{ROOT}/data/')
    )
    names = {"evs": evs}
    exec(code, names)
    assert capsys.readouterr().out.endswith("order 2.000 in dt\n")
    assert names["found"]["leader"].values.tolist() == ["gtransnet"] * 3
    assert names["pair"]["over_leader"].sel(dictionary="transnet").values.round(1).tolist() == [125.0, 204.8, 55.2]
    assert (names["low"]["q25_ci"].sel(bound="lower") < names["low"]["q25_ci"].sel(bound="upper")).all()
    assert names["pooled"]["n_ok"].values.tolist() == [20] * 4
    assert names["found"]["significant"].all()


def test_the_recipes_of_the_page_on_statistics_print_its_output(capsys):
    page = (ROOT / "docs/statistics.md").read_text()
    recipes = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    assert len(recipes) == 2
    for code, shown in recipes:
        exec(code, {})
        assert capsys.readouterr().out == shown


def test_a_script_that_a_study_imports_is_refused_in_one_line(tmp_path, monkeypatch, evogt):
    monkeypatch.chdir(tmp_path)
    script = (ROOT / "studies/examples/mean_error.py").read_text()
    Path("mean_error.py").write_text(script)
    Path("mean_error.toml").write_text('method = "mean_error.py:mean_error"\n[axes]\nn = [10]\ntail = [2]\n')
    code, _, message = evogt("run", "mean_error.toml")
    assert code == 2
    assert "Put the call below `if __name__ == '__main__':`" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean_error.py", "mean_error.toml"]
    Path("model.py").write_text(script.split("\nstudy = ")[0])
    Path("mean_error.toml").write_text(code_blocks("docs/getting_started.md", "toml")[0])
    assert evogt("run", "mean_error.toml", "--workers", "0")[0] == 0


def test_a_run_of_a_script_names_the_call_that_shows_its_traceback(tmp_path, monkeypatch, evogt):
    monkeypatch.chdir(tmp_path)
    lines = ["import evogt_study as evs", "def half(x, kind):", "    return {'half': x / (x - 1)}"]
    lines += ["study = evs.Study(half, axes={'x': [1, 2], 'kind': ['a']})", "evs.run(study, output='h.nc', workers=0)"]
    Path("script.py").write_text("\n".join(lines))
    subprocess.run([sys.executable, "script.py"], check=True, capture_output=True)
    assert "evs.try_case(study, {'x': 1, 'kind': 'a'})" in evogt("status", "h.nc")[1]


@pytest.mark.parametrize("guide", ["from_joblib", "from_xyzpy", "from_simdesign"])
def test_the_program_of_a_guide_runs(guide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = code_blocks(f"docs/how_to/{guide}.md", "python")[-1].replace("range(500)", "range(20)")
    Path("program.py").write_text(code)
    names = runpy.run_path("program.py")
    assert (names["ds"].run_status == "ok").all()
    assert list(tmp_path.glob("*.nc"))


def test_the_study_of_the_guide_for_signac_runs(tmp_path):
    page = "docs/how_to/from_signac.md"
    (tmp_path / "volume.py").write_text(code_blocks(page, "python")[-1])
    (tmp_path / "volume.toml").write_text(code_blocks(page, "toml")[0])
    assert (evs.run(evs.Study.from_file(tmp_path / "volume.toml"), workers=0).run_status == "ok").all()


def public_objects():
    """Classes and functions of the package by their names, and the methods of `ds.evogt` and of a study."""
    for module in (evs, evs.pde):
        for name in module.__all__:
            if inspect.isfunction(found := getattr(module, name)) or inspect.isclass(found):
                yield f"{module.__name__}.{name}", found
    for owner, names in {Result: vars(Result), evs.Study: ("from_file", "to_file", "replace")}.items():
        for name in names:
            if not name.startswith("_") and inspect.isfunction(found := getattr(owner, name)):
                yield f"{owner.__name__}.{name}", found


def test_each_public_docstring_has_its_sections_and_an_example():
    lacking = {}
    for name, found in public_objects():
        text, sections = inspect.getdoc(found), ["Examples"]
        if inspect.isfunction(found):
            signature = inspect.signature(found)
            sections += ["Parameters"] if {*signature.parameters} - {"self"} else []
            sections += [] if signature.return_annotation in ("None", None) else ["Returns"]
        lacking[name] = [section for section in sections if f"{section}\n---" not in text]
    assert {name: sections for name, sections in lacking.items() if sections} == {}


def test_each_kind_of_plot_has_a_page_in_the_gallery():
    pages = {path.stem.split("_", 2)[2] for path in (ROOT / "docs/figures_gallery").glob("plot_*.py")}
    assert pages == set(KINDS)


@pytest.mark.long
def test_the_script_of_the_readme_prints_its_table(tmp_path):
    script = ROOT / "studies" / "examples" / "mean_error.py"
    assert code_blocks("README.md", "python")[0] == script.read_text()
    assert f"```\n{run_script(tmp_path, script.read_text())}```" in (ROOT / "README.md").read_text()
    assert (tmp_path / "mean_error.png").stat().st_size > 10_000


def test_the_factory_of_the_documentation(client, tmp_path):
    (tmp_path / "layers.py").write_text(code_blocks("docs/how_to/own_factory.md", "python")[-1])
    constants = {"N": 12, "quadrature": 40, "validation": 40, "dt": 0.05, "final_time": 0.1, "gamma": 3, "k": 2}
    layered = evs.Study(
        problem=f"{tmp_path}/layers.py:layered", axes={"contrast": [0.1, 1.0], "seed": range(2)},
        constants={**constants, "dictionary": "transnet"}, output={"times": 2, "record": ["norm_history"]},
    )  # fmt: skip
    norms = evs.run(layered, client=client).norm_history.isel(time=-1).mean("seed")
    assert float(norms[1]) < float(norms[0]) < np.sqrt(0.5)


def test_the_dictionary_and_the_integrator_of_the_documentation(tmp_path, monkeypatch):
    page = "docs/how_to/own_dictionary.md"
    entries, text = code_blocks(page, "toml")
    info = tmp_path / "my_features-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-features\nVersion: 1.0\n")
    groups = tomllib.loads(entries)["project"]["entry-points"]
    lines = [[f"[{group}]", *(f"{name} = {at}" for name, at in each.items())] for group, each in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(line for section in lines for line in section))
    (tmp_path / "my_features.py").write_text(code_blocks(page, "python")[0])
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (FAMILIES, INTEGRATORS):
        monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    data = evs.run(evs.Study.from_text(text))
    assert data.phases.item() == "random"
    assert data.theta.attrs["comment"] == "weight of the new state"
    medians = data.error.median("seed").transpose("length", "theta").values
    shown = re.findall(r"^\| length = \d \| (\S+) \| (\S+) \|$", (ROOT / page).read_text(), re.MULTILINE)
    np.testing.assert_allclose(medians, [[float(text) for text in row] for row in shown], rtol=0.05)


@pytest.mark.long
def test_four_solvers_on_two_problems(client, tmp_path):
    path = tmp_path / "four_solvers.nc"
    data = evs.run(study("four_solvers"), client=client, output=path)
    assert len(np.unique(data.run_key)) == 64  # of 160 points; those of three methods have no seed
    medians = data.error.median("seed")
    shown = (ROOT / "docs/how_to/compare_solvers.md").read_text()
    for problem in data.problem.values:
        for unknowns in data.unknowns.values:
            values = medians.sel(problem=problem, unknowns=unknowns).values
            line = f"{problem:<9}{unknowns:<10}" + "".join(
                f"{value:.2e}".ljust(width) for value, width in zip(values, (11, 10, 16, 0), strict=True)
            )
            assert line in shown
    for method, order in (("p1_fem", 2.0), ("crank_nicolson", 2.0), ("p2_elements", 3.0)):
        finest = medians.sel({"method": method}).isel(unknowns=[-2, -1])
        rates = np.log2(finest.isel(unknowns=0) / finest.isel(unknowns=1))
        np.testing.assert_allclose(rates, order, atol=0.05)
    page = tmp_path / "page.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(path), "-o", str(page)], prog_name="evogt")
    assert not ended.value.code
    assert "<h3>Error against unknowns" in page.read_text()


PAGES = ["README.md", "studies/README.md", "data/README.md", "CONTRIBUTING.md"]
PAGES += [
    str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in path.parts
]


@pytest.mark.parametrize("file", PAGES)
def test_links_lead_somewhere(file):
    text = re.sub(r"^```.*?^```", "", (ROOT / file).read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        if target.endswith("gallery/index.rst"):  # made with the site
            continue
        assert ((ROOT / file).parent / target).exists(), target
    for name in re.findall(r"`(evogt_study/[\w/]+\.py)`", text):
        assert (ROOT / name).exists(), name


DESIGNS = {
    "paired_values": ({"level": 3, "seed": 10}, 30),
    "joined_grids": ({"k": 4, "points": 4}, 8),
    "conditional_parameter": ({"rule": 2, "shift": 3, "points": 3}, 12),
    "latin_hypercube": ({"point": 20, "seed": 5}, 100),
    "growing_sobol": ({"point": 64}, 64),
    "spreadsheet": ({"case": 4}, 4),
}
"""Sizes of the result, and its runs."""


@pytest.mark.parametrize("name", DESIGNS)
def test_designs(name, result_of, tmp_path):
    path = ROOT / "studies" / "examples" / "designs" / f"{name}.toml"
    assert len(path.read_text().splitlines()) <= 10
    sizes, runs = DESIGNS[name]
    with evs.open(result_of(evs.Study.from_file(path), tmp_path / "result.nc")) as data:
        assert dict(data.sizes) == sizes
        assert (int((to_status(data.run_status) == 1).sum()), int((data.run_key != "").sum())) == (runs, runs)
        assert float(data.error.max()) < 1


def test_the_page_on_returned_values_has_the_output_of_its_code(capsys, monkeypatch):
    names = {"__name__": "page"}
    for code, shown in zip(*(code_blocks("docs/returned_values.md", kind) for kind in ("python", "text")), strict=True):
        monkeypatch.setitem(linecache.cache, "<page>", (len(code), None, code.splitlines(keepends=True), "<page>"))
        exec(compile(code, "<page>", "exec"), names)  # the page's own code
        assert capsys.readouterr().out == shown


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_study_of_a_compiled_program_needs_one_command_to_compile(tmp_path, monkeypatch):
    """The tutorial of docs/tutorials/own_program.md, with fewer seeds: the program conserves the population."""
    shutil.copytree(ROOT / "studies" / "examples" / "sir", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    lines = (tmp_path / "sir.toml").read_text().splitlines()
    assert len(lines) <= 12
    page = (ROOT / "docs" / "tutorials" / "own_program.md").read_text()
    assert "\n".join(lines) in page
    (compile_line,) = re.findall(r"^(cc .*)$", page, re.MULTILINE)
    subprocess.run(compile_line, shell=True, check=True)  # as a reader does
    study = evs.Study.from_file("sir.toml").replace(axes={"seed": range(20)})
    ds = evs.run(study, workers=2)
    assert (ds.run_status == "ok").all()
    assert (ds.infected[..., 0] == 5).all()
    assert (ds.final_size <= 1000).all()
    assert ds.final_size.median("seed").diff("beta").min() > 0  # a larger rate, a larger epidemic
