// A tool's result as the MCP CallToolResult that crosses the link.

import { MAX_FRAME, isObject, toJSON, type LinkError } from "./frames.ts";

/** Room in a frame for the id and the member's name. */
const FRAME_MARGIN = 64;

export interface ToolResult {
  content?: unknown;
  isError?: boolean;
}

export type Block = { type: "text"; text: string } | { type: "image"; data: string; mimeType: string };

export interface CallToolResult {
  content: Block[];
  isError?: true;
}

/** Text and images pass; a block of any other kind becomes text. Details for the host's own screen stay here. */
export function toCallToolResult(result: ToolResult | undefined): CallToolResult {
  const content = Array.isArray(result?.content) ? result.content.map(toBlock) : [];
  return result?.isError === true ? { content, isError: true } : { content };
}

/** A thrown error is an answer of the tool, in the host's words. */
export function thrownResult(text: string): CallToolResult {
  return { content: [{ type: "text", text }], isError: true };
}

function toBlock(block: unknown): Block {
  if (isObject(block)) {
    if (block.type === "text" && typeof block.text === "string") return { type: "text", text: block.text };
    if (block.type === "image" && typeof block.data === "string" && typeof block.mimeType === "string")
      return { type: "image", data: block.data, mimeType: block.mimeType };
  }
  return { type: "text", text: typeof block === "string" ? block : toJSON(block) };
}

/** The text of a result or of a partial one, for progress and for the card. */
export function textOf(result: ToolResult | undefined): string {
  if (!Array.isArray(result?.content)) return "";
  return result.content
    .filter((b): b is { text: string } => isObject(b) && b.type === "text" && typeof b.text === "string")
    .map((b) => b.text)
    .join("\n");
}

/** The answer's body for the wire. A result that fits no frame becomes an error that says so: the tool did run. */
export function resultBody(result: CallToolResult): { body: string; bytes: number; tooLarge: boolean } {
  const body = `"result":${toJSON(result)}`;
  const bytes = Buffer.byteLength(body);
  if (bytes + FRAME_MARGIN <= MAX_FRAME) return { body, bytes, tooLarge: false };
  const message = `the tool ran, but its result of ${mebibytes(bytes)} is over the limit of ${mebibytes(MAX_FRAME)}`;
  return { ...errorBody({ kind: "resultTooLarge", message, executed: "yes" }), tooLarge: true };
}

export function errorBody(error: LinkError): { body: string; bytes: number } {
  const body = `"error":${toJSON(error)}`;
  return { body, bytes: Buffer.byteLength(body) };
}

function mebibytes(bytes: number): string {
  return `${(bytes / (1024 * 1024)).toFixed(1)} MiB`;
}
