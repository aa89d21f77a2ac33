"""The study file and its meaning.

- `study_file`: sections and keys
- `declared_values`: raw values read as those of declared parameters
- `case_space`: the product of the axes, with constants, rules and tables
- `designs`: axes that list points: paired values, samples, tables
- `formulas`: parameters computed from others
- `precision`: the section that says how well a number is to be known
- `pilot`: the section that has a parameter chosen
- `publication`: the section that says who made the results
- `phases`: plans that are run one after the other
- `definition`: a study stated in Python, as text
- `display`: a study in a few words
- `study`: a study, every parameter checked
- `study_changes`: differences of two states of a study
- `typed_points`: points and lists as they are typed on the command line
"""
