"""Spans by the API of OpenTelemetry, for whatever SDK the process was started with; without one they go nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from delivery.errors import ConfigurationError


class _Span:
    """`delivery.traces.Span`."""

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent
        self.said: dict[str, str] = {}
        self.is_fine = True

    def ended(self, outcome: str, code: str, *, is_fine: bool) -> None:
        self.said = {"tidings.outcome": outcome, "tidings.code": code}
        self.is_fine = is_fine


class OtelTraces:
    """`delivery.traces.Traces`."""

    def __init__(self) -> None:
        """Find the API.

        Raises:
            ConfigurationError: it is not installed.
        """
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise ConfigurationError(
                "TIDINGS_TRACES: OpenTelemetry is not installed: install `tidings[otel]`, or leave traces off"
            ) from None
        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("tidings", version("tidings"))

    @contextmanager
    def span(
        self, name: str, traceparent: str, said: Mapping[str, str | int], *, began_ns: int | None = None
    ) -> Iterator[_Span]:
        """Open a span below `traceparent`."""
        above = self._propagator.extract({"traceparent": traceparent})
        made = self._tracer.start_span(
            name, above, kind=self._trace.SpanKind.PRODUCER, attributes=dict(said), start_time=began_ns
        )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(made))
        span = _Span(carrier.get("traceparent", traceparent))
        try:
            yield span
        finally:
            made.set_attributes(dict(span.said))
            if not span.is_fine:
                made.set_status(self._trace.StatusCode.ERROR, span.said["tidings.code"])
            made.end()
