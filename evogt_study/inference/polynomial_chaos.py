"""Compute Sobol indices and Shapley effects from least-squares fits of polynomials to a sample.

A quasi-norm limits the degrees (Blatman & Sudret, J. Comput. Phys. 230, 2011).  Leave-one-out errors choose the terms.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, islice, product
from math import comb
from typing import NamedTuple

import numpy as np
import scipy  # it imports scipy.linalg at the first use, which takes 0.04 s

from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array, compute_student_quantile
from evogt_study.inference.sensitivity import Moments, compute_noise_grams

Term = tuple[tuple[int, int], ...]  # a product of polynomials, given by (parameter, degree) of each factor
MIN_POINTS = 20  # a linear fit in three parameters has six points for each term
MIN_POINTS_PER_TERM = 3  # fits with fewer points for each term have large errors
_MAX_TERMS = 300  # 0.2 s for 1,000 points: more terms did not lower the errors of Ishigami and g-function
_MAX_NUMBERS = 2**24  # largest matrix of points and terms: 128 MB
_MAX_DEGREE = 20
_QUASI_NORMS = (1.0, 0.75, 0.5)  # smaller quasi-norms of the degrees leave fewer mixed terms
MAX_FACTORS = 3  # 20 parameters have 1,140 triples already
MAX_SHAPLEY = 8  # D parameters need a fit for each of 2^D subsets
JACKKNIFE_GROUPS = 20  # groups of points that the jackknife of Shapley effects leaves out


class ChaosFit(NamedTuple):
    """Fit of M terms with coefficients (M, R) = inverse (M, n) y and leave-one-out residuals `left` (n, R)."""

    terms: Sequence[Term]
    inverse: Array
    coefficients: Array
    left: Array
    error: float
    explained: float


class Bases:
    """Polynomial bases for points (n, D) with their QR factors.  If `simple`, use only the total degree."""

    def __init__(self, points: Array, *, simple: bool = False) -> None:
        polynomials = [_make_polynomials(column) for column in points.T]
        degrees, norms = [len(each) - 1 for each in polynomials], _QUASI_NORMS[:1] if simple else _QUASI_NORMS
        self.bases: list[tuple[Sequence[Term], Sequence[int], Array, Array]] = []  # with ends of degrees, Q and R
        for terms, ends in _iterate_bases(degrees, len(points), norms):
            matrix = np.ones((len(points), len(terms) + 1))
            for place, term in enumerate(terms, start=1):
                for parameter, degree in term:
                    matrix[:, place] *= polynomials[parameter][degree]
            q, r = np.linalg.qr(matrix)
            # some products of discrete parameters are equal at all points
            if np.abs(np.diag(r)).min() >= 1e-8 * np.abs(r[0, 0]):
                self.bases.append((terms, ends, q, r))

    def fit(self, y: Array) -> ChaosFit:
        """Return the fit of y (n, R) with the least leave-one-out error of the mean over the seeds."""
        (n, r), mean = y.shape, y.mean(axis=1)
        variance, least = float(mean.var()), 1.0
        best: tuple[Sequence[Term], Array, Array] | None = None
        for terms, ends, q, upper in self.bases if variance > 0.0 else []:
            for end in ends:
                error = float((_compute_left_out_residuals(q[:, : end + 1], mean[:, None]) ** 2).mean()) / variance
                if error < least:
                    least, best = error, (terms[:end], q[:, : end + 1], upper[: end + 1, : end + 1])
        if best is None:
            return ChaosFit((), np.zeros((0, n)), np.zeros((0, r)), y - y.mean(axis=0), 1.0, 0.0)
        chosen, q, upper = best
        inverse = scipy.linalg.solve_triangular(upper, q.T)[1:]
        rest = float(((mean - q @ (q.T @ mean)) ** 2).sum()) / max(n - len(chosen) - 1, 1)
        explained = 1.0 - rest / float(mean.var(ddof=1))
        return ChaosFit(chosen, inverse, inverse @ y, _compute_left_out_residuals(q, y), least, explained)


def compute_fit_moments(bases: Bases, parameters: int, y: Array, runs: float, *, fresh: bool) -> tuple[Moments, float]:
    """Return the moments of y (n, R) at n points with `runs` runs each, and the unexplained mean square.

    Sums of squared coefficients, less their variances, are S_j V and T_j V (Sudret, Reliab. Eng. Syst. Saf. 93, 2008).
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
    if r > 1 and not fresh:  # leave-one-out residuals do not show equal effects of a seed at neighbouring points
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
        fit.coefficients.T @ fit.coefficients, compute_noise_grams(y), n, unseen, unseen * len(fit.terms) / n,
    ), unseen  # fmt: skip


