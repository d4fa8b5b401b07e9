// Plays what callweave writes as Anthropic Messages to Anthropic's client for Node, as anthropic_bedrock.py does to the
// one for Python: faithfully written, the client understands what it understands of the original; mended, it has the
// text, the calls, the reason to finish and the token counts that callweave has.
//
// usage: node anthropic.mjs CALLWEAVE DATA...

import { isDeepStrictEqual } from "node:util";

import Anthropic from "@anthropic-ai/sdk";

import {
  Matrix,
  NOT_SINGLE,
  UNREADABLE,
  attempt,
  filled,
  isSingle,
  isTruncated,
  misread,
  original,
  played,
  replay,
} from "./answers.mjs";

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

const playing = replay();
const client = new Anthropic({ apiKey: "none", maxRetries: 0, fetch: playing.fetch });

// Our reasons to finish that theirs stand for. What is not said to be whole was cut by a limit.
const REASONS = {
  end_turn: ["stop"],
  stop_sequence: ["stop"],
  tool_use: ["tool_calls"],
  max_tokens: ["length", "other", "error"],
  model_context_window_exceeded: ["length"],
  refusal: ["content_filter"],
  pause_turn: ["other"],
  compaction: ["other"],
};

/** The client's message, or the words in which it gives up. */
function read(form, body, status = 200) {
  Object.assign(playing, { body, status, type: form === "stream" ? "text/event-stream" : "application/json" });
  const asked = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "?" }] };
  return attempt(async () => {
    const message = await (form === "stream"
      ? client.beta.messages.stream(asked).finalMessage()
      : client.beta.messages.create(asked));
    return JSON.parse(JSON.stringify(message));
  });
}

function essence({ content, stop_reason, usage }) {
  const of = (type) => content.filter((block) => block.type === type);
  const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens } = usage;
  return {
    text: of("text").map(({ text }) => text).join(""),
    calls: of("tool_use").map(({ name, input }) => [name, input]),
    reasons: REASONS[stop_reason] ?? [],
    usage: [input_tokens + (cache_creation_input_tokens ?? 0) + (cache_read_input_tokens ?? 0), output_tokens],
  };
}

async function mended(answer) {
  const faults = [];
  const hasFailed = (answer.message.errors ?? []).length > 0;
  for (const form of ["stream", "whole"]) {
    const theirs = await read(form, answer.convert(PROTOCOL, form), hasFailed && form === "whole" ? 500 : 200);
    if (typeof theirs === "string") {
      if (!hasFailed && !isTruncated(answer.message)) faults.push(`mended ${form}: ${theirs}`);
    } else if (!hasFailed) {
      faults.push(...misread(answer, form, essence(theirs)));
    } else if (!essence(theirs).reasons.includes("error")) {
      faults.push(`mended ${form}: a failure that does not show: ${JSON.stringify(theirs)}`);
    }
  }
  return faults;
}

/** Faithfully written it is to the client what the original is. */
async function faithful(answer) {
  const [form, body] = original(answer);
  const theirs = form ? await read(form, body) : "";
  if (!form) return ["recorded in another form than the wire's", []];
  if (body.split('"message_start"').length > 2) return [NOT_SINGLE, []];
  if (typeof theirs === "string") return [UNREADABLE, []];
  const ours = await read(form, answer.convert(PROTOCOL, form, "faithful"));
  if (isDeepStrictEqual(filled(theirs), filled(ours))) return [null, []];
  return [null, [`of the original ${JSON.stringify(filled(theirs))}, of ours ${JSON.stringify(filled(ours))}`]];
}

const [program, ...folders] = process.argv.slice(2);
const matrix = new Matrix("node anthropic");
for (const answer of played(program, folders, [PROTOCOL])) {
  const aside = ASIDE[`${answer.protocol}/${answer.name}`] ?? (isSingle(answer, PROTOCOL) ? null : NOT_SINGLE);
  if (aside) {
    matrix.add(PROTOCOL, answer, aside);
    continue;
  }
  matrix.add(PROTOCOL, answer, null, await mended(answer));
  if (answer.protocol === PROTOCOL) matrix.add(PROTOCOL, answer, ...(await faithful(answer)), "as it came");
}
matrix.conclude();
