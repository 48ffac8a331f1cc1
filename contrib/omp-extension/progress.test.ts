import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, PROTOCOL_RETRY_MS } from "./src/backoff.ts";
import { MAX_TEXT, Progress, clipTail, newText } from "./src/progress.ts";
import { within } from "./testkit/fake.ts";

test("only the new text of a cumulative snapshot", () => {
  const cases: [string, string, string][] = [
    ["", "one", "one"],
    ["one", "one\ntwo", "\ntwo"],
    ["one", "one", ""],
    ["0123456789", "56789abc", "abc"], // the beginning was cut off
    ["aaaa\nbbbb\n", "[cut]\nbbbb\ncccc\n", "[cut]\nbbbb\ncccc\n"], // nothing in common at its place
    ["old", "entirely different", "entirely different"],
  ];
  for (const [previous, next, want] of cases) assert.equal(newText(previous, next), want, `${previous} → ${next}`);
});

test("a long snapshot that lost its beginning and got a heading", () => {
  const lines = Array.from({ length: 400 }, (_, i) => `line ${i}`);
  const next = `[showing the end]\n${[...lines.slice(100), "new"].join("\n")}`;
  assert.equal(newText(lines.join("\n"), next), "\nnew");
});

test("the end of a text is cut between characters", () => {
  assert.equal(clipTail("abc", 10), "abc");
  assert.equal(clipTail("aéé", 3), "é"); // the first é would be cut in half
  assert.equal(clipTail("x😀", 4), "😀");
  assert.equal(clipTail("x😀", 3), "");
  assert.ok(Buffer.byteLength(clipTail("✓".repeat(9_999), MAX_TEXT)) <= MAX_TEXT);
});

test("at most five pieces a second, none over 4 KiB, and the last is never lost", async () => {
  const sent: { at: number; text: string }[] = [];
  const progress = new Progress((text) => sent.push({ at: performance.now(), text }));
  let all = "";
  const began = performance.now();
  await within("half a second", () => performance.now() - began > 500, (wake) => {
    all += `${"z".repeat(3_000)}${all.length}\n`;
    progress.snapshot(all);
    setImmediate(wake);
  });
  all += "the end";
  progress.snapshot(all);
  progress.flush();
  const last = sent.pop()!;
  assert.ok(last.text.endsWith("the end"));
  assert.ok(sent.length >= 2 && sent.length <= 4, `${sent.length} pieces in half a second`);
  for (const [i, s] of sent.entries()) {
    assert.ok(Buffer.byteLength(s.text) <= MAX_TEXT);
    if (i > 0) assert.ok(s.at - sent[i - 1]!.at >= 190, "too soon");
  }
});

test("back-off doubles to five seconds, shortened by up to a half, and starts again", () => {
  const longest = new Backoff(() => 0);
  assert.deepEqual(Array.from({ length: 8 }, () => longest.next()), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
  const shortest = new Backoff(() => 0.999_999);
  assert.ok(Math.abs(shortest.next() - 50) < 1);
  longest.reset();
  assert.equal(longest.next(), 100);
  longest.hold(PROTOCOL_RETRY_MS);
  assert.equal(longest.next(), 60_000);
  assert.equal(longest.next(), 400);
});
