"""One module a command, imported when it is called.

- `run`: compute what is missing of a study
- `work`: one task of an array, which needs no scheduler
- `submit`: an array of such tasks
- `plan`: predict cases, work, time and memory
- `try_case`: one case of a study, here
- `reading`: commands that only read results
- `replay`: one case again
- `verify`: a result or a deposit checked
- `publish`: results as a deposit
- `merge`: results joined
- `store`: finished runs that are kept beside results
- `concat`: results of different studies joined
"""
