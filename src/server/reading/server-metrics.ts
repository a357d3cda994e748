import type { RefusalReason } from '../http/refusal.ts';
import type { RouteName } from '../routes/table.ts';

/** How a route was answered, by route and status. */
interface Counted {
  readonly route: RouteName | 'none';
  readonly status: number;
  count: number;
}

/** How many callers were turned away, by status and reason. */
interface Refused {
  readonly status: number;
  readonly reason: RefusalReason;
  count: number;
}

/** What the server counts of itself, since it began. */
export class ServerFigures {
  readonly #answers = new Map<string, Counted>();
  readonly #refused = new Map<string, Refused>();
  /** What is under way right now, by name. */
  readonly #gauges: Readonly<Record<string, () => number>>;

  constructor(gauges: Readonly<Record<string, () => number>>) {
    this.#gauges = gauges;
  }

  /** Counts an answer. */
  count(route: RouteName | 'none', status: number): void {
    const key = `${route} ${status}`;
    const counted = this.#answers.get(key);
    if (counted === undefined) this.#answers.set(key, { route, status, count: 1 });
    else counted.count += 1;
  }

  /** Counts a caller who was turned away. */
  countRefused(status: number, reason: RefusalReason): void {
    const key = `${reason} ${status}`;
    const counted = this.#refused.get(key);
    if (counted === undefined) this.#refused.set(key, { status, reason, count: 1 });
    else counted.count += 1;
  }

  get refused(): readonly Refused[] {
    return [...this.#refused.values()];
  }

  get answers(): readonly Counted[] {
    return [...this.#answers.values()];
  }

  get gauges(): readonly (readonly [name: string, value: number])[] {
    return Object.entries(this.#gauges).map(([name, read]) => [name, read()]);
  }
}
