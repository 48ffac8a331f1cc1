// The calls of the daemon: each is started once, answered once, and its answer kept until the daemon has let go of it.
// Calls do not belong to a link: they go on while there is none and are answered on the next one.

import { Gate, errorText, isAbort, type Passage } from "./approval.ts";
import type { Card, CardDrawer } from "./cards.ts";
import { isObject, toJSON, type LinkError, type Params } from "./frames.ts";
import { Progress } from "./progress.ts";
import { errorBody, resultBody, textOf, thrownResult, toCallToolResult, type ToolResult } from "./results.ts";

/** How long, how much and how many unacknowledged answers are kept; the oldest go first. */
const KEEP_MS = 10 * 60_000;
const KEEP_BYTES = 64 * 1024 * 1024;
const KEEP_COUNT = 2048;
/** What stays of a result that goes before its time: without it the daemon would take the call for one that never arrived. */
const LET_GO = errorBody({ kind: "fault", message: "the tool ran, and its result was let go: too many waited for the bridge", executed: "yes" });
/** Late results that wait for a link. */
const MAX_LATES = 256;
/** setTimeout takes no longer delay. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** A tool that is ready to run with these arguments. */
export interface Ready {
  run(callId: string, signal: AbortSignal, onUpdate: (partial: ToolResult) => void): Promise<ToolResult>;
}

/** Where tools are found. Returns the refusal when the call cannot be run. */
export interface ToolBox {
  prepare(tool: string, args: Record<string, unknown>): Ready | LinkError;
}

/** The link, as far as calls need it. */
export interface Wire {
  readonly up: boolean;
  event(id: number, method: string, params: object): void;
  answer(id: number, body: string): void;
  notify(method: string, params: object): void;
}

export interface CallRequest {
  callId: string;
  tool: string;
  args: Record<string, unknown>;
  peer: string;
  approvalMs: number;
  waitedMs: number;
}

interface Running {
  request: CallRequest;
  ref: string;
  link: number | undefined; // the id on the present link
  abort: AbortController;
  started: boolean; // the tool was given the call, and the gate did not hold it
  passage: Passage | undefined;
  progress: Progress;
  card: Card | undefined;
  approval: NodeJS.Timeout | undefined;
  answered: boolean;
}

interface Kept {
  ref: string;
  body: string;
  bytes: number;
  at: number;
}

export class Calls {
  #wire: Wire;
  #tools: ToolBox;
  #gate: Gate;
  #cards: CardDrawer;
  #unasked: (callId: string, tool: string) => void;
  #log: (text: string) => void;
  #now: () => number;
  #running = new Map<string, Running>();
  #kept = new Map<string, Kept>();
  #keptBytes = 0;
  #byLink = new Map<number, string>();
  #lates: object[] = []; // late results that have no link to be told on

  constructor(parts: { wire: Wire; tools: ToolBox; gate: Gate; cards: CardDrawer; unasked(callId: string, tool: string): void; log(text: string): void; now?(): number }) {
    this.#wire = parts.wire;
    this.#tools = parts.tools;
    this.#gate = parts.gate;
    this.#cards = parts.cards;
    this.#unasked = parts.unasked;
    this.#log = parts.log;
    this.#now = parts.now ?? Date.now;
  }

  get running(): number {
    return this.#running.size;
  }

