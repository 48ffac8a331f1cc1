// a2a-bridge for omp: lends the tools of the Main session to remote agents, through the daemon on this machine.
//
// omp calls this factory once for Main and again for every sub-agent, in one process. The host is therefore kept with the
// process, and only events of Main reach it. Policy, tokens and durability are the daemon's; asking the owner is omp's.

import { VERSION, type ExtensionAPI, type ExtensionContext } from "@oh-my-pi/pi-coding-agent";
import { complete, runCommand } from "./command.ts";
import { Host } from "./host.ts";
import { socketPath } from "./place.ts";
import { MainSession, isMain, onAgentChange } from "./session.ts";
import { NOT_ATTACHED } from "./texts.ts";

const KEY = Symbol.for("a2a-bridge.host");
const store = globalThis as unknown as Record<symbol, Host | undefined>;

let unwatch = (): void => undefined;

export default function a2aBridge(pi: ExtensionAPI): void {
  pi.on("session_start", (_event, ctx) => {
    // One-shot runs (omp -p) end before anybody could call them.
    if (!isMain(ctx) || ctx.mode === "print" || ctx.mode === "json") return;
    const session = new MainSession(pi, ctx);
    if (store[KEY]) return store[KEY].adopt(session);
    const host = new Host({
      session,
      path: socketPath(process.env, process.getuid?.()),
      version: VERSION,
      name: process.env.A2A_BRIDGE_NAME ?? "",
    });
    store[KEY] = host;
    unwatch = onAgentChange(() => host.look());
    host.start();
  });
  pi.on("session_shutdown", (_event, ctx) => {
    if (!isMain(ctx)) return;
    unwatch();
    store[KEY]?.stop();
    store[KEY] = undefined;
  });

  const refresh = (_event: unknown, ctx: ExtensionContext): void => {
    if (isMain(ctx)) store[KEY]?.refresh();
  };
  pi.on("session_switch", refresh);
  pi.on("session_branch", refresh);
  pi.on("session_tree", refresh);
  pi.on("agent_start", (_event, ctx) => {
    if (isMain(ctx)) store[KEY]?.turn(true);
  });
  pi.on("agent_end", (event, ctx) => {
    if (isMain(ctx)) store[KEY]?.turn(event.willContinue === true);
  });

  // The gate's reports carry our own call ids, so nothing else needs to be told apart.
  pi.on("tool_call", (event) => {
    store[KEY]?.gate.entered(event.toolCallId);
  });
  pi.on("tool_approval_requested", (event) => {
    store[KEY]?.gate.requested(event.toolCallId);
  });
  pi.on("tool_approval_resolved", (event) => {
    store[KEY]?.gate.resolved(event.toolCallId, event.approved);
  });
  pi.on("tool_result", (event) => {
    store[KEY]?.gate.ran(event.toolCallId);
  });

  pi.registerCommand("a2a", {
    description: "The bridge to other machines: status, token, rotate, pause, resume",
    getArgumentCompletions: (prefix) => complete(prefix, store[KEY]?.names() ?? []),
    handler: async (args, ctx) => {
      const host = store[KEY];
      if (!host) return ctx.ui.notify(NOT_ATTACHED, "warning");
      await runCommand(args, host, (text, type) => ctx.ui.notify(text, type));
    },
  });
}
