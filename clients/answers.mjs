// What the scripts for Node share, as answers.py does for Python: the answers that are played, what callweave makes of
// them, and the matrix of what came of it.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";

const PROTOCOLS = new Set([
  "anthropic-messages",
  "bedrock-converse",
  "bedrock-invoke",
  "codex-appserver-v2",
  "cohere-v2",
  "gemini-generatecontent",
  "gemini-interactions",
  "ollama",
  "openai-chat",
  "openai-responses",
]);

/** The answers in the folders: our own cases, and recordings where there is an index. */
function answers(folders) {
  const all = [];
  for (const folder of folders) {
    const index = join(folder, "INDEX.jsonl");
    if (existsSync(index)) {
      for (const line of readFileSync(index, "utf8").split("\n").filter(Boolean)) {
        const row = JSON.parse(line);
        const protocol = row.protocol === "mistral-chat" ? "openai-chat" : row.protocol;
        all.push({ protocol, name: basename(row.file), path: join(folder, row.file) });
      }
      continue;
    }
    for (const protocol of readdirSync(folder)) {
      for (const name of readdirSync(join(folder, protocol))) {
        const input = readdirSync(join(folder, protocol, name)).find((file) => file.startsWith("input."));
        if (input) all.push({ protocol, name, path: join(folder, protocol, name, input) });
      }
    }
  }
  return all.filter((answer) => PROTOCOLS.has(answer.protocol));
}

function run(program, command, requests) {
  const input = requests.map((request) => JSON.stringify(request) + "\n").join("");
  const { stdout } = spawnSync(program, [command, "--jsonl", "-"], { input, maxBuffer: 1 << 30 });
  return stdout.toString().split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

/** What the program makes of the answers, asked at once: each with its message and a function for what is written. */
export function played(program, folders, targets) {
  const all = answers(folders);
  // As the wire has it: `convert` does not look for calls in text unless it is told to.
  const rowsToDecode = all.map(({ protocol, path }) => ({ protocol, file: path, dialect: "none" }));
  const messages = run(program, "decode", rowsToDecode);
  const rows = all.flatMap((answer) =>
    targets.flatMap((to) =>
      ["stream", "whole"].flatMap((form) =>
        ["mended", "faithful"]
          .filter((mode) => mode === "mended" || answer.protocol === to)
          .map((mode) => ({ answer, to, form, mode })),
      ),
    ),
  );
  const requests = rows.map(({ answer, to, form, mode }) => ({
    from: answer.protocol,
    to,
    file: answer.path,
    stream: form === "stream",
    mend: mode === "mended",
  }));
  const written = new Map();
  run(program, "convert", requests).forEach(({ data }, at) => {
    const { answer, to, form, mode } = rows[at];
    written.set([answer.path, to, form, mode].join(" "), data ?? "");
  });
  return all.map((answer, at) => ({
    ...answer,
    message: messages[at],
    convert: (to, form, mode = "mended") => written.get([answer.path, to, form, mode].join(" ")),
  }));
}

/** Whether it is one answer: clients read one at a time. */
export function isSingle(answer, to) {
  const whole = answer.convert(to, "whole").trim();
  // Clients raise where an answer was cut off.
  const isCut = [whole, answer.convert(to, "stream")].some((text) => text.includes("the response was cut off"));
  return whole !== "" && !whole.includes("\n") && !isCut;
}

/** A fetch that answers with what is being played. */
export function replay() {
  const playing = { body: "", type: "", status: 200 };
  playing.fetch = async () =>
    new Response(playing.body, { status: playing.status, headers: { "content-type": playing.type } });
  return playing;
}

/** The form and the bytes of a recording, as the wire would have them; none of what is neither a stream of events nor a
 * whole body. */
export function original({ path }) {
  const form = { ".sse": "stream", ".json": "whole" }[extname(path)];
  return [form, form && readFileSync(path, "utf8")];
}

/** What the client reads, or the words in which it gives up. */
export async function attempt(read) {
  try {
    return await read();
  } catch (error) {
    return `${error?.constructor?.name}: ${error?.message}`;
  }
}

/** The value without members that say nothing, in an order of its own. */
export function filled(value) {
  if (Array.isArray(value)) return value.map(filled);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).map(([key, member]) => [key, filled(member)]);
  const says = ([, member]) =>
    !(member === null || member === undefined || member === "" || member.length === 0 || isDeepStrictEqual(member, {}));
  return Object.fromEntries(members.filter(says).sort());
}

