"""Split a variance among parameters and seeds, compute elementary effects and test the dependence of parameters.

E_u(i, s) is the effect of a subset u of the parameters at point i for seed s, and K_u[s, s'] = mean_i E_u(i, s)
E_u(i, s').  Different seeds estimate the component of the mean, and the diagonal adds the component of the seeds.  A
part (3,) is a component or a share with its limits, which add as in Zou & Donner (Stat. Med. 27, 2008).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import scipy  # it imports scipy.stats at the first use

from evogt_study.errors import InputError
from evogt_study.inference import kernels
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, compute_normal_quantile, compute_student_quantile

MIN_BLOCKS = 2  # fewer have no spread
N_DEPENDENCE_BINS = 4  # ranges with equally many points for the chi^2 test
DEPENDENCE_LEVEL = 0.01  # level of all tests of a sample together
_MAX_ROUNDING = 8 * np.finfo(float).eps  # largest relative spread of one number after rounding
Components = dict[tuple[int, ...], Array]  # a part of the variance for each subset of the axes


def add_parts(parts: Iterable[Array]) -> Array:
    """Return the sum of independent parts with its limits."""
    table = np.array([*parts], dtype=float).reshape(-1, 3)
    down, up = np.sqrt(((table[:, 1:] - table[:, :1]) ** 2).sum(axis=0))
    return np.array([0.0, -down, up]) + float(table[:, 0].sum())


def divide_parts(part: Array, rest: Array) -> Array:
    """Return part / (part + rest), with limits from the limits of both."""

    def ratio(a: float, b: float, none: float) -> float:
        return max(a, 0.0) / (max(a, 0.0) + max(b, 0.0)) if max(a, b) > 0.0 else none

    value = ratio(part[0], rest[0], np.nan)
    down = np.hypot(value - ratio(part[1], rest[0], 0.0), value - ratio(part[0], rest[2], 0.0))
    up = np.hypot(ratio(part[2], rest[0], 1.0) - value, ratio(part[0], rest[1], 1.0) - value)
    return np.array([value, max(value - down, 0.0), min(value + up, 1.0)])


def _make_square_part(square: float, noise: float, error: float, units: float, confidence: float) -> Array:
    """Return a mean square less its noise, with Student's limits of the root mean square."""
    half = float(compute_student_quantile(units, confidence)) * error
    bend = half**2 / (4.0 * square) if half < 4.0 * square else half
    return np.array([square, square - half + bend, square + half + bend]) - noise


def _make_variance_part(value: float, freedom: float, confidence: float) -> Array:
    """Return a variance with chi-squared limits for `freedom` degrees of freedom.  A negative variance becomes zero."""
    if not value > 0.0:
        return np.zeros(3)
    tails = np.array([0.5 + confidence / 2.0, 0.5 - confidence / 2.0])
    return np.append(value, freedom * value / scipy.stats.chi2.ppf(tails, freedom))


def _centre_gram(gram: Array) -> Array:
    return np.asarray(gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean())


def estimate_mean_part(gram: Array, confidence: float, value: float | None = None) -> Array:
    """Return the variance component of the mean over the seeds from a Gram matrix, with its limits."""
    r = len(gram)
    noise = float(np.trace(_centre_gram(gram))) / (r - 1) / r
    # scores: twice the row means of K
    error = 2.0 * float(gram.mean(axis=1).std(ddof=1)) / np.sqrt(r)
    part = _make_square_part(float(gram.mean()), noise, error, r, confidence)
    return part if value is None else part + (value - part[0])


def estimate_seed_component(gram: Array, confidence: float) -> Array:
    """Return the variance component of the seeds, with degrees of freedom m tr(S)^2 / tr(S^2) (Srivastava 2005)."""
    centred, r, m = _centre_gram(gram), len(gram), len(gram) - 1
    trace, freedom = float(np.trace(centred)) / m, float(m)
    if trace > 0.0 and r >= 5:
        square = m**2 / ((m + 2.0) * (m - 1.0)) * (float((centred**2).sum()) / m**2 - trace**2 / m)
        freedom = m * max(1.0, (trace**2 - 2.0 * square / m) / max(square, 1e-12 * trace**2))
        own = np.diag(centred) / np.diag(centred).mean()
        freedom = 2.0 / (2.0 / freedom + max(0.0, float(own.var(ddof=1)) - 2.0 * m / freedom) / r)
    return _make_variance_part(trace, freedom, confidence)


