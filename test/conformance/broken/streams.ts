import type { BrokenProvider } from './broken-provider.ts';

/** Streams, each with one guard removed. */
export const brokenStreams: readonly BrokenProvider[] = [
  {
    fault: 'chunks are stored in reverse order',
    rejectedBy: 'stream/comes-in-order',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, chunks: one.chunks.toReversed() }))),
    }),
  },
  {
    fault: 'chunks are deleted by their first read',
    rejectedBy: 'stream/can-be-read-again',
    override: ({ provider, db }) => ({
      async readChunks(params) {
        const page = await provider.readChunks(params);
        db.exec('DELETE FROM chunks');
        return page;
      },
    }),
  },
  {
    fault: 'chunk numbers restart when all chunks were read',
    rejectedBy: 'stream/numbers-go-on-after-reading',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE jobs SET last_seq = 0 WHERE waiting_chunks = 0');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'an expired claim can emit',
    rejectedBy: 'stream/needs-a-held-claim',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE worker_queue SET locked_until = 1e15 WHERE lock_token IS NOT NULL');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'chunks of abandoned jobs are stored',
    rejectedBy: 'stream/without-a-reader-is-not-kept',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE jobs SET abandoned_at = NULL');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'appendChunks() ignores maxChunks',
    rejectedBy: 'stream/is-bounded-in-chunks',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, maxChunks: Infinity }))),
    }),
  },
  {
    fault: 'appendChunks() ignores maxBytes',
    rejectedBy: 'stream/is-bounded-in-bytes',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, maxBytes: Infinity }))),
    }),
  },
  {
    fault: 'read chunks still count toward the limit',
    rejectedBy: 'stream/reading-makes-room',
    override: ({ provider, db }) => {
      db.exec(`CREATE TRIGGER stays BEFORE UPDATE OF waiting_chunks ON jobs
        WHEN NEW.waiting_chunks < OLD.waiting_chunks BEGIN SELECT RAISE(IGNORE); END`);
      return { readChunks: (params) => provider.readChunks(params) };
    },
  },
  {
    fault: 'a stream is over before its last chunks are read',
    rejectedBy: 'stream/is-over-with-its-run',
    override: ({ provider }) => ({
      async readChunks(params) {
        const page = await provider.readChunks(params);
        const [run] = await provider.getInstances([params.instanceId]);
        return { ...page, over: page.over || run?.status === 'completed' };
      },
    }),
  },
  {
    fault: 'the chunks of a run are deleted at its end',
    rejectedBy: 'stream/outlives-its-run',
    override: ({ provider, db }) => ({
      async ackWorkItems(acks) {
        const results = await provider.ackWorkItems(acks);
        db.exec('DELETE FROM chunks');
        return results;
      },
    }),
  },
  {
    fault: 'a reader of another incarnation deletes chunks',
    rejectedBy: 'stream/of-another-life-is-over',
    override: ({ provider, db }) => ({
      readChunks(params) {
        db.prepare('DELETE FROM chunks WHERE seq <= ?').run(params.after);
        return provider.readChunks(params);
      },
    }),
  },
  {
    fault: 'a stream can be read without its session id',
    rejectedBy: 'stream/of-another-session-is-over',
    override: ({ provider }) => ({
      readChunks: ({ instanceId, incarnation, after, limit }) =>
        provider.readChunks({ instanceId, incarnation, after, limit }),
    }),
  },
  {
    fault: 'hints omit emitted chunks',
    rejectedBy: 'stream/sends-emitted-hints',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'emitted') listener(hint);
        }),
    }),
  },
];
