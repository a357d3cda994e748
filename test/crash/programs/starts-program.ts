/** A worker that also starts instances, until it kills itself. Writes each start to a ledger, before and after it. */
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Perdure } from '../../../src/index.ts';
import { definitions, performStart, toStart } from '../helpers/colliding-starts.ts';
import { openStore } from '../helpers/open-store.ts';

/** The settings of one program, passed on its command line. */
export interface StartsOptions {
  readonly store: string;
  readonly ledger: string;
  readonly name: string;
  /** If false, it only works, and lives on. */
  readonly starts: boolean;
}

const { store, ledger, name, starts } = JSON.parse(process.argv[2] ?? '') as StartsOptions;
process.on('disconnect', () => process.exit(1));

const ignore = (): void => undefined;
const perdure = await Perdure.open(await openStore(store));
await perdure.startWorker({
  ...definitions,
  activityLease: 1_000,
  orchestrationLease: 1_000,
  // Workers crash because of the loop, never because of an item.
  maxClaims: 1_000_000,
  logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
});

let count = 0;
async function startInSequence(): Promise<never> {
  for (;;) {
    const start = toStart(name, count++);
    appendFileSync(ledger, `${JSON.stringify({ line: 'asked', start })}\n`);
    const outcome = await performStart(perdure.client, start);
    appendFileSync(ledger, `${JSON.stringify({ line: 'acked', key: start.key, outcome })}\n`);
    await delay(Math.random() * 20);
  }
}

if (starts) {
  for (let lane = 0; lane < 4; lane += 1) {
    startInSequence().catch((error: unknown) => {
      appendFileSync(ledger, `${JSON.stringify({ line: 'failed', text: String(error) })}\n`);
    });
  }
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), 100 + Math.random() * 900);
}