def compute_shapley_effects(points: Array, y: Array, confidence: float) -> tuple[Array, Array]:
    """Return Shapley effects (Owen, SIAM/ASA J. Uncertain. Quantif. 2, 2014) and Var E[y | x_j] / V of y (n,)."""
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
    half = compute_student_quantile(JACKKNIFE_GROUPS, confidence) * np.sqrt((JACKKNIFE_GROUPS - 1) * left.var(axis=0))
    parts = np.column_stack([whole, np.maximum(whole - half, 0.0), np.minimum(whole + half, 1.0)])
    return parts[:d], parts[d:]


def _compute_left_out_residuals(q: Array, outputs: Array) -> Array:
    """Return the leave-one-out residuals (y - Q Q^T y) / (1 - h) with the leverages h, (n, L)."""
    # a point that alone determines a term has leverage one and no residual
    leverage = np.minimum((q**2).sum(axis=1), 1.0 - 1e-9)
    return np.asarray((outputs - q @ (q.T @ outputs)) / (1.0 - leverage)[:, None])


def _make_polynomials(column: Array) -> Array:
    """Return orthonormal polynomials (K, n) of the ranks of a parameter's values, beginning with a constant."""
    values, order, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks = ((np.cumsum(counts) - 0.5 * counts) / len(column))[order]
    degree = min(_MAX_DEGREE, len(values) - 1)
    legendre = np.polynomial.legendre.legvander(2.0 * ranks - 1.0, degree)
    q, r = np.linalg.qr(legendre)
    # with these signs, the polynomials rise like Legendre's
    return np.asarray((q * np.sign(np.diag(r))).T * np.sqrt(len(column)))


def _iterate_bases(
    degrees: Sequence[int], points: int, norms: Sequence[float]
) -> Iterator[tuple[list[Term], list[int]]]:
    """Yield the terms of candidate bases with polynomials up to `degrees`, and the number of terms at each degree."""
    # less one term for the constant
    most, seen = min(points // MIN_POINTS_PER_TERM - 1, _MAX_TERMS, _MAX_NUMBERS // points), set[tuple[Term, ...]]()
    for factors in range(1, min(MAX_FACTORS, len(degrees)) + 1):
        for norm in norms if factors > 1 else norms[:1]:
            terms, ends = list[Term](), list[int]()
            for degree in range(1, _MAX_DEGREE + 1):
                room = most - len(terms)
                terms_of_degree = (
                    tuple(zip(chosen, each, strict=True))
                    for count in range(1, factors + 1)
                    for chosen in combinations(range(len(degrees)), count)
                    for each in _list_exponents(degree, norm, count)
                    if all(e <= degrees[j] for j, e in zip(chosen, each, strict=True))
                )
                new = list(islice(terms_of_degree, room + 1))
                if len(new) > room:
                    break
                terms += new
                ends += [len(terms)] if new else []
            if terms and tuple(terms) not in seen:
                seen.add(tuple(terms))
                yield terms, ends


@lru_cache(maxsize=1024)  # all bases share these exponents, which take longer than a fit
def _list_exponents(degree: int, norm: float, count: int) -> tuple[tuple[int, ...], ...]:
    """Return degrees of `count` factors whose quasi-norm is in (degree - 1, degree]."""
    least, most = degree - 1 + 1e-9, degree + 1e-9  # rounding of integer quasi-norms
    return tuple(
        each
        for each in product(range(1, degree + 1), repeat=count)
        if least < sum(float(e) ** norm for e in each) ** (1.0 / norm) <= most
    )
