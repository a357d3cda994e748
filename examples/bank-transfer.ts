/** Transfers between accounts in the application's own tables: `ctx.transaction` commits them exactly once. */
import { activity, FailedError, orchestration, Perdure, task } from 'perdure';

interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly cents: number;
}

// The writes and the result of the handler commit in one transaction. `$1` works on SQLite and PostgreSQL.
const transfer = activity(
  'transfer',
  (ctx, { from, to, cents }: Transfer) =>
    ctx.transaction(async (tx) => {
      const move = 'UPDATE accounts SET cents = cents + $1 WHERE id = $2 RETURNING cents';
      const { rows } = await tx.query<{ cents: number }>(move, [-cents, from]);
      const [payer] = rows;
      // An error rolls back both: the account keeps its money, and the attempt has failed.
      if (payer === undefined || payer.cents < 0) throw new Error(`${from} has too little money`);
      await tx.query(move, [cents, to]);
      if (ctx.attempt === 1) throw new Error('the power went out');
      return { left: payer.cents };
    }),
  { retry: { maxAttempts: 3, initialDelay: '10ms' } },
);

const payBack = orchestration('payBack', async (ctx, { from, to, cents }: Transfer) => {
  const lent = await ctx.call(transfer, { from, to, cents });
  const repaid = await ctx.call(transfer, { from: to, to: from, cents });
  return `${from} had ${lent.left} cents, ${to} has ${repaid.left}`;
});

const openAccounts = task('openAccounts', (ctx, names: readonly string[]) =>
  ctx.transaction(async (tx) => {
    await tx.query('CREATE TABLE accounts (id TEXT PRIMARY KEY, cents INT NOT NULL)');
    for (const name of names) await tx.query('INSERT INTO accounts VALUES ($1, 1000)', [name]);
    return names.length;
  }),
);

const balances = task('balances', (ctx) =>
  ctx.transaction(async (tx) => {
    const { rows } = await tx.query<{ id: string; cents: number }>(
      'SELECT id, cents FROM accounts ORDER BY id',
    );
    return rows.map(({ id, cents }) => `${id}: ${cents}`).join(', ');
  }),
);

const silent = (): void => undefined;
const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;
await perdure.startWorker({
  orchestrations: [payBack],
  activities: [transfer],
  tasks: [openAccounts, balances],
  logger: { debug: silent, info: silent, warn: silent, error: silent },
});

console.log(await (await client.runTask(openAccounts, ['ada', 'bob'])).result(), 'accounts');
const loan = await client.start(payBack, { from: 'ada', to: 'bob', cents: 300 });
console.log(await loan.result());
console.log(await (await client.runTask(balances)).result());

// Each attempt fails, so no cent moves.
const tooMuch = await client.start(payBack, { from: 'ada', to: 'bob', cents: 5_000 });
try {
  await tooMuch.result();
} catch (error) {
  if (!(error instanceof FailedError)) throw error;
  console.log(error.failure.message);
}
console.log(await (await client.runTask(balances)).result());
await perdure.close();

// Output:
// 2 accounts
// ada had 700 cents, bob has 1000
// ada: 1000, bob: 1000
// Activity 'transfer' failed: ada has too little money
// ada: 1000, bob: 1000
