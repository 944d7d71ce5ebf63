"""What a verified request says."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, overload

from signing.errors import PayloadDecodeError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedWebhook:
    """A request that proved who sent it. Every field is covered by the signature."""

    #: names the event; the same on every retry, so remember it to process an event once. Where the sender signs
    #: no id: `sha256:` and the digest of the body
    id: str
    timestamp: datetime | None  #: when this attempt was signed, UTC; None where the sender signs no time
    body: bytes = field(repr=False)  #: as received
    scheme: str  #: of the signature that matched, such as `v1`
    key_index: int  #: which of the verifier's keys matched, counted from 0

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, model: type[T]) -> T: ...
    def json(self, model: type[T] | None = None) -> Any:
        """Decode the body; into `model`, if one is given.

        A model that has `model_validate_json` is handed the bytes; another is called with the decoded value.

        Raises:
            PayloadDecodeError: not JSON, or the model refused it. The model's own error, which may quote the
                payload, is its `__cause__`.
        """
        if model is None:
            return decoded_json(self.body)
        build: Any = getattr(model, "model_validate_json", None)
        value = self.body if build else decoded_json(self.body)
        try:
            return build(value) if build else model(value)  # type: ignore[call-arg] # what a model takes
        except (ValueError, TypeError, LookupError) as error:
            raise PayloadDecodeError(f"the body does not fit {model.__name__}") from error


def decoded_json(body: bytes) -> Any:
    """Decode JSON.

    Raises:
        PayloadDecodeError: it is none, or nested too deeply.
    """
    with suppress(ValueError, RecursionError):
        return json.loads(body)
    # Raised out of any handler: the decoder's error holds the whole body and must not travel along.
    raise PayloadDecodeError("the body is not JSON")
