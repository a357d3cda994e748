const dayMs = 86_400_000;

// No zone changes its offset twice within this time.
const stableMs = 4 * dayMs;

/** The offset of a time zone from UTC: in every zone and year from -12 h to +14 h. */
export class ZoneOffsets {
  readonly #format: Intl.DateTimeFormat;
  readonly #isUtc: boolean;
  /** Between these moments the offset is known: formatting costs more than everything else here. */
  #known = { from: Infinity, to: -Infinity, offset: 0 };

  /** Throws a `RangeError` for an unknown zone. */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    this.#isUtc = this.#format.resolvedOptions().timeZone === 'UTC';
  }

  /** What to add to a moment to get its local time, written as if it were UTC. */
  at(moment: number): number {
    if (this.#isUtc) return 0;
    const { from, to, offset } = this.#known;
    return moment >= from && moment <= to ? offset : this.#compute(moment);
  }

  #compute(moment: number): number {
    const whole = Math.floor(moment / 1_000) * 1_000;
    const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
    for (const { type, value } of this.#format.formatToParts(whole)) fields[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields;
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  }

  /** The moment in `(from, to]` from which on the offset is another than at `from`; `undefined` if it stays. */
  changeBetween(from: number, to: number): number | undefined {
    const before = this.at(from);
    if (this.at(to) === before) {
      this.#learn(from, to, before);
      return undefined;
    }
    let [early, late] = [from, to];
    while (late - early > 1) {
      const middle = Math.floor((early + late) / 2);
      if (this.at(middle) === before) early = middle;
      else late = middle;
    }
    return late;
  }

  #learn(from: number, to: number, offset: number): void {
    if (!(to - from <= stableMs)) return;
    const known = this.#known;
    const joins = known.offset === offset && from <= known.to && to >= known.from;
    this.#known = joins
      ? { from: Math.min(from, known.from), to: Math.max(to, known.to), offset }
      : { from, to, offset };
  }

  /** The first moment of a local time; of one that a change skips, the moment of the change. */
  momentOf(local: number): number {
    const [from, to] = [local - dayMs, local + dayMs];
    const change = this.changeBetween(from, to);
    const first = local - this.at(from);
    if (change === undefined || first < change) return first;
    return Math.max(change, local - this.at(to));
  }
}
