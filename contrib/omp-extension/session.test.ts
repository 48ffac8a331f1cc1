// Parts that look at what omp says, without omp.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Gate, isAbort } from "./src/approval.ts";
import { CatalogueCache, type ToolSource } from "./src/catalogue.ts";
import { instanceId, socketPath, tmuxPane } from "./src/place.ts";
import { thrownResult, toCallToolResult } from "./src/results.ts";
import { EXTENSION_VERSION } from "./src/version.ts";

const sources = readdirSync(join(import.meta.dirname, "src")).map((f) => [f, readFileSync(join(import.meta.dirname, "src", f), "utf8")] as const);

test("nothing is imported that omp would have to download", () => {
  const allowed = /^(node:[a-z_/]+|\.\/[a-z]+\.ts|@oh-my-pi\/(pi-coding-agent|pi-ai|pi-ai\/utils\/schema))$/;
  for (const [file, text] of sources)
    for (const [, specifier] of text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)) assert.match(specifier!, allowed, file);
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, "package.json"), "utf8"));
  assert.equal(manifest.dependencies, undefined);
  assert.equal(manifest.version, EXTENSION_VERSION);
});

test("nothing writes to the screen behind omp's back, opens a dialog, or sends a message that can end omp", () => {
  for (const [file, text] of sources) assert.doesNotMatch(text, /console\.|process\.std(out|err)|\.select\(|\.confirm\(|\.sendMessage\(|\.sendUserMessage\(/, file);
});

test("which errors were thrown by the gate", () => {
  const thrown = new Error("disk full");
  const policy = new Error('Tool "write" is blocked by user policy.\nTo allow: …');
  const cases: [string, (g: Gate) => void, Error, boolean][] = [
    ["denied by policy at once", () => undefined, policy, true],
    ["denied by the owner", (g) => (g.entered("c"), g.requested("c"), g.resolved("c", false)), new Error("Tool call denied by user: bash"), true],
    ["blocked by an extension", (g) => g.entered("c"), new Error("not on Fridays"), true],
    ["the tool failed", (g) => (g.entered("c"), g.ran("c")), thrown, false],
    ["approved, then the tool failed", (g) => (g.entered("c"), g.requested("c"), g.resolved("c", true), g.ran("c")), thrown, false],
    ["the tool's own words look like a denial", (g) => (g.entered("c"), g.ran("c")), policy, false],
    ["another call was denied", (g) => (g.entered("c"), g.ran("c"), g.resolved("d", false)), thrown, false],
  ];
  for (const [name, events, error, want] of cases) {
    const gate = new Gate();
    const passage = gate.open("c", { pending: () => undefined, resolved: () => undefined });
    events(gate);
    assert.equal(passage.refused(error), want, name);
  }
});

test("aborts are told from other errors", () => {
  assert.ok(isAbort(new Error("Command aborted")));
  assert.ok(isAbort(new DOMException("x", "AbortError")));
  assert.ok(!isAbort(new Error("disk full")));
});

test("blocks of a result", () => {
  const image = { type: "image", data: "AA==", mimeType: "image/webp" };
  const cases: [unknown, unknown][] = [
    [{ content: [{ type: "text", text: "x", extra: 1 }], details: { a: 1 } }, { content: [{ type: "text", text: "x" }] }],
    [{ content: [image], isError: false }, { content: [image] }],
    [{ content: [{ type: "chart", n: 1 }], isError: true }, { content: [{ type: "text", text: '{"type":"chart","n":1}' }], isError: true }],
    [{ content: ["bare"] }, { content: [{ type: "text", text: "bare" }] }],
    [{ content: [null] }, { content: [{ type: "text", text: "null" }] }],
    [undefined, { content: [] }],
    [{ content: "no list" }, { content: [] }],
  ];
  for (const [given, want] of cases) assert.deepEqual(toCallToolResult(given as object), want);
  assert.deepEqual(thrownResult("boom"), { content: [{ type: "text", text: "boom" }], isError: true });
});

test("the catalogue is built again only when tools change, and one bad tool does not spoil it", () => {
  const parameters = { type: "object" };
  let tools: ToolSource[] = [
    { name: "read", description: "Read.", parameters, source: "builtin" },
    { name: "bad", description: "", parameters: {}, source: "extension" },
  ];
  let built = 0;
  const logged: string[] = [];
  const cache = new CatalogueCache(
    {
      tools: () => tools,
      approval: (n) => (n === "read" ? "read" : () => "read"),
      schema: (t) => {
        built++;
        if (t.name === "bad") throw new Error("circular");
        return t.parameters;
      },
    },
    (l) => logged.push(l),
  );
  const first = cache.current()!;
  assert.deepEqual(first.tools, [
    { name: "read", tier: "read", source: "builtin", definition: { name: "read", description: "Read.", inputSchema: parameters } },
    { name: "bad", tier: "", source: "extension", definition: { name: "bad", description: "" } },
  ]);
  tools = tools.map((t) => ({ ...t }));
  assert.equal(cache.current(), first);
  assert.equal(built, 2);
  tools = [{ ...tools[0]!, parameters: { type: "object", required: ["path"] } }];
  assert.notEqual(cache.current()!.hash, first.hash);
  tools = undefined as never;
  assert.equal(cache.current()!.tools.length, 1, "while the host cannot list its tools the last list stands");
});

test("where the bridge is", async () => {
  assert.equal(socketPath({ XDG_RUNTIME_DIR: "/r" }, 7), "/r/a2a-bridge/host.sock");
  assert.equal(socketPath({}, 7), "/run/user/7/a2a-bridge/host.sock");
  assert.equal(socketPath({ A2A_BRIDGE_HOST_SOCKET: "/x.sock", XDG_RUNTIME_DIR: "/r" }, 7), "/x.sock");
  assert.equal(await tmuxPane({}), "");
  assert.equal(await tmuxPane({ TMUX: "/nowhere/default,1,0", TMUX_PANE: "%999" }), "");
  assert.equal(instanceId(), instanceId());
});
