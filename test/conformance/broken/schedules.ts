import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { ScheduleTick } from '../../../src/providers/contract/schedules.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Runs SQL on the database right after ticks. */
function afterTicks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async tickSchedules(ticks) {
      const results = await provider.tickSchedules(ticks);
      db.exec(sql);
      return results;
    },
  };
}

/** Ticks with the current revision of the schedule. */
function unfenced({ provider, db }: Intact): Partial<Provider> {
  const revision = db
    .prepare<[string], number>('SELECT revision FROM schedules WHERE name = ?')
    .pluck();
  const tick = async (one: ScheduleTick) => {
    const now = { ...one, revision: revision.get(one.name) ?? one.revision };
    const [happened] = await provider.tickSchedules([now]);
    return happened === true;
  };
  return {
    async tickSchedules(ticks) {
      const results: boolean[] = [];
      for (const one of ticks) results.push(await tick(one));
      return results;
    },
  };
}

/** Schedules, each with one guard removed. */
export const brokenSchedules: readonly BrokenProvider[] = [
  {
    fault: 'a schedule is planned by the clock of the process',
    rejectedBy: 'schedule/is-planned-by-the-stores-clock',
    override: ({ provider, clock }) => ({
      putSchedule(write) {
        if (!('plan' in write)) return provider.putSchedule(write);
        const { plan, ...rest } = write;
        const planned = plan(clock.now() - 100);
        return provider.putSchedule(planned ? { ...rest, ...planned } : write);
      },
    }),
  },
  {
    fault: 'a schedule is resumed by the clock of the process',
    rejectedBy: 'schedule/a-resume-is-planned-by-the-stores-clock',
    override: ({ provider, clock }) => ({
      setSchedulePaused(name, paused, resume = {}) {
        const { nextAt } = resume;
        if (typeof nextAt !== 'function') return provider.setSchedulePaused(name, paused, resume);
        const planned = { ...resume, nextAt: nextAt(clock.now() + 100) };
        return provider.setSchedulePaused(name, paused, planned);
      },
    }),
  },
  {
    fault: 'a resume is not fenced by the revision',
    rejectedBy: 'schedule/a-resume-can-be-fenced',
    override: ({ provider }) => ({
      setSchedulePaused(name, paused, resume = {}) {
        const { ifRevision: _, ...unfenced } = resume;
        return provider.setSchedulePaused(name, paused, unfenced);
      },
    }),
  },
  {
    fault: 'a repeated tick happens again',
    rejectedBy: 'schedule/a-tick-happens-once',
    override: unfenced,
  },
  {
    fault: 'a tick is not fenced by the revision',
    rejectedBy: 'schedule/needs-its-revision',
    override: unfenced,
  },
  {
    fault: 'a paused schedule ticks',
    rejectedBy: 'schedule/needs-its-revision',
    override: ({ provider, db }) => ({
      tickSchedules(ticks) {
        db.exec('UPDATE schedules SET paused = 0');
        return provider.tickSchedules(ticks);
      },
    }),
  },
  {
    fault: 'revisions restart from one after a deletion',
    rejectedBy: 'schedule/needs-its-revision',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER first AFTER INSERT ON schedules
        BEGIN UPDATE schedules SET revision = 1 WHERE name = NEW.name; END`);
      return {};
    },
  },
  {
    fault: 'a tick starts its run and does not advance the schedule',
    rejectedBy: 'schedule/a-tick-starts-and-moves-on',
    override: (intact) => afterTicks(intact, 'UPDATE schedules SET next_at = 1000'),
  },
  {
    fault: 'a tick advances the schedule and starts nothing',
    rejectedBy: 'schedule/a-tick-starts-and-moves-on',
    override: ({ provider }) => ({
      tickSchedules: (ticks) =>
        provider.tickSchedules(ticks.map((tick) => ({ ...tick, instances: [], tasks: [] }))),
    }),
  },
  {
    fault: 'a tick whose id is taken fails',
    rejectedBy: 'schedule/what-is-there-counts-as-started',
    override: ({ provider }) => ({
      async tickSchedules(ticks) {
        const ids = ticks.flatMap(({ tasks }) => tasks.map(({ instanceId }) => instanceId));
        const taken = await provider.getInstances(ids);
        return taken.some((record) => record !== undefined)
          ? ticks.map(() => false)
          : provider.tickSchedules(ticks);
      },
    }),
  },
  {
    fault: 'a rejected tick starts its tasks',
    rejectedBy: 'schedule/a-bad-tick-spares-its-neighbours',
    override: ({ provider }) => ({
      async tickSchedules(ticks) {
        await provider.createTasks(ticks.flatMap(({ tasks }) => tasks));
        return provider.tickSchedules(ticks);
      },
    }),
  },
  {
    fault: 'the last error of a schedule is never cleared',
    rejectedBy: 'schedule/an-error-is-on-record',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep AFTER UPDATE ON schedules
        WHEN NEW.last_error IS NULL AND OLD.last_error IS NOT NULL
        BEGIN UPDATE schedules SET last_error = OLD.last_error WHERE name = NEW.name; END`);
      return {};
    },
  },
  {
    fault: 'an update resumes a paused schedule',
    rejectedBy: 'schedule/a-change-keeps-its-past',
    override: ({ provider, db }) => ({
      async putSchedule(write) {
        const record = await provider.putSchedule(write);
        db.exec('UPDATE schedules SET paused = 0');
        return record === undefined ? undefined : { ...record, paused: false };
      },
    }),
  },
  {
    fault: 'a write is not fenced by the revision',
    rejectedBy: 'schedule/a-write-can-be-fenced',
    override: ({ provider }) => ({
      putSchedule: ({ ifRevision: _ifRevision, ...write }) => provider.putSchedule(write),
    }),
  },
  {
    fault: 'a paused schedule is due',
    rejectedBy: 'schedule/can-be-paused',
    override: ({ provider }) => ({
      async dueSchedules(max) {
        const { nowMs, ...answer } = await provider.dueSchedules(max);
        const all = await provider.listSchedules({ limit: max });
        const due = all.filter(({ nextAt }) => nextAt !== null && nextAt <= nowMs);
        return { ...answer, nowMs, due };
      },
    }),
  },
  {
    fault: 'due schedules are returned newest first',
    rejectedBy: 'schedule/the-longest-due-is-first',
    override: ({ provider }) => ({
      async dueSchedules(max) {
        const { due, ...answer } = await provider.dueSchedules(max);
        return { ...answer, due: due.toReversed() };
      },
    }),
  },
  {
    fault: 'schedules are listed by creation time',
    rejectedBy: 'schedule/lists-by-name',
    override: ({ provider }) => ({
      async listSchedules(params) {
        const records = await provider.listSchedules(params);
        return records.toSorted((a, b) => a.createdAt - b.createdAt || (a.name > b.name ? -1 : 1));
      },
    }),
  },
  {
    fault: 'listSchedules() ignores maxBytes',
    rejectedBy: 'schedule/list-ends-at-its-bytes',
    override: ({ provider }) => ({
      listSchedules: ({ maxBytes: _maxBytes, ...params }) => provider.listSchedules(params),
    }),
  },
  {
    fault: 'a trigger moves the next tick',
    rejectedBy: 'schedule/a-trigger-moves-no-tick',
    override: ({ provider, db }) => ({
      async startScheduledRuns(runs) {
        const started = await provider.startScheduledRuns(runs);
        db.exec('UPDATE schedules SET next_at = next_at + 1000');
        return started;
      },
    }),
  },
  {
    fault: 'a backfill repeats a tick that already ran',
    rejectedBy: 'schedule/a-trigger-can-be-repeated',
    override: ({ provider }) => ({
      async startScheduledRuns(runs) {
        const fresh = {
          ...runs,
          tasks: runs.tasks.map((one) => ({
            ...one,
            instanceId: `${one.instanceId} ${one.incarnation}`,
          })),
        };
        const started = await provider.startScheduledRuns(fresh);
        return started?.map((run, index) => ({
          ...run,
          instanceId: [...runs.instances, ...runs.tasks][index]?.instanceId ?? '',
        }));
      },
    }),
  },
  {
    fault: 'a trigger is not fenced by the revision',
    rejectedBy: 'schedule/a-trigger-needs-the-revision',
    override: ({ provider }) => ({
      async startScheduledRuns(runs) {
        const [record] = await provider.listSchedules({ limit: 1, names: [runs.name] });
        return provider.startScheduledRuns({ ...runs, ifRevision: record?.revision ?? 0 });
      },
    }),
  },
  {
    fault: 'a trigger is not audited',
    rejectedBy: 'schedule/a-trigger-is-audited',
    override: ({ provider }) => ({
      startScheduledRuns: ({ audit: _audit, ...runs }) => provider.startScheduledRuns(runs),
    }),
  },
  {
    fault: 'a rejected trigger starts the runs before the rejected one',
    rejectedBy: 'schedule/a-rejected-trigger-changes-nothing',
    override: ({ provider }) => ({
      async startScheduledRuns(runs) {
        await provider.createTasks(runs.tasks);
        return provider.startScheduledRuns(runs);
      },
    }),
  },
  {
    fault: 'untracked runs are tracked',
    rejectedBy: 'schedule/untracked-runs-leave-no-trace',
    override: ({ provider }) => ({
      startScheduledRuns: (runs) => provider.startScheduledRuns({ ...runs, areTracked: true }),
    }),
  },
  {
    fault: 'a tick ignores that a run is live',
    rejectedBy: 'schedule/a-tick-waits-for-the-run',
    override: ({ provider }) => ({
      tickSchedules: (ticks) =>
        provider.tickSchedules(ticks.map(({ whileRunning: _whileRunning, ...tick }) => tick)),
    }),
  },
  {
    fault: 'a run counts as live after its end',
    rejectedBy: 'schedule/a-run-that-ended-is-not-live',
    override: ({ provider }) => ({
      async tickSchedules(ticks) {
        const held = ticks.map(({ whileRunning, ...tick }) =>
          whileRunning === undefined
            ? tick
            : { ...tick, ...whileRunning, instances: [], tasks: [] },
        );
        return provider.tickSchedules(held);
      },
    }),
  },
  {
    fault: 'a tick does not cancel the live run',
    rejectedBy: 'schedule/a-tick-cancels-the-run',
    override: ({ provider }) => ({
      tickSchedules: (ticks) =>
        provider.tickSchedules(
          ticks.map(({ whileRunning, ...tick }) => {
            if (whileRunning === undefined) return tick;
            const { cancel: _cancel, ...rest } = whileRunning;
            return { ...tick, whileRunning: rest };
          }),
        ),
    }),
  },
  {
    fault: 'a buffered tick is lost when the schedule is paused',
    rejectedBy: 'schedule/a-buffered-tick-is-due-after-the-run',
    override: ({ provider, db }) => ({
      setSchedulePaused(...args) {
        db.exec('UPDATE schedules SET buffered_ticks = NULL');
        return provider.setSchedulePaused(...args);
      },
    }),
  },
  {
    fault: 'a buffered tick stays buffered after it started',
    rejectedBy: 'schedule/a-buffered-tick-is-due-after-the-run',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep_buffered AFTER UPDATE ON schedules
        WHEN NEW.buffered_ticks IS NULL AND OLD.buffered_ticks IS NOT NULL
        BEGIN UPDATE schedules SET buffered_ticks = OLD.buffered_ticks WHERE name = NEW.name; END`);
      return {};
    },
  },
  {
    fault: 'a buffered tick is due while the run is live',
    rejectedBy: 'schedule/a-buffered-tick-is-due-after-the-run',
    override: ({ provider }) => ({
      async dueSchedules(max) {
        const answer = await provider.dueSchedules(max);
        const all = await provider.listSchedules({ limit: max });
        const waiting = all.filter(
          ({ paused, bufferedTicks }) => !paused && bufferedTicks.length > 0,
        );
        return { ...answer, due: [...answer.due, ...waiting] };
      },
    }),
  },
  {
    fault: 'skipped ticks are overwritten instead of added',
    rejectedBy: 'schedule/a-tick-keeps-its-runs',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER overwrite AFTER UPDATE OF skipped_ticks ON schedules
        WHEN NEW.skipped_ticks <> OLD.skipped_ticks AND OLD.skipped_ticks > 0
        BEGIN UPDATE schedules SET skipped_ticks = NEW.skipped_ticks - OLD.skipped_ticks WHERE name = NEW.name; END`);
      return {};
    },
  },
];
