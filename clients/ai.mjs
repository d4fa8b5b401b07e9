// Plays what callweave writes to the AI SDK through its providers for OpenAI (chat and Responses), Anthropic and Google,
// which hold every chunk to a schema: what the SDK makes of it is what callweave has.
//
// usage: node ai.mjs CALLWEAVE DATA...

import { isDeepStrictEqual } from "node:util";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, streamText, tool } from "ai";

import {
  Matrix,
  NOT_SINGLE,
  UNREADABLE,
  attempt,
  callsOf,
  isOdd,
  isSingle,
  isTruncated,
  misread,
  original,
  played,
  replay,
} from "./answers.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const playing = replay();
const options = { apiKey: "none", fetch: playing.fetch };
const MODELS = {
  "openai-chat": createOpenAI(options).chat("m"),
  "openai-responses": createOpenAI(options).responses("m"),
  "anthropic-messages": createAnthropic(options)("m"),
  "gemini-generatecontent": createGoogleGenerativeAI(options)("m"),
};

// Our reasons to finish that the SDK's stand for.
const REASONS = {
  stop: ["stop", "tool_calls"],
  length: ["length", "other", "error"],
  "content-filter": ["content_filter"],
  "tool-calls": ["tool_calls"],
  error: ["error", "other", "length", "stop", "tool_calls"],
  other: ["other", "error"],
  unknown: ["other", "error"],
};

/** Tools of these names, whatever they are given. */
function toolsOf(message) {
  const anything = jsonSchema({ type: "object", additionalProperties: true });
  return Object.fromEntries(callsOf(message).map(([name]) => [name, tool({ inputSchema: anything })]));
}

async function streamed(asked) {
  const result = streamText({ ...asked, onError() {} });
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error instanceof Error ? part.error : new Error(JSON.stringify(part.error));
  }
  return { text: await result.text, toolCalls: await result.toolCalls, finishReason: await result.finishReason, usage: await result.usage };
}

function isCustom(message, name) {
  return message.tool_calls.some((call) => call.kind === "custom" && call.name === name);
}

/** What the SDK makes of a body, or the words in which it gives up. */
async function read(model, message, form, body, status = 200) {
  Object.assign(playing, { body, status, type: form === "stream" ? "text/event-stream" : "application/json" });
  const asked = { model, prompt: "?", tools: toolsOf(message), maxRetries: 0 };
  return attempt(async () => {
    const { text, toolCalls, finishReason, usage } = await (form === "stream" ? streamed(asked) : generateText(asked));
    const calls = toolCalls.filter(({ providerExecuted }) => !providerExecuted);
    return {
      text,
      // Free text is told as the one member of an object elsewhere.
      calls: calls.map(({ toolName, input }) => [toolName, typeof input === "string" && isCustom(message, toolName) ? { input } : input]),
      reasons: REASONS[finishReason] ?? [],
      usage: [usage.inputTokens ?? 0, usage.outputTokens ?? 0],
    };
  });
}

// Items of OpenAI Responses that every model may send.
const PLAIN = new Set(["message", "reasoning", "function_call", "custom_tool_call"]);
const HOSTED = "the SDK's schemas want more of the provider's own tools when a call begins than is known then";

/** In its own protocol the SDK has of ours what it has of the original, or, where the original is odd, what we have. */
async function ofItsOwn(answer, protocol, model) {
  const [form, body] = original(answer);
  const isHosted = (answer.message.items ?? []).some(({ wire_type: type }) => !PLAIN.has(type));
  if (!form) return isHosted ? [HOSTED, []] : across(answer, protocol, model);
  const theirs = await read(model, answer.message, form, body);
  const ours = await read(model, answer.message, form, answer.convert(protocol, form));
  const isError = typeof theirs === "string" && (answer.message.errors ?? []).length === 0;
  if (!isError && isDeepStrictEqual(theirs, ours)) return [null, []];
  if (isHosted) return [HOSTED, []];
  if (isError && typeof ours === "string") return [UNREADABLE, []];
  return across(answer, protocol, model);
}

async function across(answer, protocol, model) {
  const { message } = answer;
  const hasFailed = (message.errors ?? []).length > 0;
  const hasCustom = message.tool_calls.some(({ kind }) => kind === "custom");
  if ((message.choices ?? []).length > 1) return ["the SDK takes all choices for one", []];
  if (hasCustom && protocol === "openai-chat") return ["the SDK knows no custom calls in chat", []];
  const faults = [];
  for (const form of ["stream", "whole"]) {
    const theirs = await read(model, message, form, answer.convert(protocol, form), hasFailed && form === "whole" ? 500 : 200);
    if (typeof theirs === "string") {
      if (!hasFailed && !gaveUp(message, theirs)) faults.push(`mended ${form}: ${theirs}`);
    } else if (!hasFailed) {
      // What is refused was filtered.
      if (message.refusal) theirs.reasons = [...theirs.reasons, "stop"];
      faults.push(...misread(answer, form, theirs));
    } else if (!theirs.reasons.includes("error")) {
      faults.push(`mended ${form}: a failure that does not show: ${JSON.stringify(theirs)}`);
    }
  }
  return [null, faults];
}

/** Whether the SDK gives up where the answer was cut off or has failed, or on calls that are none. */
function gaveUp(message, words) {
  return isTruncated(message) || message.finish_reason === "error" || isOdd(message) || words.includes("NoOutputGenerated");
}

const [program, ...folders] = process.argv.slice(2);
const matrix = new Matrix("node ai");
const answers = played(program, folders, Object.keys(MODELS));
for (const [protocol, model] of Object.entries(MODELS)) {
  for (const answer of answers) {
    if (!isSingle(answer, protocol)) matrix.add(protocol, answer, NOT_SINGLE);
    else {
      const check = answer.protocol === protocol ? ofItsOwn : across;
      matrix.add(protocol, answer, ...(await check(answer, protocol, model)));
    }
  }
}
matrix.conclude();
