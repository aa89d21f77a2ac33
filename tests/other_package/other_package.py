"""A package that registers methods, a kind of problem, a command, a dictionary, an integrator and a domain."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import click
import numpy as np

from evogt_study.errors import StudyError
from evogt_study.methods.protocol import BoundCase, Method, ProblemKind
from evogt_study.pde.dictionaries.base import TensorProducts, by_total_degree
from evogt_study.pde.dictionaries.tensor_dictionaries import Sine, sines
from evogt_study.pde.domains.box import UnitCube
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.numerics import Trajectory
from evogt_study.schema.parameters import Parameter, integer, parameter_field, real
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import dump_canonical
from evogt_study.schema.variables import Variable


def square(x, seed=0):
    """A method that is a function."""
    return {"square": x**2 + seed}


@dataclass(frozen=True)
class RootCase(BoundCase):
    x: float

    @property
    def setup(self):
        return dump_canonical({"method": "other_root", "x": self.x})

    def run(self, share):
        return Record({"root": Datum((), np.asarray(np.sqrt(self.x)))}, {})


class Root(Method):
    """A method that is a type, with a declared variable."""

    parameters: ClassVar = {"x": Parameter("x", "a number > 0", real(0.0), "argument")}
    variables: ClassVar = {
        "root": Variable("root", "square root of x", limit=1.5, warning="x is large", label=r"$\sqrt{x}$", headline=1)
    }
    keywords: ClassVar = ("roots",)

    @staticmethod
    def of(spec):
        return Root()

    def bind(self, values):
        return RootCase(values["x"])


@dataclass(frozen=True)
class Spring:
    """A problem: the motion of a mass on a spring."""

    stiffness: float
    problem_kind: ClassVar[str] = "spring"

    @property
    def content(self):
        return {"stiffness": self.stiffness}

    @property
    def table(self):
        return {"kind": "spring", **self.content}


@dataclass(frozen=True)
class SpringCase(BoundCase):
    method: "SpringSolver"
    mass: int

    @property
    def setup(self):
        code = self.method.code
        return dump_canonical({"code": code.fingerprint, "problem": self.method.problem.content, "mass": self.mass})

    def run(self, share):
        found = self.method.function(self.method.problem, self.mass)
        return Record({"frequency": Datum((), np.asarray(found))}, {})


@dataclass(frozen=True)
class SpringSolver(Method):
    """The method of a user function with the arguments `problem` and `mass`."""

    code: object
    function: object
    problem: Spring
    parameters: ClassVar = {"mass": Parameter("mass", "an integer >= 1", integer(1), "mass")}

    @staticmethod
    def of(spec):
        return SpringSolver(spec.method, spec.method.load(), spec.problem)

    def bind(self, values):
        return SpringCase(self, values["mass"])


class Springs(ProblemKind):
    def read(self, stated, folder, where):
        if set(stated) != {"kind", "stiffness"}:
            raise StudyError(f"a spring must have a `stiffness`, got {sorted(stated)} ({where})")
        return Spring(stated["stiffness"])

    def make(self, content):
        return Spring(**content)

    @property
    def solver(self):
        return SpringSolver

    def describe(self, stated):
        return f"<li>a spring of stiffness {float(stated['stiffness'])}</li>"


springs = Springs()


@click.command(short_help="Greet the user.")
def greet():
    """Greet the user."""
    click.echo("hello from another package")


@dataclass(frozen=True)
class Waves(Sine):
    """Scaled sines, with parameters that no other dictionary has."""

    wavelength: float = 1.0
    shape: Literal["flat", "steep"] = "flat"

    def sample(self, seed, dimension):
        scale = self.wavelength if self.shape == "flat" else self.wavelength**2

        def scaled(x, count, order):
            return sines(x, count, order) * scale ** np.arange(count)

        return TensorProducts(by_total_degree(self.N, dimension), scaled)


@dataclass(frozen=True, kw_only=True)
class Ripples(Waves):
    """Waves with another default, and a parameter that must be given."""

    wavelength: float = 0.5
    depth: int = parameter_field("an integer >= 1", integer(1), "depth of a ripple", "of the surface", units="m")


@dataclass(frozen=True)
class Rivals(Sine):
    """Sines with a parameter that contradicts the one of Waves."""

    wavelength: int = 1


@dataclass(frozen=True)
class Theta(Integrator):
    """The theta scheme, with theta as its parameter."""

    theta: float = parameter_field("in (0, 1]", real(0.0, 1.0, high_included=True), "ϑ", "new state", default=0.5)
    name = "other_theta"

    def times(self, grid):
        return grid.midpoints

    def march(self, system, grid):
        states, unit = [system.initial], np.eye(len(system.initial))
        for t in self.times(grid):
            stiffness, load = system.stiffness(t), system.load(np.array([t]))[0]
            right = (unit - (1.0 - self.theta) * grid.dt * stiffness) @ states[-1] + grid.dt * load
            states.append(np.linalg.solve(unit + self.theta * grid.dt * stiffness, right))
        return Trajectory(grid.observed_times, np.array(states)[list(grid.observed)])


@dataclass(frozen=True)
class Cube(UnitCube):
    """The unit cube under another name."""
