// This omp as a host of the bridge: one per process, made by the first session that is Main, and kept over everything
// that happens to sessions afterwards.

import { Gate } from "./approval.ts";
import type { Backoff } from "./backoff.ts";
import { Calls, type ToolBox } from "./calls.ts";
import { Cards, type Emit } from "./cards.ts";
import { CatalogueCache, type CatalogueSource } from "./catalogue.ts";
import type { CommandHost } from "./command.ts";
import { toJSON, type LinkError, type Params } from "./frames.ts";
import { Link, type LinkOwner, type Welcome, type You } from "./link.ts";
import { instanceId, terminal, tmuxPane } from "./place.ts";
import { attachedNotice, insecureWarning, overNotice, statusLine } from "./texts.ts";
import { EXTENSION_VERSION, LINK_PROTOCOL } from "./version.ts";

/** The session, as far as a host needs it. */
export interface SessionPort extends ToolBox, CatalogueSource {
  readonly present: boolean;
  readonly streaming: boolean;
  identity(): { id: string; name: string };
  emitter(): Emit | undefined;
  notify(text: string, type: "info" | "warning"): void;
  setStatus(text: string | undefined): void;
  log(text: string): void;
}

export interface HostConfig {
  session: SessionPort;
  /** Of the daemon's host socket. */
  path: string;
  /** omp's version. */
  version: string;
  /** Wanted name; empty for the directory's. */
  name: string;
  backoff?: Backoff;
}

export class Host implements LinkOwner, CommandHost {
  readonly gate = new Gate();
  #session: SessionPort;
  #config: HostConfig;
  #link: Link;
  #calls: Calls;
  #cards: Cards;
  #catalogue: CatalogueCache;
  #busy = false;
  #sentState = "";
  #sentCatalogue = "";
  #welcome: Welcome | undefined;
  #you: You | undefined;
  #tmux = "";
  #noticed = "";
  #warned = false;
  #shownStatus: string | undefined;

