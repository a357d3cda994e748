import type { AwakeableChanges, UpdateReply } from '../../../src/providers/contract/updates.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { editTurns, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Runs SQL on the database right before the requests and answers of clients. */
function before({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    requestUpdates: (requests) => {
      db.exec(sql);
      return provider.requestUpdates(requests);
    },
    answerAwakeables: (answers) => {
      db.exec(sql);
      return provider.answerAwakeables(answers);
    },
  };
}

/** Runs SQL on the database after each call that commits a turn, a stop, a retry or a deletion. */
function after(intact: Intact, sql: string): Partial<Provider> {
  const { provider, db } = intact;
  const run = async <Result>(call: Promise<Result>): Promise<Result> => {
    const result = await call;
    db.exec(sql);
    return result;
  };
  return {
    ackOrchestrationItems: (acks) => run(provider.ackOrchestrationItems(acks)),
    terminate: (stops) => run(provider.terminate(stops)),
    retryInstances: (retries) => run(provider.retryInstances(retries)),
    forkInstances: (forks) => run(provider.forkInstances(forks)),
    deleteInstancesAtomic: (trees) => run(provider.deleteInstancesAtomic(trees)),
  };
}

function editReplies(
  intact: Intact,
  edit: (replies: readonly UpdateReply[]) => readonly UpdateReply[],
): Partial<Provider> {
  return editTurns(intact, (turn) =>
    turn.updateReplies === undefined ? turn : { ...turn, updateReplies: edit(turn.updateReplies) },
  );
}

function editAwakeables(
  intact: Intact,
  edit: (changes: AwakeableChanges) => AwakeableChanges,
): Partial<Provider> {
  return editTurns(intact, (turn) =>
    turn.awakeables === undefined ? turn : { ...turn, awakeables: edit(turn.awakeables) },
  );
}

/** Returns replies of updates that were deleted. */
function revived({ provider }: Intact): Partial<Provider> {
  return {
    async readUpdates(updates) {
      const states = await provider.readUpdates(updates);
      return states.map((one) =>
        one.kind === 'missing'
          ? { kind: 'replied', outcome: 'completed', payload: '"yes"', failure: null }
          : one,
      );
    },
  };
}

const open = 'UPDATE awakeables SET answer_key = NULL';

