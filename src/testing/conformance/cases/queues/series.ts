import assert from 'node:assert/strict';
import type { Provider } from '../../../../providers/contract/provider.ts';
import type {
  SeriesBatch,
  SeriesDepths,
  SeriesRow,
} from '../../../../providers/contract/series.ts';
import {
  addDuration,
  maxSeriesNames,
  minuteMs,
  noCounts,
  otherName,
} from '../../../../providers/rules/series.ts';
import type { Capability } from '../../conformance-case.ts';
import { createEnded } from '../../deletion-helpers.ts';
import { only } from '../../expectations.ts';
import { child } from '../../sample-data.ts';
import { createTask } from '../../task-helpers.ts';

const minute = 20_000 * 86_400_000;

/** A row with `starts` starts, one completed end, and durations of an instance and an attempt. */
function row(
  name: string,
  starts: number,
  durationMs: number,
  fields: Partial<SeriesRow> = {},
): SeriesRow {
  const counts = noCounts();
  counts.starts = starts;
  counts.ends.completed = 1;
  addDuration(counts.instances, durationMs);
  addDuration(counts.attempts, durationMs);
  addDuration(counts.waits, durationMs);
  return { minute, name, counts, ...fields };
}

function batch(writerId: string, number: number, ...rows: readonly SeriesRow[]): SeriesBatch {
  return { writerId, number, rows };
}

function read(
  provider: Provider,
  name: string,
  { from = minute, before = minute + minuteMs, limit = 100 } = {},
): Promise<readonly SeriesRow[]> {
  return provider.readSeries({ name, from, before, limit });
}

const startsOf = (rows: readonly SeriesRow[]) => rows.map(({ counts }) => counts.starts);

function depthsOf(ready: number): SeriesDepths {
  const depth = { ready, delayed: 1, claimed: 2, oldestMs: null };
  return { orchestrations: depth, activities: { ...depth, oldestMs: 7 }, tasks: depth };
}

