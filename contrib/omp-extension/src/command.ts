// The /a2a command.

import { HELP, NOT_ATTACHED, secretText, statusText } from "./texts.ts";
import type { LinkError } from "./frames.ts";

export interface CommandHost {
  readonly up: boolean;
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
    if (!host.up) return say(NOT_ATTACHED, "warning");
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

/** What fits after "/a2a ". */
export function complete(prefix: string, names: string[]): { value: string; label: string; description?: string }[] | null {
  const words = prefix.trimStart().split(/\s+/);
  if (words.length <= 1) {
    const found = VERBS.filter(([v]) => v.startsWith(words[0] ?? ""));
    return found.length > 0 ? found.map(([v, description]) => ({ value: v, label: v, description })) : null;
  }
  if (words.length > 2 || words[0] !== "rotate") return null;
  const found = names.filter((n) => n.startsWith(words[1]!));
  return found.length > 0 ? found.map((n) => ({ value: `rotate ${n}`, label: n })) : null;
}