def compute_grid_effects(table: Array) -> Components:
    """Return effects of all subsets of the axes of a table (n_1, ..., n_k, R), each (points, R)."""
    k, found = table.ndim - 1, Components()
    for subset in (each for size in range(k + 1) for each in combinations(range(k), size)):
        effect = table
        for axis in range(k):
            mean = effect.mean(axis=axis, keepdims=True)
            effect = effect - mean if axis in subset else np.broadcast_to(mean, effect.shape)
        found[subset] = effect.reshape(-1, table.shape[-1])
    return found


def fill_gaps(values: Array, *, common: bool, least: int = 2) -> Array:
    """Fill gaps in values (N, R) with the setup mean, plus the seed effect for `common` streams."""
    there = np.isfinite(values)
    if few := int((there.sum(axis=1) < least).sum()):
        raise InputError(f"`values` must have {least} seeds with a value at each point, got fewer at {few} points")
    if there.all():
        return values
    base = np.broadcast_to(np.nanmean(values, axis=1, keepdims=True), values.shape)
    if common:
        means, units = kernels.fit_blocks(values)
        base = means[:, None] + units - units.mean()
    lost, freedom = int((~there).sum()), (len(values) - common) * (values.shape[1] - 1)
    return np.asarray(base + (np.where(there, values, base) - base) * np.sqrt(freedom / max(freedom - lost, 1)))


