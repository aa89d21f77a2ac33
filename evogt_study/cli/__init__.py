"""The command line.

- `exit_codes`: what the command returns
- `main`: the commands by name, each imported when it is called; failures as one line
- `commands`: one module a command
- `options`: options that several commands have
- `run_options`: the options of `evogt run`, as one value
- `workers_ahead`: workers that start while the command still imports
- `chosen_study`: the study that a command was given
- `chosen_runs`: the runs that a command was given
- `computing`: `evogt run`, once something is to be computed
- `reproducing`: `evogt reproduce`, once its workers are starting
- `messages`: lines for a person
- `reporting`: the page of a result
- `progress_display`: progress on the terminal
- `progress_bar`: its bar
- `result_display`: results in lines of text
- `plot_files`: pictures of a result as files
"""
