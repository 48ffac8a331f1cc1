// Partial output on its way to the caller: new text only, in small pieces, not too often.

/** Longest text of one progress event, in bytes. */
export const MAX_TEXT = 4 * 1024;
/** At most five events a second. */
export const INTERVAL_MS = 200;
/** How much of the end of the last snapshot is looked for in the next one when its beginning was cut off. */
const OVERLAP = 512;

/** What `next` has that `previous` had not. Snapshots are cumulative; a long one may have lost its beginning. */
export function newText(previous: string, next: string): string {
  if (next.startsWith(previous)) return next.slice(previous.length);
  const tail = previous.slice(-OVERLAP);
  for (let cut = 0; cut < tail.length; cut++) {
    const piece = tail.slice(cut);
    const at = next.lastIndexOf(piece);
    // shorter pieces match by accident: only accept them at the very beginning
    if (at === 0 || (at > 0 && cut === 0)) return next.slice(at + piece.length);
  }
  return next;
}

/** The end of the text that fits into so many bytes of UTF-8, cut between characters. */
export function clipTail(text: string, bytes: number): string {
  let tail = text.slice(-bytes);
  if (Buffer.byteLength(tail) > bytes) {
    const raw = Buffer.from(tail);
    let from = raw.length - bytes;
    while (from < raw.length && (raw[from]! & 0xc0) === 0x80) from++;
    tail = raw.subarray(from).toString("utf8");
  }
  return tail;
}

/** Sends the new text of snapshots. When more comes than may be sent, the newest is kept. */
export class Progress {
  #send: (text: string) => void;
  #last = "";
  #pending = "";
  #sentAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (text: string) => void) {
    this.#send = send;
  }

  snapshot(text: string): void {
    const added = newText(this.#last, text);
    this.#last = text;
    if (added === "") return;
    this.#pending = clipTail(this.#pending + added, MAX_TEXT);
    const wait = this.#sentAt + INTERVAL_MS - performance.now();
    if (wait <= 0) {
      this.flush();
    } else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => this.flush(), wait);
      this.#timer.unref();
    }
  }

  /** Sends what is pending; the last piece goes out this way just before the answer. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pending === "") return;
    const text = this.#pending;
    this.#pending = "";
    this.#sentAt = performance.now();
    this.#send(text);
  }

  /** No more events. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pending = "";
  }
}
