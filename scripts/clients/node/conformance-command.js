"use strict";
// The Node client as ../conformance.py drives it; README.md has the protocol.
const readline = require("node:readline");
const { Client, VERDICTS } = require("./index.js");

const say = (members) => process.stdout.write(`${JSON.stringify(members)}\n`);

async function pay(client, { id, token, reference, expected, deadline, after }) {
  const saveAttempt = after && ((attempt) => say({ id, attempt }));
  const outcome = await client.decrypt(token, reference, expected, { deadline: 1000 * deadline, after, saveAttempt });
  console.error(outcome, JSON.stringify(outcome));
  say({ id, verdict: outcome.verdict, code: outcome.code, transactionId: outcome.answer?.transactionId });
}

if (process.argv[2] === "verdicts") {
  say(VERDICTS);
} else {
  const client = new Client(process.argv[2]);
  readline.createInterface({ input: process.stdin }).on("line", (line) => pay(client, JSON.parse(line)));
}
