// A session without omp, with the tools of the shared transcripts:
//   echo {text}  answers with its text            boom  throws "boom"
//   slow         says "working", then waits for "finish"; gives up when aborted
//   ask          asks its owner, then answers "approved"; a late approval is answered all the same
// and a daemon that is driven by hand.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ready } from "../src/calls.ts";
import type { Emit } from "../src/cards.ts";
import type { ToolSource } from "../src/catalogue.ts";
import type { LinkError } from "../src/frames.ts";
import { LineReader } from "../src/frames.ts";
import { Backoff } from "../src/backoff.ts";
import { Host, type SessionPort } from "../src/host.ts";

/** How long a test waits for something that must happen. */
export const PATIENCE_MS = 5_000;

export class FakeSession implements SessionPort {
  present = true;
  streaming = false;
  names = ["echo", "slow", "ask", "boom"];
  shown: string[] = [];
  status: (string | undefined)[] = [];
  logged: string[] = [];
  started: string[] = [];
  emit: Emit | undefined;
  host!: Host;
  #finish = new Set<() => void>();
  #answer = new Set<(approved: boolean) => void>();

  /** "finish", "approve" or "deny" for whatever waits for it. */
  drive(what: string): void {
    if (what === "finish") for (const go of this.#finish) go();
    else for (const go of this.#answer) go(what === "approve");
  }

  identity(): { id: string; name: string } {
    return { id: "s1", name: "one" };
  }

  tools(): ToolSource[] {
    return this.names.map((name) => ({ name, description: "", parameters: undefined, source: "builtin" }));
  }

  schema(): unknown {
    return { type: "object" };
  }

  approval(name: string): unknown {
    return name === "echo" ? "read" : undefined;
  }

  emitter(): Emit | undefined {
    return this.emit;
  }

  notify(text: string): void {
    this.shown.push(text);
  }

  setStatus(text: string | undefined): void {
    this.status.push(text);
  }

  log(text: string): void {
    this.logged.push(text);
  }

  prepare(tool: string, args: Record<string, unknown>): Ready | LinkError {
    if (!this.present) return { kind: "notReady", message: "no session", executed: "no" };
    if (!this.names.includes(tool)) return { kind: "unknownTool", message: `no tool ${tool}`, executed: "no" };
    if (tool === "echo" && typeof args.text !== "string") return { kind: "badArguments", message: "text", executed: "no" };
    return { run: (callId, signal, onUpdate) => this.#run(tool, args, callId, signal, onUpdate) };
  }

  async #run(tool: string, args: Record<string, unknown>, callId: string, signal: AbortSignal, onUpdate: (p: object) => void) {
    const gate = this.host.gate;
    const text = (t: string) => ({ content: [{ type: "text", text: t }] });
    this.started.push(callId);
    gate.entered(callId);
    if (tool === "ask") {
      gate.requested(callId);
      const approved = await new Promise<boolean>((resolve) => this.#answer.add(resolve));
      gate.resolved(callId, approved);
      if (!approved) throw new Error("Tool call denied by user: ask");
      gate.ran(callId);
      return text("approved");
    }
    if (tool === "slow") {
      onUpdate(text("working"));
      await new Promise<void>((resolve, reject) => {
        this.#finish.add(resolve);
        signal.addEventListener("abort", () => reject(new Error("Command aborted")));
      }).finally(() => gate.ran(callId));
      return text("done");
    }
    gate.ran(callId);
    if (tool === "boom") throw new Error("boom");
    return text(String(args.text));
  }
}

/** One end of a unix socket that speaks lines. */
export class Peer {
  readonly socket: Socket;
  #lines: (string | undefined)[] = []; // undefined is the end
  #wake: () => void = () => undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    const reader = new LineReader();
    socket.on("data", (chunk: Buffer) => reader.push(chunk, (l) => this.#push(l), () => this.#push("too long")));
    socket.on("error", () => undefined);
    socket.on("close", () => this.#push(undefined));
  }

  #push(line: string | undefined): void {
    this.#lines.push(line);
    this.#wake();
  }

  /** The next line; undefined when the link has ended. */
  async line(): Promise<string | undefined> {
    await within("a line", () => this.#lines.length > 0, (wake) => (this.#wake = wake));
    return this.#lines.shift();
  }

  async frame(): Promise<any> {
    const line = await this.line();
    assert.notEqual(line, undefined, "the link ended");
    return JSON.parse(line!);
  }

  send(frame: object): void {
    this.raw(JSON.stringify(frame));
  }

  raw(line: string): void {
    this.socket.write(`${line}\n`);
  }

  /** Answers the hello that comes next. */
  async welcome(more: object = {}): Promise<any> {
    const hello = await this.frame();
    assert.equal(hello.method, "hello");
    const result = { daemon: "1.0.0", protocol: "1.0", address: "http://127.0.0.1:7717/mcp", name: "app", main: true, mainName: "app" };
    this.send({ id: hello.id, result: { ...result, catalogue: "known", resumed: [], insecure: false, names: [], seen: [], ...more } });
    return hello;
  }

  /** Everything sent so far has been read by the host. */
  async sync(): Promise<void> {
    this.send({ id: 999_999, method: "ping" });
    assert.deepEqual(await this.frame(), { id: 999_999, result: {} });
  }
}

export async function within(what: string, ready: () => boolean, onWake: (wake: () => void) => void): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!ready()) {
    const left = end - performance.now();
    assert.ok(left > 0, `${what} did not come within ${PATIENCE_MS} ms`);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.min(left, 20));
      onWake(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

/** A daemon's socket and a host that dials it. */
export class Pair {
  readonly session = new FakeSession();
  readonly host: Host;
  readonly path: string;
  #dir: string;
  #server: Server;
  #peers: Peer[] = [];
  #wake: () => void = () => undefined;

  constructor() {
    this.#dir = mkdtempSync(join(tmpdir(), "a2a"));
    this.path = join(this.#dir, "host.sock");
    this.#server = createServer((socket) => {
      this.#peers.push(new Peer(socket));
      this.#wake();
    });
    this.host = new Host({ session: this.session, path: this.path, version: "18", name: "", backoff: new Backoff(() => 0.5) });
    this.session.host = this.host;
  }

  listen(): Promise<void> {
    return new Promise((resolve) => this.#server.listen({ path: this.path }, resolve));
  }

  /** The next connection of the host. */
  async accept(): Promise<Peer> {
    await within("a connection", () => this.#peers.length > 0, (wake) => (this.#wake = wake));
    return this.#peers.shift()!;
  }

  close(): void {
    this.host.stop();
    this.#server.close();
    for (const peer of this.#peers) peer.socket.destroy();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
