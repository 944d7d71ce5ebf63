"""A trace that an event was recorded in goes on: through the relay, through each try, to the receiver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from delivery.adapters.otel import OtelTraces

from .platform import OWNER, TYPE, Platform
from .receivers import OK, Receiver, Request, reply

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RECORD = "SELECT tidings.record(%s, %s, NULL, '{}', traceparent => %s) AS id"


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """The SDK that this process has; it can have but one."""
    trace.set_tracer_provider(TracerProvider())
    found = trace.get_tracer_provider()
    assert isinstance(found, TracerProvider)
    return found


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def flaky() -> AsyncIterator[bytes]:
    async def answers() -> AsyncIterator[bytes]:
        yield reply(503)
        while True:
            yield OK

    return answers()


async def record(platform: Platform, traceparent: str | None) -> UUID:
    [row] = await platform.sql(RECORD, OWNER, TYPE, traceparent)
    found: UUID = row["id"]
    return found


def context(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"


async def test_relay_and_tries_are_spans_below_the_one_that_recorded(
    platform: Platform, receiver: Receiver, spans: InMemorySpanExporter
) -> None:
    answers = flaky()

    async def answer(_: Request) -> bytes:
        return await anext(answers)

    receiver.answer(answer, "/a")
    endpoint, _ = await platform.endpoint("/a", policy="demo")
    event, untraced = await record(platform, TRACE), await record(platform, None)
    async with platform.working(traces="true"):
        assert await platform.ended() == {"completed": 2}
    told = [span for span in spans.get_finished_spans() if span.name.startswith("tidings.")]
    assert {span.attributes["tidings.event"] for span in told if span.attributes} == {str(event)}
    assert {(span.parent.trace_id, span.parent.span_id) for span in told if span.parent} == {
        (int(TRACE[3:35], 16), int(TRACE[36:52], 16))
    }
    [relay] = [span for span in told if span.name == "tidings.relay"]
    assert relay.start_time is not None
    assert relay.end_time is not None
    assert relay.start_time <= relay.end_time
    tries = [span for span in told if span.name == "tidings.attempt"]
    sent = [request.headers["traceparent"] for request in receiver.got("/a") if request.id == str(event)]
    assert [context(span) for span in tries] == sent
    for number, span in enumerate(tries, start=1):
        assert span.attributes is not None
        assert span.attributes["tidings.attempt"] == number
        assert span.attributes["tidings.endpoint"] == str(endpoint.id)
        assert span.status.is_ok or span.attributes["tidings.code"] == "http_503"
    assert tries[-1].attributes is not None
    assert (tries[-1].attributes["tidings.outcome"], tries[-1].attributes["tidings.code"]) == ("delivered", "http_200")
    assert all("traceparent" not in each.headers for each in receiver.got("/a") if each.id == str(untraced))


async def test_without_the_setting_the_receiver_gets_what_was_recorded_and_no_span_is_made(
    platform: Platform, receiver: Receiver, spans: InMemorySpanExporter
) -> None:
    await platform.endpoint("/a")
    await record(platform, TRACE)
    async with platform.working():
        await platform.ended()
    assert [request.headers["traceparent"] for request in receiver.got("/a")] == [TRACE]
    assert not [span for span in spans.get_finished_spans() if span.name.startswith("tidings.")]


def test_an_exception_ends_a_span_and_nothing_of_it_is_kept(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError), OtelTraces().span("tidings.attempt", TRACE, {}):  # noqa: PT011 - raised here
        raise ValueError("whsec_secret")
    [span] = spans.get_finished_spans()
    assert (span.events, span.status.description) == ((), None)


ASK = """
import sys
{before}
from delivery.adapters.otel import OtelTraces
try:
    with OtelTraces().span("tidings.relay", "{trace}", {{}}) as span:
        print(span.traceparent)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("", TRACE),
        (
            "sys.modules['opentelemetry'] = None",
            "ConfigurationError TIDINGS_TRACES: OpenTelemetry is not installed: install `tidings[otel]`,"
            " or leave traces off",
        ),
    ],
)
def test_without_an_sdk_the_trace_goes_on_as_it_is_and_without_the_api_that_is_said(before: str, says: str) -> None:
    ask = ASK.format(before=before, trace=TRACE)
    found = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == says


def test_a_process_that_makes_no_traces_does_without_the_library() -> None:
    ask = "import sys, delivery.app; print('opentelemetry' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
