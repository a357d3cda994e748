import { activity, event, orchestration, type StartWorkerOptions } from '../../../src/index.ts';

/** What an instance notes of each of its executions. */
export interface Round {
  readonly version: string;
  /** The build whose worker ran the activity. */
  readonly readBy: BuildName;
}

/** Begins the next round, or ends the last. */
export const next = event<{ readonly isLast: boolean }>('next');

/** An application as it was, as it became, and as it must not become: changed without a new version. */
export type BuildName = 'old' | 'new' | 'careless';

/** What a build of the application registers: in the old one version 1, in the new one version 2 beside it. */
export function createBuild(build: BuildName): StartWorkerOptions {
  const read = activity('read', () => build);
  const verify = activity('verify', () => true);

  // The same calls in both builds; but where the old one goes on as it is, the new one moves up.
  const meter1 = orchestration(
    'meter',
    async (ctx, rounds: readonly Round[]): Promise<readonly Round[]> => {
      // Says that the first turn of this round is committed.
      ctx.setCustomStatus(rounds.length);
      const { isLast } = await ctx.waitFor(next);
      const known = [...rounds, { version: ctx.version, readBy: await ctx.call(read) }];
      if (isLast) return known;
      return build === 'old'
        ? await ctx.continueAsNew(known)
        : await ctx.continueAsNew(known, { version: '2' });
    },
    { version: '1' },
  );

  // Asks for something first that no history of version 1 has.
  const changed = (version: string) =>
    orchestration(
      'meter',
      async (ctx, rounds: readonly Round[]): Promise<readonly Round[]> => {
        ctx.setCustomStatus(rounds.length);
        await ctx.call(verify);
        const { isLast } = await ctx.waitFor(next);
        const known = [...rounds, { version: ctx.version, readBy: await ctx.call(read) }];
        return isLast ? known : await ctx.continueAsNew(known);
      },
      { version },
    );

  const builds = {
    old: { orchestrations: [meter1], activities: [read] },
    new: { orchestrations: [meter1, changed('2')], activities: [read, verify] },
    careless: { orchestrations: [changed('1')], activities: [read, verify] },
  };
  // Small batches, so that two workers share the work.
  return { ...builds[build], buildId: build, orchestrationBatch: 4 };
}
