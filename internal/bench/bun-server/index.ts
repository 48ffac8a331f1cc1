// The baseline that the bridge is measured against: a small MCP server inside the omp process, on Bun.serve. It does what
// such a server must (bearer token, JSON-RPC, argument validation, the whole tool context) and no more. It also fills
// omp's catalogue up to 40 tools, so that both sides list the same ones.
//
// A2A_BENCH_URL_FILE names the file that gets its address; A2A_BENCH_TOKEN is its token.

import { renameSync, writeFileSync } from "node:fs";
import { validateToolArguments } from "@oh-my-pi/pi-ai";
import { toolWireSchema } from "@oh-my-pi/pi-ai/utils/schema";
import { AgentRegistry, MAIN_AGENT_ID, type ExtensionAPI, type ExtensionContext } from "@oh-my-pi/pi-coding-agent";

const CATALOGUE = 40;

type Params = { name: string; arguments?: Record<string, unknown> };
type Message = { id?: number | string; method: string; params?: Params };

/** A schema of the size that real tools have, about 1.5 kB. */
function fillerSchema(): Record<string, unknown> {
  const properties: Record<string, unknown> = {};
  for (let i = 0; i < 12; i++) {
    properties[`option_${i}`] = { type: "string", description: `What option ${i} of this tool stands for, in a sentence as models like them.` };
  }
  return { type: "object", properties, additionalProperties: false };
}

function main() {
  return AgentRegistry.global().get(MAIN_AGENT_ID)?.session ?? undefined;
}

function list(pi: ExtensionAPI): object {
  const tools = pi.getAllTools().map((tool) => ({
    name: tool.name,
    description: tool.description,
    inputSchema: toolWireSchema(tool as Parameters<typeof toolWireSchema>[0]),
  }));
  return { tools };
}

async function call(ctx: ExtensionContext, params: Params): Promise<object> {
  const session = main();
  const tool = session?.getToolByName(params.name);
  if (!session || !tool) return { isError: true, content: [{ type: "text", text: "no such tool" }] };
  try {
    const args = validateToolArguments(tool as Parameters<typeof validateToolArguments>[0], {
      type: "toolCall",
      id: "bench",
      name: params.name,
      arguments: params.arguments ?? {},
    });
    const execute = tool.execute.bind(tool) as (...all: unknown[]) => Promise<{ content: object[]; isError?: boolean }>;
    const result = await execute(crypto.randomUUID(), args, undefined, undefined, {
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
    });
    return { content: result.content, ...(result.isError ? { isError: true } : {}) };
  } catch (error) {
    return { isError: true, content: [{ type: "text", text: String(error) }] };
  }
}

async function answer(pi: ExtensionAPI, ctx: ExtensionContext, message: Message): Promise<object | undefined> {
  switch (message.method) {
    case "initialize":
      return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "bench", version: "1" } };
    case "tools/list":
      return list(pi);
    case "tools/call":
      return message.params && (await call(ctx, message.params));
    default:
      return undefined;
  }
}

function serve(pi: ExtensionAPI, ctx: ExtensionContext): void {
  const bearer = `Bearer ${process.env.A2A_BENCH_TOKEN}`;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      if (request.headers.get("authorization") !== bearer) return new Response("token", { status: 401 });
      if (request.method !== "POST") return new Response("POST only", { status: 405 });
      const message = (await request.json()) as Message;
      if (message.id === undefined) return new Response(null, { status: 202 });
      const result = await answer(pi, ctx, message);
      return Response.json({ jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error: { code: -32601, message: "unknown" } }) });
    },
  });
  const file = process.env.A2A_BENCH_URL_FILE;
  if (!file) return;
  writeFileSync(`${file}.part`, `http://127.0.0.1:${server.port}/mcp`, { mode: 0o600 });
  renameSync(`${file}.part`, file); // whoever waits for it finds all of it
}

export default function bench(pi: ExtensionAPI): void {
  pi.registerTool({
    name: "bench_echo",
    label: "bench_echo",
    description: "Returns its text",
    parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } as never,
    approval: "read",
    execute: async (_id: string, params: unknown) => ({ content: [{ type: "text" as const, text: (params as { text: string }).text }], details: {} }),
  });
  let started = false;
  pi.on("session_start", (_event, ctx) => {
    if (started || main()?.sessionManager.getSessionId() !== ctx.sessionManager.getSessionId()) return;
    started = true;
    for (let i = pi.getAllTools().length; i < CATALOGUE; i++) {
      pi.registerTool({
        name: `bench_filler_${i}`,
        label: `bench_filler_${i}`,
        description: "Fills the catalogue up, with a description of the length that tools tend to have: what it is for, when to use it and when not.",
        parameters: fillerSchema() as never,
        approval: "read",
        execute: async () => ({ content: [], details: {} }),
      });
    }
    serve(pi, ctx);
  });
}
