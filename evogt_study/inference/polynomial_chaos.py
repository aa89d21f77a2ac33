"""Fit polynomials to any sample by least squares, for Sobol indices and Shapley effects.

Leave-one-out errors choose the terms: products of polynomials of the ranks of the parameters, orthonormal on the
sample, with total degree in a quasi-norm (Blatman & Sudret, J. Comput. Phys. 230, 2011).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice, product
from math import comb

import numpy as np
import scipy  # it imports scipy.linalg at the first use, which takes 0.04 s

from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.inference.means import student_quantile
from evogt_study.inference.variance_components import Moments, VariancePart, noise_grams

Term = tuple[tuple[int, int], ...]
"""One product of polynomials: (parameter, degree) of each of its factors."""
MIN_POINTS = 20
"""Points below which nothing is fitted: a straight line in each of three parameters would have six points a term."""
POINTS_A_TERM = 3
"""Points for each term at the least: leave-one-out favours fits of fewer, but they have large errors."""
_MAX_TERMS = 300
"""Terms at the most: a fit of 1,000 points in 0.2 s, and more did not lower the errors of Ishigami and g-function."""
MAX_NUMBERS = 2**24
"""Points times terms at the most: 128 MB."""
_MAX_DEGREE = 20
_NORMS = (1.0, 0.75, 0.5)
"""Quasi-norms by which a term's degree is measured: the smaller, the fewer mixed terms (Blatman & Sudret 2011)."""
MAX_FACTORS = 3
"""Parameters that interact in a term: 20 parameters have 1,140 triples already."""
MAX_SHAPLEY = 8
"""Parameters of Shapley effects, which need a fit for each of their 2^D subsets."""
JACKKNIFE_GROUPS = 20
"""Groups of points that the jackknife of Shapley effects leaves out."""


@dataclass(frozen=True)
class Basis:
    """Terms in order of their degree, without the constant; `ends`: how many have up to each degree; Q and R."""

    terms: Sequence[Term]
    ends: Sequence[int]
    q: Array
    r: Array


@dataclass(frozen=True, eq=False)
class ChaosFit:
    """Coefficients (M, R) = inverse (M, n) y of the terms.

    left: residuals (n, R) at each point of the fit without it.  error: their mean square for the mean over the seeds,
    in parts of its variance.  explained: 1 - residual / total variance, each over its degrees of freedom.
    """

    terms: Sequence[Term]
    inverse: Array
    coefficients: Array
    left: Array
    error: float
    explained: float


class Bases:
    """The bases of points (n, D), each decomposed once for all outputs.  simple: total degree only."""

    def __init__(self, points: Array, *, simple: bool = False) -> None:
        polynomials = [_polynomials(column) for column in points.T]
        self.bases: list[Basis] = []
        for terms, ends in _bases(
            [len(each) - 1 for each in polynomials], len(points), _NORMS[:1] if simple else _NORMS
        ):
            q, r = np.linalg.qr(_matrix(terms, polynomials, len(points)))
            # of discrete parameters some products are the same at all points
            if np.abs(np.diag(r)).min() >= 1e-8 * np.abs(r[0, 0]):
                self.bases.append(Basis(terms, ends, q, r))

    def fit(self, y: Array) -> ChaosFit:
        """The fit of y (n, R) with the least leave-one-out error of the mean over the seeds."""
        mean = y.mean(axis=1)
        variance, best = float(mean.var()), None
        least = 1.0
        for basis in self.bases if variance > 0.0 else []:
            for end in basis.ends:
                error = float((_left_out(basis.q[:, : end + 1], mean[:, None]) ** 2).mean()) / variance
                if error < least:
                    least, best = error, (basis, end)
        n, r = y.shape
        if best is None:
            return ChaosFit((), np.zeros((0, n)), np.zeros((0, r)), y - y.mean(axis=0), 1.0, 0.0)
        basis, end = best
        q, upper = basis.q[:, : end + 1], basis.r[: end + 1, : end + 1]
        inverse = scipy.linalg.solve_triangular(upper, q.T)[1:]
        rest = float(((mean - q @ (q.T @ mean)) ** 2).sum()) / max(n - end - 1, 1)
        explained = 1.0 - rest / float(mean.var(ddof=1))
        return ChaosFit(basis.terms[:end], inverse, inverse @ y, _left_out(q, y), least, explained)


