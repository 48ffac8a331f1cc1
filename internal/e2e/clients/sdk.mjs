// What a client of the official TypeScript SDK sees. Usage: node sdk.mjs {v1|v2} {legacy|modern} URL
// The token is in TOKEN. Prints one JSON document.
const [generation, era, url] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.TOKEN}` };

// The generations differ in the package, in how an era is chosen, and in where callTool takes its options.
async function connect() {
	const info = { name: `typescript-sdk-${generation}`, version: "1" };
	if (generation === "v1") {
		const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
		const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
		const client = new Client(info);
		const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
		await client.connect(transport);
		return { client, transport, call: (params, options) => client.callTool(params, undefined, options) };
	}
	const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
	const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
	const client = new Client(info, { versionNegotiation: { mode } });
	const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
	await client.connect(transport);
	return { client, transport, call: (params, options) => client.callTool(params, options) };
}

const text = (result) => result.content.map((block) => block.text ?? block.type).join("");

// until polls, since nothing tells a client that its cancel has arrived.
async function until(what, ok) {
	const deadline = Date.now() + 20_000;
	for (;;) {
		const seen = await what();
		if (ok(seen) || Date.now() > deadline) return seen;
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
}

const { client, transport, call } = await connect();
const out = {};
out.revision = transport.protocolVersion ?? client.getNegotiatedProtocolVersion?.();

const { tools } = await client.listTools();
out.tools = tools.map((tool) => tool.name);
out.schema = tools.find((tool) => tool.name === "json_schema_2020_12_tool").inputSchema;

out.echo = text(await call({ name: "echo", arguments: { text: "grüße 🎈 <&>\u2028" } }));
out.blocks = (await call({ name: "test_multiple_content_types", arguments: {} })).content.map((block) => block.type);
const failed = await call({ name: "test_error_handling", arguments: {} });
out.failed = [failed.isError, text(failed)];
const unknown = await call({ name: "no_such_tool", arguments: {} });
out.unknown = [unknown.isError, unknown._meta?.["a2a-bridge/executed"]];

const progress = [];
out.progressed = text(await call({ name: "test_tool_with_progress", arguments: {} }, { onprogress: (p) => progress.push(p.progress) }));
out.progress = progress;

// Ten calls at once, each with its own answer.
const texts = Array.from({ length: 10 }, (_, i) => `parallel ${i}`);
out.parallel = (await Promise.all(texts.map((t) => call({ name: "echo", arguments: { text: t } })))).map(text);

// Cancel once the tool runs, which its first progress tells.
const abort = new AbortController();
try {
	await call({ name: "hang", arguments: {} }, { signal: abort.signal, onprogress: () => abort.abort("enough") });
	out.cancelled = "answered";
} catch {
	out.cancelled = "threw";
}
out.hangs = await until(
	async () => text(await call({ name: "hangs", arguments: {} })),
	(seen) => seen === "begun 1, cancelled 1",
);
out.after = text(await call({ name: "echo", arguments: { text: "still here" } }));

await client.close();
console.log(JSON.stringify(out));
