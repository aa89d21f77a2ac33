"""Nonlinear fluxes and several fields, from study files, against solutions that use nothing of the package."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import evogt_study as evs
from evogt_study import pde

TEXT = """
name = "fields"
[problem]
dimension = 1
{problem}
[axes]
seed = [0]
[constants]
{constants}
[output]
times = 2
record = ["field", "integral_history"]
grid = 41
"""
PERIODIC = 'boundary = { x = "periodic" }\n'


def constants(dictionary, N, final_time, dt, integrator="radau_iia_3", rule="gauss_legendre", factor=3):
    quadrature = f'{{ rule = "{rule}", points = {factor * N} }}'
    return (
        f'dictionary = "{dictionary}"\nN = {N}\ntau = 1e-14\nquadrature = {quadrature}\nvalidation = 100\n'
        f'dt = {dt}\nfinal_time = {final_time}\ntime_integrator = "{integrator}"'
    )


def fourier(N, final_time, dt):
    return constants("fourier", N, final_time, dt, rule="composite_midpoint")


def computed(problem, given):
    data = evs.run(evs.Study.from_text(TEXT.format(problem=problem, constants=given)), workers=0).isel(seed=0)
    assert data.run_status.item() == "ok", data.run_message.item()
    return data


def error(data, reference):
    """Largest difference of all fields at the grid and the final time, relative to the largest value of each."""
    found = np.stack([data[name].isel(time=-1).values for name in reference])
    known = np.stack([*reference.values()])
    return (np.abs(found - known).max(axis=1) / np.abs(known).max(axis=1)).max()


def cole_hopf(x, t=1.0, nu=0.01 / np.pi):
    """Burgers' equation from -sin(pi x)."""
    eta = np.linspace(-1.2, 1.2, 12001)
    y = x[:, None] - eta
    exponent = -np.cos(np.pi * y) / (2 * np.pi * nu) - eta**2 / (4 * nu * t)
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return -(np.sin(np.pi * y) * weight).sum(axis=1) / weight.sum(axis=1)


def chebyshev(n, length=1.0):
    """Points of (0, length) with both ends, and the differentiation matrix (Trefethen)."""
    x = np.cos(np.pi * np.arange(n + 1) / n)
    c = np.r_[2.0, np.ones(n - 1), 2.0] * (-1.0) ** np.arange(n + 1)
    D = np.outer(c, 1 / c) / (x[:, None] - x + np.eye(n + 1))
    return (1 - x) / 2 * length, -(D - np.diag(D.sum(axis=1))) * 2 / length


def interpolated(x, values, at):
    n = len(x) - 1
    weights = np.r_[0.5, np.ones(n - 1), 0.5] * (-1.0) ** np.arange(n + 1)
    difference = at[:, None] - x
    exact = np.abs(difference) < 1e-14
    terms = weights / np.where(exact, 1.0, difference)
    found = terms @ values / terms.sum(axis=1)
    return np.where(exact.any(axis=1), values[exact.argmax(axis=1)], found)


def integrated(rate, u, T):
    found = solve_ivp(lambda t, u: rate(u), (0, T), u, "Radau", rtol=1e-12, atol=1e-13, first_step=1e-6)
    return found.y[:, -1]


def waves(n, length):
    """Points of a period, the multiplier of d/dx, and the values of a series at other points."""
    k = 2j * np.pi * np.fft.fftfreq(n, length / n)
    return np.arange(n) * length / n, k, lambda u, x: (np.exp(np.outer(x, k)) @ np.fft.fft(u)).real / n


@pytest.mark.long
def test_burgers():
    problem = 'domain = { lower = [-1], upper = [1] }\ninitial = "-sin(pi*x)"\nflux = ["u_x/(100*pi) - u**2/2"]'
    data = computed(problem, constants("sine", 500, 1.0, 0.005, factor=2))
    assert error(data, {"u": cole_hopf(data.x.values)}) < 5e-5


def test_a_diffusion_that_depends_on_the_solution():
    data = computed('initial = "sin(pi*x)"\ndiffusion = "1 + u**2"', constants("legendre", 40, 0.1, 0.0025))
    x, D = chebyshev(40)
    inside = slice(1, -1)

    def rate(u):
        u = np.r_[0.0, u, 0.0]
        return (D @ ((1 + u**2) * (D @ u)))[inside]

    u = integrated(rate, np.sin(np.pi * x[inside]), 0.1)
    assert error(data, {"u": interpolated(x, np.r_[0.0, u, 0.0], data.x.values)}) < 1e-10


def test_a_porous_medium_keeps_its_mass():
    faces = 'boundary = { x0 = { flux = "0" }, x1 = { flux = "0" } }\n'
    data = computed(faces + 'initial = "1 + cos(pi*x)/2"\ndiffusion = "3*u**2"', constants("legendre", 64, 0.02, 5e-4))
    x, D = chebyshev(48)

    def rate(u):
        flux = 3 * u**2 * (D @ u)
        flux[[0, -1]] = 0.0
        return D @ flux

    u = integrated(rate, 1 + np.cos(np.pi * x) / 2, 0.02)
    assert error(data, {"u": interpolated(x, u, data.x.values)}) < 1e-10
    assert np.ptp(data.integral_u.values) < 1e-14


