// A whole host without omp, against a daemon driven by hand: what the shared transcripts do not say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_FRAME } from "./src/frames.ts";
import { Pair, PATIENCE_MS, within, type Peer } from "./testkit/fake.ts";

const REF = '{"front":"mcp","rpc":12345678901234567890,"token":"t1","peer":"laptop"}';

function call(id: number, callId: string, tool: string, args: object, more: object = {}): string {
  const rest = JSON.stringify({ tool, args, peer: { name: "laptop", client: "omp" }, approvalMs: 60_000, waitedMs: 0, ...more });
  return `{"id":${id},"method":"call","params":{"callId":"${callId}","ref":${REF},${rest.slice(1)}}`;
}

async function attached(run: (pair: Pair, peer: Peer) => Promise<void>, welcome: object = {}): Promise<void> {
  const pair = new Pair();
  try {
    await pair.listen();
    pair.host.start();
    const peer = await pair.accept();
    await peer.welcome(welcome);
    await run(pair, peer);
  } finally {
    pair.close();
  }
}

test("omp first, daemon later", async () => {
  const pair = new Pair();
  try {
    pair.host.start();
    await within("a failed attempt", () => true, () => undefined);
    await pair.listen();
    await (await pair.accept()).welcome();
    await within("the welcome", () => pair.host.up, () => undefined);
  } finally {
    pair.close();
  }
});

test("references cross byte for byte, over a lost link", () =>
  attached(async (pair, peer) => {
    peer.raw(call(5, "c_1", "slow", {}));
    assert.equal((await peer.frame()).method, "accepted");
    assert.equal((await peer.frame()).method, "progress");
    peer.socket.destroy();
    const next = await pair.accept();
    const hello = (await next.line())!;
    assert.ok(hello.includes(`"running":[{"callId":"c_1","ref":${REF}}]`), hello);
  }));

test("a result while there is no link is kept and given on the next", () =>
  attached(async (pair, peer) => {
    peer.raw(call(5, "c_1", "slow", {}));
    await peer.frame();
    await peer.frame();
    peer.socket.destroy();
    await within("the loss", () => !pair.host.up, () => undefined);
    pair.session.drive("finish");
    const next = await pair.accept();
    const hello = await next.welcome({ resumed: [{ callId: "c_1", id: 40 }] });
    assert.deepEqual(hello.params.unacked.map((c: any) => c.callId), ["c_1"]);
    assert.deepEqual(await next.frame(), { id: 40, method: "accepted", params: {} });
    assert.deepEqual((await next.frame()).result.content, [{ type: "text", text: "done" }]);
    next.send({ method: "ack", params: { callId: "c_1" } });
    await next.sync();
    next.socket.destroy();
    assert.deepEqual((await (await pair.accept()).welcome()).params.unacked, []);
  }));

test("a result that is let go for its size leaves the word that it ran", () =>
  attached(async (pair, peer) => {
    const text = "x".repeat(30 * 1024 * 1024);
    pair.session.prepare = () => ({ run: () => Promise.resolve({ content: [{ type: "text", text }] }) });
    for (const n of [1, 2, 3]) {
      peer.raw(call(n, `c_${n}`, "echo", {}));
      await peer.frame();
      assert.equal((await peer.frame()).result.content[0].text.length, text.length);
    }
    peer.socket.destroy();
    const next = await pair.accept();
    const hello = await next.welcome({ resumed: [{ callId: "c_1", id: 40 }] });
    assert.deepEqual(hello.params.unacked.map((c: any) => c.callId), ["c_1", "c_2", "c_3"]);
    assert.equal((await next.frame()).method, "accepted");
    const { kind, executed } = (await next.frame()).error;
    assert.deepEqual([kind, executed], ["fault", "yes"]);
  }));