export const series: Capability = {
  title: 'the minute series',
  cases: [
    {
      id: 'series/batches-add-up',
      title: 'writeSeries() adds to the counts of other batches, and keeps the larger maximum',
      async run({ provider }) {
        const failed = noCounts();
        failed.ends.failed = 3;
        assert.equal(await provider.writeSeries(batch('a', 1, row('n', 2, 4_000))), true);
        assert.equal(await provider.writeSeries(batch('b', 1, row('n', 3, 10))), true);
        const more = batch('a', 2, { minute, name: 'n', counts: failed });
        assert.equal(await provider.writeSeries(more), true);
        const expected = noCounts();
        expected.starts = 5;
        Object.assign(expected.ends, { completed: 2, failed: 3 });
        for (const durations of [expected.instances, expected.attempts, expected.waits]) {
          addDuration(durations, 4_000);
          addDuration(durations, 10);
        }
        assert.deepEqual(await read(provider, 'n'), [{ minute, name: 'n', counts: expected }]);
      },
    },
    {
      id: 'shared/series-batches-add-up',
      title: 'concurrent batches of several processes add up exactly',
      async run(store) {
        const others = [await store.reopen(), await store.reopen()];
        const providers = [store.provider, ...others];
        const numbers = [1, 2, 3, 4, 5];
        const writes = providers.map(async (provider, index) => {
          for (const number of numbers) {
            await provider.writeSeries(batch(`w${index}`, number, row('', 1, 1), row('n', 1, 1)));
          }
        });
        await Promise.all(writes);
        for (const name of ['', 'n']) {
          const { counts } = only(await read(store.provider, name), 'row');
          assert.deepEqual([counts.starts, counts.attempts.count], [15, 15]);
        }
      },
    },
    {
      id: 'series/a-repeated-batch-counts-once',
      title: 'writeSeries() ignores a repeated or older batch of a writer and returns false',
      async run({ provider }) {
        assert.equal(await provider.writeSeries(batch('a', 2, row('n', 1, 1))), true);
        assert.equal(await provider.writeSeries(batch('a', 2, row('n', 1, 1))), false);
        assert.equal(await provider.writeSeries(batch('a', 1, row('n', 1, 1))), false);
        assert.equal(await provider.writeSeries(batch('b', 2, row('n', 1, 1))), true);
        assert.deepEqual(startsOf(await read(provider, 'n')), [2]);
      },
    },
    {
      id: 'series/names-are-bounded',
      title: 'names beyond the first 200 of a minute are counted as other',
      async run({ provider }) {
        const names = Array.from({ length: maxSeriesNames + 5 }, (_, index) => `n${index}`);
        const rows = names.map((name) => row(name, 1, 1));
        await provider.writeSeries(batch('a', 1, row('', 205, 1), ...rows.slice(0, 150)));
        await provider.writeSeries(batch('b', 1, ...rows.slice(150)));
        await provider.writeSeries(batch('c', 1, ...rows));
        assert.deepEqual(startsOf(await read(provider, 'n199')), [2]);
        assert.deepEqual(await read(provider, 'n200'), []);
        assert.deepEqual(startsOf(await read(provider, otherName)), [10]);
        assert.deepEqual(startsOf(await read(provider, '')), [205]);
        const next = { ...row('n200', 1, 1), minute: minute + minuteMs };
        await provider.writeSeries(batch('a', 2, next));
        const later = { from: minute + minuteMs, before: minute + 2 * minuteMs };
        assert.deepEqual(await read(provider, 'n200', later), [next]);
      },
    },
    {
      id: 'series/depths-are-the-last-ones',
      title: 'writeSeries() replaces the depths, and keeps them if a batch has none',
      async run({ provider }) {
        await provider.writeSeries(batch('a', 1, row('', 1, 1, { depths: depthsOf(1) })));
        await provider.writeSeries(batch('a', 2, row('', 1, 1, { depths: depthsOf(5) })));
        await provider.writeSeries(batch('a', 3, row('', 1, 1)));
        assert.deepEqual(only(await read(provider, ''), 'row').depths, depthsOf(5));
      },
    },
    {
      id: 'series/the-larger-count-of-stops-stays',
      title: 'writeSeries() keeps the larger count of stops by status, and adds those of other',
      async run({ provider }) {
        const stopped = (name: string, stops: SeriesRow['stops']) =>
          row(name, 0, 1, stops === undefined ? {} : { stops });
        await provider.writeSeries(batch('a', 1, stopped('n', { canceled: 3, expired: 1 })));
        await provider.writeSeries(batch('b', 1, stopped('n', { canceled: 2, terminated: 4 })));
        await provider.writeSeries(batch('b', 2, stopped('n', undefined)));
        const { stops, counts } = only(await read(provider, 'n'), 'row');
        assert.deepEqual(stops, { canceled: 3, terminated: 4, expired: 1 });
        assert.equal(counts.ends.completed, 3);
        const names = Array.from({ length: maxSeriesNames + 4 }, (_, index) => `m${index}`);
        const many = names.map((name) => stopped(name, { canceled: 1 }));
        await provider.writeSeries(batch('c', 1, ...many));
        await provider.writeSeries(batch('d', 1, ...many));
        const other = only(await read(provider, otherName), 'row');
        assert.deepEqual(other.stops, { canceled: 5 });
      },
    },
    {
      id: 'series/counts-stops',
      title: 'countStops() counts canceled, terminated and expired instances by minute and name',
      async run(store) {
        const { provider, clock } = store;
        const start = Math.ceil(clock.now() / minuteMs) * minuteMs;
        await clock.advance(start - clock.now());
        await createEnded(store, 'ended');
        await store.begin('c', {}, { name: 'order' });
        await store.begin('parent', { children: [child('kid', 1, { name: 'item' })] });
        for (const id of ['a', 'b']) await store.create(id, { name: 'order' });
        await createTask(store, 'run', { name: 'mail', expiresInMs: minuteMs + 1 });
        await createTask(store, 'late', { name: 'mail' });
        await store.cancel('a');
        await store.terminate('c');
        await store.terminate('parent', { tree: true });
        await clock.advance(minuteMs - 1);
        await store.cancel('b');
        await clock.advance(1);
        await store.cancel('late');
        await clock.advance(minuteMs - 1);
        // Any claim ends runs that have expired.
        await clock.advance(1);
        await store.claimWork();
        const count = async (from: number, before: number) =>
          (await provider.countStops({ from, before }))
            .map(
              (one) => `${(one.minute - start) / minuteMs} ${one.name} ${one.status} ${one.count}`,
            )
            .toSorted();
        assert.deepEqual(await count(start, start + minuteMs), [
          '0 item terminated 1',
          '0 order canceled 2',
          '0 order terminated 1',
          '0 sample terminated 1',
        ]);
        assert.deepEqual(await count(start + minuteMs, start + 9 * minuteMs), [
          '1 mail canceled 1',
          '2 mail expired 1',
        ]);
        assert.deepEqual(await count(start + 1, start + minuteMs - 1), []);
        assert.deepEqual(await count(start + minuteMs, start + minuteMs), []);
      },
    },
    {
      id: 'series/names-are-only-text',
      title: 'names of the series are returned unchanged',
      async run({ provider }) {
        const names = [`'; DROP TABLE series; --`, '{"a":1}\u0000\t\\', '\u{1f4be} ä', '__proto__'];
        await provider.writeSeries(batch('a\u0000', 1, ...names.map((name) => row(name, 1, 1))));
        assert.equal(await provider.writeSeries(batch('a\u0000', 1)), false);
        for (const name of names) {
          assert.equal(only(await read(provider, name), 'row').name, name);
        }
      },
    },
    {
      id: 'series/reads-one-name-in-a-time',
      title: 'readSeries() returns the rows of one name and time, oldest first, up to the limit',
      async run({ provider }) {
        const at = (index: number) => minute + index * minuteMs;
        const rows = [3, 0, 2, 1].flatMap((index) => [
          row('n', index, 1, { minute: at(index) }),
          row('m', 9, 1, { minute: at(index) }),
        ]);
        await provider.writeSeries(batch('a', 1, ...rows));
        assert.deepEqual(startsOf(await read(provider, 'n', { before: at(9) })), [0, 1, 2, 3]);
        const some = { from: at(1), before: at(3) };
        assert.deepEqual(startsOf(await read(provider, 'n', some)), [1, 2]);
        assert.deepEqual(startsOf(await read(provider, 'n', { ...some, limit: 1 })), [1]);
        assert.deepEqual(await read(provider, 'unknown', some), []);
      },
    },
    {
      id: 'series/a-sweep-deletes-old-rows',
      title: 'sweepSeries() deletes rows before a minute, and no others',
      async run({ provider }) {
        const rows = [0, 1, 2].map((index) =>
          row('n', index, 1, { minute: minute + index * minuteMs }),
        );
        await provider.writeSeries(batch('a', 1, ...rows));
        const before = minute + minuteMs;
        assert.equal(await provider.sweepSeries({ before, limit: 100 }), 1);
        assert.equal(await provider.sweepSeries({ before, limit: 100 }), 0);
        const all = { before: minute + 9 * minuteMs };
        assert.deepEqual(startsOf(await read(provider, 'n', all)), [1, 2]);
      },
    },
    {
      id: 'series/a-sweep-is-bounded',
      title: 'sweepSeries() deletes at most limit rows, the oldest first',
      async run({ provider }) {
        const rows = [0, 1, 2, 3].map((index) =>
          row('n', index, 1, { minute: minute + index * minuteMs }),
        );
        await provider.writeSeries(batch('a', 1, ...rows.toReversed()));
        const all = { before: minute + 9 * minuteMs };
        assert.equal(await provider.sweepSeries({ ...all, limit: 3 }), 3);
        assert.deepEqual(startsOf(await read(provider, 'n', all)), [3]);
      },
    },
  ],
};