def test_the_brusselator():
    fields = """
[problem.fields.u]
flux = ["u_x/50"]
reaction = "1 + u**2*v - 4*u"
initial = "1 + sin(2*pi*x)"
lifting = "1"
[problem.fields.v]
flux = ["v_x/50"]
reaction = "3*u - u**2*v"
initial = "3"
lifting = "3"
"""
    data = computed(fields, constants("legendre", 32, 5.0, 0.02))
    x, D = chebyshev(32)
    inside, n = slice(1, -1), 31

    def rate(w):
        u, v = np.r_[1.0, w[:n], 1.0], np.r_[3.0, w[n:], 3.0]
        both = D @ (D @ u) / 50 + 1 + u**2 * v - 4 * u, D @ (D @ v) / 50 + 3 * u - u**2 * v
        return np.concatenate([each[inside] for each in both])

    w = integrated(rate, np.r_[1 + np.sin(2 * np.pi * x[inside]), np.full(n, 3.0)], 5.0)
    u, v = np.r_[1.0, w[:n], 1.0], np.r_[3.0, w[n:], 3.0]
    at = data.x.values
    assert error(data, {"u": interpolated(x, u, at), "v": interpolated(x, v, at)}) < 1e-9


def test_gray_scott():
    fields = """
[problem.fields.u]
flux = ["u_x/5000"]
reaction = "-u*v**2 + F*(1 - u)"
initial = "1 - exp(10*cos(2*pi*x) - 10)/2"
[problem.fields.v]
flux = ["v_x/10000"]
reaction = "u*v**2 - (F + k)*v"
initial = "exp(10*cos(2*pi*x) - 10)/4"
"""
    data = computed(PERIODIC + fields, fourier(129, 20.0, 0.25) + "\nF = 0.04\nk = 0.06")
    x, k, series = waves(128, 1.0)

    def rate(w):
        u, v = w.reshape(2, -1)
        uu, vv = (np.fft.ifft(k**2 * np.fft.fft(each)).real for each in (u, v))
        return np.r_[uu / 5000 - u * v**2 + 0.04 * (1 - u), vv / 10000 + u * v**2 - 0.1 * v]

    bump = np.exp(10 * np.cos(2 * np.pi * x) - 10)
    u, v = integrated(rate, np.r_[1 - bump / 2, bump / 4], 20.0).reshape(2, -1)
    at = data.x.values
    assert error(data, {"u": series(u, at), "v": series(v, at)}) < 5e-11


CAHN_HILLIARD = """
[problem.fields.u]
flux = ["mu_x"]
initial = "cos(2*pi*x)/4 + sin(4*pi*x)/10"
[problem.fields.mu]
algebraic = true
flux = ["u_x/400"]
reaction = "mu - u**3 + u"
"""


def test_cahn_hilliard_in_its_mixed_form():
    data = computed(PERIODIC + CAHN_HILLIARD, fourier(129, 0.01, 5e-5))
    x, k, series = waves(64, 1.0)

    def rate(u):
        return np.fft.ifft(k**2 * (np.fft.fft(u**3 - u) - k**2 * np.fft.fft(u) / 400)).real

    u = integrated(rate, np.cos(2 * np.pi * x) / 4 + np.sin(4 * np.pi * x) / 10, 0.01)
    assert error(data, {"u": series(u, data.x.values)}) < 1e-10
    assert np.ptp(data.integral_u.values) < 1e-14


@pytest.mark.long
def test_kuramoto_sivashinsky():
    domain = "domain = { lower = [0], upper = [100.53096491487338] }\n"  # 32 pi
    fields = """
[problem.fields.u]
flux = ["-u_x - w_x - u**2/2"]
initial = "cos(x/16)*(1 + sin(x/16))"
[problem.fields.w]
algebraic = true
flux = ["u_x"]
reaction = "-w"
"""
    data = computed(domain + PERIODIC + fields, fourier(225, 20.0, 0.02))
    x, k, series = waves(256, 32 * np.pi)

    def rate(u):
        uh = np.fft.fft(u)
        return np.fft.ifft(-(k**2) * uh - k**4 * uh - k / 2 * np.fft.fft(u**2)).real

    u = integrated(rate, np.cos(x / 16) * (1 + np.sin(x / 16)), 20.0)
    assert error(data, {"u": series(u, data.x.values)}) < 1e-9


CROSS = """
boundary = { x0 = { flux = "0" }, x1 = { flux = "0" } }
[problem.fields.u]
flux = ["((1 + 4*u + v)*u_x + u*v_x)/20"]
reaction = "u*(1 - u - v/2)"
exact = "1 + exp(-t)*cos(pi*x)/2"
[problem.fields.v]
flux = ["((1 + u + 4*v)*v_x + v*u_x)/20"]
reaction = "v*(1 - v - u*u_x/3)"
exact = "1 - exp(-2*t)*cos(2*pi*x)/3"
"""


