"""Parabolic problems in formulas, as the problem kind that this package registers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evogt_study.errors import StudyError
from evogt_study.methods.problem_kind import ProblemKind
from evogt_study.pde import problems

if TYPE_CHECKING:
    from evogt_study.pde.methods.solver import UserSolver
    from evogt_study.pde.problems import FormulaProblem


class FormulaProblems(ProblemKind):
    """Problems of the paper by their names, and tables of formulas."""

    def read(self, stated: str | Mapping[str, Any], folder: Path, where: str) -> FormulaProblem:
        if isinstance(stated, str):
            if stated not in problems.BUILT_IN:
                raise StudyError(
                    f"`problem` must be one of {', '.join(problems.BUILT_IN)}, file.py:factory or a [problem] table, "
                    f"got {stated!r} ({where})"
                )
            return problems.BUILT_IN[stated]
        from evogt_study.pde.problems.terms import ProblemTable  # 0.5 s, with SymPy
        from evogt_study.study.model import validated

        given = {key: value for key, value in stated.items() if key != "kind"}
        table = validated(ProblemTable, given, where).model_dump(exclude_none=True)
        mesh = table.get("domain", {}).get("mesh")
        if isinstance(mesh, str):  # a path relative to the study
            table["domain"] = {"mesh": str(folder / mesh)}
        return problems.FormulaProblem(**table)

    def make(self, content: Mapping[str, Any]) -> FormulaProblem:
        return problems.FormulaProblem(**content)

    @property
    def solver(self) -> type[UserSolver]:
        from evogt_study.pde.methods.solver import UserSolver

        return UserSolver

    def describe(self, stated: str | Mapping[str, Any]) -> str:
        from evogt_study.pde.problems.typeset import typeset

        return typeset(stated)


pde = FormulaProblems()
