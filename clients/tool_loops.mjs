// Tool loops of the AI SDK through a running gateway, against scripted models: two rounds, parallel calls, streamed and
// whole, with each of its providers. Every call must reach its tool with its arguments, and the last words must hold the
// results.
//
// usage: node tool_loops.mjs URL

import { isDeepStrictEqual } from "node:util";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { Matrix } from "./answers.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const url = process.argv[2].replace(/\/$/, "");
const of = (path) => ({ baseURL: url + path, apiKey: "none" });
const PROVIDERS = {
  chat: (model) => createOpenAI(of("/v1")).chat(model),
  responses: (model) => createOpenAI(of("/v1")).responses(model),
  messages: createAnthropic(of("/v1")),
  // A name with a slash is a path for it.
  gemini: (model) => createGoogleGenerativeAI(of("/v1beta"))(`models/${model}`),
  compatible: createOpenAICompatible({ name: "callweave", ...of("/v1") }),
};
// The same models and rounds as tool_loops.py has.
const MODELS = ["hermes", "qwen3-coder", "openai-chat", "openai-responses", "anthropic", "gemini", "parallel", "interleaved"];
const GIVEN = [[1, 20], [300, 4000], [50000, 600000], [7000000, 80000000]];

const matrix = new Matrix("node, tool loops of the AI SDK");
for (const [protocol, make] of Object.entries(PROVIDERS)) {
  for (const name of MODELS) {
    for (const streamed of [true, false]) {
      const given = ["parallel", "interleaved"].includes(name) ? GIVEN : GIVEN.slice(0, 2);
      const lines = given.map(([a, b]) => `call add {"a": ${a}, "b": ${b}}`);
      const calls = [];
      const add = tool({
        description: "The sum of two numbers.",
        inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
        execute: async ({ a, b }) => {
          calls.push([a, b]);
          return `sum=${a + b}`;
        },
      });
      const model = make(`demo/${name}`);
      const asked = { model, prompt: ["Add them.", ...lines].join("\n"), tools: { add }, stopWhen: stepCountIs(6), maxRetries: 0 };
      const answer = { protocol: `${protocol}, ${streamed ? "streamed" : "whole"}`, name };
      const faults = [];
      try {
        let failure;
        const done = streamed ? streamText({ ...asked, onError: ({ error }) => (failure = error) }) : await generateText(asked);
        if (streamed) await done.consumeStream();
        if (failure) throw failure;
        const said = await done.text;
        const [a, b] = given.at(-1);
        if (!isDeepStrictEqual(calls, given)) faults.push(`the tool was given ${JSON.stringify(calls)}`);
        else if (!said.includes(`sum=${a + b}`)) faults.push(`the last words are ${JSON.stringify(said)}`);
      } catch (error) {
        faults.push(`${error?.constructor?.name}: ${error?.message}, after ${JSON.stringify(calls)}`);
      }
      matrix.add("ai", answer, null, faults);
    }
  }
}
matrix.conclude();
