"""Designs known by their points: SALib's own, and nothing else."""

from known_indices import points
from SALib.sample import morris, sobol

from evogt_study.inference.sensitivity import is_morris, saltelli_block

PROBLEM = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": [[0, 1]] * 3}


def test_salibs_designs_are_known_and_other_points_are_not():
    blocks = sobol.sample(PROBLEM, 8, seed=1)
    assert saltelli_block(blocks) == 8
    assert saltelli_block(sobol.sample(PROBLEM, 8, calc_second_order=False, seed=1)) == 5
    assert saltelli_block(blocks[:-1]) == saltelli_block(blocks[::-1]) == 0
    assert saltelli_block(points("random", 40, 3, 0)) == saltelli_block(0 * blocks) == 0
    paths = morris.sample(PROBLEM, 5, seed=1)
    assert is_morris(paths)
    assert not is_morris(paths[1:])
    assert not is_morris(blocks)
