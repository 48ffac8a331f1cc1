// Where this omp runs: the socket of its user's bridge, and where its owner can find it.

import { execFile } from "node:child_process";
import { readlinkSync } from "node:fs";
import { randomUUID } from "node:crypto";

/** tmux answers at once or is stuck. */
const TMUX_MS = 1_000;

type Env = Record<string, string | undefined>;

/** The daemon's host socket. `A2A_BRIDGE_HOST_SOCKET` names another one. */
export function socketPath(env: Env, uid: number | undefined): string {
  if (env.A2A_BRIDGE_HOST_SOCKET) return env.A2A_BRIDGE_HOST_SOCKET;
  const runtime = env.XDG_RUNTIME_DIR || `/run/user/${uid ?? 0}`;
  return `${runtime}/a2a-bridge/host.sock`;
}

/** The terminal that omp reads from, "" when it is not one or cannot be told. */
export function terminal(): string {
  try {
    const path = readlinkSync("/proc/self/fd/0");
    return path.startsWith("/dev/pts/") || path.startsWith("/dev/tty") ? path : "";
  } catch {
    return "";
  }
}

/** "work:0.0" for `tmux attach -t`, "" outside of tmux. Never rejects. */
export function tmuxPane(env: Env): Promise<string> {
  const pane = env.TMUX_PANE;
  if (!env.TMUX || !pane) return Promise.resolve("");
  return new Promise((resolve) => {
    try {
      const args = ["display-message", "-p", "-t", pane, "#{session_name}:#{window_index}.#{pane_index}"];
      execFile("tmux", args, { timeout: TMUX_MS, encoding: "utf8" }, (error, out) => resolve(error ? "" : out.trim()));
    } catch {
      resolve("");
    }
  });
}

/** Random, and the same for as long as the process lives, however often this code is loaded. */
export function instanceId(): string {
  const key = Symbol.for("a2a-bridge.instance");
  const store = globalThis as unknown as Record<symbol, string | undefined>;
  return (store[key] ??= randomUUID());
}
