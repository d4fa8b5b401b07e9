// Plays what callweave writes as Anthropic Messages to Anthropic's client for Node, as anthropic_bedrock.py does to the
// one for Python: faithfully written, the client understands what it understands of the original; mended, it makes of
// the stream what it makes of the whole body.
//
// usage: node anthropic.mjs CALLWEAVE DATA...

import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, extname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";

import Anthropic from "@anthropic-ai/sdk";

const PROTOCOL = "anthropic-messages";

// Cases that are written better than they came, or that a stream cannot tell, and why.
const ASIDE = {
  "anthropic-messages/block-start-repeated": "a block that is announced twice is written once",
  "anthropic-messages/block-start-repeated-in-the-middle": "a block that is announced twice is written once",
  "anthropic-messages/delta-without-its-number": "the client drops a delta without a number",
  "anthropic-messages/keep-alives-of-others-before-the-stream": "what others say before the stream is passed on",
  "anthropic-messages/usage-cache-written-then-read": "the reason is written with the last message_delta",
  "anthropic-messages/arguments-that-are-not-json": "the client gives up where arguments are not JSON",
  "openai-chat/arguments-not-json": "the client gives up where arguments are not JSON",
  "openai-chat/arguments-placeholder-then-real": "a stream cannot take back what it has told",
  "openai-chat/id-comes-late": "a stream cannot take back what it has told",
  "openai-responses/closing-restatements-differ-from-deltas": "a stream cannot take back what it has told",
};

const replay = { body: "", type: "" };
const server = createServer((request, response) => {
  request.resume();
  response.writeHead(200, { "content-type": replay.type });
  response.end(replay.body);
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const baseURL = `http://127.0.0.1:${server.address().port}`;
const client = new Anthropic({ baseURL, apiKey: "none", maxRetries: 0 });

/** The client's message, or the words in which it gives up. */
async function played(form, body) {
  replay.body = body;
  replay.type = form === "stream" ? "text/event-stream" : "application/json";
  const asked = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "?" }] };
  try {
    const message = await (form === "stream"
      ? client.beta.messages.stream(asked).finalMessage()
      : client.beta.messages.create(asked));
    return JSON.parse(JSON.stringify(message));
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
}

function convert(program, path, protocol, form, mode) {
  const command = ["convert", "--from", protocol, "--to", PROTOCOL, `--${form}`];
  const mend = mode === "mended" ? ["--mend"] : [];
  return spawnSync(program, [...command, ...mend, path], { maxBuffer: 1 << 28 }).stdout;
}

/** The form and the bytes of a recording, as the wire would have them. */
function original(path) {
  const body = readFileSync(path, "utf8");
  if (extname(path) === ".sse") return ["stream", body];
  if (extname(path) === ".json") return ["whole", body];
  const lines = body.split("\n").filter((line) => line.trim());
  return ["stream", lines.map((line) => `event: ${JSON.parse(line).type}\ndata: ${line}\n\n`).join("")];
}

/** The value without members that say nothing. */
function filled(value) {
  if (Array.isArray(value)) return value.map(filled);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).map(([key, member]) => [key, filled(member)]);
  const says = ([, member]) => !(member === null || member === "" || isDeepStrictEqual(member, {}) || member.length === 0);
  return Object.fromEntries(members.filter(says).sort());
}

function essence({ content, stop_reason, usage }) {
  const of = (type, key) => content.filter((block) => block.type === type).map((block) => block[key]);
  return {
    text: of("text", "text").join(""),
    thinking: of("thinking", "thinking").join(""),
    calls: content.filter((block) => block.type === "tool_use").map(({ id, name }) => [id, name]),
    // Arguments that are no object stand in one in a whole body, and in a stream as they came.
    inputs: of("tool_use", "input").map((input) => ("INVALID_JSON" in (input ?? {}) ? null : input)),
    stop_reason,
    usage: [usage.input_tokens, usage.output_tokens],
  };
}

async function* faults(program, path, protocol) {
  const [stream, whole] = ["stream", "whole"].map((form) => convert(program, path, protocol, form, "mended").toString());
  const answers = stream.split("event: message_start\n").length - 1;
  if (answers <= 1 && stream && whole && !whole.trim().includes("\n")) {
    const [one, other] = [await played("stream", stream), await played("whole", whole)];
    const hasFailed = "error" in JSON.parse(whole);
    // The client's words for a stream that was cut off: its last event is missing.
    const isCut = !stream.includes("event: message_stop\n") && String(one).includes("stream ended without");
    if (typeof one === "string" || typeof other === "string") {
      if (!hasFailed && !isCut) yield `mended: ${JSON.stringify([one, other])}`;
    } else if (!hasFailed) {
      const [told, body] = [essence(one), essence(other)];
      told.inputs = told.inputs.map((input, at) => (body.inputs[at] === null ? null : input));
      if (!isDeepStrictEqual(told, body)) yield `mended: ${JSON.stringify([told, body])}`;
    }
  }
  if (protocol !== PROTOCOL) return;
  const [form, body] = original(path);
  const theirs = await played(form, body);
  if (typeof theirs === "string" || body.split('"message_start"').length > 2) return;
  const ours = await played(form, convert(program, path, protocol, form, "faithful"));
  if (!isDeepStrictEqual(filled(theirs), filled(ours))) {
    yield `of the original ${JSON.stringify(filled(theirs))}, of ours ${JSON.stringify(filled(ours))}`;
  }
}

const [program, ...folders] = process.argv.slice(2);
let [passed, failed] = [0, 0];
for (const folder of folders) {
  for (const protocol of readdirSync(folder).filter((name) => statSync(join(folder, name)).isDirectory())) {
    const entries = readdirSync(join(folder, protocol)).map((name) => join(folder, protocol, name));
    const paths = entries.flatMap((entry) =>
      statSync(entry).isFile()
        ? [entry]
        : readdirSync(entry).filter((name) => name.startsWith("input.")).map((name) => join(entry, name)),
    );
    for (const path of paths) {
      const name = `${protocol}/${basename(path).startsWith("input.") ? basename(dirname(path)) : basename(path)}`;
      if (name in ASIDE) continue;
      let isSound = true;
      for await (const fault of faults(program, path, protocol)) {
        isSound = false;
        console.log(`${name}: ${fault.slice(0, 3000)}`);
      }
      if (isSound) passed += 1;
      else failed += 1;
    }
  }
}
server.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
