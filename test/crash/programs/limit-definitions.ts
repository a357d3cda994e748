import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  activity,
  orchestration,
  task,
  type Provider,
  type TaskContext,
} from '../../../src/index.ts';

/** The limits of the run. `loose`: far above what the run checks, to show that the check finds it. */
export interface LimitFigures {
  readonly shared: number;
  readonly perKey: number;
  readonly rate: number;
  readonly burst: number;
  /** Starts per second of one key. */
  readonly keyRate: number;
  readonly keyBurst: number;
  readonly instances: number;
  readonly instancesPerKey: number;
}

// Few runs reach a low rate only.
const isFullSize = process.env['MODE'] === 'limits';

export const strict: LimitFigures = {
  shared: 6,
  perKey: 2,
  rate: isFullSize ? 300 : 20,
  burst: isFullSize ? 30 : 2,
  keyRate: isFullSize ? 8 : 4,
  keyBurst: 1,
  instances: 4,
  instancesPerKey: 1,
};
const loose: LimitFigures = {
  shared: 100,
  perKey: 100,
  rate: 100_000,
  burst: 10_000,
  keyRate: 100_000,
  keyBurst: 10_000,
  instances: 100,
  instancesPerKey: 100,
};

/** The input of each run. */
export interface KeyedRun {
  readonly key: string;
}

/**
 * What a handler writes when it begins and when it ends, by the monotonic clock of the machine. Claims have the time of
 * the store's clock, by which rates count them.
 */
export interface LedgerLine {
  readonly at: number;
  readonly what: 'claim' | 'begin' | 'end';
  readonly group: string;
  readonly key: string;
  readonly run: string;
}

/** Writes the claims of a worker to its ledger. */
export function recordClaims(provider: Provider, ledger: string): Provider {
  return {
    ...provider,
    async fetchWorkItems(params) {
      const items = await provider.fetchWorkItems(params);
      const lines = items.map(
        ({ nowMs: at, name: group, instanceId: run, payload }): LedgerLine => {
          const { key } = JSON.parse(payload ?? '{}') as Partial<KeyedRun>;
          return { at, what: 'claim', group, key: key ?? '', run };
        },
      );
      if (lines.length > 0) {
        appendFileSync(ledger, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
      }
      return items;
    },
  };
}

/** The tasks and the orchestration of a worker that writes to a ledger of its own. */
export function limitDefinitions(ledger: string, figures: 'strict' | 'loose') {
  const { shared, perKey, rate, burst, keyRate, keyBurst, instances, instancesPerKey } =
    figures === 'strict' ? strict : loose;
  const write = (what: LedgerLine['what'], group: string, key: string, run: string): void => {
    const at = Number(process.hrtime.bigint() / 1_000n) / 1_000;
    const line: LedgerLine = { at, what, group, key, run };
    appendFileSync(ledger, `${JSON.stringify(line)}\n`);
  };
  const work =
    (group: string) =>
    async ({ runId }: TaskContext, { key }: KeyedRun): Promise<void> => {
      write('begin', group, key, runId);
      await delay(Math.random() * 8);
      write('end', group, key, runId);
    };
  const mark = activity(
    'mark',
    async (_context, input: KeyedRun & Pick<LedgerLine, 'what' | 'run'>) => {
      write(input.what, 'instances', input.key, input.run);
      await delay(Math.random() * 3);
    },
  );
  return {
    tasks: [
      task('shared', work('shared'), { concurrency: { global: shared } }),
      task('keyed', work('keyed'), { concurrency: { perKey } }),
      task('rated', work('rated'), { rate: { limit: rate, per: '1s', burst } }),
      task('mixed', work('mixed'), {
        concurrency: { global: shared, perKey },
        rate: { limit: keyRate, per: '1s', burst: keyBurst, perKey: true },
      }),
    ],
    activities: [mark],
    orchestrations: [
      orchestration(
        'instances',
        async (ctx, { key }: KeyedRun) => {
          await ctx.call(mark, { key, what: 'begin', run: ctx.instanceId });
          await ctx.call(mark, { key, what: 'end', run: ctx.instanceId });
        },
        { concurrency: { global: instances, perKey: instancesPerKey } },
      ),
    ],
  };
}
