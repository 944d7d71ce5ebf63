"""What `--help` of each command shows last: lines that can be typed. A gate runs every one of them.

Words in capitals stand for what only the reader knows, `https://example.com/...` for an address of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """One command line, and what it is for."""

    line: str
    why: str = ""  #: empty = the command's own help says it; such lines come first


#: By the words that name the command, in the order of the help.
EXAMPLES: dict[str, tuple[Example, ...]] = {
    "up": (
        Example("tidings up --allow-local", "on a private PostgreSQL, with receivers on this machine"),
        Example("tidings up --processes 4 --quiet", "on a server, with the workers of four processes"),
    ),
    "demo": (Example("tidings demo"), Example("tidings demo --home ./played", "keep what was played, to look around")),
    "listen": (
        Example("tidings listen --port 8400 --secret whsec_...", "verify with the secret that `endpoints add` showed"),
        Example("tidings listen --status 503 --retry-after 30", "play a receiver that is busy"),
    ),
    "verify": (
        Example("tidings verify request.txt --secret whsec_...", "headers, an empty line, the body, as `curl -v` has"),
        Example("tidings verify request.txt --secret whsec_... --any-time --json", "one that was kept for long"),
    ),
    "status": (
        Example("tidings status"),
        Example("tidings status --check --json", "for monitoring: exit code 3 where anything needs attention"),
    ),
    "doctor": (Example("tidings doctor"), Example("tidings doctor --json", "for a check before a deploy")),
    "pause": (
        Example("tidings pause --owner acme --reason 'asked for it'"),
        Example("tidings pause --all --reason 'the network moves'", "send nothing; what comes meanwhile waits"),
    ),
    "resume": (Example("tidings resume --owner acme"),),
    "event-types declare": (
        Example("tidings event-types declare invoice.paid --exposure webhook"),
        Example("tidings event-types declare invoice.seen", "one whose events never leave"),
        Example(
            'tidings event-types declare invoice.seen --exposure webhook --description "It was read" --change',
            "alter it",
        ),
        Example(
            "tidings event-types declare invoice.paid --exposure webhook --schema schema.json --change",
            "refuse data that does not fit a JSON Schema",
        ),
    ),
    "event-types list": (Example("tidings event-types list"), Example("tidings event-types list --json")),
    "policies add": (
        Example("tidings policies add hasty --ladder 1s,5s,30s --timeout 3s --max-age 10m"),
        Example(
            "tidings policies add strict --ladder 5s,5m,1h --attempts 20 --client-errors discard",
            "20 attempts, an hour between the later ones; a 404 is discarded at once",
        ),
        Example("tidings policies add once --attempts 1", "never tried again"),
    ),
    "policies list": (Example("tidings policies list"), Example("tidings policies list --json")),
    "policies show": (Example("tidings policies show standard"),),
    "policies update": (
        Example("tidings policies update hasty --ladder 1s,10s,1m"),
        Example("tidings policies update strict --attempts 10 --client-errors short --no-max-age"),
    ),
    "policies remove": (Example("tidings policies remove once"),),
    "endpoints add": (
        Example("tidings endpoints add https://example.com/hook"),
        Example(
            "tidings endpoints add https://example.com/orders --policy patient --limit 3 --timeout 5s",
            "retried for longer, three at once, each within five seconds",
        ),
        Example(
            "tidings endpoints add https://example.com/in --bearer TOKEN --header 'X-Team: a' --scheme v1a",
            "with credentials, signed with ed25519",
        ),
    ),
    "endpoints list": (
        Example("tidings endpoints list"),
        Example("tidings endpoints list --any-owner --limit 1000 --jsonl", "everybody's, one JSON document a line"),
    ),
    "endpoints show": (Example("tidings endpoints show ENDPOINT_ID"),),
    "endpoints update": (
        Example("tidings endpoints update ENDPOINT_ID --url https://example.com/moved"),
        Example("tidings endpoints update ENDPOINT_ID --limit 20 --timeout 15s --policy quick"),
        Example("tidings endpoints update ENDPOINT_ID --no-timeout", "its policy says how long an attempt may take"),
        Example("tidings endpoints update ENDPOINT_ID --rate 10/s --burst 20", "start no more than its receiver takes"),
        Example("tidings endpoints update ENDPOINT_ID --override http_409=delivered", "judge an answer otherwise"),
    ),
    "endpoints enable": (Example("tidings endpoints enable ENDPOINT_ID"),),
    "endpoints disable": (Example('tidings endpoints disable ENDPOINT_ID --reason "moves on Sunday"'),),
    "endpoints remove": (
        Example("tidings endpoints remove ENDPOINT_ID"),
        Example("tidings endpoints remove ENDPOINT_ID --yes", "in a script, where nobody can be asked"),
    ),
    "endpoints test": (Example("tidings endpoints test ENDPOINT_ID"),),
    "endpoints rotate-secret": (
        Example("tidings endpoints rotate-secret ENDPOINT_ID --overlap 48h", "both sign for two days"),
        Example("tidings endpoints rotate-secret ENDPOINT_ID --revoke-now", "the old one is known to somebody"),
    ),
    "endpoints keys": (Example("tidings endpoints keys ENDPOINT_ID"),),
    "endpoints jwks": (Example("tidings endpoints jwks ENDPOINT_ID"),),
    "endpoints export": (
        Example("tidings endpoints export setup.yaml"),
        Example("tidings endpoints export --any-owner --json", "everybody's, for a program"),
    ),
    "endpoints import": (
        Example("tidings endpoints import setup.yaml"),
        Example("tidings endpoints import setup.yaml --dry-run", "see what would change"),
        Example("tidings endpoints import setup.yaml --prune --yes", "and remove what the file does not name"),
    ),
    "subscriptions add": (
        Example("tidings subscriptions add invoices --endpoint ENDPOINT_ID 'invoice.*'"),
        Example("tidings subscriptions add everything --endpoint ENDPOINT_ID '*'"),
        Example(
            "tidings subscriptions add soon --endpoint ENDPOINT_ID refund.paid --future",
            "before anybody has declared the type",
        ),
        Example(
            "tidings subscriptions add large --endpoint ENDPOINT_ID 'invoice.*' --filter '$.amount > 100'",
            "only those whose data it holds for",
        ),
    ),
    "subscriptions list": (
        Example("tidings subscriptions list"),
        Example("tidings subscriptions list --platform", "of handlers in your own processes"),
    ),
    "subscriptions test-filter": (
        Example("""tidings subscriptions test-filter '$.amount > 100' --data '{"amount": 150}'"""),
        Example(
            """tidings subscriptions test-filter '$.items[?@.sku == "x"] && !$.test' --data-file data.json""",
            "something of it has to be there, and something else not",
        ),
    ),
    "subscriptions remove": (
        Example("tidings subscriptions remove invoices"),
        Example("tidings subscriptions remove everything --yes", "in a script, where nobody can be asked"),
    ),
    "events record": (
        Example("""tidings events record invoice.paid --subject invoice/42 --data '{"amount": "12.50"}'"""),
        Example("tidings events record invoice.paid --data-file data.json --key invoice-42-paid", "at most once"),
    ),
    "events list": (
        Example("tidings events list --type invoice.paid --since 2h"),
        Example("tidings events list --poisoned --any-owner", "those that the relay gave up"),
    ),
    "events show": (Example("tidings events show EVENT_ID"),),
    "events requeue": (
        Example("tidings events requeue EVENT_ID"),
        Example("tidings events requeue EVENT_ID --unchecked", "also where it does not fit its schema"),
    ),
    "events replay": (
        Example("tidings events replay --endpoint ENDPOINT_ID --dry-run"),
        Example("tidings events replay --endpoint ENDPOINT_ID --type 'invoice.*' --since 30d --pace 50"),
    ),
    "deliveries list": (
        Example("tidings deliveries list --state discarded --since 2h"),
        Example("tidings deliveries list --endpoint ENDPOINT_ID --error http_503"),
        Example("tidings deliveries list --any-owner --limit 10000 --jsonl", "everybody's, for a program"),
    ),
    "deliveries show": (
        Example("tidings deliveries show DELIVERY_ID"),
        Example("tidings deliveries show DELIVERY_ID --curl", "to try the receiver by hand"),
    ),
    "deliveries retry": (Example("tidings deliveries retry DELIVERY_ID"),),
    "deliveries cancel": (Example("tidings deliveries cancel DELIVERY_ID"),),
    "deliveries replay": (
        Example("tidings deliveries replay --endpoint ENDPOINT_ID --since 2d"),
        Example("tidings deliveries replay --endpoint ENDPOINT_ID --since 2d --dry-run", "only count"),
        Example(
            "tidings deliveries replay --state completed --type invoice.paid --until 2026-01-31T12:00:00Z",
            "what was delivered before the receiver lost it",
        ),
    ),
    "deliveries watch": (
        Example("tidings deliveries watch"),
        Example("tidings deliveries watch --state retryable --state discarded", "only what goes wrong"),
        Example("tidings deliveries watch --any-owner --json", "everybody's, for a program"),
    ),
    "replays start": (
        Example("tidings replays start --since 2d --dry-run"),
        Example(
            'tidings replays start --endpoint ENDPOINT_ID --pace 50 --reason "the receiver was down"',
            "fifty a second",
        ),
        Example(
            "tidings replays start --status 5xx --only-undelivered --wait", "wait until all were put back, with a bar"
        ),
    ),
    "replays list": (Example("tidings replays list"), Example("tidings replays list --any-owner --jsonl")),
    "replays show": (Example("tidings replays show REPLAY_ID"),),
    "replays pause": (Example('tidings replays pause REPLAY_ID --reason "the receiver is slow"'),),
    "replays resume": (Example("tidings replays resume REPLAY_ID"),),
    "replays cancel": (Example("tidings replays cancel REPLAY_ID"),),
    "jobs overview": (Example("tidings jobs overview"),),
    "jobs list": (
        Example("tidings jobs list --state discarded"),
        Example("tidings jobs list --any-owner --kind webhook.deliver --since 1h --json"),
    ),
    "jobs show": (Example("tidings jobs show JOB_ID --any-owner"),),
    "jobs retry": (Example("tidings jobs retry JOB_ID --any-owner"),),
    "jobs cancel": (Example("tidings jobs cancel JOB_ID --any-owner"),),
    "periodic list": (Example("tidings periodic list"),),
    "periodic run": (Example("tidings periodic run tidings.outbox_sweep"),),
    "migrate": (
        Example("tidings migrate --check", "exit code 1 where something is pending"),
        Example("tidings migrate --grant-record APP_ROLE", "and let the application's role record"),
    ),
    "relay": (Example("tidings relay --quiet"),),
    "worker": (Example("tidings worker --processes 4 --quiet"),),
    "keys generate": (Example("tidings keys generate"), Example("tidings keys generate --id 2026-01 --json")),
    "keys list": (Example("tidings keys list"),),
    "keys rotate": (Example("tidings keys rotate"),),
    "completion": (Example("tidings completion bash"),),
}
