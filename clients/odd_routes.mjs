// Routes that few clients take, with the AI SDK and OpenAI's client for Node: embeddings, names of models with a slash in
// paths, Azure's paths, functions of old. A scripted model answers, or a server of this script.
//
// usage: node odd_routes.mjs URL PORT: the gateway's upstream `far` (Chat) is at that port of this machine

import { createServer } from "node:http";
import { isDeepStrictEqual } from "node:util";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, embedMany, generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI, { AzureOpenAI } from "openai";

import { Matrix } from "./answers.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const [url, port] = [process.argv[2].replace(/\/$/, ""), Number(process.argv[3])];
const of = (path) => ({ baseURL: url + path, apiKey: "none" });
const TEXTS = ["one", "three"];
const MODEL = "demo/hermes";
const content = "What is the weather in Paris for 3 days?";
const schema = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};
const RIGHT = ["get_weather", { city: "Paris", days: 3 }];

/** As precise as four bytes are, so that every encoding of it is exact. */
const vector = (text) => [text.length, 0.5, -1.25];
const packed = (numbers) => Buffer.from(new Float32Array(numbers).buffer).toString("base64");

const server = createServer(async (request, response) => {
  const asked = JSON.parse(Buffer.concat(await request.toArray()).toString());
  const data = [asked.input].flat().map((text, index) => {
    const embedding = asked.encoding_format === "base64" ? packed(vector(text)) : vector(text);
    return { object: "embedding", index, embedding };
  });
  const usage = { prompt_tokens: 3, total_tokens: 3 };
  response.writeHead(request.url === "/v1/embeddings" ? 200 : 404, { "content-type": "application/json" });
  response.end(JSON.stringify({ object: "list", model: asked.model, data, usage }));
});
await new Promise((ready) => server.listen(port, "127.0.0.1", ready));

function same(said, wanted) {
  if (!isDeepStrictEqual(said, wanted)) throw new Error(`${JSON.stringify(said)}, and not ${JSON.stringify(wanted)}`);
}

const embeds = (model) => async () => {
  same((await embed({ model, value: TEXTS[0], maxRetries: 0 })).embedding, vector(TEXTS[0]));
  same((await embedMany({ model, values: TEXTS, maxRetries: 0 })).embeddings, TEXTS.map(vector));
};

const calls = (model) => async () => {
  const tools = { get_weather: tool({ inputSchema: jsonSchema(schema) }) };
  const asked = { model, prompt: content, tools, maxRetries: 0 };
  let failure;
  const streamed = streamText({ ...asked, onError: ({ error }) => (failure = error) });
  await streamed.consumeStream();
  if (failure) throw failure;
  for (const done of [await generateText(asked), streamed]) {
    same((await done.toolCalls).map(({ toolName, input }) => [toolName, input]), [RIGHT]);
  }
};

const chat = (client) => async () => {
  const tools = [{ type: "function", function: { name: "get_weather", parameters: schema } }];
  const asked = { model: MODEL, messages: [{ role: "user", content }], tools };
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  for (const answer of [await client.chat.completions.create(asked), streamed]) {
    const call = answer.choices[0].message.tool_calls[0].function;
    same([call.name, JSON.parse(call.arguments)], RIGHT);
  }
};

const functions = (client) => async () => {
  const asked = { model: MODEL, messages: [{ role: "user", content }], functions: [{ name: "get_weather", parameters: schema }] };
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  for (const answer of [await client.chat.completions.create(asked), streamed]) {
    const [{ message, finish_reason }] = answer.choices;
    same([message.function_call.name, JSON.parse(message.function_call.arguments)], RIGHT);
    same(finish_reason, "function_call");
  }
};

const vectors = (client) => async () => {
  const answer = await client.embeddings.create({ model: "far/e", input: TEXTS });
  same(answer.data.map(({ embedding }) => embedding), TEXTS.map(vector));
};

const openai = new OpenAI({ ...of("/v1"), maxRetries: 0 });
const azure = new AzureOpenAI({ endpoint: url, apiKey: "none", apiVersion: "2024-10-21", maxRetries: 0 });
const google = createGoogleGenerativeAI(of("/v1beta"));
const compatible = createOpenAICompatible({ name: "callweave", ...of("/v1beta/openai") });
const CASES = [
  ["ai, openai", "embeddings", embeds(createOpenAI(of("/v1")).textEmbeddingModel("far/e"))],
  ["ai, google", "embeddings", embeds(google.textEmbeddingModel("far/e"))],
  ["ai, compatible", "embeddings, /v1beta/openai", embeds(compatible.textEmbeddingModel("far/e"))],
  ["ai, compatible", "calls, /v1beta/openai", calls(compatible(MODEL))],
  ["ai, google", "a name with a slash", calls(google(MODEL))],
  ["ai, google", "a name with a slash behind models", calls(google(`models/${MODEL}`))],
  ["ai, anthropic", "calls, /anthropic/v1", calls(createAnthropic(of("/anthropic/v1"))(MODEL))],
  ["AzureOpenAI", "chat", chat(azure)],
  ["AzureOpenAI", "functions", functions(azure)],
  ["AzureOpenAI", "embeddings", vectors(azure)],
  ["OpenAI", "functions", functions(openai)],
  ["OpenAI", "embeddings", vectors(openai)],
];

const matrix = new Matrix("node, odd routes");
for (const [client, name, ask] of CASES) {
  const faults = [];
  try {
    await ask();
  } catch (error) {
    faults.push(`${error?.constructor?.name}: ${error?.message}`);
  }
  matrix.add(client, { protocol: "odd routes", name }, null, faults);
}
matrix.conclude();