export const brokenUpdates: readonly BrokenProvider[] = [
  {
    fault: 'a repeated request is a second update',
    rejectedBy: 'update/is-requested-once',
    override: (intact) => before(intact, `UPDATE updates SET update_key = update_key || '-'`),
  },
  {
    fault: 'a key is shared by all instances',
    rejectedBy: 'update/a-key-belongs-to-its-instance',
    override: ({ provider, db }) => ({
      requestUpdates: (requests) => {
        db.exec(`INSERT OR IGNORE INTO updates
          SELECT i.instance_key, u.update_key, u.seq + 100, u.name, u.input_hash, 0, u.outcome, u.reply, u.failure
          FROM instances i JOIN updates u ON u.instance_key <> i.instance_key`);
        return provider.requestUpdates(requests);
      },
    }),
  },
  {
    fault: 'a key is reused with another input',
    rejectedBy: 'update/a-key-is-not-reused',
    override: ({ provider }) => ({
      requestUpdates: (requests) =>
        provider.requestUpdates(
          requests.map((one) => ({ ...one, inputHash: 'hash', name: 'raise' })),
        ),
    }),
  },
  {
    fault: 'a request to an ended instance is stored',
    rejectedBy: 'update/needs-a-live-instance',
    override: ({ provider }) => ({
      async requestUpdates(requests) {
        const results = await provider.requestUpdates(requests);
        return results.map((one) => (one.kind === 'over' ? { kind: 'pending' } : one));
      },
    }),
  },
  {
    fault: 'the end of an instance deletes its replies',
    rejectedBy: 'update/a-reply-outlives-its-instance',
    override: (intact) =>
      after(
        intact,
        'DELETE FROM updates WHERE instance_key IN (SELECT instance_key FROM instances WHERE ended_at IS NOT NULL)',
      ),
  },
  {
    fault: 'the number of updates has no bound',
    rejectedBy: 'update/is-bounded',
    override: (intact) => before(intact, `UPDATE updates SET outcome = 'completed' WHERE seq > 1`),
  },
  {
    fault: 'replies are kept without a bound',
    rejectedBy: 'update/keeps-the-last-replies',
    override: revived,
  },
  {
    fault: 'a deletion leaves the updates',
    rejectedBy: 'update/is-deleted-with-its-instance',
    override: revived,
  },
  {
    fault: 'a turn without events does not reply',
    rejectedBy: 'update/a-turn-replies',
    override: (intact) =>
      editTurns(intact, (turn) => (turn.events.length > 0 ? turn : { ...turn, updateReplies: [] })),
  },
  {
    fault: 'a second reply replaces the first',
    rejectedBy: 'update/the-first-reply-is-final',
    override: (intact) => {
      const { db } = intact;
      return editReplies(intact, (replies) => {
        db.exec('UPDATE updates SET outcome = NULL');
        return replies;
      });
    },
  },
  {
    fault: 'a turn without a claim replies',
    rejectedBy: 'update/a-refused-turn-does-not-reply',
    override: (intact) =>
      after(intact, `UPDATE updates SET outcome = 'completed', reply = '"yes"'`),
  },
  {
    fault: 'an update waits after the end of its instance',
    rejectedBy: 'update/an-end-interrupts',
    override: ({ provider }) => ({
      async readUpdates(updates) {
        const states = await provider.readUpdates(updates);
        return states.map((one) => (one.kind === 'interrupted' ? { kind: 'pending' } : one));
      },
    }),
  },
  {
    fault: 'a retry makes an interrupted update wait again',
    rejectedBy: 'update/a-retry-does-not-revive',
    override: (intact) =>
      after(intact, `UPDATE updates SET outcome = NULL WHERE outcome = 'interrupted'`),
  },
  {
    fault: 'a reply sends no hint',
    rejectedBy: 'update/a-reply-sends-a-hint',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'statusSet' && hint.kind !== 'missed') listener(hint);
        }),
    }),
  },
  {
    fault: 'an awakeable is answered twice',
    rejectedBy: 'awakeable/is-answered-once',
    override: (intact) => before(intact, open),
  },
  {
    fault: 'a repeat of an answer is another answer',
    rejectedBy: 'awakeable/a-repeat-is-no-second-answer',
    override: ({ provider }) => ({
      answerAwakeables: (answers) =>
        provider.answerAwakeables(
          answers.map((one) => ({ ...one, answerKey: `${Math.random()}` })),
        ),
    }),
  },
  {
    fault: 'an unknown token is answered',
    rejectedBy: 'awakeable/an-unknown-token-is-missing',
    override: ({ provider }) => ({
      async answerAwakeables(answers) {
        const results = await provider.answerAwakeables(answers);
        return results.map((one) => (one === 'missing' ? 'answered' : one));
      },
    }),
  },
  {
    fault: 'a withdrawn awakeable is answered',
    rejectedBy: 'awakeable/a-withdrawn-one-is-missing',
    override: (intact) => editAwakeables(intact, (changes) => ({ ...changes, withdrawn: [] })),
  },
  {
    fault: 'a token of an earlier execution is answered',
    rejectedBy: 'awakeable/continue-as-new-closes',
    override: (intact) => ({
      ...editAwakeables(intact, (changes) => ({ ...changes, closes: false })),
      ...before(intact, 'UPDATE awakeables SET execution_id = 2'),
    }),
  },
  {
    fault: 'an awakeable of an ended instance is answered',
    rejectedBy: 'awakeable/an-end-closes',
    override: ({ provider }) => ({
      async answerAwakeables(answers) {
        const results = await provider.answerAwakeables(answers);
        return results.map((one) => (one === 'missing' ? 'answered' : one));
      },
    }),
  },
  {
    fault: 'a retry closes the awakeables of the kept events',
    rejectedBy: 'awakeable/a-retry-keeps-it',
    override: ({ provider }) => ({
      retryInstances: (retries) =>
        provider.retryInstances(
          retries.map((one) => {
            const { turn } = one.start ?? {};
            if (one.start === undefined || turn === undefined) return one;
            const { awakeables: _, ...rest } = turn;
            return { ...one, start: { ...one.start, turn: rest } };
          }),
        ),
    }),
  },
  {
    fault: 'a fork takes the awakeables of its original',
    rejectedBy: 'awakeable/a-fork-has-none',
    override: (intact) =>
      after(
        intact,
        `UPDATE awakeables SET instance_key = coalesce(
           (SELECT instance_key FROM instances WHERE instance_id = 'fork'), instance_key)`,
      ),
  },
];
