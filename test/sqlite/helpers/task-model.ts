import { type InstanceStatus, isTerminal } from '../../../src/model/status.ts';
import type { OnFailState } from '../../../src/providers/contract/tasks.ts';
import type { WorkOutcome } from '../../../src/providers/contract/work-queue.ts';

export const lockMs = 20;

/** A task run, as the contract defines it. */
interface Run {
  readonly id: string;
  readonly priority: number;
  readonly key: string | undefined;
  readonly hasOnFail: boolean;
  readonly expiresAt: number | undefined;
  startedAt: number | undefined;
  status: InstanceStatus;
  failures: number;
  onFail: OnFailState | null;
  item: Item | undefined;
}

interface Item {
  readonly kind: 'task' | 'onFail';
  /** Grows with every item. */
  readonly order: number;
  nextAt: number;
  expiresAt: number | undefined;
  /** The token of the current or last claim. */
  token: string | undefined;
  lockedUntil: number;
  claimedAt: number;
  claims: number;
  failures: number;
  isFlagged: boolean;
  isPastReturn: boolean;
}

/** How a claim is released. */
export type HandBack = 'retry' | 'abandon' | 'giveBack' | 'unstarted';

export interface NewRun {
  readonly id: string;
  readonly priority: number;
  readonly key: string | undefined;
  readonly delayMs: number;
  readonly expiresInMs: number | undefined;
  readonly hasOnFail: boolean;
}

/** A reference model of a store of task runs, in memory. */
export class TaskModel {
  now: number;
  readonly runs = new Map<string, Run>();
  readonly #keys = new Map<string, string>();
  /** The ids that the current step ended. */
  finished: string[] = [];
  #order = 0;

  constructor(now: number) {
    this.now = now;
  }

  create({ id, priority, key, delayMs, expiresInMs, hasOnFail }: NewRun): string {
    if (this.runs.has(id)) return 'exists';
    const holder = key === undefined ? undefined : this.#keys.get(key);
    if (holder !== undefined) return `active ${holder}`;
    if (key !== undefined) this.#keys.set(key, id);
    const expiresAt = expiresInMs === undefined ? undefined : this.now + expiresInMs;
    const item = this.#newItem('task', this.now + delayMs, expiresAt);
    const run = { id, priority, key, hasOnFail, status: 'pending', failures: 0 } as const;
    this.runs.set(id, { ...run, expiresAt, startedAt: undefined, onFail: null, item });
    return 'created';
  }

  /** The runs that a claim returns, in order. */
  claim(max: number): readonly Run[] {
    for (const run of this.runs.values()) {
      if ((run.item?.expiresAt ?? Infinity) <= this.now) this.#end(run, 'expired');
    }
    const due = [...this.runs.values()]
      .flatMap((run) => (run.item === undefined ? [] : [{ run, item: run.item }]))
      .filter(({ item }) => visibleAt(item) <= this.now)
      .sort(
        (a, b) =>
          rank(b) - rank(a) || visibleAt(a.item) - visibleAt(b.item) || a.item.order - b.item.order,
      );
    const trusted = due.filter(({ item }) => item.isFlagged || item.claims <= 1);
    const taken = trusted.length > 0 ? trusted.slice(0, max) : due.slice(0, 1);
    return taken.map(({ run }) => run);
  }

  /** Records the token of a claim. */
  claimed(run: Run, token: string): void {
    const { item } = run;
    if (item === undefined) return;
    const lockedUntil = this.now + lockMs;
    Object.assign(item, { token, lockedUntil, claimedAt: this.now, expiresAt: undefined });
    item.claims += 1;
    run.startedAt ??= this.now;
    if (run.status === 'pending') run.status = 'running';
    if (item.kind === 'onFail') run.onFail = 'running';
  }

  ack(token: string, outcome: WorkOutcome): string {
    const run = this.#heldBy(token);
    return run?.item === undefined ? 'lost' : this.#settle(run, run.item, outcome);
  }

