"""One or several fields whose fluxes and sources may be nonlinear in the fields and their gradients.

    m_a u_a,t = div F_a(u, grad u, x, t) + g_a(u, grad u, x, t),    n . F_a = h_a(u, x, t) on natural faces

The factor m_a is 1, or 0 for an algebraic field.  In formulas, `u_x` is the derivative of the field `u` in direction x.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import sympy

from evogt_study.errors import FormulaError, ParameterError, ProblemError, shorten
from evogt_study.formulas import RESERVED, SPACE, compile_formulas, find_parameters, symbol
from evogt_study.pde.domains import Box, UnitCube
from evogt_study.pde.domains.box import to_box
from evogt_study.pde.galerkin.problem import Lifting, NaturalFace, NonSeparable, Problem, check_data
from evogt_study.pde.numerics import Array
from evogt_study.pde.problems.expressions import name_coordinates
from evogt_study.pde.problems.terms import (
    FormulaStatement,
    parse_term,
    read_boundary,
    read_domain,
)

_STEP, _MAX_ERROR = 1e-5, 1e-5
"""Step of the finite differences that check derivatives, and their largest accepted relative error."""
_TEST_POINTS = np.array([0.113, 0.271, 0.618])
_TIME = symbol("t")
_COMMON = ("dimension", "domain", "boundary", "boundary_tolerance", "final_time", "name")
"""Keys of a problem that apply to all its fields."""


@dataclass(frozen=True)
class Field:
    """Formulas of one field.

    Parameters
    ----------
    flux : tuple of str
        Flux F, one formula for each direction.  The formulas may contain all fields and their derivatives.  Omit `flux`
        and `reaction` if the problem has `FieldTerms`.
    reaction, source : str
        The sum of `reaction` and `source` is g.  `source` depends on x and t only.
    initial, exact : str, optional
        Initial value, or exact solution.  If all fields have `exact`, the problem derives the sources.
    lifting : str
        Function with the boundary values.
    boundary : mapping, optional
        Periodic directions and natural faces of the field, by default the `boundary` of the problem.
    algebraic : bool
        True for a field without a derivative in time.  An algebraic field needs no initial value.

    Examples
    --------
    >>> from evogt_study import pde
    >>> field = pde.Field(("u_x/50",), reaction="-u**3", initial="sin(pi*x)")
    >>> pde.FormulaProblem(dimension=1, fields={"u": field}).dimension
    1
    """

    flux: tuple[str, ...] = ()
    reaction: str = "0"
    source: str = "0"
    initial: str | None = None
    exact: str | None = None
    lifting: str = "0"
    boundary: Any = None
    algebraic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "flux", tuple(self.flux))
        if self.boundary is not None:
            object.__setattr__(self, "boundary", read_boundary(self.boundary))
        if self.initial is not None and self.exact is not None:
            raise FormulaError("a field must state at most one of `exact` and `initial`, got both")
        if self.initial is None and self.exact is None and not self.algebraic:
            raise FormulaError("a field must state one of `exact` and `initial`, got neither")


def _raise_missing(*arguments: Any) -> Any:
    raise ProblemError("a result does not contain the functions of `FieldTerms`. Use the Python file of the problem")


@dataclass(frozen=True, eq=False)
class FieldTerms:
    """Fluxes and sources of all fields, and their derivatives, as Python functions.

    The array `s` (n, 1 + d, Q) contains n fields in d directions at Q nodes.  The entry s[b, 0] is the field u_b, and
    s[b, l] is the derivative of u_b in direction l.  Further arguments of the functions are parameters of the problem.

    Parameters
    ----------
    value : callable
        ``value(s, nodes, t, ...)`` returns the source g and the flux F of each field, (n, 1 + d, Q).  The nodes have
        the shape (Q, d).
    slope : callable
        ``slope(s, nodes, t, ...)`` returns the derivative of value[a, p] by s[b, q], (n, 1 + d, n, 1 + d, Q).

    Notes
    -----
    A study file refers to a problem with functions by ``problem = "file.py:NAME"``.  Initial values, liftings and
    boundary fluxes are formulas.  The functions must contain the source, also if the fields have `exact`.  A result
    stores the `names` of the parameters instead of the functions.

    Examples
    --------
    Burgers' equation, with the flux nu u_x - u^2/2:

    >>> import numpy as np
    >>> from evogt_study import pde
    >>> def value(s, nodes, t, nu):
    ...     u, u_x = s[0]
    ...     return np.array([[0 * u, nu * u_x - u**2 / 2]])
    >>> def slope(s, nodes, t, nu):
    ...     u, _ = s[0]
    ...     return np.array([[[[0 * u, 0 * u]], [[-u, nu + 0 * u]]]])
    >>> fields = {"u": pde.Field(initial="sin(pi*x)")}
    >>> problem = pde.FormulaProblem(dimension=1, fields=fields, terms=pde.FieldTerms(value, slope))
    >>> sorted(problem.parameters)
    ['nu']
    """

    value: Callable[..., Any]
    slope: Callable[..., Any]
    names: tuple[str, ...] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments after `s`, `nodes` and `t`, which both functions share."""
        if self.names is not None:  # a problem from a result, which has no functions
            return self.names
        names = [tuple(inspect.signature(function).parameters)[3:] for function in (self.value, self.slope)]
        if names[0] != names[1]:
            raise FormulaError(f"`slope` must have the arguments of `value`, got {names[1]} and {names[0]}")
        return names[0]

    def evaluate(self, s: Array, nodes: Array, t: float, values: Mapping[str, float]) -> tuple[Array, Array]:
        """Return the arrays of `value` and `slope`.  Raises ProblemError if an array has the wrong shape."""
        given, shapes = {name: values[name] for name in self.parameters}, (s.shape, (*s.shape[:2], *s.shape))
        found = tuple(np.asarray(each(s, nodes, t, **given), dtype=float) for each in (self.value, self.slope))
        for name, each, shape in zip(("value", "slope"), found, shapes, strict=True):
            if each.shape != shape:
                raise ProblemError(f"`{name}` of FieldTerms must return an array {shape}, got {each.shape}")
        return found[0], found[1]

    def check(self, count: int, nodes: Array, values: Mapping[str, float]) -> None:
        """Raise ProblemError if `slope` differs from finite differences of `value`."""
        d = nodes.shape[1]
        s = 0.5 + np.random.default_rng(0).random((count, 1 + d, len(nodes)))
        _, slopes = self.evaluate(s, nodes, 0.0, values)
        for place in np.ndindex(count, 1 + d):
            step = np.zeros(s.shape)
            step[place] = _STEP
            ahead, back = (self.evaluate(s + sign * step, nodes, 0.0, values)[0] for sign in (1.0, -1.0))
            wrong = np.abs((ahead - back) / (2.0 * _STEP) - slopes[:, :, *place])
            if not wrong.max() <= _MAX_ERROR * max(1.0, float(np.abs(slopes).max())):
                a, p, _ = np.unravel_index(np.argmax(wrong), wrong.shape)
                got = f"a difference at [{', '.join(map(str, (a, p, *place)))}]"
                raise ProblemError(f"`slope` of FieldTerms must be the derivative of `value`, got {got}")


