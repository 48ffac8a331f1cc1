// One unix socket to the daemon, kept up for as long as the process lives: dial, hello, pings, and dialling again.
// Nothing in here may throw into the host: an unhandled rejection or a throwing timer would end omp.

import { createConnection, type Socket } from "node:net";
import { Backoff, PROTOCOL_RETRY_MS } from "./backoff.ts";
import { LineReader, MAX_FAULTS, MAX_FRAME, isObject, parseFrame, rawMember, toJSON, type Frame, type LinkError, type Params } from "./frames.ts";

/** Both sides ping this often. */
const PING_MS = 5_000;
/** The daemon answers hello and requests at once or not at all. */
const ANSWER_MS = 10_000;
/** Unsent bytes after which progress is dropped instead of queued: the daemon has stopped reading. */
const CONGESTED = 4 * 1024 * 1024;

export interface Welcome {
  daemon: string;
  address: string;
  name: string;
  main: boolean;
  /** The session behind the plain address. */
  mainName: string;
  catalogue: "known" | "send";
  resumed: { callId: string; id: number }[];
  insecure: boolean;
  /** All tokens. */
  names: string[];
  /** Those used lately, the latest first. */
  seen: string[];
}

export interface You {
  name: string;
  main: boolean;
  peers: string[];
  running: number;
  paused: boolean;
}

/** What the link tells its owner. The methods are called one at a time and may throw: that is logged. */
export interface LinkOwner {
  /** The params of hello, as JSON text. */
  hello(): string;
  welcome(w: Welcome): void;
  /** `rawRef` is the daemon's reference, byte for byte. */
  call(id: number, params: Params, rawRef: string): void;
  cancel(id: number, reason: string): void;
  ack(callId: string): void;
  you(you: You): void;
  /** The link that was welcomed has ended. */
  down(): void;
  /** Called every few seconds, with or without a link. */
  tick(): void;
  /** The daemon refused the hello. Said once per reason. */
  refused(error: LinkError): void;
}

export interface LinkConfig {
  path: string;
  owner: LinkOwner;
  log(text: string): void;
  backoff?: Backoff;
}

interface Answered {
  resolve(result: unknown): void;
  reject(error: LinkError): void;
}

type Waiting = Answered & { timer: NodeJS.Timeout };

export class Link {
  #config: LinkConfig;
  #backoff: Backoff;
  #socket: Socket | undefined;
  #welcomed = false;
  #stopped = true;
  #nextId = 1;
  #waiting = new Map<number, Waiting>();
  #redial: NodeJS.Timeout | undefined;
  #ticker: NodeJS.Timeout | undefined;
  #pinging = false;
  #faults = 0;
  #unknown = new Set<string>();
  #refusedKind = "";

  constructor(config: LinkConfig) {
    this.#config = config;
    this.#backoff = config.backoff ?? new Backoff();
  }

  /** True from the welcome until the link ends. */
  get up(): boolean {
    return this.#welcomed;
  }

  start(): void {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#ticker = setInterval(() => this.#guard("tick", () => this.#tick()), PING_MS);
    this.#ticker.unref();
    this.#dial();
  }

