// The /a2a command.

import { HELP, NOT_ATTACHED, RECONNECTING, secretText, statusText } from "./texts.ts";
import type { LinkError } from "./frames.ts";

export interface CommandHost {
  readonly up: boolean;
  /** It has been attached before. */
  readonly known: boolean;
  request(params: object): Promise<unknown>;
  /** Names of tokens, for completion. */
  names(): string[];
}

export type Say = (text: string, type: "info" | "warning" | "error") => void;

const VERBS: [string, string][] = [
  ["status", "address, tokens and calls"],
  ["token", "make a token and show it once"],
  ["rotate", "replace a token"],
  ["pause", "take no more calls"],
  ["resume", "take calls again"],
  ["help", "what can be typed here"],
];

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Runs one line. Never rejects. */
export async function runCommand(line: string, host: CommandHost, say: Say): Promise<void> {
  const [verb = "status", ...rest] = line.trim().split(/\s+/).filter((w) => w !== "");
  const argument = rest[0] ?? "";
  try {
    if (rest.length > 1) return say(`a2a: too many words after "${verb}"\n${HELP}`, "error");
    if (verb === "help") return say(HELP, "info");
    if (!VERBS.some(([v]) => v === verb)) return say(`a2a: there is no "${verb}"\n${HELP}`, "error");
    if (!host.up) return say(host.known ? RECONNECTING : NOT_ATTACHED, "warning");
    switch (verb) {
      case "status":
        return say(statusText(await host.request({ verb: "status" }), Date.now()), "info");
      case "token":
      case "rotate":
        return say(secretText(verb, await host.request({ verb, name: argument })), "info");
      case "pause": {
        const forMs = argument === "" ? 0 : parseDuration(argument);
        if (forMs === undefined) return say(`a2a: "${argument}" is not a time such as 90s, 10m or 2h`, "error");
        await host.request({ verb: "pause", forMs });
        return say(`a2a: paused${forMs > 0 ? ` for ${argument}` : ""}. Callers are told; running calls finish. To go on: /a2a resume`, "info");
      }
      case "resume":
        await host.request({ verb: "resume" });
        return say("a2a: taking calls again", "info");
    }
  } catch (error) {
    say(`a2a: ${(error as LinkError | undefined)?.message ?? String(error)}`, "error");
  }
}

export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(s|m|h|d)$/.exec(text);
  if (!match) return undefined;
  const ms = Number(match[1]) * UNITS[match[2]!]!;
  return ms > 0 && Number.isSafeInteger(Math.round(ms)) ? Math.round(ms) : undefined;
}

/** What fits after "/a2a ". A word that is complete offers nothing: Enter would take the offer instead of the line. */
export function complete(prefix: string, names: string[]): { value: string; label: string; description?: string }[] | null {
  const words = prefix.trimStart().split(/\s+/);
  const last = words.at(-1)!;
  let offers: { value: string; label: string; description?: string }[] = [];
  if (words.length === 1) offers = VERBS.map(([v, description]) => ({ value: v, label: v, description }));
  else if (words.length === 2 && words[0] === "rotate") offers = names.map((n) => ({ value: `rotate ${n}`, label: n }));
  if (offers.some((o) => o.label === last)) return null;
  offers = offers.filter((o) => o.label.startsWith(last));
  return offers.length > 0 ? offers : null;
}
