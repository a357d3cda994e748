import type { OrchestrationAck } from '../../../src/providers/contract/orchestration-queue.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { CommitResult } from '../../../src/providers/contract/turn.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

function editAcks(
  { provider }: Intact,
  edit: (ack: OrchestrationAck) => OrchestrationAck,
): Partial<Provider> {
  return { ackOrchestrationItems: (acks) => provider.ackOrchestrationItems(acks.map(edit)) };
}

function editResults(
  { provider }: Intact,
  edit: (result: CommitResult, ack: OrchestrationAck | undefined) => CommitResult,
): Partial<Provider> {
  return {
    ackOrchestrationItems: async (acks) =>
      (await provider.ackOrchestrationItems(acks)).map((result, index) =>
        edit(result, acks[index]),
      ),
  };
}

export const brokenKeptClaims: readonly BrokenProvider[] = [
  {
    fault: 'an ack with keep releases the claim',
    rejectedBy: 'keep/an-ack-keeps-the-claim',
    override: (intact) => ({
      ackOrchestrationItems: async (acks) => {
        const plain = acks.map((ack) => ({ ...ack, keep: false }));
        const results = await intact.provider.ackOrchestrationItems(plain);
        return results.map((result, index) =>
          result.ok && acks[index]?.keep === true && acks[index].turn.outcome.status === 'running'
            ? { ...result, kept: true }
            : result,
        );
      },
    }),
  },
  {
    fault: 'a kept claim keeps its claim count',
    rejectedBy: 'keep/resets-the-claims',
    override: ({ provider, db }) => ({
      ackOrchestrationItems: async (acks) => {
        const results = await provider.ackOrchestrationItems(acks);
        db.exec('UPDATE instance_locks SET claims = 2 WHERE lock_token IS NOT NULL');
        return results;
      },
    }),
  },
  {
    fault: 'every ack keeps its claim',
    rejectedBy: 'keep/ends-with-the-next-ack',
    override: (intact) => editAcks(intact, (ack) => ({ ...ack, keep: true })),
  },
  {
    fault: 'an ack that ends its instance returns kept',
    rejectedBy: 'keep/an-end-releases-it',
    override: (intact) =>
      editResults(intact, (result, ack) =>
        result.ok && ack?.keep === true ? { ...result, kept: true } : result,
      ),
  },
  {
    fault: 'an ack with keep does not return that its instance is paused',
    rejectedBy: 'keep/tells-of-a-paused-instance',
    override: (intact) => editResults(intact, withoutPause),
  },
  {
    fault: 'an ack with keep does not return that its definition is paused',
    rejectedBy: 'keep/tells-of-a-paused-definition',
    override: (intact) => editResults(intact, withoutPause),
  },
  {
    fault: 'messages of a kept claim come in reverse',
    rejectedBy: 'held/returns-new-messages',
    override: ({ provider }) => ({
      readHeldMessages: async (tokens) =>
        (await provider.readHeldMessages(tokens)).map(
          (held) => held && { ...held, messages: held.messages.toReversed() },
        ),
    }),
  },
  {
    fault: 'the messages of a kept claim include the timer of operation 0',
    rejectedBy: 'held/excludes-the-guard',
    override: ({ provider }) => ({
      readHeldMessages: async (tokens) =>
        (await provider.readHeldMessages(tokens)).map(
          (held) => held && { ...held, messages: [guard, ...held.messages] },
        ),
    }),
  },
  {
    fault: 'the time of the next timer of a kept claim is not returned',
    rejectedBy: 'held/returns-the-time-of-the-next-timer',
    override: ({ provider }) => ({
      readHeldMessages: async (tokens) =>
        (await provider.readHeldMessages(tokens)).map(
          (held) => held && { ...held, nextInMs: null },
        ),
    }),
  },
  {
    fault: 'messages are returned for a claim that is over',
    rejectedBy: 'held/needs-a-held-claim',
    override: ({ provider }) => ({
      readHeldMessages: async (tokens) =>
        (await provider.readHeldMessages(tokens)).map(
          (held) => held ?? { messages: [], nextInMs: null, nowMs: 0 },
        ),
    }),
  },
  {
    fault: 'no hint reports messages to claimed instances',
    rejectedBy: 'hint/tells-of-messages-to-claimed-instances',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'messages') listener(hint);
        }),
    }),
  },
];

const guard = {
  messageKey: 1,
  kind: 'timerFired',
  executionId: 1,
  operation: 0,
  data: '{}',
  payload: null,
};

function withoutPause(result: CommitResult): CommitResult {
  if (!result.ok) return result;
  const { paused: _, ...others } = result;
  return others;
}