@pytest.mark.parametrize(
    ("integrator", "steps", "order"),
    [
        ("implicit_midpoint", 16, 2.0), ("sdirk_2", 16, 2.0), ("imex_bdf_2", 64, 2.0), ("radau_iia_2", 16, 3.0),
        ("gauss_2", 8, 4.0), ("radau_iia_3", 8, 4.8),
    ],
)  # fmt: skip
def test_orders_in_time_on_a_nonlinear_system(integrator, steps, order):
    runs = [computed(CROSS, constants("legendre", 30, 1.0, 1 / n, integrator)) for n in (steps, 2 * steps)]
    errors = [float(run.error) for run in runs]
    assert np.log2(errors[0] / errors[1]) > order - 0.1
    for run in runs:
        assert float(run.error) == max(float(run.error_u), float(run.error_v))


IN_A_SQUARE = """
boundary = { x0 = { flux = "0" }, x1 = { flux = "0" }, y0 = { flux = "0" }, y1 = { flux = "0" } }
[problem.fields.u]
flux = ["((1 + u)*u_x + v_x)/20", "(1 + u)*u_y/20"]
reaction = "u*(1 - v)"
exact = "1 + exp(-t)*cos(pi*x)*cos(pi*y)/2"
[problem.fields.v]
flux = ["v_x/10", "(1 + u)*v_y/10"]
reaction = "-u*v_x"
exact = "1 - exp(-2*t)*cos(2*pi*x)*cos(pi*y)/3"
"""
"""The same in 2-D."""


def in_dimension(dimension, given):
    """The result for `CROSS` or `IN_A_SQUARE`."""
    text = TEXT.replace("dimension = 1", f"dimension = {dimension}").replace("validation = 100", "validation = 40")
    text = text.format(problem={1: CROSS, 2: IN_A_SQUARE}[dimension], constants=given)
    if "unknowns" in given:
        text = 'method = "p1_fem"\n' + text.replace("seed = [0]", "degree = [6]")
    data = evs.run(evs.Study.from_text(text), workers=0).squeeze()
    assert data.run_status.item() == "ok", data.run_message.item()
    return data


@pytest.mark.parametrize("dimension", [1, 2])
def test_p1_elements_for_fields_have_order_two(dimension):
    given = "unknowns = {}\nvalidation = 60\ndt = {}\nfinal_time = 0.2"
    errors = [float(in_dimension(dimension, given.format(n - 1, 0.2 / n)).error) for n in (10, 20)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("dimension", [1, pytest.param(2, marks=pytest.mark.long)])
def test_quadratic_elements_are_a_reference_of_order_three(dimension):
    N = {1: 20, 2: 66}[dimension]
    given = constants("legendre", N, 0.1, 0.0125).replace(f"points = {3 * N}", "points = 24")
    runs = [in_dimension(dimension, f'{given}\nreference = "finite_elements"\nreference_points = {n}') for n in (6, 12)]
    errors = [float(run.error) for run in runs]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.2)
    assert errors[1] < float(runs[1].reference_error) == pytest.approx(errors[0], rel=0.3)


def test_random_features_without_given_values_keep_the_mass():
    faces = 'boundary = { x0 = { flux = "0" }, x1 = { flux = "0" } }\n'
    given = constants("gtransnet", 60, 0.02, 5e-4, factor=2) + "\ngamma = 4\nN1 = 120"
    data = computed(faces + 'initial = "1 + cos(pi*x)/2"\ndiffusion = "3*u**2"', given)
    assert np.ptp(data.integral_u.values) < 1e-12


def test_a_flux_that_depends_on_the_solution_on_a_face():
    """u_t = (u u_x)_x + f, with n . F = u on the left face and u = u_b on the right one."""
    problem = 'diffusion = "u"\nexact = "exp(-t)*(2 - x)"\nlifting = "exp(-t)"\nboundary = {{ x0 = {{ flux = "{}" }} }}'
    data = computed(problem.format("u*u/2"), constants("legendre", 12, 0.5, 0.01))
    assert float(data.error) < 1e-10
    with pytest.raises(evs.errors.StudyError, match="`exact` must have the flux that `boundary.x0` states.*field u"):
        computed(problem.format("u*u/3"), constants("legendre", 12, 0.5, 0.01))


def test_a_statement_in_python_equals_its_file(tmp_path):
    fields = {
        "u": pde.Field(("mu_x",), initial="cos(2*pi*x)/4"),
        "mu": pde.Field(("u_x/400",), "mu - u**3 + u", algebraic=True),
    }
    problem = pde.FormulaProblem(dimension=1, fields=fields, boundary={"x": "periodic"})
    given = {"dictionary": "fourier", "N": 33, "dt": 0.001, "final_time": 0.01, "time_integrator": "radau_iia_2"}
    rule = {"rule": "composite_midpoint", "points": 99}
    study = evs.Study(
        problem=problem, axes={"seed": [0]}, constants={**given, "quadrature": rule, "validation": 50}, name="own"
    )
    from_file = evs.Study.from_file(study.to_file(tmp_path / "own.toml"))
    one, other = evs.run(study, workers=0), evs.run(from_file, workers=0)
    assert one.run_key.values.tolist() == other.run_key.values.tolist()
