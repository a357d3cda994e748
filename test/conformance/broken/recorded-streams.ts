import type {
  AppendChunks,
  StreamPage,
  StreamRecord,
} from '../../../src/providers/contract/streams.ts';
import { editTurns, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Changes how chunks are recorded. */
function editRecords(
  { provider }: Intact,
  edit: (record: StreamRecord) => StreamRecord,
): ReturnType<BrokenProvider['override']> {
  const editOne = (one: AppendChunks): AppendChunks =>
    one.record === undefined ? one : { ...one, record: edit(one.record) };
  return { appendChunks: (requests) => provider.appendChunks(requests.map(editOne)) };
}

/** Changes the pages of recorded streams. */
function editPages(
  { provider }: Intact,
  edit: (page: StreamPage) => StreamPage,
): ReturnType<BrokenProvider['override']> {
  return {
    async readStream(params) {
      const page = await provider.readStream(params);
      return page && edit(page);
    },
  };
}

/** Recorded streams, each with one guard removed. */
export const brokenRecordedStreams: readonly BrokenProvider[] = [
  {
    fault: 'chunks lose their source',
    rejectedBy: 'record/keeps-chunks-with-their-source',
    override: (intact) => editRecords(intact, (record) => ({ ...record, source: '' })),
  },
  {
    fault: 'chunks of task runs are dropped',
    rejectedBy: 'record/a-task-run-has-a-stream',
    override: ({ provider, db }) => ({
      async appendChunks(requests) {
        const results = await provider.appendChunks(requests);
        db.exec(`DELETE FROM stream_chunks WHERE instance_key IN
          (SELECT instance_key FROM instances WHERE priority IS NOT NULL)`);
        return results;
      },
    }),
  },
  {
    fault: 'an expired claim can record chunks',
    rejectedBy: 'record/needs-a-held-claim',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE worker_queue SET locked_until = 1e15 WHERE lock_token IS NOT NULL');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'an ended run records chunks',
    rejectedBy: 'record/ends-with-its-run',
    override: ({ provider }) => ({
      async appendChunks(requests) {
        const results = await provider.appendChunks(requests);
        return results.map((result) => (result === 'unread' ? 'recorded' : result));
      },
    }),
  },
  {
    fault: 'the chunks of a job are also recorded',
    rejectedBy: 'record/a-job-has-no-recorded-stream',
    override: ({ provider, db }) => ({
      async appendChunks(requests) {
        const results = await provider.appendChunks(requests);
        db.exec(`INSERT OR IGNORE INTO streams (instance_key, first_seq, last_seq, bytes)
          SELECT instance_key, 1, last_seq, 0 FROM jobs`);
        return results;
      },
    }),
  },
  {
    fault: 'a repeated append is written again',
    rejectedBy: 'record/a-repeat-is-not-written-twice',
    override: (intact) => editRecords(intact, (record) => ({ ...record, isRepeated: false })),
  },
  {
    fault: 'a stream is not bounded',
    rejectedBy: 'record/drops-the-oldest',
    override: (intact) => editRecords(intact, (record) => ({ ...record, maxBytes: 1e12 })),
  },
  {
    fault: 'a large chunk drops itself',
    rejectedBy: 'record/keeps-the-newest-chunk',
    override: ({ provider, db }) => ({
      async appendChunks(requests) {
        const results = await provider.appendChunks(requests);
        db.exec('DELETE FROM stream_chunks WHERE bytes > 2000');
        return results;
      },
    }),
  },
  {
    fault: 'readStream() ignores the number of the last chunk',
    rejectedBy: 'record/reads-by-number',
    override: ({ provider }) => ({
      readStream: (params) => provider.readStream({ ...params, after: 0 }),
    }),
  },
  {
    fault: 'readStream() ignores maxBytes',
    rejectedBy: 'record/reads-by-bytes',
    override: ({ provider }) => ({
      readStream: (params) => provider.readStream({ ...params, maxBytes: 1e12 }),
    }),
  },
  {
    fault: 'a read deletes the chunks before it',
    rejectedBy: 'record/has-several-readers',
    override: ({ provider, db }) => ({
      readStream(params) {
        db.exec(`DELETE FROM stream_chunks WHERE seq <= ${params.after}`);
        return provider.readStream(params);
      },
    }),
  },
  {
    fault: 'the last turn of a run emits nothing',
    rejectedBy: 'record/turns-emit-once',
    override: (intact) =>
      editTurns(intact, ({ emitted, ...turn }) =>
        turn.outcome.status === 'completed' || emitted === undefined ? turn : { ...turn, emitted },
      ),
  },
  {
    fault: 'a first turn emits nothing',
    rejectedBy: 'record/a-first-turn-emits',
    override: (intact) =>
      editTurns(intact, ({ emitted, ...turn }) =>
        turn.firstEventId === 1 || emitted === undefined ? turn : { ...turn, emitted },
      ),
  },
  {
    fault: 'a rejected turn leaves its chunks',
    rejectedBy: 'record/a-rejected-turn-emits-nothing',
    override: ({ provider, db }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        if (results.some(({ ok }) => !ok)) {
          db.exec(`INSERT INTO stream_chunks (instance_key, seq, at, bytes, place, source, payload)
            SELECT instance_key, 1, 0, 1, 0, '', '1' FROM instances`);
        }
        return results;
      },
    }),
  },
  {
    fault: 'a retry begins a new stream',
    rejectedBy: 'record/goes-on-with-the-next-execution',
    override: ({ provider, db }) => ({
      async retryInstances(retries) {
        const results = await provider.retryInstances(retries);
        db.exec('DELETE FROM streams; DELETE FROM stream_chunks');
        return results;
      },
    }),
  },
  {
    fault: 'a replaced instance begins a new stream',
    rejectedBy: 'record/goes-on-after-a-replacement',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        if (instances.some(({ onConflict }) => onConflict === 'terminateExisting'))
          db.exec('DELETE FROM streams; DELETE FROM stream_chunks');
        return results;
      },
    }),
  },
  {
    fault: 'a prune deletes the stream',
    rejectedBy: 'record/outlives-a-prune',
    override: ({ provider, db }) => ({
      async pruneExecutionsAtomic(prunes) {
        const results = await provider.pruneExecutionsAtomic(prunes);
        db.exec('DELETE FROM streams; DELETE FROM stream_chunks');
        return results;
      },
    }),
  },
  {
    fault: 'a fork copies the stream',
    rejectedBy: 'record/a-fork-has-its-own',
    override: ({ provider, db }) => ({
      async forkInstances(forks) {
        const results = await provider.forkInstances(forks);
        db.exec(`INSERT INTO streams (instance_key, first_seq, last_seq, bytes)
          SELECT (SELECT max(instance_key) FROM instances), first_seq, last_seq, bytes FROM streams`);
        return results;
      },
    }),
  },
  {
    fault: 'a deletion leaves the stream behind',
    rejectedBy: 'record/is-deleted-with-its-instance',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        db.exec(`INSERT OR IGNORE INTO streams (instance_key, first_seq, last_seq, bytes)
          SELECT instance_key, 1, 5, 0 FROM instances WHERE instance_id = 'a'`);
        return results;
      },
    }),
  },
  {
    fault: 'the chunks of a deleted instance are never reclaimed',
    rejectedBy: 'record/a-long-stream-is-reclaimed',
    override: ({ provider, db }) => ({
      reclaimDeleted(maxRows) {
        db.exec('UPDATE streams SET is_deleted = 0');
        return provider.reclaimDeleted(maxRows);
      },
    }),
  },
  {
    fault: 'recorded chunks send no hint',
    rejectedBy: 'record/sends-emitted-hints',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'emitted') listener(hint);
        }),
    }),
  },
  {
    fault: 'one lost claim loses the chunks of a batch',
    rejectedBy: 'record/spares-its-neighbours',
    override: ({ provider }) => ({
      async appendChunks(requests) {
        const results = await provider.appendChunks(requests);
        return results.includes('lost') ? results.map(() => 'lost' as const) : results;
      },
    }),
  },
  {
    fault: 'a run never ends for its readers',
    rejectedBy: 'record/a-task-run-has-a-stream',
    override: (intact) => editPages(intact, (page) => ({ ...page, hasEnded: false })),
  },
];
