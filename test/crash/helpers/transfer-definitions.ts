import { setTimeout as delay } from 'node:timers/promises';
import { activity, orchestration, task, type StoreTransaction } from '../../../src/index.ts';

/** A transfer between two accounts. Its id is that of its run. */
export interface Transfer {
  readonly id: string;
  readonly from: number;
  readonly to: number;
  readonly amount: number;
}

/** Moves the amount, and records the transfer. Waits in between, so that a kill can come. */
async function move(
  tx: StoreTransaction,
  { id, from, to, amount }: Transfer,
  onMoved: () => void,
): Promise<string> {
  const change = 'UPDATE accounts SET balance = balance + $1 WHERE account = $2';
  await tx.query(change, [-amount, from]);
  await delay(Math.random() * 4);
  await tx.query(change, [amount, to]);
  await tx.query(
    'INSERT INTO transfers (run, from_account, to_account, amount) VALUES ($1, $2, $3, $4)',
    [id, from, to, amount],
  );
  onMoved();
  return id;
}

/** The definitions of the transfer loop. `onMoved` runs in the closure, after its writes. */
export function createTransfers(onMoved: () => void = () => undefined) {
  const retry = { maxAttempts: 100, initialDelay: 10, maxDelay: 50 } as const;
  const transfer = activity(
    'transfer',
    (ctx, input: Transfer) => ctx.transaction((tx) => move(tx, input, onMoved)),
    { retry },
  );
  const transferTask = task(
    'transferTask',
    (ctx, input: Transfer) => ctx.transaction((tx) => move(tx, input, onMoved)),
    { retry },
  );
  const transfers = orchestration('transfers', async (ctx, input: Transfer) => {
    const first = await ctx.call(transfer, { ...input, id: `${input.id}-1` });
    const back = { ...input, id: `${input.id}-2`, from: input.to, to: input.from };
    return [first, await ctx.call(transfer, back)];
  });
  const transferSteps = orchestration('transferSteps', async (ctx, input: Transfer) => {
    const back = { ...input, id: `${input.id}-2`, from: input.to, to: input.from };
    const first = { ...input, id: `${input.id}-1` };
    const out = await ctx.transaction('out', (tx) => move(tx, first, onMoved), { retry });
    return [out, await ctx.transaction('back', (tx) => move(tx, back, onMoved), { retry })];
  });
  return { transfer, transferTask, transfers, transferSteps };
}