export function parsed(text) {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return text;
  }
}

// What a stream has told cannot be taken back.
const CORRECTED = new Set(["closing-restatements-differ-from-deltas", "arguments-placeholder-then-real", "id-comes-late"]);

/** The calls that clients can run; what they are called and what they are given. */
export function callsOf(message) {
  const own = message.tool_calls.filter((call) => call.kind !== "builtin");
  return own.map(({ name, kind, arguments: text }) => [name, kind === "custom" ? { input: text } : parsed(text)]);
}

export function isTruncated(message) {
  return (message.notices ?? []).some(({ code }) => code === "truncated");
}

/** Whether how calls are told is for the laws; here what clients can use. */
export function isOdd(message) {
  return message.tool_calls.some((call) => call.kind !== "builtin" && call.invalid);
}

/** In what the client's message differs from ours: text, calls, why it finished, tokens. */
export function misread({ message, name }, form, { text, calls, reasons, usage }) {
  if (form === "stream" && CORRECTED.has(name)) return [];
  const faults = [];
  const differ = (what, theirs, ours) => {
    if (!isDeepStrictEqual(filled(theirs), filled(ours))) {
      faults.push(`mended ${form}: ${what} ${JSON.stringify(theirs)}, ours ${JSON.stringify(ours)}`);
    }
  };
  differ("text", [text], [(message.content ?? "") + (message.refusal ?? "")]);
  // An answer without end may not be counted.
  if (usage && !isTruncated(message)) differ("usage", usage, [message.usage?.input_tokens ?? 0, message.usage?.output_tokens ?? 0]);
  if (calls && !isOdd(message)) {
    differ("calls", calls, callsOf(message));
    // Of a call that was answered clients see the call alone, and of what was cut off that it was.
    if (reasons.includes("tool_calls") && message.blocks.some(({ kind }) => kind === "tool_result")) return faults;
    if (isTruncated(message)) return faults;
    if (!reasons.includes(message.finish_reason)) differ("finish", reasons, [message.finish_reason]);
  }
  return faults;
}

// Why nothing is compared.
export const NOT_SINGLE = "no answer, several, or one that was cut off: clients read one at a time, and raise";
export const UNREADABLE = "the client cannot read the original";

/** What came of each client: passed, skipped for a reason, failed. */
export class Matrix {
  constructor(title) {
    this.title = title;
    this.rows = new Map();
    this.reasons = new Map();
  }

  add(client, answer, whySkipped, faults = [], group = answer.protocol) {
    const key = `${client} | ${group}`;
    const row = this.rows.get(key) ?? { passed: 0, skipped: 0, failed: 0 };
    const outcome = faults.length ? "failed" : whySkipped ? "skipped" : "passed";
    row[outcome] += 1;
    this.rows.set(key, row);
    const reason = [client, whySkipped].join("\n");
    if (outcome === "skipped") this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
    for (const fault of faults) console.log(`${answer.protocol}/${answer.name} as ${client}: ${fault.slice(0, 2000)}`);
  }

  conclude() {
    const sums = { passed: 0, failed: 0 };
    for (const [key, { passed, skipped, failed }] of [...this.rows].sort()) {
      console.log(`matrix: ${this.title} | ${key} | ${passed} | ${skipped} | ${failed}`);
      sums.passed += passed;
      sums.failed += failed;
    }
    for (const [reason, count] of [...this.reasons].sort()) {
      const [client, why] = reason.split("\n");
      console.log(`skipped: ${this.title}, ${client}: ${count}, ${why}`);
    }
    process.exit(sums.failed || !sums.passed ? 1 : 0);
  }
}
