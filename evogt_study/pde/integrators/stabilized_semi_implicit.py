"""The stabilised semi-implicit step for gradient flows (eq:ac_scheme), first order in time.

    ((1 + S dt) I + dt K) alpha^{n+1} = (1 + S dt) alpha^n + dt (b - g(alpha^n)),    K and b at t_{n+1}

The linear terms are implicit, the reaction g_i = (F'(u^n), phi~_i)_q explicit, and S >= 0 damps the change of a step.
For F'' <= 2S wherever the solution goes, b = 0 and a diffusion that does not depend on time, the energy

    E_q(u) = sum_q w_q [ a |grad u|^2 / 2 + F(u) ]

does not increase.  With a lifting u = u_b + phi~ . alpha, and the damping is of u: -S (u_b^{n+1} - u_b^n) joins b.
"""

from __future__ import annotations

from dataclasses import dataclass

from evogt_study.pde.integrators.semi_implicit import SemiImplicit, Side
from evogt_study.pde.numerics.arrays import Array
from evogt_study.schema.parameters import declared, real


@dataclass(frozen=True)
class StabilizedSemiImplicit(SemiImplicit):
    """Order one; also for problems with a potential, whose energy it records."""

    name = "stabilized_semi_implicit"

    stabilization: float = declared(
        "a number >= 0", real(0.0, low_included=True), "S", f"damping of {name}, eq:ac_scheme"
    )

    @property
    def damping(self) -> float:
        return self.stabilization

    def shifts(self, dt: float) -> tuple[float, ...]:
        return (1.0 + self.stabilization * dt,)

    def side(self, dt: float) -> Side:
        """(1 + S dt) alpha^n - dt r^n + dt b^{n+1} (eq:ac_scheme)."""
        (shift,) = self.shifts(dt)

        def side(alpha: Array, slope: Array, load: Array) -> float:
            alpha *= shift
            slope *= dt
            alpha -= slope
            alpha += load
            return shift

        return side
