// This omp as a host of the bridge: one per process, made by the first session that is Main, and kept over everything
// that happens to sessions afterwards.

import { VERSION, type ExtensionAPI, type ExtensionContext } from "@oh-my-pi/pi-coding-agent";
import { Gate } from "./approval.ts";
import { Calls } from "./calls.ts";
import { Cards } from "./cards.ts";
import { CatalogueCache } from "./catalogue.ts";
import type { CommandHost } from "./command.ts";
import { toJSON, type LinkError, type Params } from "./frames.ts";
import { Link, type LinkOwner, type Welcome, type You } from "./link.ts";
import { instanceId, socketPath, terminal, tmuxPane } from "./place.ts";
import { MainSession } from "./session.ts";
import { attachedNotice, insecureWarning, statusLine } from "./texts.ts";
import { EXTENSION_VERSION, LINK_PROTOCOL } from "./version.ts";

const STATUS_KEY = "a2a";

export class Host implements LinkOwner, CommandHost {
  readonly gate = new Gate();
  #main: MainSession;
  #link: Link;
  #calls: Calls;
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

  constructor(pi: ExtensionAPI, ctx: ExtensionContext) {
    this.#main = new MainSession(pi, ctx);
    const log = (text: string) => this.#log(text);
    this.#link = new Link({ path: socketPath(process.env, process.getuid?.()), owner: this, log });
    this.#catalogue = new CatalogueCache(
      { tools: () => this.#main.tools(), schema: (t) => this.#main.schema(t), approval: (n) => this.#main.approval(n) },
      log,
    );
    this.#calls = new Calls({
      wire: this.#link,
      tools: { prepare: (tool, args) => this.#main.prepare(tool, args) },
      gate: this.gate,
      cards: new Cards(() => this.#main.emitter(), log),
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
  adopt(pi: ExtensionAPI, ctx: ExtensionContext): void {
    this.#main = new MainSession(pi, ctx);
    this.#shownStatus = undefined;
    this.refresh();
  }

  turn(busy: boolean): void {
    this.#busy = busy;
    this.#sendState();
  }

  /** Something about the session has changed: says so where it matters. */
  refresh(): void {
    this.#busy = this.#main.streaming;
    this.#sendState();
    this.#sendCatalogue();
    this.#showStatus();
  }

  // What /a2a needs.

  get up(): boolean {
    return this.#link.up;
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
      version: VERSION,
      extension: EXTENSION_VERSION,
      instance: instanceId(),
      pid: process.pid,
      cwd: process.cwd(),
      name: process.env.A2A_BRIDGE_NAME ?? "",
      tty: terminal(),
      tmux: this.#tmux,
      session: this.#main.identity(),
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
    if (!this.#main.present) return "notReady";
    return this.#busy ? "busy" : "idle";
  }

  #stateText(): string {
    return toJSON({ state: this.#state(), session: this.#main.identity() });
  }

  #sendState(): void {
    const text = this.#stateText();
    if (!this.#link.up || text === this.#sentState) return;
    this.#sentState = text;
    this.#link.notify("state", { state: this.#state(), session: this.#main.identity() });
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
      this.#main.ctx.ui.setStatus(STATUS_KEY, text);
    } catch (error) {
      this.#log(`status line: ${String(error)}`);
    }
  }

  #say(text: string, type: "info" | "warning" | "error"): void {
    try {
      this.#main.ctx.ui.notify(text, type);
    } catch (error) {
      this.#log(`notice: ${String(error)}`);
    }
  }

  #log(text: string): void {
    try {
      this.#main.pi.logger.warn(`a2a-bridge: ${text}`);
    } catch {
      // the log is the last resort
    }
  }
}
