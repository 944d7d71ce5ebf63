"""The lines that keep the promises of the platform; those of the protocol are besides."""

from __future__ import annotations

from .mutant import CONFORMANCE, OF_POSTGRES, POSTGRES, PROTOCOL, SQL, Mutant

PROMISES = (
    Mutant(
        "what is recorded is relayed",
        "migrations/0002_record.sql",
        "  INSERT INTO tidings.outbox (event_id) VALUES (id);\n",
        "",
        [f"{OF_POSTGRES}test_record_function.py::test_a_committed_event_lies_in_the_log_and_in_the_outbox"],
    ),
    Mutant(
        "a subscription committed before an event is seen",
        "delivery/relay.py",
        "if batch.routes_version != self._version:",
        "if self._version < 0:",
        [
            "tests/journeys/test_outbox.py::"
            "test_a_subscription_committed_before_an_event_gets_it_whatever_the_relay_remembers"
        ],
    ),
    Mutant(
        "a big fan-out goes on where it was",
        "delivery/relay.py",
        "await batch.keep_place(event_id, after_target)",
        "await batch.relayed([event_id])",
        ["tests/journeys/test_fan_out.py"],
    ),
    Mutant(
        "trouble of the database is nobody's poison",
        "delivery/relay.py",
        "            except (Unavailable, ConfigurationError, TransactionConflict):\n                raise\n",
        "",
        ["tests/delivery/test_relay.py::test_trouble_while_rows_go_one_by_one_counts_against_none_of_them"],
    ),
    Mutant(
        "a session that the server ended is no trouble of a row",
        f"{POSTGRES}faults.py",
        "(pg.IdleInTransactionSessionTimeout, pg.TransactionTimeout),",
        "(pg.TransactionTimeout,),",
        [f"{OF_POSTGRES}test_database_cuts.py::test_a_transaction_that_was_idle_for_too_long_says_so"],
    ),
    Mutant(
        "what a client left in the middle of a statement is free again",
        f"{POSTGRES}pools.py",
        '        await connection.execute(LIMIT.format("false").encode())\n',
        "        pass\n",
        ["tests/faults/test_network.py::test_a_transaction_of_ours_has_an_end_and_a_connection_string_may_say_which"],
    ),
    Mutant(
        "a lost transaction is never taken for committed",
        f"{POSTGRES}database.py",
        "if connection.closed:",
        "if False:",
        [
            f"{OF_POSTGRES}test_database_cuts.py::"
            "test_a_transaction_whose_connection_was_lost_is_never_taken_for_committed"
        ],
    ),
    Mutant(
        "an event is relayed by one relay",
        f"{SQL}claim_outbox.sql",
        " FOR UPDATE SKIP LOCKED",
        "",
        ["tests/delivery/test_relay.py::test_an_event_that_another_relay_holds_is_passed_over"],
    ),
    Mutant(
        "one delivery for event and endpoint, whoever adds it again",
        f"{SQL}enqueue_by_identity.sql",
        "FROM r WHERE id IN (SELECT job_id FROM fresh)",
        "FROM r",
        [PROTOCOL, f"{CONFORMANCE}test_uniqueness.py::test_of_many_at_once_one_is_new"],
    ),
    Mutant(
        "owners take turns",
        f"{POSTGRES}turns.py",
        "            self._owners.move_to_end(owner_id)\n",
        "            pass\n",
        [f"{CONFORMANCE}test_lanes.py::test_owners_take_turns_however_many_lanes_they_have"],
    ),
    Mutant(
        "one claim at a time spends a lane's tokens",
        f"{SQL}claim_paced.sql",
        " LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED",
        " LIMIT 1",
        [f"{OF_POSTGRES}test_rates.py::test_many_who_claim_one_lane_at_once_start_no_more_than_its_rate_allows"],
    ),
    Mutant(
        "what starts has spent a token",
        f"{SQL}claim_paced.sql",
        "AND spent.is_less",
        "AND false",
        [
            f"{OF_POSTGRES}test_rates.py::test_many_who_claim_one_lane_at_once_start_no_more_than_its_rate_allows",
            "tests/journeys/test_rates.py::test_the_rate_holds_over_kills",
        ],
    ),
    Mutant(
        "what is held back as an endpoint recovers is let go with the rest",
        f"{SQL}find_cooling.sql",
        "\nFOR KEY SHARE OF h SKIP LOCKED",
        "",
        ["tests/delivery/test_relay_cooldown.py::test_what_is_relayed_as_the_endpoint_recovers_does_not_stay_behind"],
    ),
    Mutant(
        "what a person pauses does not start",
        f"{SQL}read_lanes.sql",
        " OR NOT tidings.is_paused(key, owner_id)",
        " OR true",
        [f"{OF_POSTGRES}test_pauses.py::test_a_pause_that_was_not_heard_is_heeded_within_a_poll"],
    ),
    Mutant(
        "who holds on has half of the slots",
        f"{POSTGRES}crew.py",
        "drag=max(self._settings.slots // 2, 1)",
        "drag=None",
        [f"{CONFORMANCE}test_isolation.py::test_strangers_who_hold_on_have_half_of_the_slots_together"],
    ),
    Mutant(
        "a stranger whose try hung gets one at a time",
        f"{POSTGRES}lanes.py",
        "lane.window = 1 if hung else",
        "lane.window =",
        [
            f"{CONFORMANCE}test_isolation.py::"
            "test_a_strangers_lane_in_which_a_try_hung_drops_to_one_at_a_time_until_it_answers_again"
        ],
    ),
    Mutant(
        "what is internal never leaves, also where it became so after it was relayed",
        "delivery/worker.py",
        "if parcel.exposure is not Exposure.WEBHOOK:",
        "if False:",
        ["tests/delivery/test_worker.py::test_what_became_internal_is_discarded_unsent"],
    ),
    Mutant(
        "a connection that was closed under its request is tried at once, and once in a row",
        "delivery/backoff.py",
        'case Again() if _count(memo, "again"):',
        "case Again() if False:",
        ["tests/delivery/test_worker.py::test_a_kept_connection_that_was_closed_is_tried_at_once_and_once"],
    ),
    Mutant(
        "another owner's job is not found",
        f"{SQL}list_jobs.sql",
        "    AND (%(owner_id)s::text IS NULL OR l.owner_id = %(owner_id)s)\n"
        "    AND (%(kind)s::text IS NULL OR j.kind = %(kind)s)\n"
        "    AND (%(states)s::text[] IS NULL OR j.state = ANY (%(states)s))\n"
        "    AND (%(lane)s::bigint IS NULL OR j.lane BETWEEN %(lane)s::bigint * 8 AND %(lane)s::bigint * 8 + 7)\n"
        "    AND (%(args)s::jsonb IS NULL OR j.args @> %(args)s)\n"
        "    AND (%(since)s::timestamptz IS NULL OR j.created_at >= %(since)s)\n"
        "    AND (%(until)s::timestamptz IS NULL OR j.created_at < %(until)s)\n"
        "    AND (%(reason)s::text IS NULL OR j.code = %(reason)s)\n",
        "",
        [f"{CONFORMANCE}test_inspect.py::test_another_owners_job_is_not_found"],
    ),
    Mutant(
        "another owner's endpoint is never sent to",
        "delivery/adapters/postgres/parcels.py",
        " or found.endpoint.owner_id != event[0].owner_id",
        "",
        ["tests/delivery/test_worker.py::test_an_endpoint_of_another_owner_is_never_sent_to"],
    ),
    Mutant(
        "an event stays while a job of it is kept",
        f"{SQL}forget_events.sql",
        "    AND NOT EXISTS (SELECT FROM tidings.job_identity AS i WHERE i.first = walked.id"
        " AND i.first < %(until)s::uuid OFFSET 0)\n",
        "",
        [
            f"{OF_POSTGRES}test_upkeep.py::TestRetention::test_an_old_event_stays_while_a_delivery_of_it_is_kept",
            f"{OF_POSTGRES}test_upkeep.py::TestRetention::"
            "test_an_old_event_stays_while_a_delivery_of_it_is_not_settled",
        ],
    ),
    Mutant(
        "an event stays until it is relayed",
        f"{SQL}forget_events.sql",
        "  WHERE NOT EXISTS (SELECT FROM tidings.outbox WHERE outbox.event_id = walked.id OFFSET 0)\n    AND",
        "  WHERE",
        [f"{OF_POSTGRES}test_upkeep.py::TestRetention::test_an_old_event_stays_until_it_is_relayed"],
    ),
    Mutant(
        "what is kept longer survives its day's partition",
        f"{POSTGRES}partitions.py",
        'keep=SQL(" OR ").join(kept) if kept else None)',
        "keep=None)",
        [f"{OF_POSTGRES}test_upkeep.py::TestRetention::test_a_state_may_be_kept_longer_with_all_that_hangs_on_it"],
    ),
    Mutant(
        "what waits and is never claimed expires",
        f"{SQL}expire_jobs.sql",
        "WHEN k.kind IS NULL THEN %(others_until)s::timestamptz",
        "WHEN k.kind IS NULL THEN %(others_until)s::timestamptz - interval '100 years'",
        [f"{OF_POSTGRES}test_upkeep.py::test_jobs_of_a_kind_that_nobody_runs_expire_too"],
    ),
    Mutant(
        "who recovers as it is judged stays enabled",
        f"{SQL}still_fails.sql",
        " AND failing_since = %(since)s",
        " AND %(since)s::timestamptz IS NOT NULL",
        [f"{OF_POSTGRES}test_health.py::test_who_recovers_as_it_is_judged_stays_enabled"],
    ),
    Mutant(
        "nobody is disabled unwarned",
        "delivery/health.py",
        "if due > streak.warned:",
        "if False:",
        ["tests/delivery/test_health.py::test_nobody_is_disabled_unwarned"],
    ),
    Mutant(
        "a probe undoes no person's word",
        "delivery/app/parts.py",
        "by=BY, only_if_disabled_by=BY)",
        "by=BY)",
        [f"{OF_POSTGRES}test_health.py::test_a_person_who_disables_it_while_it_is_probed_has_the_last_word"],
    ),
    Mutant(
        "trouble of our own is no failure of an endpoint",
        "delivery/worker.py",
        "and verdict.counts",
        "and True",
        ["tests/delivery/test_worker_health.py"],
    ),
    Mutant(
        "a streak ends with a success",
        "delivery/worker.py",
        "await self._health.recovered(parcel.endpoint.id)",
        "pass",
        ["tests/delivery/test_worker_health.py::test_a_success_ends_it"],
    ),
    Mutant(
        "who commits beside another that rings is found without the poll",
        "delivery/relay.py",
        "_AGAIN if found else ",
        "",
        ["tests/delivery/test_relay_running.py::test_who_commits_beside_another_that_rings_is_found_without_the_poll"],
    ),
    Mutant(
        "a process beside another is told to end once",
        "delivery/cli/processes.py",
        "self._running - self._told",
        "set(self._running)",
        ["tests/delivery/cli/test_processes.py::test_each_is_told_to_end_once_however_often_this_process_is"],
    ),
)
