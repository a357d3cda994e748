import type { Output } from '../command.ts';
import { clean, cut } from '../text/format.ts';

const enter = '\u001B[?1049h\u001B[?25l';
const leave = '\u001B[?25h\u001B[?1049l';

/** A key of `perdure top`. */
type Key = 'quit' | 'interrupt' | 'pause' | 'up' | 'down';

const keys: Readonly<Record<string, Key>> = {
  q: 'quit',
  Q: 'quit',
  '\u001B': 'quit',
  '\u0003': 'interrupt',
  p: 'pause',
  ' ': 'pause',
  '\u001B[A': 'up',
  '\u001BOA': 'up',
  k: 'up',
  '\u001B[B': 'down',
  '\u001BOB': 'down',
  j: 'down',
};

/** Splits what a terminal sends into keys. Unknown ones are left out. */
export function readKeys(input: string): readonly Key[] {
  // An arrow is one sequence, not an escape and two letters.
  // oxlint-disable-next-line eslint/no-control-regex -- the escape of a sequence
  const parts = input.match(/\u001B(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])?|[^\u001B]/gu) ?? [];
  return parts.flatMap((part) => keys[part] ?? []);
}

/** The parts of the standard input that a screen needs. */
interface KeyInput {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  off(event: 'data', listener: (chunk: Buffer) => void): unknown;
  resume(): unknown;
  pause(): unknown;
}

/** A full screen in the alternate buffer. `close` restores the terminal, also when the process exits by an error. */
export class Screen {
  readonly #output: Output;
  readonly #input: KeyInput;
  readonly #onData: (chunk: Buffer) => void;
  readonly #onExit = (): void => this.close();
  #isOpen = true;

  constructor(output: Output, input: KeyInput, onKey: (key: Key) => void) {
    this.#output = output;
    this.#input = input;
    this.#onData = (chunk) => {
      for (const key of readKeys(chunk.toString('utf8'))) onKey(key);
    };
    process.once('exit', this.#onExit);
    output.write(enter);
    if (input.isTTY === true) {
      input.setRawMode?.(true);
      input.on('data', this.#onData);
      input.resume();
    }
  }

  /** Draws lines from an offset, with a header and a footer that stay. */
  draw(frame: {
    readonly header: string;
    readonly lines: readonly string[];
    readonly footer: string;
    readonly offset: number;
  }): void {
    if (!this.#isOpen) return;
    const { columns, rows } = this.#output;
    const room = Math.max(0, rows - 2);
    const shown = frame.lines.slice(frame.offset, frame.offset + room);
    const padding = Array.from({ length: room - shown.length }, () => '');
    const all = [
      this.#output.style('bold', cut(clean(frame.header), columns)),
      ...shown,
      ...padding,
      this.#output.style('dim', cut(clean(frame.footer), columns)),
    ].slice(0, rows);
    // One write per frame: the terminal never shows half of it.
    this.#output.write(`\u001B[H${all.map((line) => `${line}\u001B[K`).join('\r\n')}\u001B[J`);
  }

  /** Restores the terminal. Idempotent. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    process.off('exit', this.#onExit);
    if (this.#input.isTTY === true) {
      this.#input.off('data', this.#onData);
      this.#input.setRawMode?.(false);
      this.#input.pause();
    }
    this.#output.write(leave);
  }
}
