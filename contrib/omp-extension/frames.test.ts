import assert from "node:assert/strict";
import { test } from "node:test";
import { LineReader, MAX_FRAME, parseFrame, rawMember, toJSON } from "./src/frames.ts";

function read(chunks: Buffer[]): string[] {
  const lines: string[] = [];
  const reader = new LineReader();
  for (const c of chunks) reader.push(c, (l) => lines.push(l), () => lines.push("TOO LONG"));
  return lines;
}

test("lines arrive whole however the bytes are cut", () => {
  const bytes = Buffer.from('{"a":"grüße ✓"}\n\n{"b":"😀"}\nrest');
  for (let size = 1; size <= bytes.length; size++) {
    const chunks = [];
    for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
    assert.deepEqual(read(chunks), ['{"a":"grüße ✓"}', "", '{"b":"😀"}'], `cut every ${size} bytes`);
  }
});

test("a line of exactly the limit passes, one byte more is read over", () => {
  const most = Buffer.alloc(MAX_FRAME, "x");
  assert.deepEqual(
    read([most, Buffer.from("\nok\n")]).map((l) => l.length),
    [MAX_FRAME, 2],
  );
  assert.deepEqual(read([most, Buffer.from("x"), Buffer.from("x\nok\n")]), ["TOO LONG", "ok"]);
});

test("forms of frames", () => {
  const cases: [string, unknown][] = [
    ['{"id":1,"method":"call","params":{"a":1}}', { form: "request", id: 1, method: "call", params: { a: 1 } }],
    ['{"id":1,"method":"cancel","params":{}}', { form: "event", id: 1, method: "cancel", params: {} }],
    ['{"id":2,"result":{"x":1}}', { form: "answer", id: 2, result: { x: 1 }, error: undefined }],
    ['{"id":2,"error":{"kind":"k","message":"m"}}', { form: "answer", id: 2, result: undefined, error: { kind: "k", message: "m", executed: undefined } }],
    ['{"method":"ack"}', { form: "notice", method: "ack", params: {} }],
    ['{"method":"ack","params":[1]}', { form: "notice", method: "ack", params: {} }],
  ];
  for (const [line, want] of cases) {
    const { text, ...got } = parseFrame(line) as { text?: string };
    assert.deepEqual(got, want, line);
  }
  for (const line of ["", "x", "[]", "7", "null", '"x"', "{}", '{"id":0,"method":"x"}', '{"id":1.5,"method":"x"}', '{"id":1}', '{"method":1}'])
    assert.equal(typeof parseFrame(line), "string", line);
});

test("lone surrogates become U+FFFD, and nothing else does", () => {
  const cases: [string, string][] = [
    ["a\ud800b", "a\ufffdb"],
    ["\udfff", "\ufffd"],
    ["😀 ok", "😀 ok"],
    ["\\ud800", "\\ud800"], // a backslash and five letters
    ["\\\ud800", "\\\ufffd"],
    ["tab\t\"quote\"\u0001", "tab\t\"quote\"\u0001"],
  ];
  for (const [text, want] of cases) assert.equal((JSON.parse(toJSON({ text })) as { text: string }).text, want, JSON.stringify(text));
  assert.ok(!toJSON("line\nbreak").includes("\n"));
});

test("a raw member keeps its bytes", () => {
  const line = '{"id":3,"method":"call","params":{"callId":"c","x":{"ref":1},"ref":{"rpc":12345678901234567890, "s":"}\\"{"},"args":{}}}';
  assert.equal(rawMember(line, "params", "ref"), '{"rpc":12345678901234567890, "s":"}\\"{"}');
  assert.equal(rawMember(line, "id"), "3");
  assert.equal(rawMember('{ "a" : 1.50 , "b" : [1, {"c":2}] }', "a"), "1.50");
  assert.equal(rawMember('{ "a" : 1.50 , "b" : [1, {"c":2}] }', "b"), '[1, {"c":2}]');
  assert.equal(rawMember('{"p":7}', "p", "ref"), undefined);
  assert.equal(rawMember(line, "params", "nope"), undefined);
  assert.equal(rawMember('{"a":null}', "a"), "null");
});
