// How long to wait before dialling again.

const FIRST_MS = 100;
const LONGEST_MS = 5_000;

/** After an incompatible version: somebody has to install something first. */
export const PROTOCOL_RETRY_MS = 60_000;

/** 0.1 s doubling to 5 s, each wait shortened at random by up to a half, so that hosts do not dial in step. */
export class Backoff {
  #random: () => number;
  #step = FIRST_MS;
  #hold = 0;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  next(): number {
    const full = Math.max(this.#step, this.#hold);
    this.#hold = 0;
    this.#step = Math.min(this.#step * 2, LONGEST_MS);
    return full * (1 - this.#random() / 2);
  }

  /** Makes the next wait at least half of this long. */
  hold(ms: number): void {
    this.#hold = ms;
  }

  reset(): void {
    this.#step = FIRST_MS;
    this.#hold = 0;
  }
}
