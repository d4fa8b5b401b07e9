// Calls that stay invalid, with the official clients for Node and the AI SDK, streamed and whole: nobody breaks on the mark,
// the client has the call as the model made it, and the mark is where the manual says. And reasoning, with the AI SDK.
//
// usage: node invalid_calls.mjs URL

import { isDeepStrictEqual } from "node:util";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

import { Matrix } from "./answers.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const url = process.argv[2].replace(/\/$/, "");
const content = "What is the weather in Paris for 3 days?";
const messages = [{ role: "user", content }];
const schema = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};

// The last response, as it came.
const seen = {};
async function recorded(...asked) {
  const response = await fetch(...asked);
  seen.headers = response.headers;
  seen.text = response.clone().text();
  return response;
}

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, fetch: recorded });
const anthropic = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0, fetch: recorded });
const of = (path) => ({ baseURL: url + path, apiKey: "none", fetch: recorded });
const PROVIDERS = {
  chat: (model) => createOpenAI(of("/v1")).chat(model),
  responses: (model) => createOpenAI(of("/v1")).responses(model),
  messages: createAnthropic(of("/v1")),
  gemini: (model) => createGoogleGenerativeAI(of("/v1beta"))(`models/${model}`),
  compatible: createOpenAICompatible({ name: "callweave", ...of("/v1") }),
};

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** What the AI SDK makes of a model. */
async function sdk(protocol, model, streamed, messages = [{ role: "user", content }]) {
  const get_weather = tool({ inputSchema: z.object({ city: z.string(), days: z.number().int() }) });
  const asked = { model: PROVIDERS[protocol](model), messages, tools: { get_weather }, maxRetries: 0 };
  let failure;
  const done = streamed ? streamText({ ...asked, onError: ({ error }) => (failure = error) }) : await generateText(asked);
  if (streamed) await done.consumeStream();
  if (failure) throw failure;
  return done;
}

const CLIENTS = {
  async "openai, chat"(model, streamed) {
    const tools = [{ type: "function", function: { name: "get_weather", parameters: schema } }];
    const asked = { model, messages, tools };
    const answer = await (streamed
      ? openai.chat.completions.stream(asked).finalChatCompletion()
      : openai.chat.completions.create(asked));
    const { message, finish_reason } = answer.choices[0];
    const calls = message.tool_calls.map(({ function: { name, arguments: text } }) => [name, parsed(text)]);
    return [calls, finish_reason === "tool_calls"];
  },
  async "openai, responses"(model, streamed) {
    const tools = [{ type: "function", name: "get_weather", parameters: schema, strict: false }];
    const asked = { model, input: content, tools };
    const answer = await (streamed ? openai.responses.stream(asked).finalResponse() : openai.responses.create(asked));
    const calls = answer.output.filter(({ type }) => type === "function_call");
    return [calls.map((call) => [call.name, parsed(call.arguments)]), answer.status === "completed"];
  },
  async "anthropic, messages"(model, streamed) {
    const asked = { model, max_tokens: 999, messages, tools: [{ name: "get_weather", input_schema: schema }] };
    const answer = await (streamed ? anthropic.messages.stream(asked).finalMessage() : anthropic.messages.create(asked));
    const calls = answer.content.filter(({ type }) => type === "tool_use");
    return [calls.map(({ name, input }) => [name, input]), answer.stop_reason === "tool_use"];
  },
};
for (const protocol of Object.keys(PROVIDERS)) {
  CLIENTS[`ai, ${protocol}`] = async (model, streamed) => {
    const done = await sdk(protocol, model, streamed);
    const calls = await done.toolCalls;
    if (!calls.every(({ invalid }) => invalid)) throw new Error(`taken for valid: ${JSON.stringify(calls)}`);
    return [calls.map(({ toolName, input }) => [toolName, input]), (await done.finishReason) === "tool-calls"];
  };
}

// What comes of the call of each model: its name, its arguments, and why it cannot be run; without a reason, its end says it.
const PIECE = '{"city":"Paris","days":';
const MODELS = {
  "lacking-arguments": ["get_weather", {}, "do not fit its schema"],
  "empty-arguments": ["get_weather", {}, "do not fit its schema"],
  "unknown-tool": ["get_weather_of_mine", { city: "Paris", days: 3 }, "was not declared"],
  truncated: ["get_weather", PIECE],
};

const matrix = new Matrix("node, through the gateway");
for (const [client, ask] of Object.entries(CLIENTS)) {
  for (const [name, [wantedTool, wanted, why]] of Object.entries(MODELS)) {
    for (const streamed of [true, false]) {
      const answer = { protocol: `invalid calls, ${streamed ? "streamed" : "whole"}`, name };
      const faults = [];
      try {
        const [calls, isGood] = await ask(`demo/${name}`, streamed);
        const given = calls.map(([tool, input]) => [tool, input?.INVALID_JSON ?? input]);
        // Anthropic's client reads a truncated stream as far as its text goes; Gemini's call says that its rest is to come, and
        // the AI SDK waits for it.
        const read = { "anthropic, messages": [[wantedTool, { city: "Paris" }]], "ai, gemini": [] }[client];
        const wantedCalls = (streamed && !why && read) || [[wantedTool, wanted]];
        if (!isDeepStrictEqual(given, wantedCalls) || isGood === !why) faults.push(`${JSON.stringify(calls)}, good end: ${isGood}`);
        const count = Number(seen.headers.get("x-callweave-invalid-calls"));
        if (count !== (streamed || !why ? 0 : 1)) faults.push(`x-callweave-invalid-calls: ${count}`);
        const comments = (await seen.text).split("\n").filter((line) => line.startsWith(":"));
        const isMarked = comments.map((line) => line.startsWith(": callweave: the call ") && line.includes(why));
        const isWanted = why && streamed && !client.endsWith("gemini");
        if (!isDeepStrictEqual(isMarked, isWanted ? [true] : [])) faults.push(`comments: ${JSON.stringify(comments)}`);
      } catch (error) {
        faults.push(`${error?.constructor?.name}: ${error?.message}`);
      }
      matrix.add(client, answer, null, faults);
    }
  }
}

for (const protocol of Object.keys(PROVIDERS)) {
  for (const streamed of [true, false]) {
    const answer = { protocol: `reasoning, ${streamed ? "streamed" : "whole"}`, name: "reasoning" };
    const faults = [];
    try {
      // What the SDK makes of the first response goes back in the second request.
      const first = await sdk(protocol, "demo/reasoning", streamed);
      const next = { role: "user", content: "And then?" };
      const second = await sdk(protocol, "demo/reasoning", streamed, [...messages, ...(await first.response).messages, next]);
      for (const [done, asked] of [[first, content], [second, next.content]]) {
        const [thought, text, [part]] = [await done.reasoningText, await done.text, await done.reasoning];
        // In Chat only its provider for others than OpenAI looks for reasoning.
        const wanted = protocol === "chat" ? undefined : "I need no tool for that.";
        if (thought !== wanted || text !== `You said: ${asked}`) faults.push(JSON.stringify([thought, text]));
        const place = { responses: "openai", messages: "anthropic" }[protocol];
        const own = { openai: "itemId", anthropic: "signature" }[place];
        if (place && typeof part.providerMetadata?.[place]?.[own] !== "string") faults.push(`no ${own}: ${JSON.stringify(part)}`);
      }
    } catch (error) {
      faults.push(`${error?.constructor?.name}: ${error?.message}`);
    }
    matrix.add(`ai, ${protocol}`, answer, null, faults);
  }
}
matrix.conclude();