  #settle(run: Run, { isFlagged, kind }: Item, outcome: WorkOutcome): string {
    run.item = undefined;
    if (kind === 'onFail') {
      run.onFail = outcome.kind === 'completed' ? 'completed' : 'failed';
      return 'ok';
    }
    if (isTerminal(run.status)) {
      this.#freeKey(run);
      return 'ok';
    }
    const status = isFlagged ? 'canceled' : outcome.kind;
    this.#end(run, status);
    if (status === 'failed') {
      run.failures += 1;
      if (run.hasOnFail) {
        run.item = this.#newItem('onFail', this.now, undefined);
        run.onFail = 'queued';
      }
    }
    return `ok ${status}`;
  }

  handBack(token: string, delayMs: number, how: HandBack): boolean | InstanceStatus {
    const run = how === 'unstarted' ? this.#claimedBy(token) : this.#heldBy(token);
    if (run?.item === undefined) return false;
    const { item } = run;
    if (item.isFlagged) {
      const wasOver = isTerminal(run.status);
      this.#settle(run, item, { kind: 'canceled', leaked: false });
      return item.kind === 'task' && !wasOver ? 'canceled' : true;
    }
    Object.assign(item, { token: undefined, nextAt: this.now + delayMs });
    if (how === 'giveBack' || how === 'unstarted') item.claims = Math.max(item.claims - 1, 0);
    const isFirst = run.status === 'running' && run.startedAt === item.claimedAt;
    if (how === 'unstarted' && item.kind === 'task' && isFirst) {
      Object.assign(run, { status: 'pending', startedAt: undefined });
      item.expiresAt = run.expiresAt;
    }
    if (how === 'retry') {
      item.claims = 0;
      item.failures += 1;
      if (item.kind === 'task') run.failures += 1;
    }
    return true;
  }

  passPointOfNoReturn(token: string): string {
    const item = this.#heldBy(token)?.item;
    if (item === undefined) return 'lost';
    if (item.isFlagged) return 'canceled';
    item.isPastReturn = true;
    return 'passed';
  }

  cancel(id: string): string {
    const run = this.runs.get(id);
    if (run === undefined) return 'unknown';
    if (run.status !== 'pending' && run.status !== 'running') return `unchanged ${run.status}`;
    const { item } = run;
    if (item !== undefined && (this.#isHeld(item) || item.isPastReturn)) {
      run.status = 'canceling';
      item.isFlagged = !item.isPastReturn;
    } else this.#end(run, 'canceled');
    return `changed ${run.status}`;
  }

  terminate(id: string): string {
    const run = this.runs.get(id);
    if (run === undefined) return 'unknown';
    if (isTerminal(run.status)) return `unchanged ${run.status}`;
    const { item } = run;
    if (item !== undefined && this.#isHeld(item)) {
      run.status = 'terminated';
      item.isFlagged = true;
      this.finished.push(id);
    } else this.#end(run, 'terminated');
    return 'changed terminated';
  }

  delete(id: string, force: boolean): string {
    const run = this.runs.get(id);
    if (run === undefined) return 'deleted 0';
    const isActive = !isTerminal(run.status) || run.onFail === 'queued' || run.onFail === 'running';
    if (isActive && !force) return `running ${run.status}`;
    this.#freeKey(run);
    this.runs.delete(id);
    this.finished.push(id);
    return 'deleted 1';
  }

  #end(run: Run, status: InstanceStatus): void {
    run.status = status;
    run.item = undefined;
    this.#freeKey(run);
    this.finished.push(run.id);
  }

  #freeKey({ id, key }: Run): void {
    if (key !== undefined && this.#keys.get(key) === id) this.#keys.delete(key);
  }

  #newItem(kind: Item['kind'], nextAt: number, expiresAt: number | undefined): Item {
    const fresh = { claims: 0, failures: 0, isFlagged: false, isPastReturn: false };
    this.#order += 1;
    return {
      kind,
      order: this.#order,
      nextAt,
      expiresAt,
      token: undefined,
      lockedUntil: 0,
      claimedAt: 0,
      ...fresh,
    };
  }

  #isHeld({ token, lockedUntil }: Item): boolean {
    return token !== undefined && lockedUntil > this.now;
  }

  #heldBy(token: string): Run | undefined {
    const run = this.#claimedBy(token);
    return run?.item !== undefined && this.#isHeld(run.item) ? run : undefined;
  }

  /** The run of a token, even after its lease, until it is claimed again. */
  #claimedBy(token: string): Run | undefined {
    return [...this.runs.values()].find(({ item }) => item?.token === token);
  }
}

function visibleAt({ token, lockedUntil, nextAt }: Item): number {
  return token === undefined ? nextAt : lockedUntil;
}

function rank({ run, item }: { readonly run: Run; readonly item: Item }): number {
  if (item.isFlagged) return 101;
  return item.kind === 'onFail' ? 100 : run.priority;
}
