import type { BrokenProvider } from './broken-provider.ts';

export const brokenSeries: readonly BrokenProvider[] = [
  {
    fault: 'a batch overwrites the counts of others',
    rejectedBy: 'series/batches-add-up',
    override: ({ provider, db }) => ({
      async writeSeries(batch) {
        for (const { minute, name } of batch.rows) {
          db.prepare('DELETE FROM series WHERE minute = ? AND name = ?').run(minute, name);
        }
        return provider.writeSeries(batch);
      },
    }),
  },
  {
    fault: 'a repeated batch is counted twice',
    rejectedBy: 'series/a-repeated-batch-counts-once',
    override: ({ provider, db }) => ({
      async writeSeries(batch) {
        db.prepare('DELETE FROM series_writers').run();
        return provider.writeSeries(batch);
      },
    }),
  },
  {
    fault: 'a batch of another writer with the same number is ignored',
    rejectedBy: 'series/batches-add-up',
    override: ({ provider }) => ({
      writeSeries: (batch) => provider.writeSeries({ ...batch, writerId: 'same' }),
    }),
  },
  {
    fault: 'every name gets a row',
    rejectedBy: 'series/names-are-bounded',
    override: ({ provider, db }) => ({
      async writeSeries(batch) {
        const isNew = await provider.writeSeries(batch);
        const put = db.prepare(
          'INSERT OR IGNORE INTO series (minute, name, data) VALUES (?, ?, ?)',
        );
        for (const { minute, name, counts } of batch.rows) {
          put.run(minute, name, JSON.stringify({ counts }));
        }
        return isNew;
      },
    }),
  },
  {
    fault: 'a batch without depths removes them',
    rejectedBy: 'series/depths-are-the-last-ones',
    override: ({ provider, db }) => ({
      async writeSeries(batch) {
        db.prepare(`UPDATE series SET data = json_remove(data, '$.depths')`).run();
        return provider.writeSeries(batch);
      },
    }),
  },
  {
    fault: 'a smaller count of stops replaces a larger one',
    rejectedBy: 'series/the-larger-count-of-stops-stays',
    override: ({ provider, db }) => ({
      async writeSeries(batch) {
        db.prepare(`UPDATE series SET data = json_remove(data, '$.stops')`).run();
        return provider.writeSeries(batch);
      },
    }),
  },
  {
    fault: 'stops are counted twice',
    rejectedBy: 'series/counts-stops',
    override: ({ provider }) => ({
      async countStops(params) {
        const stops = await provider.countStops(params);
        return stops.map((one) => ({ ...one, count: 2 * one.count }));
      },
    }),
  },
  {
    fault: 'the count of stops includes the end of its time',
    rejectedBy: 'series/counts-stops',
    override: ({ provider }) => ({
      countStops: ({ from, before }) => provider.countStops({ from, before: before + 1 }),
    }),
  },
  {
    fault: 'a claim returns its own time as the due time',
    rejectedBy: 'order/a-claim-returns-since-when-work-was-due',
    override: ({ provider }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        return items.map((item) => ({ ...item, dueAt: item.nowMs }));
      },
    }),
  },
  {
    fault: 'a claim of canceled work returns its own time as the due time',
    rejectedBy: 'order/a-claim-returns-since-when-work-was-due',
    override: ({ provider }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        return items.map((item) => ({ ...item, ...(item.cancel && { dueAt: item.nowMs }) }));
      },
    }),
  },
  {
    fault: 'a sweep deletes the minute of its limit too',
    rejectedBy: 'series/a-sweep-deletes-old-rows',
    override: ({ provider }) => ({
      sweepSeries: ({ before, limit }) => provider.sweepSeries({ before: before + 1, limit }),
    }),
  },
  {
    fault: 'a sweep ignores its limit',
    rejectedBy: 'series/a-sweep-is-bounded',
    override: ({ provider }) => ({
      sweepSeries: ({ before }) => provider.sweepSeries({ before, limit: 1_000 }),
    }),
  },
  {
    fault: 'a read ignores its time',
    rejectedBy: 'series/reads-one-name-in-a-time',
    override: ({ provider }) => ({
      readSeries: ({ name, limit }) =>
        provider.readSeries({ name, limit, from: 0, before: Number.MAX_SAFE_INTEGER }),
    }),
  },
];
