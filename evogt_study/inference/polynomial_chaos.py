"""Estimate Sobol indices from any sample by polynomial chaos.  Leave-one-out errors choose the terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.linalg at the first use, which takes 0.04 s

from evogt_study.inference.kernels import Array
from evogt_study.inference.sensitivity import Shares, unknown

Term = tuple[tuple[int, int], ...]
"""One product of polynomials: (parameter, degree) of each of its factors."""
FEWEST_POINTS = 20
"""Points below which nothing is fitted: a straight line in each of three parameters would have six points a term."""
POINTS_A_TERM = 3
"""Points for each term at the least: leave-one-out favours fits of fewer, but they have large errors."""
MOST_TERMS = 300
"""Terms at the most: a fit of 1,000 points in 0.2 s, and more did not lower the errors of Ishigami and g-function."""
MOST_NUMBERS = 2**24
"""Points times terms at the most: 128 MB."""
MOST_DEGREE = 20
NORMS = (1.0, 0.75, 0.5)
"""Quasi-norms by which a term's degree is measured: the smaller, the fewer mixed terms (Blatman & Sudret 2011)."""
MOST_FACTORS = 3
"""Parameters that interact in a term: 20 parameters have 1,140 triples already."""


def indices(values: Array, points: Array, confidence: float) -> list[Shares]:
    """First-order and total indices of values (L, n, R), L numbers at n points (n, D) with R seeds.

    The mean over the seeds is fitted by least squares, y = sum_a c_a psi_a(u), in products of polynomials of the ranks
    u of the parameters, orthonormal on the sample; then S_j V = sum of c_a^2 over terms of parameter j alone, and T_j V
    that over all terms with it (Sudret, Reliab. Eng. Syst. Saf. 93, 2008), each c_a^2 less its variance.  Of bases with
    total degree in a quasi-norm (Blatman & Sudret, J. Comput. Phys. 230, 2011) that with the least leave-one-out error
    e is taken.

    Intervals are S -+ z s, s jackknifed over the points, widened by what the polynomials do not explain: upwards by e
    less what the seed has in it, downwards by e M / n for M terms.  Points without a value are left out, and equal
    masks are fitted together.
    """
    there = np.isfinite(values)
    counts = there.sum(axis=-1)
    means = np.where(there, values, 0.0).sum(axis=-1) / np.maximum(counts, 1)
    kept, first = np.unique(counts > 0, axis=0, return_inverse=True)
    found: list[Shares] = [unknown(points.shape[1], int((row > 0).sum())) for row in counts]
    for mask_number, mask in enumerate(kept):
        which = np.flatnonzero(np.ravel(first) == mask_number)
        if mask.sum() < FEWEST_POINTS:
            continue
        fits = _fits(points[mask], means[which][:, mask].T)
        for place, fit in zip(which, fits, strict=True):
            noise = _noise(values[place][mask], means[place][mask])
            if fit is not None:
                several = bool((np.isfinite(values[place][mask]).sum(axis=-1) > 1).any())
                found[place] = _shares(fit, means[place][mask], noise, several, points.shape[1], confidence)
    return found