test("the same call twice on one link runs once", () =>
  attached(async (pair, peer) => {
    peer.raw(call(5, "c_1", "slow", {}));
    await peer.frame();
    await peer.frame();
    peer.raw(call(6, "c_1", "slow", {}));
    assert.deepEqual(await peer.frame(), { id: 6, method: "accepted", params: {} });
    pair.session.drive("finish");
    assert.equal((await peer.frame()).id, 6);
    assert.deepEqual(pair.session.started, ["c_1"]);
  }));

test("a result of more than a frame is refused by name, and the link stays", () =>
  attached(async (pair, peer) => {
    const fits = MAX_FRAME - 64 - '"result":{"content":[{"type":"text","text":""}]}'.length;
    for (const [n, size] of [fits, fits + 1].entries()) {
      pair.session.prepare = () => ({ run: () => Promise.resolve({ content: [{ type: "text", text: "x".repeat(size) }] }) });
      peer.raw(call(5 + n, `c_${n}`, "echo", {}));
      await peer.frame();
      const { result, error } = await peer.frame();
      if (n === 0) assert.equal(result.content[0].text.length, size);
      else assert.deepEqual([error.kind, error.executed, /32\.0 MiB/.test(error.message)], ["resultTooLarge", "yes", true]);
    }
    await peer.sync();
  }));

test("lone surrogates in a result arrive as U+FFFD", () =>
  attached(async (_pair, peer) => {
    peer.raw(call(5, "c_1", "echo", {}).replace('"args":{}', '"args":{"text":"a\\ud83db"}'));
    await peer.frame();
    assert.equal((await peer.frame()).result.content[0].text, "a\ufffdb");
  }));

test("calls that break the rules are refused, not fatal", () =>
  attached(async (_pair, peer) => {
    for (const params of [{}, { callId: "c_1" }, { callId: "c_1", tool: "echo", args: [1] }, { callId: 7, tool: "echo" }]) {
      peer.send({ id: 5, method: "call", params });
      assert.equal((await peer.frame()).method, "accepted");
      assert.equal((await peer.frame()).error.executed, "no", JSON.stringify(params));
    }
    peer.send({ id: 6, method: "cancel", params: {} });
    peer.send({ method: "ack", params: {} });
    peer.send({ method: "you", params: { peers: "nobody" } });
    await peer.sync();
  }));

test("a failing screen changes nothing", () =>
  attached(async (pair, peer) => {
    pair.session.emit = () => {
      throw new Error("no screen");
    };
    pair.session.notify = () => {
      throw new Error("no screen");
    };
    pair.session.setStatus = () => {
      throw new Error("no screen");
    };
    peer.send({ method: "you", params: { name: "app", main: true, peers: ["laptop"], running: 1, paused: false } });
    peer.raw(call(5, "c_1", "echo", { text: "fine" }));
    await peer.frame();
    assert.equal((await peer.frame()).result.content[0].text, "fine");
    assert.ok(pair.session.logged.some((l) => l.includes("no screen")));
  }));

test("cards tell who asks for what, and store no arguments", () =>
  attached(async (pair, peer) => {
    const events: any[] = [];
    pair.session.emit = (e) => events.push(e);
    peer.raw(call(5, "c_7f3kq2", "echo", { text: "hi", command: "rm -rf /", path: "/etc" }, { waitedMs: 6_900 }));
    await peer.frame();
    await peer.frame();
    assert.deepEqual(events.map((e) => e.type), ["tool_execution_start", "tool_execution_end"]);
    assert.equal(events[0].toolName, "laptop ▸ echo  c_7f3kq2");
    assert.deepEqual(events[0].args, { text: "hi", cmd: "rm -rf /", file: "/etc" });
    assert.equal(typeof events[0].toolCallId, "number"); // omp must not take the card for a call that was cut off
    assert.match(events[1].result.content[0].text, /^\d+\.\d s, waited 7 s for omp, ran once\nhi$/);
  }));

