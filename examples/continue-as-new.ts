/** A long-running instance: continue-as-new restarts it with an empty history after three deposits. */
import { event, orchestration, Perdure } from 'perdure';

const deposit = event<number>('deposit');

const account = orchestration('account', async (ctx, balance: number): Promise<number> => {
  for (let round = 0; round < 3; round += 1) {
    const amount = await ctx.waitFor(deposit);
    if (amount === 0) return balance;
    balance += amount;
  }
  // Events that were not consumed yet carry over to the next execution.
  return await ctx.continueAsNew(balance);
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [account] });
const { client } = perdure;

const handle = await client.start(account, 0, { id: 'account-1' });
for (const amount of [10, 20, 30, 40, 50, 60, 70, 0]) await handle.raiseEvent(deposit, amount);
console.log(`balance: ${await handle.result()}`);

const { items } = await client.listExecutions('account-1');
for (const { executionId, status } of items) {
  console.log(`execution ${executionId}: ${status}`);
}
await perdure.close();

// Output:
// balance: 280
// execution 1: continuedAsNew
// execution 2: continuedAsNew
// execution 3: completed
