"""What every engine of the jobs port must do, stated in the port's own words.

::

    engine.py     what a binding offers to the cases: runtimes, transactions, processes, cuts
    patience.py   waiting for something to become true
    kinds.py      job kinds whose handlers tell what they were handed
    child.py      a worker process of its own, to be killed, frozen and stopped
    postgres.py   the binding of the PostgreSQL engine
    conftest.py   which servers, which engine
    test_*.py     the cases: nothing in them knows which engine it is

To bind another engine, write one file like `postgres.py` and name it in `conftest.py`.
"""