  constructor(config: HostConfig) {
    this.#config = config;
    this.#session = config.session;
    const log = (text: string) => this.#log(text);
    this.#link = new Link({ path: config.path, owner: this, log, backoff: config.backoff });
    this.#catalogue = new CatalogueCache(
      { tools: () => this.#session.tools(), schema: (t) => this.#session.schema(t), approval: (n) => this.#session.approval(n) },
      log,
    );
    this.#cards = new Cards(() => this.#session.emitter(), log);
    this.#calls = new Calls({
      wire: this.#link,
      tools: { prepare: (tool, args) => this.#session.prepare(tool, args) },
      gate: this.gate,
      cards: this.#cards,
      unasked: (callId, tool) => this.#say(overNotice(callId, tool), "warning"),
      log,
    });
  }

  start(): void {
    tmuxPane(process.env)
      .then((pane) => {
        this.#tmux = pane;
        this.#link.start();
      })
      .catch((error) => this.#log(String(error)));
  }

  stop(): void {
    this.#link.stop("closed");
    this.#calls.abortAll();
  }

  /** Main has a session object: the first, or another one later in this process. */
  adopt(session: SessionPort): void {
    this.#session = session;
    this.#shownStatus = undefined;
    this.refresh();
  }

  turn(busy: boolean): void {
    this.#cards.boundary();
    this.#busy = busy;
    this.#sendState();
  }

  /** An agent of this process came or went: is the session still there? */
  look(): void {
    this.#sendState();
  }

  /** Something about the session has changed: says so where it matters. */
  refresh(): void {
    this.#cards.boundary();
    this.#busy = this.#session.streaming;
    this.#sendState();
    this.#sendCatalogue();
    this.#showStatus();
  }

  // What /a2a needs.

  get up(): boolean {
    return this.#link.up;
  }

  get known(): boolean {
    return this.#welcome !== undefined;
  }

  request(params: object): Promise<unknown> {
    return this.#link.request(params);
  }

  names(): string[] {
    return [...new Set([...(this.#welcome?.names ?? []), ...(this.#you?.peers ?? [])])];
  }

  // What the link needs.

  hello(): string {
    const { running, unacked } = this.#calls.inventory();
    const hello = toJSON({
      protocol: LINK_PROTOCOL,
      kind: "omp",
      version: this.#config.version,
      extension: EXTENSION_VERSION,
      instance: instanceId(),
      pid: process.pid,
      cwd: process.cwd(),
      name: this.#config.name,
      tty: terminal(),
      tmux: this.#tmux,
      session: this.#session.identity(),
      state: this.#state(),
      gate: true,
      capabilities: ["progress", "approval", "images"],
      catalogue: this.#catalogue.current()?.hash ?? "",
    });
    return `${hello.slice(0, -1)},"running":${running},"unacked":${unacked}}`;
  }

  welcome(w: Welcome): void {
    this.#welcome = w;
    this.#you = undefined;
    this.#calls.resume(w.resumed);
    this.#sentState = this.#stateText();
    const catalogue = this.#catalogue.current();
    this.#sentCatalogue = w.catalogue === "known" ? (catalogue?.hash ?? "") : "";
    this.#sendCatalogue();
    const notice = attachedNotice(w);
    const shown = `${w.name} ${w.address}`;
    if (shown !== this.#noticed) {
      this.#noticed = shown;
      this.#say(notice, "info");
    }
    if (w.insecure && !this.#warned) {
      this.#warned = true;
      this.#say(insecureWarning(w.address), "warning");
    }
    this.#showStatus();
  }

  call(id: number, params: Params, rawRef: string): void {
    this.#calls.begin(id, params, rawRef);
  }

  cancel(id: number, reason: string): void {
    this.#calls.cancel(id, reason);
  }

  ack(callId: string): void {
    this.#calls.ack(callId);
  }

  you(you: You): void {
    this.#you = you;
    this.#showStatus();
  }

  down(): void {
    this.#calls.unbind();
    this.#showStatus();
  }

  refused(error: LinkError): void {
    this.#log(`the bridge refused this session: ${error.kind}: ${error.message}`);
    if (error.kind === "protocol" || error.kind === "badHello") this.#say(`a2a: ${error.message}`, "warning");
  }

  tick(): void {
    this.#calls.sweep();
    this.#sendState();
    this.#sendCatalogue();
  }

  #state(): "idle" | "busy" | "notReady" {
    if (!this.#session.present) return "notReady";
    return this.#busy ? "busy" : "idle";
  }

  #stateText(): string {
    return toJSON({ state: this.#state(), session: this.#session.identity() });
  }

  #sendState(): void {
    const text = this.#stateText();
    if (!this.#link.up || text === this.#sentState) return;
    this.#sentState = text;
    this.#link.notify("state", { state: this.#state(), session: this.#session.identity() });
  }

  #sendCatalogue(): void {
    if (!this.#link.up) return;
    const catalogue = this.#catalogue.current();
    if (!catalogue || catalogue.hash === this.#sentCatalogue) return;
    this.#sentCatalogue = catalogue.hash;
    this.#link.notify("tools", catalogue);
  }

  #showStatus(): void {
    const text = statusLine(this.#you?.name || (this.#welcome?.name ?? ""), this.#link.up, this.#you);
    if (text === this.#shownStatus) return;
    this.#shownStatus = text;
    try {
      this.#session.setStatus(text);
    } catch (error) {
      this.#log(`status line: ${String(error)}`);
    }
  }

  #say(text: string, type: "info" | "warning"): void {
    try {
      this.#session.notify(text, type);
    } catch (error) {
      this.#log(`notice: ${String(error)}`);
    }
  }

  #log(text: string): void {
    try {
      this.#session.log(text);
    } catch {
      // the log is the last resort
    }
  }
}
