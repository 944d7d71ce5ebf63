"""What came of one test delivery, for people, and where to look when it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delivery.channels import Fault, FaultCode, Reply
from delivery.classifier import Ours
from delivery.cli.output import write_block, write_fields, write_line, write_note
from subscriptions.model import EndpointState, described_tls

if TYPE_CHECKING:
    from delivery.api.endpoints import Tested


#: Where a fault says more than that nobody answered.
_ADVICE = {
    FaultCode.UNREADABLE_KEY: "put the key that sealed its secret back into TIDINGS_KEYS",
    FaultCode.BLOCKED_ADDRESS: "it is never sent there from here; the detail says by which rule",
    FaultCode.DNS_NOT_FOUND: "see that the name in its URL is right: it has no address",
    FaultCode.TLS_EXPIRED: "have the receiver renew its certificate",
    FaultCode.TLS_HOSTNAME: "see that the name in its URL is one of its certificate's",
    FaultCode.TLS_UNTRUSTED: "name the authority that signed its certificate with --ca, together with any"
    " --client-certificate, or have the receiver send its whole chain",
    FaultCode.PROXY_REFUSED: "the proxy in TIDINGS_EGRESS_PROXY will not go there: see its rules",
    FaultCode.PROXY_FAILED: "see that the proxy in TIDINGS_EGRESS_PROXY runs, and takes the credentials there",
}
#: What a receiver does, too, that asks for a client certificate and is shown none.
_HUNG_UP = (FaultCode.CONNECTION_CLOSED, FaultCode.CONNECTION_RESET, FaultCode.TLS_ERROR)


def advice(tested: Tested) -> str:
    """Say where to look: at the receiver's answer, at the way there, or at ourselves."""
    url = tested.endpoint.url
    match tested.answer, tested.verdict:
        case Reply(), _:
            return "see what the receiver says of it"
        case Fault(code=code), _ if code in _ADVICE:
            return _ADVICE[code]
        case Fault(), Ours():
            return "the trouble is here, not at the receiver: try again, and see the log of what runs here"
        case Fault(code=code), _ if code in _HUNG_UP and url.startswith("https:") and not _is_certified(tested):
            return f"see that a receiver answers at {url}, and whether it wants a client certificate"
        case Fault(), _:
            return f"see that a receiver answers at {url}"
        case _:
            return "see the detail"


def _is_certified(tested: Tested) -> bool:
    return "certificate" in described_tls(tested.endpoint.tls)


def write_tested(tested: Tested, answer: dict[str, Any]) -> None:
    """Print it; `answer` is its document."""
    verdict = tested.verdict
    write_fields(
        [
            ("event", f"{tested.event.id} ({tested.event.type})"),
            ("verdict", f"{verdict.outcome} ({verdict.code}, by rule {verdict.rule!r})"),
            ("status", answer["status"]),
            ("detail", answer["detail"]),
        ]
    )
    if answer["response_body"]:
        write_line("answer")
        write_block(answer["response_body"])
    if tested.endpoint.state is EndpointState.DISABLED:
        why = tested.endpoint.state_reason or "no reason kept"
        write_note(f"the endpoint is disabled ({why}): only this test was sent, its deliveries wait")
