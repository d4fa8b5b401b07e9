// Plays what callweave writes as chat and as Responses to OpenAI's client for Node: its stream helpers and its whole
// answers have the text, the calls, the reason to finish and the token counts that callweave has.
//
// usage: node openai.mjs CALLWEAVE DATA...

import OpenAI from "openai";

import { Matrix, NOT_SINGLE, attempt, isSingle, misread, parsed, played, replay } from "./answers.mjs";

const playing = replay();
const client = new OpenAI({ apiKey: "none", maxRetries: 0, fetch: playing.fetch });
const asked = { model: "m", messages: [{ role: "user", content: "?" }] };

const KINDS = [
  {
    protocol: "openai-chat",
    read: {
      stream: () => client.chat.completions.stream(asked).finalChatCompletion(),
      whole: () => client.chat.completions.create(asked),
    },
    essence({ choices: [choice], usage }) {
      const { message, finish_reason } = choice ?? { message: {}, finish_reason: "length" };
      const calls = (message.tool_calls ?? []).map(({ custom, function: own }) =>
        custom ? [custom.name, { input: custom.input }] : [own.name, parsed(own.arguments)],
      );
      return {
        text: (message.content ?? "") + (message.refusal ?? ""),
        calls,
        reasons: finish_reason === "length" ? ["length", "error", "other"] : [finish_reason],
        usage: [usage?.prompt_tokens ?? 0, usage?.completion_tokens ?? 0],
      };
    },
    // What it says of answers that stop early.
    givesUp: ["LengthFinishReasonError", "ContentFilterFinishReasonError"],
  },
  {
    protocol: "openai-responses",
    read: {
      stream: () => client.responses.stream({ model: "m", input: "?" }).finalResponse(),
      whole: () => client.responses.create({ model: "m", input: "?" }),
    },
    essence({ output, usage, status, incomplete_details }) {
      const parts = output.filter(({ type }) => type === "message").flatMap(({ content }) => content);
      const calls = output.flatMap((item) => {
        if (item.type === "function_call") return [[item.name, parsed(item.arguments)]];
        return item.type === "custom_tool_call" ? [[item.name, { input: item.input }]] : [];
      });
      const reasons = {
        completed: ["stop", "tool_calls"],
        max_output_tokens: ["length", "other"],
        content_filter: ["content_filter"],
        incomplete: ["other"],
        // What was cut off has failed.
        failed: ["error", "other", "length", "stop", "tool_calls", "content_filter"],
      };
      return {
        text: parts.map(({ text, refusal }) => text ?? refusal ?? "").join(""),
        calls,
        reasons: reasons[incomplete_details?.reason ?? status] ?? [],
        usage: [usage?.input_tokens ?? 0, usage?.output_tokens ?? 0],
      };
    },
    givesUp: [],
  },
];

async function faults(answer, { protocol, read, essence, givesUp }) {
  const all = [];
  const hasFailed = (answer.message.errors ?? []).length > 0;
  for (const form of ["stream", "whole"]) {
    playing.body = answer.convert(protocol, form);
    playing.type = form === "stream" ? "text/event-stream" : "application/json";
    playing.status = hasFailed && form === "whole" ? 500 : 200;
    const theirs = await attempt(read[form]);
    if (typeof theirs === "string") {
      // Some events of its own protocol it does not know, and in streams of chat no custom calls.
      const isOwn = answer.protocol === protocol && theirs.includes("Unhandled response stream event");
      const isCustom = answer.message.tool_calls.some(({ kind }) => kind === "custom") && form === "stream";
      if (isOwn || (isCustom && theirs.includes("function.name"))) continue;
      if (!hasFailed && !givesUp.some((words) => theirs.includes(words))) all.push(`mended ${form}: ${theirs}`);
    } else if (!hasFailed) {
      const told = essence(theirs);
      // Only this protocol has calls of other kinds.
      if (answer.protocol === protocol && protocol === "openai-responses") told.calls = null;
      all.push(...misread(answer, form, told));
    } else if (!essence(theirs).reasons.includes("error")) {
      all.push(`mended ${form}: a failure that does not show: ${JSON.stringify(theirs)}`);
    }
  }
  return all;
}

const [program, ...folders] = process.argv.slice(2);
const matrix = new Matrix("node openai");
const answers = played(program, folders, KINDS.map(({ protocol }) => protocol));
for (const kind of KINDS) {
  for (const answer of answers) {
    if (!isSingle(answer, kind.protocol)) matrix.add(kind.protocol, answer, NOT_SINGLE);
    else matrix.add(kind.protocol, answer, null, await faults(answer, kind));
  }
}
matrix.conclude();
