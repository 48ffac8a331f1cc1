// The tools of the session as the daemon lists them.

import { createHash } from "node:crypto";
import { toJSON } from "./frames.ts";

export interface ToolEntry {
  name: string;
  tier: string;
  source: string;
  definition: { name: string; description: string; inputSchema?: unknown };
}

/** What omp says of a tool. */
export interface ToolSource {
  name: string;
  description: string;
  parameters: unknown;
  source: string;
}

export interface CatalogueSource {
  tools(): ToolSource[];
  /** JSON Schema of a tool's parameters. */
  schema(tool: ToolSource): unknown;
  /** The approval tier that the tool declares; a function or nothing when it depends on the arguments. */
  approval(name: string): unknown;
}

export interface Catalogue {
  hash: string;
  tools: ToolEntry[];
}

/** Builds the catalogue, and builds it again only when omp's tools have changed. */
export class CatalogueCache {
  #source: CatalogueSource;
  #log: (text: string) => void;
  #signature = "";
  #catalogue: Catalogue | undefined;
  #marks = new WeakMap<object, number>();
  #nextMark = 1;

  constructor(source: CatalogueSource, log: (text: string) => void) {
    this.#source = source;
    this.#log = log;
  }

  /** The present catalogue; undefined while the host cannot list its tools. */
  current(): Catalogue | undefined {
    let tools: ToolSource[];
    let signature: string;
    try {
      tools = this.#source.tools();
      signature = this.#sign(tools);
    } catch {
      return this.#catalogue; // between two sessions: the last one known
    }
    if (signature === this.#signature && this.#catalogue) return this.#catalogue;
    const entries = tools.map((tool) => this.#entry(tool));
    const hash = `sha256:${createHash("sha256").update(toJSON(entries)).digest("hex")}`;
    this.#signature = signature;
    this.#catalogue = { hash, tools: entries };
    return this.#catalogue;
  }

  #entry(tool: ToolSource): ToolEntry {
    const definition: ToolEntry["definition"] = { name: tool.name, description: tool.description ?? "" };
    try {
      definition.inputSchema = this.#source.schema(tool);
    } catch (error) {
      // sent without a schema: the daemon lists it with one that takes any object, and omp checks the arguments anyway
      this.#log(`tool ${tool.name} has no readable schema: ${String(error)}`);
    }
    return { name: tool.name, tier: this.#source.approval(tool.name) === "read" ? "read" : "", source: tool.source, definition };
  }

  /** Cheap to make on every tick: schemas are compared by identity, not by content. */
  #sign(tools: ToolSource[]): string {
    return toJSON(tools.map((t) => [t.name, t.description, t.source, this.#mark(t.parameters)]));
  }

  #mark(value: unknown): number {
    if ((typeof value !== "object" && typeof value !== "function") || value === null) return 0;
    let mark = this.#marks.get(value);
    if (mark === undefined) {
      mark = this.#nextMark++;
      this.#marks.set(value, mark);
    }
    return mark;
  }
}