@dataclass(frozen=True)
class FieldProblem(FormulaStatement):
    """Problem for one or several fields, given by formulas or by functions for fluxes and sources.

    Raises FormulaError for a formula outside the grammar, and ParameterError for an invalid domain or boundary.
    """

    dimension: int
    fields: tuple[tuple[str, Field], ...]
    terms: FieldTerms | None = None

    def __post_init__(self) -> None:
        self.read_geometry()
        pairs = self.fields.items() if isinstance(self.fields, Mapping) else self.fields
        made = tuple((str(name), _read_field(name, each)) for name, each in pairs)
        object.__setattr__(self, "fields", made)
        if isinstance(self.terms, (list, tuple)):  # from a result
            object.__setattr__(self, "terms", FieldTerms(_raise_missing, _raise_missing, tuple(self.terms)))
        if not isinstance(self.domain, (Box, UnitCube)):
            raise ParameterError("domain", "a box for nonlinear fluxes and several fields", self.domain)
        known = [name for name, each in self.fields if each.exact is not None]
        if known and len(known) < len(self.fields):
            raise FormulaError(f"`exact` must be stated for all fields or for none, got `exact` of {', '.join(known)}")
        self.symbolic  # noqa: B018  # raises an error for an invalid formula

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(name for name, _ in self.fields)

    @property
    def content(self) -> dict[str, Any]:
        usual = {part.name: part.default for part in fields(Field)}
        given = {
            name: {key: value for key, value in vars(each).items() if value not in (usual[key], None)}
            for name, each in self.fields
        }
        content: dict[str, Any] = {"dimension": self.dimension, "fields": given}
        more = {"boundary": self.boundary, "boundary_tolerance": self.boundary_tolerance}
        content |= {key: value for key, value in more.items() if value}
        if self.terms is not None:
            content["terms"] = self.terms.parameters
        return content | self.describe_shape()

    key_content = content

    @cached_property
    def symbolic(self) -> SymbolicFields:
        """Symbolic expressions of the formulas."""
        return _parse_fields(self)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the parameters in the formulas and functions."""
        return self.symbolic.parameters.union(() if self.terms is None else self.terms.parameters)

    @property
    def has_exact(self) -> bool:
        """True if the problem states the exact solution."""
        return self.symbolic.exact is not None

    def box(self, field: Field) -> Box:
        """Return the box with the periodic directions and natural faces of a field."""
        boundary = self.boundary if field.boundary is None else field.boundary
        return to_box(read_domain(self.dimension, self.domain, boundary))

    def until(self, final_time: float | None, /, **values: float) -> FieldData:
        """Return the problem for parameter values, with checks of its data up to `final_time`."""
        data = FieldData(self, dict(sorted(self.read_values(self.parameters, values).items())))
        data.check(final_time or 1.0)
        if self.terms is not None:
            lower, upper = np.asarray(to_box(self.domain).lower), np.asarray(to_box(self.domain).upper)
            self.terms.check(len(self.fields), lower + (upper - lower) * _TEST_POINTS[:, None], data.values)
        return data


def make_field_problem(given: Mapping[str, Any]) -> FieldProblem | None:
    """Return the problem if it has several fields, or terms nonlinear in u or its gradient, else None.

    Raises FormulaError for terms that exclude each other.
    """
    table = {name: value for name, value in given.items() if value is not None}
    kept = {name: table[name] for name in _COMMON if name in table}
    if "fields" in table:
        if beside := sorted({*table} - {*kept, "fields", "terms"} - {"diffusion"}):
            raise FormulaError(f"`{beside[0]}` is a key of each field. Write it in [problem.fields.NAME]")
        return FieldProblem(fields=table["fields"], terms=table.get("terms"), **kept)
    d, diffusion, advection = table.get("dimension"), table.get("diffusion", "1"), table.get("advection", ())
    solution = ("u", *(f"u_{x}" for x in SPACE))
    linear = diffusion, advection, table.get("boundary", ())
    if not ("flux" in table or _has_names(linear, solution) or _has_names(table.get("reaction", ""), solution[1:])):
        return None
    if type(d) is not int or d not in (1, 2, 3):
        raise ParameterError("dimension", "1, 2 or 3", d)
    if "potential" in table:
        raise FormulaError("`potential` must be left out beside nonlinear terms. State -F'(u) as `reaction`")
    # flux = A grad u, where A is a scalar, a diagonal or rows
    slopes = solution[1 : 1 + d]
    if "flux" in table:
        flux = tuple(table["flux"])
    elif isinstance(diffusion, (str, int, float)):
        flux = tuple(f"({diffusion})*{slope}" for slope in slopes)
    elif len(diffusion) != d:
        raise FormulaError(f"`diffusion` must be a formula or have {d} entries, got {shorten(diffusion)}")
    else:
        rows = [[row] if isinstance(row, str) else row for row in diffusion]
        if all(len(row) == 1 for row in rows) and d > 1:
            flux = tuple(f"({row[0]})*{slope}" for row, slope in zip(rows, slopes, strict=True))
        else:
            flux = tuple(" + ".join(f"({a})*{slope}" for a, slope in zip(row, slopes, strict=True)) for row in rows)
    transport = [f"({b})*{slope}" for b, slope in zip(advection, solution[1:], strict=False)]
    reaction = " - ".join([f"({table.get('reaction', '0')})", *transport])
    more = {name: table[name] for name in ("source", "initial", "exact", "lifting") if name in table}
    return FieldProblem(fields=(("u", Field(flux, reaction, **more)),), **kept)


def _has_names(formulas: Any, names: tuple[str, ...]) -> bool:
    """Return True if a formula, in nested lists or mappings, contains one of the names."""
    return not set(names).isdisjoint(re.findall(r"[A-Za-z]\w*", re.sub(r"\\[nrt]", " ", str(formulas))))


def _read_field(name: str, given: Any) -> Field:
    if not name.isidentifier() or name in RESERVED or "_" in name:
        raise ParameterError("fields", "names without underscores, other than x, y, z, t and pi", name)
    if isinstance(given, Field):
        return given
    if not isinstance(given, Mapping):
        raise ParameterError(f"fields.{name}", "a table of formulas", given)
    known = sorted(part.name for part in fields(Field))
    for unknown in sorted({*given} - {*known}):
        raise ParameterError(f"fields.{name}.{unknown}", f"one of {', '.join(known)}", given[unknown])
    flux = given.get("flux", ())
    if not isinstance(flux, (list, tuple)) or not all(isinstance(each, str) for each in flux):
        raise ParameterError(f"fields.{name}.flux", "a list of formulas", flux)
    return Field(**given)


class SymbolicFields:
    """Expressions of all fields as functions of u - u_b, which is in the Galerkin space.

    `slots` are the symbols of each field and its derivatives.  `coefficients` are c_0 = g and c_l = -F_l.
    """

    def __init__(self, problem: FieldProblem) -> None:
        d, self.slots = problem.dimension, list[tuple[sympy.Symbol, ...]]()
        for name in problem.names:
            self.slots.append(tuple(symbol(name + suffix) for suffix in ("", *(f"_{x}" for x in SPACE[:d]))))
        every = {str(slot) for group in self.slots for slot in group}
        parse = partial(parse_term, dimension=d, solutions=problem.names)
        parse_data, parse_nonlinear = (partial(parse, without=names) for names in (every, ()))
        self.lifting = tuple(parse_data(each.lifting, f"fields.{name}.lifting") for name, each in problem.fields)
        stated = [each.exact for _, each in problem.fields if each.exact is not None]
        self.exact = tuple(parse_data(text, "exact") for text in stated) or None
        lifted = {s: s + v for s, v in self.derive_slots(self.lifting).items() if v != 0}
        at_exact = self.derive_slots(self.exact) if self.exact else {}
        self.coefficients, self.exact_fluxes = list[tuple[sympy.Expr, ...]](), list[tuple[sympy.Expr, ...]]()
        self.faces, initial = dict[tuple[int, str], sympy.Expr](), list[sympy.Expr]()
        for a, (name, each) in enumerate(problem.fields):
            if problem.terms is not None and (each.flux or each.reaction != "0"):
                raise FormulaError(f"`fields.{name}` must have no `flux` and `reaction` beside `terms`")
            if len(each.flux) != d and problem.terms is None:
                raise FormulaError(f"`fields.{name}.flux` must have {d} formulas in {d}-D, got {len(each.flux)}")
            flux = [parse_nonlinear(text, f"fields.{name}.flux") for text in each.flux]
            g = parse_nonlinear(each.reaction, f"fields.{name}.reaction")
            g += parse_data(each.source, f"fields.{name}.source")
            rate = 0 if each.algebraic else 1
            if self.exact is not None and problem.terms is None:
                exact_flux = tuple(F.subs(at_exact) for F in flux)
                slopes = (sympy.diff(F, symbol(x)) for F, x in zip(exact_flux, SPACE, strict=False))
                divergence = sum(slopes, sympy.S.Zero)
                g += rate * sympy.diff(self.exact[a], _TIME) - divergence - g.subs(at_exact)
                self.exact_fluxes.append(exact_flux)
            g = g.subs(lifted) - rate * sympy.diff(self.lifting[a], _TIME)
            self.coefficients.append((g, *(-F.subs(lifted) for F in flux)))
            boundary = problem.boundary if each.boundary is None else each.boundary
            for face, data in ((face, data) for face, data in boundary if not isinstance(data, str)):
                texts = {key: parse_nonlinear(text, f"boundary.{face}.{key}") for key, text in data}
                h = texts["flux"] if "flux" in texts else texts["transfer"] * (texts["outside"] - self.slots[a][0])
                self.faces[a, face] = h.subs(lifted)
            begin = self.exact[a] if self.exact else parse_data(each.initial or "0", f"fields.{name}.initial")
            initial.append(begin.subs(_TIME, 0))
        self.initial = tuple(initial)
        used = [*self.lifting, *initial, *(self.exact or ()), *self.faces.values()]
        used += [coefficient for row in self.coefficients for coefficient in row]
        self.parameters = frozenset[str]().union(*map(find_parameters, used)) - every

    def derive_slots(self, values: tuple[sympy.Expr, ...]) -> dict[sympy.Symbol, sympy.Expr]:
        """Return the values of the symbols of fields and derivatives for the given functions."""
        return {
            slot: value if q == 0 else sympy.diff(value, symbol(SPACE[q - 1]))
            for group, value in zip(self.slots, values, strict=True)
            for q, slot in enumerate(group)
        }


_parse_fields = lru_cache(maxsize=32)(SymbolicFields)


@dataclass(frozen=True, eq=False)
class FieldData:
    """Functions of a problem for parameter values: coefficients c_a,p, their derivatives, and data on faces."""

    problem: FieldProblem
    values: Mapping[str, float]

    @property
    def dimension(self) -> int:
        """Number of directions in space."""
        return self.problem.dimension

    @property
    def domain(self) -> Any:
        """Domain of the problem."""
        return self.problem.domain

    def evaluate_at(self, expressions: tuple[sympy.Expr, ...], nodes: Array, t: float) -> Array:
        """Evaluate expressions in x and t at the nodes, (Q, d) -> (n, Q)."""
        known = {**name_coordinates(nodes), "t": t}
        with np.errstate(all="ignore"):
            found = compile_formulas(expressions, self.values)(known)
        return np.stack([np.broadcast_to(np.asarray(each, dtype=float), len(nodes)) for each in found])

    def exact(self, nodes: Array, t: float) -> Array:
        """Return the exact fields, (Q, d) -> (n, Q).  The problem must state `exact`."""
        return self.evaluate_at(self.problem.symbolic.exact or (), nodes, t)

    def check(self, T: float) -> None:
        """Raise ProblemError if the data of a field are not finite or contradict each other up to T."""
        symbolic = self.problem.symbolic
        at_exact = {} if symbolic.exact is None else symbolic.derive_slots(symbolic.exact)
        shift = {slot: value - known for (slot, value), known in zip(at_exact.items(), self.lifted, strict=False)}
        for a, (name, each) in enumerate(self.problem.fields):
            box = self.problem.box(each)
            faces = {
                face: h.subs(shift) if shift else sympy.S.Zero for (b, face), h in symbolic.faces.items() if a == b
            }
            problem = Problem(
                self.dimension, self._make_function(sympy.S.One), partial(self._evaluate_at_start, symbolic.initial[a]),
                exact=None if symbolic.exact is None else self._make_function(symbolic.exact[a]),
                lifting=Lifting(self._make_function(symbolic.lifting[a]), self._make_function(sympy.S.Zero), (), ()),
                domain=box, faces=tuple(NaturalFace(face, self._make_function(h)) for face, h in faces.items()),
                boundary_tolerance=self.problem.boundary_tolerance,
            )  # fmt: skip
            inside = np.asarray(box.lower) + box.widths * np.linspace(0.03, 0.97, 24)[:, None]
            if not np.isfinite(problem.initial(inside)).all():
                raise ProblemError(f"the initial value of `{name}` must be finite in the domain")
            if each.algebraic and problem.exact is None:
                continue
            try:
                fluxes = symbolic.exact_fluxes[a] if shift and self.problem.terms is None else ()
                check_data(problem, T, [self._make_function(flux) for flux in fluxes])
            except ProblemError as error:
                raise ProblemError(f"{error} (field {name})") from None

    @cached_property
    def lifted(self) -> tuple[sympy.Expr, ...]:
        """Liftings of all fields and their derivatives."""
        symbolic = self.problem.symbolic
        return tuple(symbolic.derive_slots(symbolic.lifting).values())

    def _evaluate_at_start(self, expression: sympy.Expr, nodes: Array) -> Array:
        return np.asarray(self.evaluate_at((expression,), nodes, 0.0)[0])

    def _make_function(self, expression: sympy.Expr) -> NonSeparable:
        return NonSeparable(lambda nodes, t: self.evaluate_at((expression,), nodes, t)[0])

    @cached_property
    def terms(self) -> FormulaTerms:
        """Fluxes and sources of all fields as functions of nodal values."""
        return FormulaTerms(self) if self.problem.terms is None else FunctionTerms(self, self.problem.terms)


@dataclass(frozen=True, eq=False)
class FaceTerm:
    """Function that computes h_a on a natural face, and its derivatives by the fields `by`, from named values."""

    row: int
    face: str
    by: tuple[int, ...]
    functions: Callable[[Mapping[str, Any]], list[Any]]


class FormulaTerms:
    """Fluxes and sources of all fields as functions of named nodal values, with symbolic derivatives.

    The function `values` returns the nonzero c_a,p for the pairs (a, p) in `places`.  The functions `steady` and
    `varying` return the nonzero derivatives of c_a,p by s_b,q for (a, p, b, q) in `steady_places` and `varying_places`.
    """

    def __init__(self, data: FieldData) -> None:
        self._data, symbolic = data, data.problem.symbolic
        self.slots = tuple(tuple(map(str, group)) for group in symbolic.slots)
        self.algebraic = tuple(each.algebraic for _, each in data.problem.fields)
        rows, flat = symbolic.coefficients, {slot for group in symbolic.slots for slot in group}
        self.places = [(a, p) for a, row in enumerate(rows) for p, c in enumerate(row) if c != 0]
        self.values = compile_formulas(tuple(rows[a][p] for a, p in self.places), data.values)
        steady: dict[tuple[int, int, int, int], sympy.Expr] = {}
        varying: dict[tuple[int, int, int, int], sympy.Expr] = {}
        for a, p in self.places:
            for b, group in enumerate(symbolic.slots):
                for q, slot in enumerate(group):
                    slope = sympy.diff(rows[a][p], slot)
                    if slope != 0:
                        (varying if slope.free_symbols & (flat | {_TIME}) else steady)[a, p, b, q] = slope
        self.steady_places, self.varying_places = list(steady), list(varying)
        self.steady, self.varying = (compile_formulas(tuple(each.values()), data.values) for each in (steady, varying))
        self.faces, slots = list[FaceTerm](), [group[0] for group in symbolic.slots]
        for (row, face), h in symbolic.faces.items():
            by = tuple(b for b, slot in enumerate(slots) if h.has(slot))
            slopes = (sympy.diff(h, slots[b]) for b in by)
            self.faces.append(FaceTerm(row, face, by, compile_formulas((h, *slopes), data.values)))

    def initial(self, nodes: Array) -> Array:
        """Return the initial values minus the liftings, (Q, d) -> (n, Q)."""
        return self._data.evaluate_at(self._data.problem.symbolic.initial, nodes, 0.0) - self.lifting(nodes, 0.0)

    def lifting(self, nodes: Array, t: float) -> Array:
        """Return the liftings of all fields, (Q, d) -> (n, Q)."""
        return self._data.evaluate_at(self._data.problem.symbolic.lifting, nodes, t)


class FunctionTerms(FormulaTerms):
    """Fluxes and sources of all fields from Python functions, which get the fields with their liftings."""

    def __init__(self, data: FieldData, terms: FieldTerms) -> None:
        super().__init__(data)
        self._terms, self._source, self._source_places = terms, self.values, self.places
        self.places = list(np.ndindex(len(self.slots), 1 + data.dimension))
        self.values = self._values
        self.varying_places = [(*one, *other) for one in self.places for other in self.places]
        self.varying = lambda known: list(self._evaluate(known)[1].reshape(len(self.varying_places), -1))

    def _values(self, known: Mapping[str, Any]) -> list[Any]:
        values = self._evaluate(known)[0]
        # add the source from formulas, minus the time derivative of the lifting
        for place, source in zip(self._source_places, self._source(known), strict=True):
            values[place] += source
        return list(values.reshape(len(self.places), -1))

    def _evaluate(self, known: Mapping[str, Any]) -> tuple[Array, Array]:
        """Return sources and negative fluxes, as in the weak form, with their derivatives."""
        nodes, data = np.column_stack([known[x] for x in SPACE[: self._data.dimension]]), self._data
        s = np.stack([[known[name] for name in group] for group in self.slots])
        if any(each != 0 for each in data.lifted):
            s = s + data.evaluate_at(data.lifted, nodes, known["t"]).reshape(s.shape)
        values, slopes = self._terms.evaluate(s, nodes, known["t"], data.values)
        values[:, 1:] *= -1.0
        slopes[:, 1:] *= -1.0
        return values, slopes
