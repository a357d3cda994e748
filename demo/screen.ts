import { styleText } from 'node:util';
import { orders, steps, type Step } from './order.ts';
import type { Progress, StepState } from './progress.ts';

/** The output of the demo: permanent lines, and the state of the orders. */
export interface Screen {
  say(line?: string): void;
  /** Shows the new state of a step. */
  changed(order: string, step: Step, state: StepState): void;
  /** Restores the terminal. */
  end(): void;
}

/** A board redrawn in place on a terminal; plain lines for a file, a pipe, or with `NO_COLOR`. */
export function openScreen(progress: Progress): Screen {
  const { stdout, env } = process;
  const drawable = stdout.isTTY && !env['NO_COLOR'] && stdout.columns >= 78;
  return drawable ? new LiveScreen(progress) : new PlainScreen();
}

class PlainScreen implements Screen {
  readonly #startedAt = performance.now();

  say(line = ''): void {
    console.log(line);
  }

  changed(order: string, step: Step, state: StepState): void {
    const seconds = ((performance.now() - this.#startedAt) / 1_000).toFixed(1);
    console.log(`  ${seconds.padStart(4)} s  ${order}  ${step}: ${state}`);
  }

  end(): void {
    // Nothing to restore.
  }
}

const frames = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';
const hideCursor = '\x1b[?25l';
const showCursor = '\x1b[?25h';

class LiveScreen implements Screen {
  readonly #progress: Progress;
  readonly #timer: NodeJS.Timeout;
  #drawnLines = 0;
  #frame = 0;
  #begun = false;
  #ended = false;

  constructor(progress: Progress) {
    this.#progress = progress;
    process.stdout.write(hideCursor);
    this.#timer = setInterval(() => this.#draw(), 80);
  }

  say(line = ''): void {
    this.#erase();
    console.log(line);
    this.#draw();
  }

  changed(): void {
    this.#begun = true;
    this.#draw();
  }

  end(): void {
    if (this.#ended) return;
    clearInterval(this.#timer);
    this.#draw();
    this.#ended = true;
    // Keep the last board, and print later lines below it.
    this.#drawnLines = 0;
    process.stdout.write(showCursor);
  }

  #erase(): void {
    if (this.#drawnLines > 0) process.stdout.write(`\x1b[${this.#drawnLines}A\x1b[J`);
    this.#drawnLines = 0;
  }

  #draw(): void {
    if (!this.#begun || this.#ended) return;
    this.#frame += 1;
    const lines = ['', ...orders.map(({ id }) => this.#orderLine(id)), '', this.#bar(), ''];
    this.#erase();
    process.stdout.write(`${lines.join('\n')}\n`);
    this.#drawnLines = lines.length;
  }

  #orderLine(order: string): string {
    const cells = steps.map((step) => {
      const kept = this.#progress.isKept(order, step);
      return this.#cell(step, this.#progress.state(order, step), kept);
    });
    return `  ${styleText('bold', order)}   ${cells.join('   ')}`;
  }

  #cell(step: Step, state: StepState, kept: boolean): string {
    switch (state) {
      case 'waiting':
        return styleText('dim', `· ${step}`);
      case 'running':
        return styleText('cyan', `${frames[this.#frame % frames.length]} ${step}`);
      case 'interrupted':
        return styleText('red', `✖ ${step}`);
      case 'done':
        return styleText('green', kept ? `✔ ${styleText('dim', step)}` : `✔ ${step}`);
    }
  }

  #bar(): string {
    const { total } = this.#progress;
    const done = this.#progress.count('done');
    const width = 36;
    const filled = Math.round((width * done) / total);
    const bar =
      styleText('green', '█'.repeat(filled)) + styleText('dim', '░'.repeat(width - filled));
    return `  ${bar}  ${done} of ${total} steps recorded`;
  }
}