def compute_grid_components(table: Array, *, fresh: bool, confidence: float) -> tuple[Components, dict[str, Array]]:
    """Return the components of all subsets of the axes of a table (n_1, ..., n_k, R), and of the seeds."""
    table = table[..., np.isfinite(table).any(axis=tuple(range(table.ndim - 1)))]
    shape, r = table.shape[:-1], table.shape[-1]
    cells = table.reshape(-1, r)
    n = len(cells)
    if r == 1:  # a single seed has no noise to subtract
        return {u: np.full(3, (e**2).mean()) for u, e in compute_grid_effects(table).items() if u}, {}
    full = compute_grid_effects(fill_gaps(cells, common=not fresh).reshape(table.shape))
    if fresh:  # the variances within points give the noise of the means
        within, counts, own = np.nanvar(cells, axis=1, ddof=1), np.isfinite(cells).sum(axis=1), Components()
        noise, freedom = float(within.mean()), float((counts - 1).sum())
        for u, effect in full.items():
            mean, part = effect.mean(axis=1), float(np.prod([shape[j] - 1.0 for j in u])) / n
            error = 2.0 / n * float(np.sqrt((mean**2 * within / counts).sum()))
            noise_of_mean = part * float((within / counts).mean())
            own[u] = _make_square_part(float((mean**2).mean()), noise_of_mean, error, freedom + 1.0, confidence)
        spread = float(within.var(ddof=1)) / n / noise**2 if n > 1 and noise > 0.0 else 0.0
        freedom = min(freedom, 2.0 / spread) if spread else freedom
        return {u: part for u, part in own.items() if u}, {"run": _make_variance_part(noise, freedom, confidence)}
    pseudo = compute_grid_effects(kernels.compute_pseudo_values(cells).reshape(table.shape))
    grams = {u: e.T @ e / n for u, e in full.items()}
    mixed = estimate_seed_component(sum((gram for u, gram in grams.items() if u), np.zeros((r, r))), confidence)
    alone = estimate_seed_component(grams[()], confidence)
    counts = np.maximum(np.isfinite(cells).sum(axis=0), 1)
    if alone[0] > 0.0:  # a mean over fewer points contains more of the interaction
        alone = alone * max(0.0, 1.0 - mixed[0] * float((1.0 / counts - 1.0 / n).mean()) / alone[0])
    own = {u: estimate_mean_part(e.T @ e / n, confidence) for u, e in pseudo.items() if u}
    return own, {"seed": alone, "seed:setups": mixed}


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of n points or blocks with R seeds, from which `shares` computes K indices.

    `own` (K,), `variance` and `seed` are components, and `left` are the components without each point.  `grams`,
    `whole` and `noise` are Gram matrices of the indices, of all parts, and of the common effect and the rest of the
    seeds.  `above` and `below` widen the limits by the variance that a fit does not explain.
    """

    own: Array
    variance: float
    seed: float
    left: tuple[Array, Array, Array]
    grams: Sequence[Array]
    whole: Array
    noise: Sequence[Array]
    n_ok: int
    above: float = 0.0
    below: float = 0.0

    def shares(self, *, fresh: bool, of_run: bool, confidence: float) -> Array:
        """Return the shares of K indices and of the seeds, (K + 1, 3), in the variance of a run or of the mean."""
        n, r, weight, variance = len(self.left[2]), len(self.whole), float(of_run), max(self.variance, 0.0)
        whole, wholes = variance + weight * self.seed, self.left[1] + weight * self.left[2]
        if not whole > 0.0 or n < 2:
            return np.full((len(self.own) + 1, 3), np.nan)
        values = np.append(self.own, self.seed) / whole
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.column_stack([self.left[0], self.left[2]]) / wholes[:, None]
        half = compute_student_quantile(n, confidence) * np.sqrt((n - 1) * left.var(axis=0))
        unseen = np.append(np.ones(len(self.own)), 0.0) / whole
        down, up = half + self.below * unseen, half + self.above * unseen
        if r > 1 and not fresh:
            noise = add_parts(estimate_seed_component(gram, confidence) for gram in self.noise)
            still = []
            for own, gram in zip(self.own.tolist(), self.grams, strict=True):
                others = estimate_mean_part(self.whole - gram, confidence, variance - own)
                rest = add_parts([others, noise] if of_run else [others])
                still.append(divide_parts(estimate_mean_part(gram, confidence, own), rest))
            still.append(divide_parts(noise, estimate_mean_part(self.whole, confidence, variance)))
            value, low, high = np.nan_to_num(still).T
            down, up = np.hypot(down, value - low), np.hypot(up, high - value)
        kept = np.clip(values, 0.0, 1.0)  # an estimate below zero shows that the share is zero
        return np.column_stack([values, np.maximum(kept - down, 0.0), np.minimum(kept + up, 1.0)])


def compute_noise_grams(y: Array) -> list[Array]:
    """Return the Gram matrices of the common effect of the seeds on y (n, R), and of their other effects."""
    rest = y - y.mean(axis=1, keepdims=True)
    common = rest.mean(axis=0)
    return [np.outer(common, common), (rest - common).T @ (rest - common) / len(y)]


def compute_common_effect_p(y: Array) -> float:
    """Return the p-value of a common effect of the seeds on y (n, R), with F = MS(seed) / MS(point x seed)."""
    (n, r), apart = y.shape, y - y.mean(axis=1, keepdims=True)
    below = float(((apart - apart.mean(axis=0)) ** 2).sum())
    above = n * (n - 1.0) * float((apart.mean(axis=0) ** 2).sum())
    return float(scipy.stats.f.sf(above / below, r - 1, (n - 1) * (r - 1))) if below > 0.0 and n > 1 and r > 1 else 1.0


def has_spread(values: Array) -> bool:
    """Return True if finite numbers differ by more than rounding."""
    known = values[np.isfinite(values)]
    return bool(known.size and np.ptp(known) > _MAX_ROUNDING * np.abs(known).max())


def find_saltelli_block(points: Array) -> int:
    """Return the size 2 D + 2 or D + 2 of Saltelli's blocks A, AB_j, BA_j, B of points (n, D), or zero."""
    count, d = points.shape
    for members in (2 * d + 2, d + 2) if d and count else ():
        if count % members:
            continue
        blocks, own = points.reshape(-1, members, d), np.eye(d, dtype=bool)
        first, last = blocks[:, :1], blocks[:, -1:]
        steps = [np.where(own, last, first), *([np.where(own, first, last)] if members == 2 * d + 2 else [])]
        # equal points are not a block
        if (first != last).any() and (blocks[:, 1:-1] == np.concatenate(steps, axis=1)).all():
            return int(members)
    return 0


