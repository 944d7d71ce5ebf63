"""Lines that keep what operators rely on: replays, the set-up in files, what is told of discards, ends that come."""

from __future__ import annotations

from .mutant import OF_POSTGRES, POSTGRES, SQL, Mutant

CLI = "tests/delivery/cli/"

OPERATION = (
    Mutant(
        "a cancel that the pool swallowed is heeded",
        f"{POSTGRES}database.py",
        "with heeding_cancels(), mapped():",
        "with mapped():",
        [f"{OF_POSTGRES}test_ending.py::test_a_cancel_is_heeded_in_every_moment_of_getting_a_connection"],
    ),
    Mutant(
        "loops end together, also one that missed its first cancel",
        f"{POSTGRES}ending.py",
        "        await end(tasks)\n    failures",
        "        [task.cancel() for task in tasks]\n    failures",
        [f"{OF_POSTGRES}test_ending.py::test_loops_end_together_even_where_one_misses_its_first_cancel"],
    ),
    Mutant(
        "a claim is settled once",
        f"{POSTGRES}settler.py",
        "sorted({(r.id, r.lease): r for r in reversed(batch)}.values(), key=lambda r: r.id)",
        "sorted(batch, key=lambda r: r.id)",
        [f"{OF_POSTGRES}test_settler.py::test_a_claim_is_settled_once_however_often_it_is_told"],
    ),
    Mutant(
        "a batch of a replay is made by one at a time",
        f"{SQL}lock_replay.sql",
        "WHERE id = %(id)s FOR UPDATE",
        "WHERE id = %(id)s",
        [f"{OF_POSTGRES}test_replays.py::test_a_batch_that_meets_a_pause_waits_for_it_and_does_nothing"],
    ),
    Mutant(
        "a replay that progresses is not given up for killed workers",
        f"{SQL}advance_replay.sql",
        "UPDATE tidings.job SET lost = 0",
        "UPDATE tidings.job SET lost = lost",
        [f"{OF_POSTGRES}test_replays.py::test_a_batch_that_was_made_shows_that_the_job_kills_no_worker"],
    ),
    Mutant(
        "a job of an earlier run does nothing",
        f"{POSTGRES}replays.py",
        "if replay.run != run or replay.state",
        "if replay.state",
        [f"{OF_POSTGRES}test_replays_switched.py"],
    ),
    Mutant(
        "a stalled replay is told of",
        "delivery/alerts.py",
        "if stalled := status.stalled_replays:",
        "if stalled := status.strays:",
        ["tests/delivery/test_alerts.py", f"{CLI}test_replays.py::test_one_whose_job_has_ended_says_how_it_goes_on"],
    ),
    Mutant(
        "nothing is sent to an endpoint that is disabled",
        "delivery/api/sendable.py",
        "if endpoint.state is EndpointState.DISABLED:",
        "if False:",
        [f"{CLI}test_nouns.py::test_a_parked_delivery_tells_what_it_waits_for"],
    ),
    Mutant(
        "an import removes no header that was not asked about",
        "delivery/api/importing.py",
        "                self._check_agreed((endpoint.id, lost))",
        "                pass",
        [f"{CLI}test_setup_files.py::test_no_header_goes_that_was_not_asked_about"],
    ),
    Mutant(
        "an import removes no endpoint that was not asked about",
        "delivery/api/importing.py",
        "            self._check_agreed(each.id)",
        "            pass",
        [f"{CLI}test_setup.py::test_nothing_goes_that_was_not_asked_about"],
    ),
    Mutant(
        "a delivery that is discarded is noted with it",
        f"{POSTGRES}settler.py",
        "            await note_discards(tx, discarded)",
        "            pass",
        [
            "tests/journeys/test_discards.py::test_an_owner_who_subscribes_is_told_of_each_delivery_once_and_nobody_else_is"
        ],
    ),
    Mutant(
        "a delivery that expires is noted with it",
        f"{POSTGRES}upkeep.py",
        'await note_discards(tx, row["discarded"])',
        "pass",
        [f"{OF_POSTGRES}test_discards.py::test_a_delivery_that_expires_is_noted_as_well"],
    ),
    Mutant(
        "nothing is delivered to what a process serves itself",
        "delivery/cli/serving.py",
        "        app.keep_out(places)",
        "        pass",
        [f"{CLI}test_serving.py::test_nothing_is_delivered_to_what_a_process_serves"],
    ),
    Mutant(
        "Ctrl-C ends a command that is still being read",
        "delivery/cli/__init__.py",
        "signal.signal(signal.SIGINT, _leave)",
        "pass",
        [f"{CLI}test_signals.py::test_ctrl_c_ends_a_command_that_is_still_being_read"],
    ),
    Mutant(
        "what waited is counted before it goes",
        "delivery/cli/endpoints.py",
        "        fresh, failed = [await _count(app, before, state) for state in WAITING]  # soon they are gone\n"
        "        return await app.endpoints.enable(session.owner, whole, by=by), fresh, failed",
        "        endpoint = await app.endpoints.enable(session.owner, whole, by=by)\n"
        "        fresh, failed = [await _count(app, before, state) for state in WAITING]\n"
        "        return endpoint, fresh, failed",
        [f"{CLI}test_nouns.py::test_what_waited_is_counted_before_it_goes"],
    ),
    Mutant(
        "a change of a policy is seen by the next attempt",
        f"{SQL}update_policy.sql",
        "UPDATE tidings.endpoint SET updated_at = %(updated_at)s WHERE policy = %(name)s",
        "UPDATE tidings.endpoint SET updated_at = %(updated_at)s WHERE false AND policy = %(name)s",
        [
            f"{OF_POSTGRES}test_parcels.py::"
            "test_a_policy_is_read_with_its_endpoint_and_each_change_of_it_is_seen_by_the_next_delivery",
            "tests/journeys/test_policies.py::"
            "test_a_policy_of_ones_own_is_gone_by_and_its_change_holds_from_the_next_attempt_on",
        ],
    ),
    Mutant(
        "no policy goes while somebody chooses it",
        "subscriptions/policy_registry.py",
        "    await store.hold_policies()\n",
        "",
        [
            f"{OF_POSTGRES}test_store_policies.py::test_what_is_chosen_meanwhile_is_not_removed",
            f"{OF_POSTGRES}test_store_policies.py::test_who_chooses_a_policy_while_it_changes_waits_and_counts",
        ],
    ),
    Mutant(
        "what is parked ends at the age that its policy allows",
        f"{SQL}expire_jobs.sql",
        "ON a.lane = job.lane >> 3",
        "ON false",
        [
            f"{OF_POSTGRES}test_upkeep.py::test_a_delivery_that_is_older_than_its_policy_allows_expires_wherever_it_waits"
        ],
    ),
)
