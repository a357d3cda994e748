import type { BrokenProvider } from './broken-provider.ts';

/** Streams, each with one guard taken out. */
export const brokenStreams: readonly BrokenProvider[] = [
  {
    fault: 'chunks come in any order',
    rejectedBy: 'stream/comes-in-order',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, chunks: one.chunks.toReversed() }))),
    }),
  },
  {
    fault: 'chunks are deleted when they are read first',
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
    fault: 'numbers begin again when all was read',
    rejectedBy: 'stream/numbers-go-on-after-reading',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE jobs SET last_seq = 0 WHERE waiting_chunks = 0');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'a claim that has expired may emit',
    rejectedBy: 'stream/needs-a-held-claim',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE worker_queue SET locked_until = 1e15 WHERE lock_token IS NOT NULL');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'chunks are kept for callers that have gone',
    rejectedBy: 'stream/of-nobody-is-not-kept',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE jobs SET abandoned_at = NULL');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'the number of chunks has no bound',
    rejectedBy: 'stream/is-bounded-in-chunks',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, maxChunks: Infinity }))),
    }),
  },
  {
    fault: 'the size of chunks has no bound',
    rejectedBy: 'stream/is-bounded-in-bytes',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, maxBytes: Infinity }))),
    }),
  },
  {
    fault: 'what was read stays',
    rejectedBy: 'stream/reading-makes-room',
    override: ({ provider, db }) => {
      db.exec(`CREATE TRIGGER stays BEFORE UPDATE OF waiting_chunks ON jobs
        WHEN NEW.waiting_chunks < OLD.waiting_chunks BEGIN SELECT RAISE(IGNORE); END`);
      return { readChunks: (params) => provider.readChunks(params) };
    },
  },
  {
    fault: 'a stream is over while its last chunks wait',
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
    fault: 'the chunks of a run are gone with its end',
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
    fault: 'a reader of another life takes the chunks away',
    rejectedBy: 'stream/of-another-life-is-over',
    override: ({ provider, db }) => ({
      readChunks(params) {
        db.prepare('DELETE FROM chunks WHERE seq <= ?').run(params.after);
        return provider.readChunks(params);
      },
    }),
  },
  {
    fault: 'whoever knows the life of a run can read its stream',
    rejectedBy: 'stream/of-another-session-is-over',
    override: ({ provider }) => ({
      readChunks: ({ instanceId, incarnation, after, limit }) =>
        provider.readChunks({ instanceId, incarnation, after, limit }),
    }),
  },
  {
    fault: 'nobody is told of chunks',
    rejectedBy: 'stream/tells-whoever-waits',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'emitted') listener(hint);
        }),
    }),
  },
];
