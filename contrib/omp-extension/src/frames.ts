// The lines of the host link: cutting them out of a byte stream, telling the forms apart, writing them.
// The contract is internal/hostlink/PROTOCOL.md.

/** Longest line that may cross the link, newline not counted. */
export const MAX_FRAME = 32 * 1024 * 1024;

/** So many unreadable lines end a link. */
export const MAX_FAULTS = 16;

const NEWLINE = 0x0a;

/** A line from the other side, told apart by its form. `text` is the line itself, for cutting raw values out. */
export type Frame =
  | { form: "request"; id: number; method: string; params: Params; text: string }
  | { form: "event"; id: number; method: string; params: Params }
  | { form: "answer"; id: number; result?: unknown; error?: LinkError }
  | { form: "notice"; method: string; params: Params };

export type Params = Record<string, unknown>;

export type Executed = "no" | "yes" | "unknown";

/** Why a request failed, as it crosses the link. */
export interface LinkError {
  kind: string;
  message: string;
  executed?: Executed;
}

/** Cuts a byte stream into lines and keeps at most one frame of it. */
export class LineReader {
  #parts: Buffer[] = [];
  #size = 0;
  #skipping = false;

  /** Takes the next bytes; calls back for each whole line, in order. A line that is too long is read over, not kept. */
  push(chunk: Buffer, line: (text: string) => void, tooLong: () => void): void {
    let from = 0;
    for (;;) {
      const at = chunk.indexOf(NEWLINE, from);
      const part = chunk.subarray(from, at < 0 ? chunk.length : at);
      if (!this.#skipping) {
        if (this.#size + part.length > MAX_FRAME) {
          this.#skipping = true;
          this.#parts = [];
          this.#size = 0;
        } else if (part.length > 0) {
          this.#parts.push(part);
          this.#size += part.length;
        }
      }
      if (at < 0) return;
      from = at + 1;
      if (this.#skipping) {
        this.#skipping = false;
        tooLong();
        continue;
      }
      const whole = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts, this.#size);
      this.#parts = [];
      this.#size = 0;
      line(whole.toString("utf8"));
    }
  }
}

/** Reads one line. A string in return says what is wrong with it. */
export function parseFrame(text: string): Frame | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "not JSON";
  }
  if (!isObject(value)) return "not a JSON object";
  const { id, method } = value;
  const params = isObject(value.params) ? value.params : {};
  if (id !== undefined && (!Number.isSafeInteger(id) || (id as number) <= 0)) return "the id is not a positive integer";
  if (method !== undefined && typeof method !== "string") return "the method is not a string";
  const answers = Number("result" in value) + Number("error" in value);
  if (method !== undefined && answers > 0) return "both a method and an answer";
  if (id === undefined) return method === undefined ? "neither id nor method" : { form: "notice", method, params };
  if (method === undefined) {
    if (answers !== 1) return "neither a method nor one answer";
    return { form: "answer", id: id as number, result: value.result, error: readError(value.error) };
  }
  // cancel is the only event that comes from the daemon
  if (method === "cancel") return { form: "event", id: id as number, method, params };
  return { form: "request", id: id as number, method, params, text };
}

function readError(value: unknown): LinkError | undefined {
  if (!isObject(value)) return undefined;
  return { kind: String(value.kind ?? "fault"), message: String(value.message ?? ""), executed: value.executed as Executed | undefined };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * JSON in one line that is valid UTF-8. JSON.stringify writes a lone surrogate as an escape such as \ud800, which many
 * readers refuse: it becomes U+FFFD. Backslashes are taken in pairs, so an escaped backslash before "ud800" stays.
 */
export function toJSON(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  if (!text.includes("\\ud")) return text;
  return text.replace(/\\(ud[89a-f][0-9a-f]{2}|.)/g, (all, escape: string) => (escape.length === 5 ? "\ufffd" : all));
}

/**
 * The bytes of a member, as they stand in the line: rawMember(line, "params", "ref"). The daemon's own references may
 * hold numbers that JavaScript would round. undefined when there is no such member. The text must be valid JSON.
 */
export function rawMember(text: string, ...path: string[]): string | undefined {
  let at = skipSpace(text, 0);
  for (const [depth, want] of path.entries()) {
    if (text[at] !== "{") return undefined;
    at = skipSpace(text, at + 1);
    let found = false;
    while (text[at] === '"') {
      const keyEnd = skipValue(text, at);
      const key: unknown = JSON.parse(text.slice(at, keyEnd));
      at = skipSpace(text, skipSpace(text, keyEnd) + 1); // over the colon
      const end = skipValue(text, at);
      if (key === want) {
        if (depth === path.length - 1) return text.slice(at, end);
        found = true;
        break;
      }
      at = skipSpace(text, end);
      if (text[at] === ",") at = skipSpace(text, at + 1);
    }
    if (!found) return undefined;
  }
  return undefined;
}

function skipSpace(text: string, at: number): number {
  while (text[at] === " " || text[at] === "\t" || text[at] === "\r" || text[at] === "\n") at++;
  return at;
}

/** The index after the JSON value that starts at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0;
  for (; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      for (at++; at < text.length && text[at] !== '"'; at++) if (text[at] === "\\") at++;
      if (depth === 0) return at + 1;
    } else if (c === "{" || c === "[") {
      depth++;
    } else if (c === "}" || c === "]") {
      if (depth === 0) return at; // the value was a bare number or word, and its holder ends here
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (c === "," || c === " " || c === "\t" || c === "\r" || c === "\n")) {
      return at;
    }
  }
  return at;
}