  /** Says bye and closes; no more dialling. */
  stop(reason: "closed" | "reload" | "error"): void {
    this.#stopped = true;
    clearTimeout(this.#redial);
    clearInterval(this.#ticker);
    this.notify("bye", { reason });
    this.#socket?.end();
  }

  notify(method: string, params: object): void {
    if (this.#welcomed) this.#write(`{"method":${toJSON(method)},"params":${toJSON(params)}}`);
  }

  /** An event about a request of the daemon. Progress gives way when the daemon does not read. */
  event(id: number, method: string, params: object): void {
    if (!this.#welcomed) return;
    if (method === "progress" && (this.#socket?.writableLength ?? 0) > CONGESTED) return;
    this.#write(`{"id":${id},"method":${toJSON(method)},"params":${toJSON(params)}}`);
  }

  /** `body` is `"result":…` or `"error":…`, encoded already and no longer than a frame. */
  answer(id: number, body: string): void {
    this.#write(`{"id":${id},${body}}`);
  }

  /** A verb for the daemon. Rejects with a LinkError, also when the link ends. */
  request(params: object): Promise<unknown> {
    if (!this.#welcomed) return Promise.reject({ kind: "notAttached", message: "not attached to a bridge" } satisfies LinkError);
    return new Promise((resolve, reject) => this.#ask("request", toJSON(params), { resolve, reject }));
  }

  /** The answer is heard on the read loop, before the line after it: a call may follow the welcome in one burst. */
  #ask(method: string, params: string | undefined, then: Answered): void {
    const id = this.#nextId++;
    const timer = setTimeout(() => {
      this.#waiting.delete(id);
      this.#guard(method, () => then.reject({ kind: "timeout", message: "the bridge did not answer" }));
    }, ANSWER_MS);
    timer.unref();
    this.#waiting.set(id, { ...then, timer });
    this.#write(`{"id":${id},"method":"${method}"${params === undefined ? "" : `,"params":${params}`}}`);
  }

  #dial(): void {
    if (this.#stopped) return;
    const reader = new LineReader();
    let socket: Socket;
    try {
      socket = createConnection({ path: this.#config.path });
    } catch {
      this.#again(this.#backoff.next());
      return;
    }
    this.#socket = socket;
    this.#nextId = 1;
    this.#faults = 0;
    this.#unknown.clear();
    socket.unref();
    socket.on("error", () => undefined); // "close" follows
    socket.on("close", () => this.#guard("close", () => this.#closed(socket)));
    socket.on("connect", () => this.#guard("hello", () => this.#hello(socket)));
    socket.on("data", (chunk: Buffer) =>
      this.#guard("read", () =>
        reader.push(
          chunk,
          (text) => this.#guard("frame", () => this.#line(socket, text)),
          () => this.#fault(socket, `a line is longer than ${MAX_FRAME} bytes`),
        ),
      ),
    );
  }

  #hello(socket: Socket): void {
    this.#ask("hello", this.#config.owner.hello(), {
      resolve: (result) => this.#welcome(socket, result),
      reject: (error) => this.#refuse(socket, error),
    });
  }

  #welcome(socket: Socket, result: unknown): void {
    if (socket !== this.#socket || !isObject(result)) return;
    this.#welcomed = true;
    this.#refusedKind = "";
    this.#backoff.reset();
    this.#config.owner.welcome({
      daemon: String(result.daemon ?? ""),
      address: String(result.address ?? ""),
      name: String(result.name ?? ""),
      main: result.main === true,
      mainName: String(result.mainName ?? ""),
      catalogue: result.catalogue === "known" ? "known" : "send",
      resumed: Array.isArray(result.resumed) ? (result.resumed as Welcome["resumed"]) : [],
      insecure: result.insecure === true,
      names: strings(result.names),
      seen: strings(result.seen),
    });
  }

  #refuse(socket: Socket, error: LinkError): void {
    if (error.kind === "protocol") this.#backoff.hold(PROTOCOL_RETRY_MS);
    if (error.kind !== "gone" && error.kind !== this.#refusedKind) {
      this.#refusedKind = error.kind;
      this.#config.owner.refused(error);
    }
    socket.destroy();
  }

  #closed(socket: Socket): void {
    if (socket !== this.#socket) return;
    const was = this.#welcomed;
    this.#socket = undefined;
    this.#welcomed = false;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const w of waiting) {
      clearTimeout(w.timer);
      this.#guard("close", () => w.reject({ kind: "gone", message: "the link to the bridge ended" }));
    }
    this.#again(this.#backoff.next());
    if (was) this.#config.owner.down();
  }

  #again(ms: number): void {
    if (this.#stopped) return;
    clearTimeout(this.#redial);
    this.#redial = setTimeout(() => this.#guard("dial", () => this.#dial()), ms);
    this.#redial.unref();
  }

  #tick(): void {
    if (this.#welcomed && !this.#pinging) {
      this.#pinging = true;
      const over = (): void => {
        this.#pinging = false;
      };
      this.#ask("ping", undefined, { resolve: over, reject: over });
    }
    this.#config.owner.tick();
  }

  #line(socket: Socket, text: string): void {
    if (socket !== this.#socket) return;
    const frame = parseFrame(text);
    if (typeof frame === "string") this.#fault(socket, frame);
    else this.#frame(frame);
  }

  #frame(frame: Frame): void {
    const owner = this.#config.owner;
    switch (frame.form) {
      case "answer": {
        const w = this.#waiting.get(frame.id);
        if (!w) return;
        this.#waiting.delete(frame.id);
        clearTimeout(w.timer);
        if (frame.error) w.reject(frame.error);
        else w.resolve(frame.result);
        return;
      }
      case "event":
        return owner.cancel(frame.id, String(frame.params.reason ?? ""));
      case "notice":
        if (frame.method === "ack") return owner.ack(String(frame.params.callId ?? ""));
        if (frame.method === "you") return owner.you(readYou(frame.params));
        if (frame.method === "fault") return this.#config.log(`the bridge could not read a frame: ${String(frame.params.message ?? "")}`);
        return this.#ignored(frame.method);
      case "request":
        if (frame.method === "ping") return this.answer(frame.id, `"result":{}`);
        if (frame.method === "call") return owner.call(frame.id, frame.params, rawMember(frame.text, "params", "ref") ?? "null");
        this.#ignored(frame.method);
        return this.answer(frame.id, `"error":${toJSON({ kind: "unknownMethod", message: `no method ${frame.method}`, executed: "no" })}`);
    }
  }

  #ignored(method: string): void {
    if (this.#unknown.has(method)) return;
    this.#unknown.add(method);
    this.#config.log(`ignored an unknown method of the bridge: ${method}`);
  }

  #fault(socket: Socket, message: string): void {
    if (++this.#faults < MAX_FAULTS) return this.#write(`{"method":"fault","params":${toJSON({ message })}}`);
    this.#config.log("the bridge sent too many unreadable lines: link closed");
    socket.destroy();
  }

  #write(line: string): void {
    // node:net keeps what the socket does not take at once
    if (this.#socket?.writable) this.#socket.write(`${line}\n`);
  }

  #guard(what: string, run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#config.log(`${what}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }
}

function readYou(p: Params): You {
  return {
    name: String(p.name ?? ""),
    main: p.main === true,
    peers: strings(p.peers),
    running: Number(p.running ?? 0),
    paused: p.paused === true,
  };
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((v) => typeof v === "string") : [];
}
