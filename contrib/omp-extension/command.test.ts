import assert from "node:assert/strict";
import { test } from "node:test";
import { complete, parseDuration, runCommand, type CommandHost } from "./src/command.ts";
import type { Welcome } from "./src/link.ts";
import { attachedNotice, statusLine, statusText } from "./src/texts.ts";

class Daemon implements CommandHost {
  up = true;
  known = true;
  asked: object[] = [];
  reply: unknown = {};
  error: unknown;
  request(params: object): Promise<unknown> {
    this.asked.push(params);
    return this.error === undefined ? Promise.resolve(this.reply) : Promise.reject(this.error);
  }
  names(): string[] {
    return ["laptop", "ci"];
  }
}

async function run(line: string, daemon = new Daemon()): Promise<{ asked: object[]; said: string; type: string }> {
  let said = "";
  let type = "";
  await runCommand(line, daemon, (text, t) => ((said += text), (type = t)));
  return { asked: daemon.asked, said, type };
}

test("what each line asks of the daemon", async () => {
  const cases: [string, object[]][] = [
    ["", [{ verb: "status" }]],
    ["status", [{ verb: "status" }]],
    ["rotate", [{ verb: "rotate", name: "" }]],
    ["rotate laptop", [{ verb: "rotate", name: "laptop" }]],
    ["  token   ci ", [{ verb: "token", name: "ci" }]],
    ["pause", [{ verb: "pause", forMs: 0 }]],
    ["pause 10m", [{ verb: "pause", forMs: 600_000 }]],
    ["resume", [{ verb: "resume" }]],
    ["pause soon", []],
    ["help", []],
    ["explode", []],
    ["rotate a b", []],
  ];
  for (const [line, want] of cases) assert.deepEqual((await run(line)).asked, want, line);
});

test("a secret is shown once, with what happens to the old one", async () => {
  const daemon = new Daemon();
  daemon.reply = { name: "laptop", token: "a2ab_secret" };
  const { said } = await run("rotate", daemon);
  assert.equal(said.split("a2ab_secret").length - 1, 1);
  assert.match(said, /The old one stopped working/);
});

test("errors carry the daemon's words", async () => {
  const daemon = new Daemon();
  daemon.error = { kind: "conflict", message: "there are several tokens: laptop, ci" };
  const { said, type } = await run("rotate", daemon);
  assert.equal(said, "a2a: there are several tokens: laptop, ci");
  assert.equal(type, "error");
});

test("without a bridge the next thing to type is named", async () => {
  const daemon = new Daemon();
  daemon.up = false;
  const { said, asked } = await run("token", daemon);
  assert.match(said, /^a2a: reconnecting; the daemon does not answer.*a2actl status/);
  assert.deepEqual(asked, []);
  daemon.known = false;
  assert.match((await run("token", daemon)).said, /not attached.*\(a2a-bridge serve\)/);
});

test("the notice of an attached session", () => {
  const welcome = { daemon: "1", address: "http://h/mcp", name: "app", main: true, mainName: "app", catalogue: "known" as const };
  const rest = { resumed: [], insecure: false, names: ["never-used"] };
  const cases: [Partial<Welcome>, string][] = [
    [{}, 'a2a: attached as "app" on http://h/mcp. No peers yet. /a2a shows more.'],
    [{ seen: ["a", "b\u001b"] }, 'a2a: attached as "app" on http://h/mcp. Peers: a, b. /a2a shows more.'],
    [{ seen: [..."abcdefg"] }, 'a2a: attached as "app" on http://h/mcp. Peers: a, b, c, d, e and 2 more. /a2a shows more.'],
    [
      { name: "docs", main: false, address: "http://h/mcp/docs" },
      'a2a: attached as "docs" on http://h/mcp/docs; main is "app" (a2actl host use docs). No peers yet. /a2a shows more.',
    ],
  ];
  for (const [change, want] of cases) assert.equal(attachedNotice({ ...welcome, ...rest, seen: [], ...change }), want);
});

test("durations", () => {
  const cases: [string, number | undefined][] = [
    ["90s", 90_000],
    ["10m", 600_000],
    ["1.5h", 5_400_000],
    ["2d", 172_800_000],
    ["0s", undefined],
    ["10", undefined],
    ["-5m", undefined],
    ["9".repeat(30) + "d", undefined],
  ];
  for (const [text, want] of cases) assert.equal(parseDuration(text), want, text);
});

test("completions", () => {
  assert.deepEqual(complete("ro", [])?.map((c) => c.value), ["rotate"]);
  assert.equal(complete("", [])?.length, 6);
  assert.deepEqual(complete("rotate l", ["laptop", "ci"])?.map((c) => c.value), ["rotate laptop"]);
  assert.equal(complete("rotate laptop", ["laptop", "laptop2"]), null);
  assert.equal(complete("resume", []), null);
  assert.equal(complete("pause 1", ["laptop"]), null);
  assert.equal(complete("xyz", []), null);
});

test("the answer to /a2a", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  const reply = {
    address: "http://127.0.0.1:7717/mcp",
    name: "app",
    main: true,
    paused: false,
    tokens: [
      { name: "laptop", client: "omp", lastUsed: "2026-01-01T11:57:00Z" },
      { name: "ci\u001b[31m", client: "", lastUsed: "0001-01-01T00:00:00Z" },
    ],
    calls: { running: 1, waiting: 0, today: { done: 205, error: 6 } },
    insecure: false,
  };
  assert.equal(
    statusText(reply, now),
    ['a2a: "app" (main) on http://127.0.0.1:7717/mcp', "tokens  laptop (omp, 3 min ago); ci[31m (never used)", "calls   1 running, 0 waiting, 211 today"].join("\n"),
  );
  assert.match(statusText({ ...reply, tokens: [] }, now), /nobody can connect yet/);
  assert.match(statusText({ ...reply, insecure: true }, now), /beyond loopback/);
  for (const odd of [null, 7, "x", {}, { tokens: [1] }]) assert.equal(typeof statusText(odd, now), "string");
});

test("the status line", () => {
  const you = { name: "app", main: true, peers: ["laptop"], running: 0, paused: false };
  assert.equal(statusLine("app", true, you), "a2a app · laptop");
  assert.equal(statusLine("app", false, you), "a2a app · reconnecting");
  assert.equal(statusLine("app", true, { ...you, paused: true, running: 1 }), "a2a app · paused · laptop · 1 running");
  assert.equal(statusLine("", false, undefined), undefined);
});
