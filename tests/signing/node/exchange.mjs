// Verifies what it is handed on standard input, and signs what it is asked to; one JSON document each way.
import { Webhook } from "standardwebhooks";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { verify, sign } = JSON.parse(Buffer.concat(chunks));

const verified = verify.map(({ secret, body, headers }) => {
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers, { jsonParse: false });
    return "verified";
  } catch (error) {
    return error.message;
  }
});
const signed = sign.map(({ secret, id, timestamp, body }) =>
  new Webhook(secret).sign(id, new Date(timestamp * 1000), Buffer.from(body, "base64")),
);
console.log(JSON.stringify({ verified, signed }));