test("a card is begun again when a turn may have frozen it", () =>
  attached(async (pair, peer) => {
    const events: any[] = [];
    pair.session.emit = (e) => events.push(e);
    peer.raw(call(5, "c_1", "slow", {}));
    await peer.frame();
    await peer.frame();
    pair.host.turn(false);
    pair.session.drive("finish");
    while ((await peer.frame()).result === undefined);
    const types = events.map((e) => e.type.replace("tool_execution_", ""));
    assert.deepEqual(types, ["start", "update", "start", "end"]);
    assert.equal(new Set(events.map((e) => e.toolCallId)).size, 1);
  }));

test("a question that stands after its call is over is named", () =>
  attached(async (pair, peer) => {
    const said = (): string[] => pair.session.shown.filter((t) => t.includes("answer Deny"));
    peer.raw(call(5, "c_1", "ask", {}));
    while ((await peer.frame()).params?.state !== "pending");
    peer.send({ id: 5, method: "cancel", params: { reason: "cancelled" } });
    while ((await peer.frame()).error === undefined);
    assert.deepEqual(said(), ["a2a: c_1 (ask) is over and nobody waits for it: answer Deny"]);
    pair.session.drive("deny");
    peer.raw(call(6, "c_2", "ask", {}));
    while ((await peer.frame()).params?.state !== "pending");
    pair.session.drive("approve");
    while ((await peer.frame()).result === undefined);
    assert.equal(said().length, 1, "an answered question is not named");
  }));

test("what the owner is told about the link", () =>
  attached(
    async (pair, peer) => {
      await peer.sync();
      assert.deepEqual(pair.session.shown.slice(0, 1), [
        'a2a: attached as "app" on http://0.0.0.0:7717/mcp. Peers: laptop, ci. /a2a shows more.',
      ]);
      assert.match(pair.session.shown[1]!, /listens beyond loopback \(http:\/\/0\.0\.0\.0:7717\/mcp\)/);
      peer.send({ method: "you", params: { name: "app", main: true, peers: ["laptop"], running: 2, paused: false } });
      peer.send({ method: "you", params: { name: "app", main: true, peers: [], running: 0, paused: true } });
      await peer.sync();
      peer.socket.destroy();
      const again = await pair.accept();
      await again.welcome({ address: "http://0.0.0.0:7717/mcp", insecure: true, names: ["laptop", "ci"], seen: ["laptop", "ci"] });
      await again.sync();
      assert.equal(pair.session.shown.length, 2, "said once");
      assert.deepEqual(pair.session.status, ["a2a app", "a2a app · laptop · 2 running", "a2a app · paused", "a2a app · reconnecting", "a2a app"]);
    },
    { address: "http://0.0.0.0:7717/mcp", insecure: true, names: ["laptop", "ci"], seen: ["laptop", "ci"] },
  ));

test("a refused hello is said once and tried again", async () => {
  const pair = new Pair();
  try {
    await pair.listen();
    pair.host.start();
    for (let n = 0; n < 2; n++) {
      const peer = await pair.accept();
      const hello = await peer.frame();
      peer.send({ id: hello.id, error: { kind: "conflict", message: "attached already", executed: "no" } });
      assert.equal(await peer.line(), undefined);
    }
    assert.equal(pair.session.logged.filter((l) => l.includes("conflict")).length, 1);
  } finally {
    pair.close();
  }
});

test("a link that stops reading costs no memory for progress", () =>
  attached(async (pair, peer) => {
    peer.socket.pause();
    for (let n = 0; n < 200; n++) peer.raw(call(100 + n, `c_${n}`, "echo", { text: "y".repeat(200_000) }));
    await within("the calls", () => pair.session.started.length === 200, () => undefined);
    peer.socket.resume();
    let answers = 0;
    const end = performance.now() + PATIENCE_MS;
    while (answers < 200 && performance.now() < end) if ((await peer.frame()).result) answers++;
    assert.equal(answers, 200, "every answer arrives whole");
  }));
