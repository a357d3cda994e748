import type { BrokenProvider } from './broken-provider.ts';

/** Streams of steps, each with one guard removed. */
export const brokenStreamsOfSteps: readonly BrokenProvider[] = [
  {
    fault: 'only claims on work items can emit',
    rejectedBy: 'record/steps-emit-under-the-claim-of-their-instance',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, claim: 'workItem' }))),
    }),
  },
  {
    fault: 'an emit of a step renews the claim on its instance',
    rejectedBy: 'record/steps-emit-under-the-claim-of-their-instance',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec(`UPDATE instance_locks SET locked_until = locked_until + 60000, next_at = next_at + 60000
          WHERE lock_token IS NOT NULL`);
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'an expired claim on an instance can emit',
    rejectedBy: 'record/steps-need-a-held-instance',
    override: ({ provider, db }) => ({
      appendChunks(requests) {
        db.exec('UPDATE instance_locks SET locked_until = 1e15 WHERE lock_token IS NOT NULL');
        return provider.appendChunks(requests);
      },
    }),
  },
  {
    fault: 'the chunks of a step of a job are never full',
    rejectedBy: 'stream/a-step-of-a-job-emits',
    override: ({ provider }) => ({
      appendChunks: (requests) =>
        provider.appendChunks(requests.map((one) => ({ ...one, maxChunks: Infinity }))),
    }),
  },
];
