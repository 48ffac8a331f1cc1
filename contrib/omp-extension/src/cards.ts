// Remote calls on the owner's screen, as tool cards: "laptop ▸ bash  c_7f3kq2". Drawing is a courtesy: whatever goes
// wrong in it, the call goes on.
//
// A card is made by handing omp the events of a tool execution. omp shows them, and writes a line per card into the
// session file, with two consequences that are handled here:
//  - the line keeps the arguments `command` and `path`. They are shown under other names, so no argument is stored;
//  - at the next resume omp reports such lines as tool calls that were cut off, when no answer of the model follows
//    them. Lines whose id is not a string are not counted, so the ids of cards are numbers.
// omp freezes every open card when a turn of its own model begins or ends, and drops what comes for it later. A card that
// may have been frozen is begun again under its id: omp then replaces it, or does nothing if it was open all the time.
//
// Only the terminal gets cards: a program that drives omp over rpc has not asked for calls that are not its own.

import type { CallRequest } from "./calls.ts";

/** The card shows the beginning of long arguments and the end of long output. */
const MAX_ARGUMENT = 300;
const MAX_OUTPUT = 4_000;
/** How long after a turn's beginning or end omp may still freeze cards. */
const SETTLE_MS = 2_000;
/** Partial output is drawn at most this often. */
const REDRAW_MS = 200;

const RENAMED: Record<string, string> = { command: "cmd", path: "file" };

export interface Card {
  update(text: string): void;
  end(text: string, isError: boolean): void;
}

export interface CardDrawer {
  begin(call: CallRequest): Card | undefined;
}

/** Hands an event to omp. */
export type Emit = (event: object) => void;

export class Cards implements CardDrawer {
  #emit: () => Emit | undefined;
  #log: (text: string) => void;
  #next = 1;
  #boundaryAt = Number.NEGATIVE_INFINITY;

  constructor(emit: () => Emit | undefined, log: (text: string) => void) {
    this.#emit = emit;
    this.#log = log;
  }

  /** A turn of the model begins or ends, or the screen is built anew. */
  boundary(): void {
    this.#boundaryAt = performance.now();
  }

  begin(call: CallRequest): Card | undefined {
    const emit = this.#emit();
    if (!emit) return undefined;
    const toolCallId = this.#next++;
    const toolName = cardTitle(call);
    const args = shownArguments(call.args);
    const began = performance.now();
    let startedAt = began;
    let drawnAt = 0;
    let ended = false;
    const draw = (event: object): void => {
      try {
        emit({ toolCallId, toolName, args, ...event });
      } catch (error) {
        ended = true; // one failure is enough
        this.#log(`cannot draw the card of ${call.callId}: ${String(error)}`);
      }
    };
    const thaw = (): void => {
      if (this.#boundaryAt < startedAt - SETTLE_MS) return;
      startedAt = performance.now();
      draw({ type: "tool_execution_start" });
    };
    draw({ type: "tool_execution_start" });
    return {
      update: (text) => {
        const now = performance.now();
        if (ended || now - drawnAt < REDRAW_MS) return;
        drawnAt = now;
        if (now - this.#boundaryAt > SETTLE_MS && now - startedAt > SETTLE_MS) thaw();
        draw({ type: "tool_execution_update", partialResult: content(text) });
      },
      end: (text, isError) => {
        if (ended) return;
        ended = true;
        thaw();
        const line = endLine(performance.now() - began, call.waitedMs);
        draw({ type: "tool_execution_end", result: content(`${line}\n${clip(text)}`), isError });
      },
    };
  }
}

/** "laptop ▸ bash  c_7f3kq2" */
export function cardTitle(call: CallRequest): string {
  return `${plain(call.peer) || "remote"} ▸ ${plain(call.tool)}  ${plain(call.callId)}`;
}

/** "0.2 s", or "0.2 s, waited 6 s for omp, ran once" for a call that sat in the queue: rounded, as everywhere. */
export function endLine(ranMs: number, waitedMs: number): string {
  const ran = `${(ranMs / 1000).toFixed(1)} s`;
  return waitedMs >= 1000 ? `${ran}, waited ${Math.round(waitedMs / 1000)} s for omp, ran once` : ran;
}

export function shownArguments(args: Record<string, unknown>): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(args)) {
    shown[RENAMED[key] ?? key] = typeof value === "string" && value.length > MAX_ARGUMENT ? `${value.slice(0, MAX_ARGUMENT)}…` : value;
  }
  return shown;
}

function content(text: string): object {
  return { content: [{ type: "text", text }] };
}

function clip(text: string): string {
  return text.length > MAX_OUTPUT ? `…${text.slice(-MAX_OUTPUT)}` : text;
}

/** Without control and direction characters: names come from elsewhere. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "");
}