def is_morris(points: Array) -> bool:
    """Return True for trajectories of D + 1 points (n, D) in which each step changes another coordinate."""
    count, dimension = points.shape
    if not dimension or not count or count % (dimension + 1):
        return False
    changed = np.diff(points.reshape(-1, dimension + 1, dimension), axis=1) != 0.0
    return bool((changed.sum(axis=1) == 1).all() and (changed.sum(axis=2) == 1).all())


def compute_block_moments(y: Array, parameters: int) -> Moments | None:
    """Return moments of Saltelli's blocks (N, members, R), or None for fewer than `MIN_BLOCKS`.

    For centred values, S_j V = mean B (AB_j - A), T_j V = mean (A - AB_j)^2 / 2 (Saltelli et al., Comput. Phys. Commun.
    181, 2010) and S_jk V = mean (BA_j AB_k - A B) - S_j V - S_k V (Saltelli, Comput. Phys. Commun. 145, 2002).
    """
    n, d, r = len(y), parameters, y.shape[2]
    known = np.isfinite(y)
    y = np.where(known, y - y[known].mean(), np.nan) if known.any() else y
    first, last, steps = y[:, :1], y[:, -1:], y[:, 1 : 1 + d]
    columns = [_multiply_members(last, steps - first), 0.5 * _multiply_members(first - steps, first - steps)]
    if y.shape[1] == 2 * d + 2:
        back = y[:, 1 + d : -1]
        both = _multiply_members(first, last)
        for j, k in combinations(range(d), 2):
            pair = _multiply_members(back[:, j : j + 1], steps[:, k : k + 1]) - both
            columns.append(pair - columns[0][:, j : j + 1] - columns[0][:, k : k + 1])
    ends = y[:, [0, -1]]
    there = np.asarray(np.isfinite(ends).all(axis=(1, 2)))
    mean = np.nan if not there.any() else ends[there].mean(axis=(0, 1))
    whole = 0.5 * (_multiply_members(first, first) + _multiply_members(last, last)) - np.multiply.outer(mean, mean)
    grams = np.concatenate([*columns, whole], axis=1)  # (N, K + 1, R, R)
    counts = np.isfinite(grams).all(axis=(-2, -1)).sum(axis=0)
    if counts.min() < MIN_BLOCKS:
        return None
    across = (grams.sum(axis=(-2, -1)) - (r > 1) * np.trace(grams, axis1=-2, axis2=-1)) / max(r * (r - 1), 1)
    complete = np.isfinite(y).all(axis=(1, 2))
    seeds = np.where(complete, y.var(axis=2, ddof=1).mean(axis=1), np.nan) if r > 1 else np.zeros(n)
    variance, seed, m = float(np.nanmean(across[:, -1])), float(np.nanmean(seeds)), float(np.isfinite(seeds).sum())
    size = np.isfinite(across[:, -1]).sum()
    variance_left = np.where(there, (size * variance - across[:, -1]) / (size - 1.0), variance)
    seeds_left = np.where(np.isfinite(seeds), (m * seed - seeds) / max(m - 1.0, 1.0), seed)
    # an index and its variance use the same blocks, because their errors are correlated
    both = np.isfinite(across[:, :-1]) & there[:, None]
    above, below = np.where(both, across[:, :-1], 0.0), np.where(both, across[:, -1:], 0.0)
    ratio, ratio_left = above.sum(axis=0) / below.sum(axis=0), (above.sum(axis=0) - above) / (below.sum(axis=0) - below)
    left = ratio_left * variance_left[:, None]
    averages = np.nanmean(grams, axis=0)
    return Moments(
        ratio * variance, variance, seed, (left, variance_left, seeds_left), list(averages[:-1]), averages[-1],
        compute_noise_grams(y[complete].reshape(-1, r)), int(counts.min()),
    )  # fmt: skip


