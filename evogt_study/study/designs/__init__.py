"""Designs: axes that list points instead of multiplying values.

- `place`: where a mistake stands
- `ranges`: evenly spaced values of an axis
- `unit_points`: rules by which points of the unit cube are drawn
- `distributions`: from the unit interval to values of a parameter
- `sample`: the section that draws points
- `listed`: the sections that list points
- `table_files`: files of listed points, as a part of the study's text
- `combined`: all designs of a study, with names that are free
- `growth`: samples that cannot be made larger
- `given`: designs as they are given in Python
"""
