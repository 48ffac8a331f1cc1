// What the owner reads in omp.

import type { Welcome, You } from "./link.ts";
import { isObject } from "./frames.ts";
import { plain } from "./cards.ts";

/** So many peers fit into the notice. */
const MAX_PEERS = 5;

/** Shown once after attaching. */
export function attachedNotice(w: Welcome): string {
  const more = w.seen.length - MAX_PEERS;
  const names = w.seen.slice(0, MAX_PEERS).map(plain).join(", ");
  const peers = names === "" ? "No peers yet." : `Peers: ${names}${more > 0 ? ` and ${more} more` : ""}.`;
  const main = w.main || w.mainName === "" ? "" : `; main is "${plain(w.mainName)}" (a2actl host use ${plain(w.name)})`;
  return `a2a: attached as "${plain(w.name)}" on ${plain(w.address)}${main}. ${peers} /a2a shows more.`;
}

export function insecureWarning(address: string): string {
  return (
    `a2a: this bridge listens beyond loopback (${plain(address)}): whoever reaches it with a token uses your tools, ` +
    `and without TLS in front the token travels in the clear. To undo it: take http.host out of its config.yaml and restart a2a-bridge`
  );
}

/** The status line: "a2a app · laptop". undefined takes it away. */
export function statusLine(name: string, up: boolean, you: You | undefined): string | undefined {
  if (name === "") return undefined;
  const parts = [`a2a ${plain(name)}`];
  if (!up) parts.push("reconnecting");
  else if (you?.paused) parts.push("paused");
  if (up && you) {
    if (you.peers.length > 0) parts.push(you.peers.map(plain).join(", "));
    if (you.running > 0) parts.push(`${you.running} running`);
  }
  return parts.join(" · ");
}

/** The answer to /a2a. Takes the daemon's reply as it came. */
export function statusText(reply: unknown, now: number): string {
  const r = isObject(reply) ? reply : {};
  const flags = [r.main === true ? "main" : "", r.paused === true ? "paused" : ""].filter((f) => f !== "");
  const lines = [`a2a: "${plain(String(r.name ?? ""))}"${flags.length > 0 ? ` (${flags.join(", ")})` : ""} on ${plain(String(r.address ?? ""))}`];
  const tokens = Array.isArray(r.tokens) ? r.tokens.filter(isObject) : [];
  if (tokens.length === 0) lines.push("tokens  none: nobody can connect yet. Make one: /a2a token NAME");
  else lines.push(`tokens  ${tokens.map((t) => tokenText(t, now)).join("; ")}`);
  const calls = isObject(r.calls) ? r.calls : {};
  lines.push(`calls   ${Number(calls.running ?? 0)} running, ${Number(calls.waiting ?? 0)} waiting, ${callsToday(calls.today)} today`);
  if (r.insecure === true) lines.push(insecureWarning(String(r.address ?? "")));
  return lines.join("\n");
}

/** A number, or counts by outcome. */
function callsToday(today: unknown): number {
  if (isObject(today)) return Object.values(today).reduce((sum: number, n) => sum + Number(n ?? 0), 0);
  return Number(today ?? 0);
}

function tokenText(token: Record<string, unknown>, now: number): string {
  const name = plain(String(token.name ?? ""));
  const at = typeof token.lastUsed === "string" ? Date.parse(token.lastUsed) : Number.NaN;
  if (!(at > 0)) return `${name} (never used)`; // also Go's zero time, long before 1970
  const client = plain(String(token.client ?? ""));
  return `${name} (${client === "" ? "" : `${client}, `}${ago(now - at)})`;
}

export function ago(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 5) return "now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86_400) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86_400)} days ago`;
}

/** A secret, shown this once: it goes to the screen and nowhere else. */
export function secretText(verb: "token" | "rotate", reply: unknown): string {
  const r = isObject(reply) ? reply : {};
  const name = plain(String(r.name ?? ""));
  const head = verb === "token" ? `New token "${name}", shown this once:` : `The token "${name}" is now, shown this once:`;
  const tail =
    verb === "token"
      ? `Its config for another machine: a2actl print-remote-config ${name}`
      : `The old one stopped working. Its client gets 401 until it has the new one.`;
  return `${head}\n${String(r.token ?? "")}\n${tail}`;
}

export const HELP = [
  "/a2a                 address, tokens and calls",
  "/a2a token [NAME]    make a token and show it once",
  "/a2a rotate [NAME]   replace a token; the old one stops at once",
  "/a2a pause [10m]     take no more calls, until /a2a resume or for a time",
  "/a2a resume          take calls again",
].join("\n");

export const NOT_ATTACHED = "a2a: not attached to a bridge on this machine. Start a2a-bridge (a2a-bridge serve): omp attaches by itself";

export const RECONNECTING = "a2a: reconnecting; the daemon does not answer. Is a2a-bridge running? a2actl status says more";

/** A call is over while omp's question about it still stands: omp offers no way to take a question back. */
export function overNotice(callId: string, tool: string): string {
  return `a2a: ${plain(callId)} (${plain(tool)}) is over and nobody waits for it: answer Deny`;
}
