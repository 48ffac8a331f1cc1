// What omp's own approval gate did with a call of ours. The gate sits around every tool (ExtensionToolWrapper): policy,
// tool_call handlers of extensions, then the owner's dialog, then the tool itself. It reports with our own call id:
//
//   tool_call                the gate has begun        (not sent when policy denies at once)
//   tool_approval_requested  the dialog is up
//   tool_approval_resolved   it was answered
//   tool_result              the tool itself has ended, well or badly
//
// So an error without a tool_result was thrown by the gate, and nothing ran.

/** The host's words when policy denies before anything else; only this refusal has no event of its own. */
const POLICY_DENIAL = /^Tool "[^"]*" is blocked by (user|tool) policy/;

export interface GateWatcher {
  pending(): void;
  resolved(approved: boolean): void;
}

/** One call's passage through the gate. */
export class Passage {
  watcher: GateWatcher | undefined;
  /** The gate has begun to look at the call. */
  entered = false;
  /** The owner is being asked. */
  pending = false;
  /** The owner's answer; undefined when nobody was asked or nobody answered. */
  approved: boolean | undefined;
  /** The tool itself ran to an end. */
  ran = false;

  /** Whether this error came from the gate: nothing was executed. */
  refused(error: unknown): boolean {
    if (this.approved === false) return true;
    if (this.ran) return false;
    return this.entered || POLICY_DENIAL.test(errorText(error));
  }
}

export class Gate {
  #passages = new Map<string, Passage>();

  open(callId: string, watcher: GateWatcher): Passage {
    const passage = new Passage();
    passage.watcher = watcher;
    this.#passages.set(callId, passage);
    return passage;
  }

  close(callId: string): void {
    this.#passages.delete(callId);
  }

  entered(callId: string): void {
    const p = this.#passages.get(callId);
    if (p) p.entered = true;
  }

  requested(callId: string): void {
    const p = this.#passages.get(callId);
    if (!p || p.pending) return;
    p.pending = true;
    p.watcher?.pending();
  }

  resolved(callId: string, approved: boolean): void {
    const p = this.#passages.get(callId);
    if (!p) return;
    const asked = p.pending;
    p.pending = false;
    p.approved = approved;
    if (asked) p.watcher?.resolved(approved);
  }

  ran(callId: string): void {
    const p = this.#passages.get(callId);
    if (p) p.ran = true;
  }
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a tool gave up because its signal was aborted. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && /abort/i.test(`${error.name} ${error.message}`);
}
