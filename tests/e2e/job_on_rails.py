"""An experiment with collectives of groups on rails, for tests that say how long and with what."""


def experiment_on_rails(name: str, question: str, iterations: int, more: str) -> str:
    """Return the text of an experiment on the lab `rails`; `more` are its further keys."""
    return f"""\
experiment: {name}
question: {question}
lab: rails
needs: {{hosts: 4, fabric: circuit}}
jobs:
  main:
    kind: allreduce
    ranks: 8
    ranks_per_host: 2
    mesh: {{dp: 2, pp: 2, tp: 2}}
    collectives: {{pp: chain}}
    sizes: [64 KiB]
    iterations: {iterations}
    warmup: 0
{more}"""
