"""Functions of one's own: where they come from, what identifies them, and what they return.

- `used_code`: the part of a file that a function uses
- `object_content`: the content of a function in memory
- `user_code`: code that a study names
- `python_function`: a function that is given in Python
- `returned`: what a function returns, as a record
- `captured_stderr`: what a run wrote to standard error
- `user_function`: a function of one's own as a method
- `user_solver`: one that solves the study's problem
"""