  /** What hello says about calls: JSON texts, since references cross as they came. */
  inventory(): { running: string; unacked: string } {
    this.sweep();
    const list = (entries: Iterable<[string, { ref: string }]>) =>
      `[${[...entries].map(([id, { ref }]) => `{"callId":${toJSON(id)},"ref":${ref}}`).join(",")}]`;
    return { running: list(this.#running), unacked: list(this.#kept) };
  }

  /** A call of the daemon. */
  begin(id: number, params: Params, ref: string): void {
    this.#wire.event(id, "accepted", {});
    const request = readCall(params);
    if (typeof request === "string") {
      this.#wire.answer(id, errorBody({ kind: "badArguments", message: request, executed: "no" }).body);
      return;
    }
    const known = this.#running.get(request.callId);
    if (known) return this.#rebind(request.callId, known, id);
    const kept = this.#kept.get(request.callId);
    if (kept) return this.#wire.answer(id, kept.body);

    const call: Running = {
      request,
      ref,
      link: id,
      abort: new AbortController(),
      started: false,
      passage: undefined,
      progress: new Progress((text) => this.#event(call, "progress", { text })),
      card: undefined,
      approval: undefined,
      answered: false,
    };
    this.#running.set(request.callId, call);
    this.#byLink.set(id, request.callId);
    this.#run(call).catch((error) => {
      this.#log(`call ${request.callId}: ${errorText(error)}`);
      this.#finish(call, errorBody({ kind: "fault", message: errorText(error), executed: call.started ? "unknown" : "no" }));
    });
  }

  cancel(id: number, _reason: string): void {
    const call = this.#running.get(this.#byLink.get(id) ?? "");
    if (!call) return;
    call.abort.abort();
    call.card?.end("cancelled by the caller", true);
    this.#finish(call, errorBody({ kind: "cancelled", message: "cancelled", executed: call.started ? "unknown" : "no" }));
  }

  ack(callId: string): void {
    this.#forget(callId);
  }

  /** A new link: the daemon says under which id it wants each call; those it does not name are over. */
  resume(resumed: { callId: string; id: number }[]): void {
    const wanted = new Map(resumed.map((r) => [r.callId, r.id]));
    for (const [callId, call] of [...this.#running]) {
      const id = wanted.get(callId);
      if (id === undefined) {
        this.#drop(call);
        continue;
      }
      this.#wire.event(id, "accepted", {});
      this.#rebind(callId, call, id);
    }
    for (const [callId, kept] of [...this.#kept]) {
      const id = wanted.get(callId);
      if (id === undefined) {
        this.#forget(callId);
        continue;
      }
      this.#wire.event(id, "accepted", {});
      this.#wire.answer(id, kept.body);
    }
    for (const late of this.#lates.splice(0)) this.#wire.notify("late", late);
  }

  /** The link is gone: events have nowhere to go until the next one. */
  unbind(): void {
    this.#byLink.clear();
    for (const call of this.#running.values()) call.link = undefined;
  }

  /** Aborts everything: the session is going away. */
  abortAll(): void {
    for (const call of [...this.#running.values()]) this.#drop(call);
  }

  /** Lets answers go that nobody asked for in time, or that are too many. */
  sweep(): void {
    const old = this.#now() - KEEP_MS;
    for (const [callId, kept] of this.#kept) {
      if (kept.at > old && this.#kept.size <= KEEP_COUNT) break; // oldest first
      this.#forget(callId);
    }
    for (const kept of this.#kept.values()) {
      if (this.#keptBytes <= KEEP_BYTES) break;
      if (!kept.body.startsWith('"result"')) continue;
      this.#keptBytes += LET_GO.bytes - kept.bytes;
      Object.assign(kept, LET_GO);
    }
  }

  async #run(call: Running): Promise<void> {
    const { callId, tool, args } = call.request;
    const ready = this.#tools.prepare(tool, args);
    if ("kind" in ready) return this.#finish(call, errorBody(ready));

    const passage = this.#gate.open(callId, {
      pending: () => this.#pending(call),
      resolved: (approved) => this.#resolved(call, approved),
    });
    call.passage = passage;
    call.card = this.#cards.begin(call.request);
    call.started = true;
    try {
      const result = await ready.run(callId, call.abort.signal, (partial) => this.#partial(call, partial));
      if (call.answered) return this.#late(call, result?.isError === true);
      const { body, bytes, tooLarge } = resultBody(toCallToolResult(result));
      if (tooLarge) this.#log(`call ${callId}: its result does not fit into a frame`);
      call.card?.end(textOf(result), result?.isError === true);
      this.#finish(call, { body, bytes });
    } catch (error) {
      const text = errorText(error);
      const refused = passage.refused(error);
      if (call.answered) {
        if (!refused && !isAbort(error)) this.#late(call, true);
        return;
      }
      call.card?.end(text, true);
      this.#finish(call, refused ? errorBody({ kind: "denied", message: text, executed: "no" }) : resultBody(thrownResult(text)));
    } finally {
      this.#gate.close(callId);
    }
  }

  #partial(call: Running, partial: ToolResult): void {
    if (call.answered) return;
    const text = textOf(partial);
    call.progress.snapshot(text);
    call.card?.update(text);
  }

  #pending(call: Running): void {
    if (call.answered) return;
    call.started = false;
    this.#event(call, "approval", { state: "pending" });
    const { approvalMs } = call.request;
    if (approvalMs <= 0) return;
    call.approval = setTimeout(() => {
      call.abort.abort();
      call.card?.end("nobody approved it in time", true);
      const message = `nobody approved ${call.request.tool} in time`;
      this.#finish(call, errorBody({ kind: "notApproved", message, executed: "no" }));
    }, Math.min(approvalMs, MAX_DELAY_MS));
    call.approval.unref();
  }

  #resolved(call: Running, approved: boolean): void {
    clearTimeout(call.approval);
    if (call.answered) return;
    call.started = approved;
    this.#event(call, "approval", { state: approved ? "approved" : "denied" });
  }

  #rebind(callId: string, call: Running, id: number): void {
    if (call.link !== undefined) this.#byLink.delete(call.link);
    call.link = id;
    this.#byLink.set(id, callId);
    // what the last link may not have carried
    const passage = call.passage;
    if (passage?.pending) this.#event(call, "approval", { state: "pending" });
    else if (passage?.approved !== undefined) this.#event(call, "approval", { state: passage.approved ? "approved" : "denied" });
  }

  #event(call: Running, method: string, params: object): void {
    if (call.link !== undefined && !call.answered) this.#wire.event(call.link, method, params);
  }

  /** The one answer. The rest of the tool's life is only watched for a late result. */
  #finish(call: Running, answer: { body: string; bytes: number }): void {
    if (call.answered) return;
    this.#unask(call);
    call.progress.flush();
    call.answered = true;
    const { callId } = call.request;
    this.#running.delete(callId);
    this.#kept.set(callId, { ref: call.ref, body: answer.body, bytes: answer.bytes, at: this.#now() });
    this.#keptBytes += answer.bytes;
    this.sweep();
    if (call.link === undefined) return;
    this.#byLink.delete(call.link);
    this.#wire.answer(call.link, answer.body);
  }

  /** Nobody wants the call any more. */
  #drop(call: Running): void {
    this.#unask(call);
    call.progress.stop();
    call.answered = true;
    this.#running.delete(call.request.callId);
    if (call.link !== undefined) this.#byLink.delete(call.link);
    call.abort.abort();
    call.card?.end("the bridge no longer waits for it", true);
  }