def moments_of_fit(bases: Bases, parameters: int, y: Array, runs: float, *, fresh: bool) -> tuple[Moments, float]:
    """Moments of y (n, R) at the points of `bases`, and the mean square that the polynomials do not explain.

    S_j V is the sum of squared coefficients over the terms of parameter j alone, and T_j V over all terms with it
    (Sudret, Reliab. Eng. Syst. Saf. 93, 2008), each square less its variance.  runs: mean number of runs at a point.
    """
    (n, r), fit = y.shape, bases.fit(y)
    used = np.zeros((parameters, len(fit.terms)), dtype=bool)
    for place, term in enumerate(fit.terms):
        used[[parameter for parameter, _ in term], place] = True
    sums = np.concatenate([used & (used.sum(axis=0) == 1), used]).astype(float)
    mean, changes = y.mean(axis=1), fit.inverse * fit.left.mean(axis=1)
    c, spread, smooth = fit.coefficients.mean(axis=1), (changes**2).sum(axis=1), np.zeros(2 * parameters)
    residuals = y - mean[:, None]
    seeds = (residuals**2).sum(axis=1) / max(r - 1, 1)
    mixed = ((residuals - residuals.mean(axis=0)) ** 2).sum(axis=1) * n / (n - 1) / max(r - 1, 1)
    if r > 1 and not fresh:  # what seeds move alike at neighbouring points, so that no point left out shows it
        apart = ((fit.left - fit.left.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        rough = fit.inverse**2 @ apart / (r * (r - 1))
        smooth = np.maximum(0.0, sums @ (fit.coefficients.var(axis=1, ddof=1) / r - rough))
    between = (mean - mean.mean()) ** 2
    unseen = max(0.0, fit.error * float(mean.var()) - float(mixed.mean()) / runs)
    left = (
        ((c[:, None] - changes) ** 2 - spread[:, None]).T @ sums.T - smooth,
        (between.sum() - between * n / (n - 1)) / (n - 1) - (n * mixed.mean() - mixed) / (n - 1) / runs,
        (n * seeds.mean() - seeds) / (n - 1),
    )
    grams = [fit.coefficients[row > 0].T @ fit.coefficients[row > 0] for row in sums]
    variance = float(between.mean()) - float(mixed.mean()) / runs
    return Moments(
        sums @ (c**2 - spread) - smooth, variance, float(seeds.mean()), left, grams,
        fit.coefficients.T @ fit.coefficients, noise_grams(y), n, unseen, unseen * len(fit.terms) / n,
    ), unseen  # fmt: skip


def shapley_effects(points: Array, y: Array, confidence: float) -> tuple[list[VariancePart], list[VariancePart]]:
    """Shapley effects (Owen, SIAM/ASA J. Uncertain. Quantif. 2, 2014) of y (n,), and Var E[y | x_j] / V, each (D,).

    Var E[y | x_u] / V is the variance that polynomials in x_u explain.  Limits: the jackknife of groups of points.
    """
    d = points.shape[1]
    if d > MAX_SHAPLEY:
        raise InputError(f"`parameters` must be at most {MAX_SHAPLEY} for Shapley effects, got {d}")
    subsets: list[tuple[int, ...]] = [each for size in range(d + 1) for each in combinations(range(d), size)]

    def numbers(kept: Array) -> Array:
        own, known = points[kept], dict[tuple[int, ...], float]({(): 0.0})
        for u in subsets[1:]:
            known[u] = Bases(own[:, list(u)], simple=True).fit(y[kept][:, None]).explained
        effects = [
            sum((known[tuple(sorted((*u, j)))] - known[u]) / d / comb(d - 1, len(u)) for u in subsets if j not in u)
            for j in range(d)
        ]
        return np.array([*effects, *(known[(j,)] for j in range(d))])

    whole, group = numbers(np.ones(len(y), dtype=bool)), np.random.default_rng(0).permutation(len(y)) % JACKKNIFE_GROUPS
    left = np.array([numbers(group != each) for each in range(JACKKNIFE_GROUPS)])
    half = student_quantile(JACKKNIFE_GROUPS, confidence) * np.sqrt((JACKKNIFE_GROUPS - 1) * left.var(axis=0))
    parts = [
        VariancePart(v, max(v - h, 0.0), min(v + h, 1.0)) for v, h in zip(whole.tolist(), half.tolist(), strict=True)
    ]
    return parts[:d], parts[d:]


def _left_out(q: Array, outputs: Array) -> Array:
    """Residuals (n, L) at each point of the fit without it, (y - Q Q^T y) / (1 - h) with the leverages h."""
    # a point that alone decides a term has leverage one, and no residual
    leverage = np.minimum((q**2).sum(axis=1), 1.0 - 1e-9)
    return np.asarray((outputs - q @ (q.T @ outputs)) / (1.0 - leverage)[:, None])


def _polynomials(column: Array) -> Array:
    """Orthonormal polynomials (K, n) of the ranks of a parameter's values, the first constant.

    Of L different values there are L, which hold every function of them; ties share a rank.
    """
    values, order, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks = ((np.cumsum(counts) - 0.5 * counts) / len(column))[order]
    degree = min(_MAX_DEGREE, len(values) - 1)
    legendre = np.polynomial.legendre.legvander(2.0 * ranks - 1.0, degree)
    q, r = np.linalg.qr(legendre)
    # QR leaves signs open: with these the polynomials rise, as Legendre's do
    return np.asarray((q * np.sign(np.diag(r))).T * np.sqrt(len(column)))


def _bases(degrees: Sequence[int], points: int, norms: Sequence[float]) -> Iterator[tuple[list[Term], list[int]]]:
    """Bases to choose from, by quasi-norm and number of factors, of parameters with polynomials up to `degrees`."""
    # one less, for the constant
    most, seen = min(points // POINTS_A_TERM - 1, _MAX_TERMS, MAX_NUMBERS // points), set[tuple[Term, ...]]()
    for factors in range(1, min(MAX_FACTORS, len(degrees)) + 1):
        for norm in norms if factors > 1 else norms[:1]:
            terms, ends = list[Term](), list[int]()
            for degree in range(1, _MAX_DEGREE + 1):
                room = most - len(terms)
                new = list(islice(_terms(degrees, degree, norm, factors), room + 1))
                if len(new) > room:
                    break
                terms += new
                ends += [len(terms)] if new else []
            if terms and tuple(terms) not in seen:
                seen.add(tuple(terms))
                yield terms, ends


def _terms(degrees: Sequence[int], degree: int, norm: float, factors: int) -> Iterator[Term]:
    """Terms whose degree is in (degree - 1, degree]."""
    for count in range(1, factors + 1):
        exponents = _exponents(degree, norm, count)
        for chosen in combinations(range(len(degrees)), count) if exponents else ():
            for each in exponents:
                if all(e <= degrees[j] for j, e in zip(chosen, each, strict=True)):
                    yield tuple(zip(chosen, each, strict=True))


@lru_cache(maxsize=1024)  # all bases of all numbers have the same, and sorting them out takes longer than a fit
def _exponents(degree: int, norm: float, count: int) -> tuple[tuple[int, ...], ...]:
    """Degrees of `count` factors whose quasi-norm is in (degree - 1, degree]."""
    least, most = degree - 1 + 1e-9, degree + 1e-9  # a quasi-norm of whole numbers is one up to rounding
    return tuple(
        each
        for each in product(range(1, degree + 1), repeat=count)
        if least < sum(float(e) ** norm for e in each) ** (1.0 / norm) <= most
    )


def _matrix(terms: Sequence[Term], polynomials: Sequence[Array], points: int) -> Array:
    """Values of the terms at the points (n, M + 1), the constant first."""
    matrix = np.ones((points, len(terms) + 1))
    for place, term in enumerate(terms, start=1):
        for parameter, degree in term:
            matrix[:, place] *= polynomials[parameter][degree]
    return matrix
