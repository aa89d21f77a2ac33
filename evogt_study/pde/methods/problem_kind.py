"""Formula problems as a kind of problem, which this package registers by an entry point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evogt_study.errors import StudyError, cut
from evogt_study.methods.protocol import ProblemKind
from evogt_study.pde import problems
from evogt_study.text import escape_text

if TYPE_CHECKING:
    from evogt_study.pde.methods.problem_method import UserSolver
    from evogt_study.pde.problems import FormulaProblem


class FormulaProblems(ProblemKind):
    """Kind of problem that a study states by the name of a problem of the paper or by a table of formulas."""

    def read(self, stated: str | Mapping[str, Any], folder: Path, where: str) -> FormulaProblem:
        if isinstance(stated, str):
            if stated not in problems.BUILT_IN:
                wanted = f"one of {', '.join(problems.BUILT_IN)}, file.py:factory or a [problem] table"
                raise StudyError(f"`problem` must be {wanted}, got {stated!r} ({where})")
            return problems.BUILT_IN[stated]
        from evogt_study.pde.problems.terms import ProblemTable  # 0.5 s, with SymPy
        from evogt_study.study.model import validate_table

        given = {key: value for key, value in stated.items() if key != "kind"}
        table = validate_table(ProblemTable, given, where).model_dump(exclude_none=True)
        mesh = table.get("domain", {}).get("mesh")
        if isinstance(mesh, str):  # the path is relative to the study file
            table["domain"] = {"mesh": str(folder / mesh)}
        if str(table["diffusion"]).endswith(".csv"):
            table["diffusion"] = str(folder / table["diffusion"])
        return problems.FormulaProblem(**table)

    def make(self, content: Mapping[str, Any]) -> FormulaProblem:
        return problems.FormulaProblem(**content)

    @property
    def solver(self) -> type[UserSolver]:
        from evogt_study.pde.methods.problem_method import UserSolver

        return UserSolver

    def describe(self, stated: str | Mapping[str, Any]) -> str:
        from markupsafe import Markup

        from evogt_study.pde.problems.terms import ProblemTable
        from evogt_study.study.model import validate_table

        if isinstance(stated, str):
            stated = problems.BUILT_IN[stated].table if stated in problems.BUILT_IN else {}
        try:
            table = validate_table(ProblemTable, stated, "problem").model_dump(exclude_defaults=True)
        except StudyError:
            return ""
        item = Markup('<li><span class="quiet">{}</span> <code>{}</code></li>\n')
        equation = "u_t = div F + g"
        if not {"fields", "flux"} & table.keys():
            terms = {"advection": " - b . grad u", "reaction": " + g", "potential": " - F'(u)"}
            equation = "u_t = div(A grad u)" + "".join(term for name, term in terms.items() if name in table)
            equation += " + f" if {"exact", "source"} & table.keys() else ""
        lines = {"equation": equation, **dict(_list_entries(table, ""))}
        return Markup("").join(item.format(*(escape_text(cut(text, 200)) for text in line)) for line in lines.items())


def _list_entries(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each entry of a table and of its subtables."""
    for name, value in table.items():
        if isinstance(value, Mapping) and name != "domain":
            yield from _list_entries(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value if isinstance(value, str) else str(value)


pde = FormulaProblems()
