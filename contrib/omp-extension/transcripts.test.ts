// The host's side of the shared transcripts: what the daemon says is played, what the host says is compared.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Pair, type Peer } from "./testkit/fake.ts";

const dir = process.env.A2A_TRANSCRIPTS ?? join(import.meta.dirname, "../../internal/hostlink/testdata/transcripts");
const files = readdirSync(dir).filter((f) => f.endsWith(".jsonl"));

test("there are transcripts", () => assert.ok(files.length >= 15, `${files.length} in ${dir}`));

for (const file of files) {
  test(file, async () => {
    const pair = new Pair();
    try {
      await pair.listen();
      pair.host.start();
      await play(readFileSync(join(dir, file), "utf8"), pair);
    } finally {
      pair.close();
    }
  });
}

async function play(script: string, pair: Pair): Promise<void> {
  const bound = new Map<string, unknown>();
  let peer: Peer | undefined;
  for (const [index, text] of script.split("\n").entries()) {
    if (text === "") continue;
    const step = JSON.parse(text);
    const where = `line ${index + 1}`;
    if (step.note !== undefined) continue;
    if (step.host !== undefined) {
      drive(pair, step.host);
      continue;
    }
    if (step.drop) {
      peer?.socket.destroy();
      peer = undefined;
      continue;
    }
    peer ??= await pair.accept();
    if (step.from === "host") {
      if (step.end) assert.equal(await peer.line(), undefined, `${where}: the link should end`);
      else match(step.frame, await next(peer, step.frame.method === "ping"), bound, where);
      continue;
    }
    if (step.raw !== undefined) peer.raw(step.raw);
    else if (step.long !== undefined) peer.raw("x".repeat(step.long));
    else peer.raw(JSON.stringify(fill(step.frame, bound)));
  }
}

/** The host's next frame; pings that the transcript does not show are skipped. */
async function next(peer: Peer, ping: boolean): Promise<any> {
  for (;;) {
    const frame = await peer.frame();
    if (ping || frame.method !== "ping") return frame;
  }
}

function drive(pair: Pair, what: string): void {
  const { session, host } = pair;
  switch (what) {
    case "close":
      return host.stop();
    case "notReady":
      session.present = false;
      return host.look();
    case "tools":
      session.names = session.names.filter((n) => n !== "boom");
      return host.refresh();
    default:
      return session.drive(what);
  }
}

/** "$any=x" matches anything; "$1=x" binds at its first use. What follows the "=" is a value to play with. */
function match(want: unknown, got: unknown, bound: Map<string, unknown>, where: string): void {
  if (typeof want === "string") {
    const mark = /^\$(any|\d)(=|$)/.exec(want);
    if (mark?.[1] === "any") return assert.notEqual(got, undefined, `${where}: missing`);
    if (mark) {
      if (!bound.has(mark[1]!)) bound.set(mark[1]!, got);
      return assert.deepEqual(got, bound.get(mark[1]!), where);
    }
  }
  if (typeof want !== "object" || want === null) return assert.deepEqual(got, want, where);
  assert.ok(typeof got === "object" && got !== null, `${where}: ${JSON.stringify(got)}`);
  if (Array.isArray(want)) assert.equal((got as unknown[]).length, want.length, `${where}: ${JSON.stringify(got)}`);
  for (const [key, value] of Object.entries(want)) match(value, (got as any)[key], bound, `${where} ${key}`);
}

/** The daemon's frame with its marks replaced. */
function fill(value: unknown, bound: Map<string, unknown>): unknown {
  if (typeof value === "string") {
    const mark = /^\$(any|\d)(?:=([^]*))?$/.exec(value);
    if (!mark) return value;
    if (mark[1] !== "any" && bound.has(mark[1]!)) return bound.get(mark[1]!);
    try {
      return JSON.parse(mark[2]!);
    } catch {
      return mark[2];
    }
  }
  if (Array.isArray(value)) return value.map((v) => fill(v, bound));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, fill(v, bound)]));
}