@dataclass(frozen=True, eq=False)
class Basis:
    """Terms in order of their degree, without the constant, and `ends`: how many have up to each degree."""

    terms: Sequence[Term]
    ends: Sequence[int]


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients (M,), what each changes when a point is left out (n, M), the terms, and e in parts of variance."""

    coefficients: Array
    changes: Array
    terms: Sequence[Term]
    error: float


def _fits(points: Array, outputs: Array) -> list[Fit | None]:
    """The best fit of each output (n, L); None where it does not vary."""
    polynomials = [_polynomials(column) for column in points.T]
    variances = outputs.var(axis=0)
    best = np.full(outputs.shape[1], np.inf)
    found: list[Fit | None] = [None] * outputs.shape[1]
    for basis in _bases([len(each) - 1 for each in polynomials], len(points)):
        matrix = _matrix(basis.terms, polynomials, len(points))
        q, r = np.linalg.qr(matrix)
        if np.abs(np.diag(r)).min() < 1e-8 * np.abs(r[0, 0]):
            continue  # of discrete parameters some products are the same at all points
        for end in basis.ends:
            left = _left_out(q[:, : end + 1], outputs)
            with np.errstate(divide="ignore", invalid="ignore"):
                error = (left**2).mean(axis=0) / variances
            for place in np.flatnonzero(error < best):
                best[place] = error[place]
                found[place] = _fit(q, r, end, outputs[:, place], left[:, place], basis, float(error[place]))
    return found


def _left_out(q: Array, outputs: Array) -> Array:
    """Residuals (n, L) at each point of the fit without it, (y - Q Q^T y) / (1 - h) with the leverages h."""
    # a point that alone decides a term has leverage one, and no residual
    leverage = np.minimum((q**2).sum(axis=1), 1.0 - 1e-9)
    return np.asarray((outputs - q @ (q.T @ outputs)) / (1.0 - leverage)[:, None])


def _fit(q: Array, r: Array, end: int, output: Array, left: Array, basis: Basis, error: float) -> Fit:
    own = slice(0, end + 1)
    coefficients = scipy.linalg.solve_triangular(r[own, own], q[:, own].T @ output)
    changes = scipy.linalg.solve_triangular(r[own, own], (q[:, own] * left[:, None]).T).T
    return Fit(coefficients[1:], changes[:, 1:], basis.terms[:end], error)


def _shares(
    fit: Fit, means: Array, noise: tuple[Array, Array], several: bool, parameters: int, confidence: float
) -> Shares:
    """Indices of one fit; `noise`: of each point the variance over its seeds, and that of their mean.

    several: whether a point has several seeds, without which nothing is known of their share.
    """
    n = len(means)
    alone = np.zeros((parameters, len(fit.terms)))
    within = np.zeros_like(alone)
    for place, term in enumerate(fit.terms):
        for parameter, _ in term:
            within[parameter, place] = 1.0
            alone[parameter, place] = float(len(term) == 1)
    sums = np.concatenate([alone, within])
    apart, (seeds, of_mean) = (means - means.mean()) ** 2, noise
    between = apart.mean()
    variance = between - of_mean.mean() + seeds.mean()
    spread = (fit.changes**2).sum(axis=0)  # variance of the coefficients, by the jackknife
    found = sums @ (fit.coefficients**2 - spread) / variance
    # the same without each point in turn
    between_left = (n * between - apart * n / (n - 1.0)) / (n - 1.0)
    of_left, seeds_left = ((n * each.mean() - each) / (n - 1.0) for each in (of_mean, seeds))
    variances = between_left - of_left + seeds_left
    left = ((fit.coefficients - fit.changes) ** 2 - spread) @ sums.T / variances[:, None]
    share, shares_left = seeds.mean() / variance, seeds_left / variances
    z = float(scipy.special.ndtri(0.5 + confidence / 2.0))
    half, seed_half = z * _jackknifed(left), float(z * _jackknifed(shares_left[:, None])[0])
    unseen = max(0.0, (fit.error * between - of_mean.mean()) / variance)
    limits = np.stack([found - half - unseen * len(fit.terms) / n, found + half + unseen], axis=-1)
    return Shares(
        found[:parameters], limits[:parameters], found[parameters:], limits[parameters:],
        np.full((parameters, parameters), np.nan), np.full((parameters, parameters, 2), np.nan),
        np.array(share if several else np.nan),
        np.array([share - seed_half, share + seed_half] if several else [np.nan, np.nan]), unseen, n,
    )  # fmt: skip


def _jackknifed(left: Array) -> Array:
    """Standard deviation of numbers (K,), from their values (n, K) without each of n points."""
    n = len(left)
    return np.asarray(np.sqrt((n - 1.0) / n * ((left - left.mean(axis=0)) ** 2).sum(axis=0)))


def _noise(values: Array, means: Array) -> tuple[Array, Array]:
    """Variance over the seeds of each point (n,), of those with two, and what of it is in the mean over its seeds.

    Points with one seed have the mean variance.
    """
    there = np.isfinite(values)
    counts = there.sum(axis=-1)
    squares = (np.where(there, values - means[:, None], 0.0) ** 2).sum(axis=-1)
    several = counts > 1
    variances = np.zeros(len(values))
    variances[several] = squares[several] / (counts[several] - 1.0)
    if several.any():
        variances[~several] = variances[several].mean()
    return variances, variances / counts


def _polynomials(column: Array) -> Array:
    """Orthonormal polynomials (K, n) of the ranks of a parameter's values, the first constant.

    Of L different values there are L, which hold every function of them; ties share a rank.
    """
    values, order, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks = ((np.cumsum(counts) - 0.5 * counts) / len(column))[order]
    degree = min(MOST_DEGREE, len(values) - 1)
    legendre = np.polynomial.legendre.legvander(2.0 * ranks - 1.0, degree)
    q, r = np.linalg.qr(legendre)
    # QR leaves signs open: with these the polynomials rise, as Legendre's do
    return np.asarray((q * np.sign(np.diag(r))).T * np.sqrt(len(column)))


def _bases(degrees: Sequence[int], points: int) -> Iterator[Basis]:
    """Bases to choose from, by quasi-norm and number of factors, of parameters with polynomials up to `degrees`."""
    # one less, for the constant
    most = min(points // POINTS_A_TERM - 1, MOST_TERMS, MOST_NUMBERS // points)
    seen: set[tuple[Term, ...]] = set()
    for factors in range(1, min(MOST_FACTORS, len(degrees)) + 1):
        for norm in NORMS if factors > 1 else NORMS[:1]:
            terms: list[Term] = []
            ends: list[int] = []
            for degree in range(1, MOST_DEGREE + 1):
                new = _terms(degrees, degree, norm, factors, most - len(terms))
                if new is None:
                    break
                terms += new
                ends += [len(terms)] if new else []
            if terms and tuple(terms) not in seen:
                seen.add(tuple(terms))
                yield Basis(terms, ends)


def _terms(degrees: Sequence[int], degree: int, norm: float, factors: int, most: int) -> list[Term] | None:
    """Terms whose degree is in (degree - 1, degree]; None where there are more than `most`."""
    found: list[Term] = []
    for count in range(1, min(factors, len(degrees)) + 1):
        exponents = _exponents(degree, norm, count)
        for chosen in combinations(range(len(degrees)), count) if exponents else ():
            found += [
                tuple(zip(chosen, each, strict=True))
                for each in exponents
                if all(e <= degrees[j] for j, e in zip(chosen, each, strict=True))
            ]
            if len(found) > most:
                return None
    return found


@lru_cache(maxsize=1024)  # all bases of all numbers have the same, and sorting them out takes longer than a fit
def _exponents(degree: int, norm: float, count: int) -> tuple[tuple[int, ...], ...]:
    """Degrees of `count` factors whose quasi-norm is in (degree - 1, degree]."""
    least, most = degree - 1 + 1e-9, degree + 1e-9  # a quasi-norm of whole numbers is one up to rounding
    return tuple(
        each
        for each in product(range(1, degree + 1), repeat=count)
        if least < sum(float(e) ** norm for e in each) ** (1.0 / norm) <= most
    )


def _matrix(terms: Sequence[Term], polynomials: Sequence[Array], points: int) -> npt.NDArray[np.float64]:
    """Values of the terms at the points (n, M + 1), the constant first."""
    matrix = np.ones((points, len(terms) + 1))
    for place, term in enumerate(terms, start=1):
        for parameter, degree in term:
            matrix[:, place] *= polynomials[parameter][degree]
    return matrix
