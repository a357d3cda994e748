import { activity, event, orchestration, type StartWorkerOptions } from '../../../src/index.ts';

/** What an instance records about each of its executions. */
export interface Round {
  readonly version: string;
  /** The build whose worker ran the activity. */
  readonly readBy: BuildName;
}

/** Starts the next execution, or ends the last one. */
export const next = event<{ readonly isLast: boolean }>('next');

/** The old build, the new build, and an invalid one that changes the code without a new version. */
export type BuildName = 'old' | 'new' | 'careless';

/** The definitions of a build: version 1 in the old one, versions 1 and 2 in the new one. */
export function createBuild(build: BuildName): StartWorkerOptions {
  const read = activity('read', () => build);
  const verify = activity('verify', () => true);

  // Both builds make the same calls. The new build continues as version 2.
  const meter1 = orchestration(
    'meter',
    async (ctx, rounds: readonly Round[]): Promise<readonly Round[]> => {
      // Shows that the first turn of this execution is committed.
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

  // The first call is in no history of version 1.
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
  // Small batches make two workers share the work.
  return { ...builds[build], buildId: build, orchestrationBatch: 4 };
}
