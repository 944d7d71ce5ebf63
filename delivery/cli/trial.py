"""What came of one test delivery, for people, and where to look when it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delivery.channels import Fault, FaultCode, Reply
from delivery.classifier import Ours
from delivery.cli.output import write_block, write_fields, write_line, write_note
from subscriptions.model import EndpointState

if TYPE_CHECKING:
    from delivery.api.endpoints import Tested


def advice(tested: Tested) -> str:
    """Say where to look: at the receiver's answer, at the way there, or at ourselves."""
    match tested.answer, tested.verdict:
        case Reply(), _:
            return "see what the receiver says of it"
        case Fault(code=FaultCode.UNREADABLE_KEY), _:
            return "put the key that sealed its secret back into TIDINGS_KEYS"
        case Fault(), Ours():
            return "the trouble is here, not at the receiver: try again, and see the log of what runs here"
        case Fault(), _:
            return f"see that a receiver answers at {tested.endpoint.url}"
        case _:
            return "see the detail"


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
