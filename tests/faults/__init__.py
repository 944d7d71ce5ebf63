"""Faults: real processes, really broken, and a ledger that says whether anything was lost, doubled or in two states.

::

    ledger.py     lines that survive the kill of whoever wrote them
    producer.py   a process: commits business changes with their events, and writes down which it committed
    receiver.py   a process: accepts deliveries, badly at times, and writes down which it accepted
    claimers.py   a process: many runtimes on one lane, and a lock that no two handlers may hold
    altered.py    a process of the platform whose clock is wrong
    clusters.py   a PostgreSQL of its own, to be killed, locked and left without disk
    proxy.py      a network between platform and database that resets, stalls and delays
    stage.py      one platform with its producer, receiver and ledgers, and what is done to it
    books.py      what the ledgers and the database say, read together
    checker.py    judges the books; pure
    scenarios.py  what is broken, how often; short in the tests, long in the soak
    soak.py       `make soak MINUTES=n`
"""
