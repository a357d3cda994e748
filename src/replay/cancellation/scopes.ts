import type { CommandHost, Commands } from '../commands.ts';
import { CancelScope, type Reach } from './cancel-scope.ts';
import { Deferred, DurablePromise, type DurableSource } from '../durable-promise.ts';
import { runInInnerScope } from './scope.ts';
import { isCancellation, toCanceledError, type Withdrawal } from './withdrawal.ts';

export interface OpenScope<T> {
  readonly kind: 'scope' | 'shield';
  readonly body: () => T | Promise<T>;
  readonly timeoutMs?: number | undefined;
  readonly name?: string | undefined;
}

/** What scopes need of their execution besides what commands need. */
export interface ScopeHost extends CommandHost {
  /** Says whether code may act now; if not, it awaited something that is not durable, which is remembered. */
  isInTurn(what: string): boolean;
  /** A shield was cut off by its deadline. */
  shieldExpired(): void;
}

const ended: Withdrawal = { trigger: 'cancel', reason: 'its scope has ended' };

/** Runs parts of the code in scopes and shields. */
export class Scopes {
  readonly #host: ScopeHost;
  readonly #commands: Commands;
  #openCount = 0;

  constructor(host: ScopeHost, commands: Commands) {
    this.#host = host;
    this.#commands = commands;
  }

  /** How many scopes and shields have not settled. */
  get openCount(): number {
    return this.#openCount;
  }

  /** Runs a part of the code in a scope or shield of its own. It settles once nothing of it is outstanding. */
  open<T>(options: OpenScope<T>): DurablePromise<T> {
    const { kind, body } = options;
    const outer = this.#host.enter(kind, options.name);
    // A shield is opened also when the code has ended: whoever is in the middle of cleaning up may go on.
    if (kind === 'scope' && outer.canceled === undefined && this.#host.isOver(outer)) {
      return DurablePromise.never();
    }
    const scope = new CancelScope(outer.execution, outer, kind);
    const run = new ScopeRun<T>(this.#host, scope, kind);
    this.#openCount += 1;
    this.#limit(run, options);
    // Async, so that what the body throws synchronously is a rejection, too.
    const result = runInInnerScope(scope, async () => body());
    const onSettled = (): void => {
      this.#openCount -= 1;
    };
    result.then(
      (value) => run.succeed(value, onSettled),
      (error: unknown) => run.fail(error, onSettled),
    );
    return run.promise;
  }

  #limit<T>(run: ScopeRun<T>, { kind, timeoutMs, name }: OpenScope<T>): void {
    const { scope } = run;
    if (timeoutMs === undefined || scope.canceled !== undefined) return;
    const timer = this.#commands.startDeadline(scope, this.#host.nowMs + timeoutMs);
    scope.setDeadline(timer);
    const what = name === undefined ? `the ${kind}` : `${kind} '${name}'`;
    const reason = `${what} timed out after ${timeoutMs} ms`;
    const expire = (): void => {
      if (!scope.takeDeadline(timer)) return;
      if (kind === 'shield') this.#host.shieldExpired();
      run.cancel({ trigger: 'timeout', reason }, kind === 'shield' ? 'shields' : 'scopes');
    };
    // When the timer is withdrawn, the scope has ended or was canceled otherwise.
    timer.promise.then(expire, () => undefined);
  }
}

/** One scope or shield with the promise of its result. */
class ScopeRun<T> implements DurableSource {
  readonly kind = 'scope';
  readonly scope: CancelScope;
  readonly #host: ScopeHost;
  readonly #isShield: boolean;
  readonly #deferred = new Deferred<T>();
  /** Why it was canceled itself, and not with what is around it. */
  #canceled: Withdrawal | undefined;
  #hasSettled = false;

  constructor(host: ScopeHost, scope: CancelScope, kind: 'scope' | 'shield') {
    this.#host = host;
    this.scope = scope;
    this.#isShield = kind === 'shield';
    DurablePromise.attach(this.promise, this);
  }

  get promise(): DurablePromise<T> {
    return this.#deferred.promise;
  }

  /** The code wants to give it up. A race that was lost does not end a shield: it may have been lost by a cancel. */
  withdraw(withdrawal: Withdrawal): void {
    if (this.#hasSettled || (this.#isShield && withdrawal.trigger === 'race_lost')) return;
    if (!this.#host.isOver(this.#host.enter('cancel'))) this.cancel(withdrawal, 'scopes');
  }

  cancel(withdrawal: Withdrawal, reach: Reach): void {
    if (this.scope.canceled === undefined) this.#canceled = withdrawal;
    this.scope.cancel(withdrawal, reach);
  }

  succeed(value: T, onSettled: () => void): void {
    const canceled = this.#canceled;
    this.#end(onSettled, () => {
      if (canceled === undefined) this.#deferred.resolve(value);
      else this.#deferred.reject(toCanceledError(canceled));
    });
  }

  /** An error of its own stands, also when the scope was canceled: a clean-up that failed must not go unseen. */
  fail(error: unknown, onSettled: () => void): void {
    const canceled = this.#canceled;
    const isOwn = canceled === undefined || !isCancellation(error);
    this.#end(onSettled, () => this.#deferred.reject(isOwn ? error : toCanceledError(canceled)));
  }

  #end(onSettled: () => void, settle: () => void): void {
    if (!this.#host.isInTurn('a scope ended')) return;
    this.scope.close(ended, () => {
      this.#hasSettled = true;
      onSettled();
      settle();
    });
  }
}
