// omp's Main session: the one whose tools are lent. Everything that touches omp's inner API is in this file.

import { validateToolArguments } from "@oh-my-pi/pi-ai";
import { toolWireSchema } from "@oh-my-pi/pi-ai/utils/schema";
import { AgentRegistry, MAIN_AGENT_ID, type ExtensionAPI, type ExtensionContext, type ExtensionToolWrapper } from "@oh-my-pi/pi-coding-agent";
import type { Ready } from "./calls.ts";
import type { Emit } from "./cards.ts";
import type { ToolSource } from "./catalogue.ts";
import type { LinkError } from "./frames.ts";
import type { SessionPort } from "./host.ts";
import { errorText } from "./approval.ts";

type WireTool = Parameters<typeof toolWireSchema>[0];
type Session = NonNullable<NonNullable<ReturnType<AgentRegistry["get"]>>["session"]>;

/** An address under which omp's own model reaches one tool through another: "xd://bash", also as a header of read's output. */
const DEVICE = /^[\s[]*xd:\/\//i;

/** The living Main session. The object stays the same over /new, resume, branch and reload; only its id changes. */
export function mainSession(): Session | undefined {
  return AgentRegistry.global().get(MAIN_AGENT_ID)?.session ?? undefined;
}

/** Sub-agents load the extension again, in the same process: only Main's events count. */
export function isMain(ctx: ExtensionContext): boolean {
  const main = mainSession();
  return main !== undefined && main.sessionManager.getSessionId() === ctx.sessionManager.getSessionId();
}

/** Calls back whenever an agent of this process comes, goes or changes. */
export function onAgentChange(listener: () => void): () => void {
  return AgentRegistry.global().onChange(listener);
}

export class MainSession implements SessionPort {
  readonly pi: ExtensionAPI;
  readonly ctx: ExtensionContext;

  constructor(pi: ExtensionAPI, ctx: ExtensionContext) {
    this.pi = pi;
    this.ctx = ctx;
  }

  /** A turn of the model makes a session busy; remote calls do not. */
  get streaming(): boolean {
    return mainSession()?.isStreaming === true;
  }

  get present(): boolean {
    return mainSession() !== undefined;
  }

  identity(): { id: string; name: string } {
    const manager = mainSession()?.sessionManager;
    return { id: manager?.getSessionId() ?? "", name: manager?.getSessionName() ?? "" };
  }

  tools(): ToolSource[] {
    return this.pi.getAllTools().map(({ name, description, parameters, sourceInfo }) => ({
      name,
      description,
      parameters,
      source: sourceInfo?.source ?? "",
    }));
  }

  schema(tool: ToolSource): unknown {
    return toolWireSchema(tool as WireTool);
  }

  approval(name: string): unknown {
    return mainSession()?.getToolByName(name)?.approval;
  }

  prepare(name: string, args: Record<string, unknown>): Ready | LinkError {
    const session = mainSession();
    if (!session) return refuse("notReady", "omp has no session just now");
    // getToolByName also takes aliases; only what is in the catalogue may be called. Its names alone: getAllTools
    // builds every description anew, which takes longer than most calls.
    const tool = session.getAllToolNames().includes(name) ? session.getToolByName(name) : undefined;
    if (!tool) return refuse("unknownTool", `no tool ${name}`);
    let valid: Record<string, unknown>;
    try {
      // tools do not check their arguments themselves
      valid = validateToolArguments(tool as Parameters<typeof validateToolArguments>[0], {
        type: "toolCall",
        id: "remote",
        name,
        arguments: args,
      }) as Record<string, unknown>;
    } catch (error) {
      return refuse("badArguments", errorText(error));
    }
    // omp's write runs whatever tool its path names, so the daemon's rules for that tool would not hold.
    if (typeof valid.path === "string" && DEVICE.test(valid.path)) {
      return refuse("badArguments", "a path may not begin with xd://: call that tool by its own name, as it is listed");
    }
    // Without settings the gate allows everything; without its wrapper there is no gate.
    const settings: unknown = session.settings;
    if (!settings || !this.#gated(tool)) {
      return refuse("noGate", "omp's approval gate cannot be given its settings");
    }
    const ctx = this.ctx;
    const context = {
      sessionManager: session.sessionManager,
      modelRegistry: session.modelRegistry,
      model: session.model,
      settings: session.settings,
      isIdle: () => ctx.isIdle(),
      abort: () => ctx.abort(),
      hasQueuedMessages: () => ctx.hasPendingMessages(),
      ui: ctx.ui,
      hasUI: ctx.hasUI,
      localProtocolOptions: ctx.localProtocolOptions,
    };
    const execute = tool.execute.bind(tool) as (...all: unknown[]) => ReturnType<Ready["run"]>;
    return { run: (callId, signal, onUpdate) => execute(callId, valid, signal, onUpdate, context) };
  }

  /** Whether omp's approval gate sits around the tool. */
  #gated(tool: object): boolean {
    // exported at run time, declared as a type only
    const { ExtensionToolWrapper: Wrapper } = this.pi.pi as unknown as { ExtensionToolWrapper?: typeof ExtensionToolWrapper };
    return Wrapper !== undefined && tool instanceof Wrapper;
  }

  /** How cards reach the screen; undefined where there is no screen of omp's own. */
  emitter(): Emit | undefined {
    const agent = mainSession()?.agent;
    if (!agent || this.ctx.mode !== "tui") return undefined;
    return (event) => agent.emitExternalEvent(event as Parameters<typeof agent.emitExternalEvent>[0]);
  }

  notify(text: string, type: "info" | "warning"): void {
    this.ctx.ui.notify(text, type);
  }

  setStatus(text: string | undefined): void {
    this.ctx.ui.setStatus("a2a", text);
  }

  log(text: string): void {
    this.pi.logger.warn(`a2a-bridge: ${text}`);
  }
}

function refuse(kind: string, message: string): LinkError {
  return { kind, message, executed: "no" };
}
