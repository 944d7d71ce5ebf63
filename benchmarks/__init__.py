"""Measurements of the product as shipped; bars live here, never in a timed test.

::

    __main__.py       the runner: `make bench`
    scenario.py       what a scenario is: sizes, one line of outcome, a bar
    stage.py          what they share: databases, the platform's processes, receivers, loads
    sink.py           the receivers, in a process of their own
    load.py           records events at a rate, in a process of its own
    timed.py          the platform in a process that keeps how long its statements take
    isolation.py, claim_growth.py, record.py, held_snapshot.py, drain.py   one scenario each
"""