def _multiply_members(one: Array, other: Array) -> Array:
    """Return symmetric products of the seeds of two members, (N, K, R) -> (N, K, R, R)."""
    both = one[..., :, None] * other[..., None, :]
    return np.asarray(0.5 * (both + both.swapaxes(-1, -2)))


def compute_effects(values: Array, points: Array, levels: int, how: Interval) -> dict[str, Array]:
    """Return Morris' statistics (1991; Campolongo et al. 2007 for mu_star) of complete trajectories of values (n,)."""
    dimension = points.shape[1]
    paths, trajectories = values.reshape(-1, dimension + 1), points.reshape(-1, dimension + 1, dimension)
    kept = np.isfinite(paths).all(axis=1)
    count = int(kept.sum())
    if count < 2:
        return {"n_ok": np.array(count)}
    steps = np.diff(trajectories[kept], axis=1)  # (r, D, D), with one nonzero entry in each step
    which = (steps != 0.0).argmax(axis=2)
    # a step down counts like the step up between the same points
    signs = np.sign(np.take_along_axis(steps, which[..., None], axis=2)[..., 0])
    found = np.empty((count, dimension))
    delta = levels / (2.0 * (levels - 1.0))
    np.put_along_axis(found, which, np.diff(paths[kept], axis=1) * signs / delta, axis=1)
    mu_star = np.abs(found).mean(axis=0)
    spread = (kernels.resample_sums(np.abs(found).T, how.resamples, how.seed) / count).std(axis=1, ddof=1)
    ends = mu_star[:, None] + compute_normal_quantile(how.confidence) * spread[:, None] * [-1.0, 1.0]
    sigma = found.std(axis=0, ddof=1)
    return {"mu": found.mean(axis=0), "mu_star": mu_star, "mu_star_ci": ends, "sigma": sigma, "n_ok": np.array(count)}


def _sort_into_bins(column: Array) -> npt.NDArray[np.int64]:
    """Return the bin of each value.  Few different values have a bin each, and many values have bins by rank."""
    values, order = np.unique(column, return_inverse=True)
    if len(values) <= N_DEPENDENCE_BINS:
        return np.asarray(order, dtype=np.int64)
    ranks = np.searchsorted(np.sort(column), column)
    return np.asarray(N_DEPENDENCE_BINS * ranks // len(column), dtype=np.int64)


def describe_dependence(points: Array, names: Sequence[str], level: float = DEPENDENCE_LEVEL) -> str:
    """Return a sentence on two dependent parameters of points (n, D), or "" for independent parameters."""
    (n, d), least, text = points.shape, 1.0, ""
    ranks, bins = scipy.stats.rankdata(points, axis=0), [_sort_into_bins(column) for column in points.T]
    for j, k in combinations(range(d), 2):
        table = scipy.stats.contingency.crosstab(bins[j], bins[k]).count
        if min(table.shape) < 2:
            continue  # a constant
        rho = float(np.corrcoef(ranks[:, j], ranks[:, k])[0, 1])
        chi = float(scipy.stats.chi2_contingency(table, correction=False).pvalue)
        by_rank = 2.0 * float(scipy.special.ndtr(-abs(rho) * np.sqrt(n - 1)))
        for p, what in ((by_rank, f"rank correlation {rho:.2f}"), (chi, "chi^2")):
            if p < least:
                least, text = p, f"{names[j]} and {names[k]} depend on each other ({what}, p = {p:.1g})"
    return text if least * d * (d - 1) < level else ""


def find_detectable_correlation(n: int, d: int, level: float = DEPENDENCE_LEVEL, power: float = 0.9) -> float:
    """Return the smallest correlation that `describe_dependence` detects with the probability `power`."""
    tails = scipy.special.ndtri(1.0 - level / (2.0 * d * max(d - 1, 1))) + scipy.special.ndtri(power)
    return float(np.tanh(tails / np.sqrt(max(n - 3, 1))))