  /** The call ends. The owner may still be looking at omp's question about it, which cannot be taken back. */
  #unask(call: Running): void {
    clearTimeout(call.approval);
    if (call.passage?.pending) this.#unasked(call.request.callId, call.request.tool);
  }

  /** A tool ran to its end after its answer had said that nothing ran. */
  #late(call: Running, isError: boolean): void {
    if (call.started) return;
    const late = { callId: call.request.callId, isError };
    if (this.#wire.up) this.#wire.notify("late", late);
    else if (this.#lates.length < MAX_LATES) this.#lates.push(late);
  }

  #forget(callId: string): void {
    const kept = this.#kept.get(callId);
    if (!kept) return;
    this.#kept.delete(callId);
    this.#keptBytes -= kept.bytes;
  }
}

function readCall(p: Params): CallRequest | string {
  if (typeof p.callId !== "string" || p.callId === "") return "callId is missing";
  if (typeof p.tool !== "string" || p.tool === "") return "tool is missing";
  const args = p.args ?? {};
  if (!isObject(args)) return "the arguments must be an object";
  const peer = isObject(p.peer) && typeof p.peer.name === "string" ? p.peer.name : "";
  return { callId: p.callId, tool: p.tool, args, peer, approvalMs: Number(p.approvalMs ?? 0), waitedMs: Number(p.waitedMs ?? 0) };
}
