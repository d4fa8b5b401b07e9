// Asks scripted models through a running gateway with the official clients for Node, streamed and whole.
//
// usage: node gateway.mjs URL

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

import { Matrix } from "./answers.mjs";

const url = process.argv[2].replace(/\/$/, "");
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });

const content = "What is the weather in Paris for 3 days?";
const schema = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};
const messages = [{ role: "user", content }];

const clients = {
  async chat(model, streamed) {
    const tools = [{ type: "function", function: { name: "get_weather", parameters: schema } }];
    const answer = await (streamed
      ? openai.chat.completions.stream({ model, messages, tools }).finalChatCompletion()
      : openai.chat.completions.create({ model, messages, tools }));
    const { message, finish_reason } = answer.choices[0];
    const calls = (message.tool_calls ?? []).map(({ function: { name, arguments: text } }) => [name, JSON.parse(text)]);
    return [calls, finish_reason === "tool_calls"];
  },
  async responses(model, streamed) {
    const asked = { model, input: content, tools: [{ type: "function", name: "get_weather", parameters: schema, strict: false }] };
    const answer = await (streamed ? openai.responses.stream(asked).finalResponse() : openai.responses.create(asked));
    if (answer.status === "failed") throw new Error(answer.error.message);
    const calls = answer.output.filter(({ type }) => type === "function_call");
    return [calls.map((call) => [call.name, JSON.parse(call.arguments)]), answer.status === "completed"];
  },
  async messages(model, streamed) {
    const asked = { model, max_tokens: 999, messages, tools: [{ name: "get_weather", input_schema: schema }] };
    const answer = await (streamed ? anthropic.messages.stream(asked).finalMessage() : anthropic.messages.create(asked));
    const calls = answer.content.filter(({ type }) => type === "tool_use");
    return [calls.map(({ name, input }) => [name, input]), answer.stop_reason === "tool_use"];
  },
};

const errors = /^demo\/(status-|error-mid-stream|abrupt-end|cut-call|garbage)/;
const ASIDE = {
  "the client for Python looks at what is no call, or none that may be run":
    /^demo\/(think-tags|reasoning|truncated|empty-arguments|lacking-|unknown-tool)/,
  "slow: the gateway's own tests wait for it": /^demo\/(silence|slow)/,
};

const models = [];
for await (const { id } of openai.models.list()) if (id.startsWith("demo/")) models.push(id);
// The list is what is tried: a short one would try little.
if (models.length < 50) throw new Error(`only ${models.length} models are listed`);
const matrix = new Matrix("node, through the gateway");
for (const id of models) {
  const aside = Object.keys(ASIDE).find((why) => ASIDE[why].test(id));
  for (const [name, ask] of Object.entries(clients)) {
    for (const streamed of [true, false]) {
      const answer = { protocol: `scripted models, ${streamed ? "streamed" : "whole"}`, name: id };
      if (aside) {
        matrix.add(name, answer, aside);
        continue;
      }
      let told;
      try {
        const [[[tool, given] = []], isGood] = await ask(id, streamed);
        told = tool === "get_weather" && given.city === "Paris" && given.days === 3 && isGood ? "call" : JSON.stringify([tool, given, isGood]);
      } catch (error) {
        told = errors.test(id) ? "error" : `${error.constructor.name}: ${error.message}`;
      }
      matrix.add(name, answer, null, told === (errors.test(id) ? "error" : "call") ? [] : [told]);
    }
  }
}
matrix.conclude();
