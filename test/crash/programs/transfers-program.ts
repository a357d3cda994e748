/** A worker of the transfer loop. Kills itself at a random place, and exits with its parent. */
import { Perdure } from '../../../src/index.ts';
import { createTransfers } from '../helpers/transfer-definitions.ts';
import { withSeparateAck } from '../helpers/separate-ack.ts';
import { openStore } from '../helpers/open-store.ts';

/** The settings of one program, passed on its command line. */
export interface TransfersOptions {
  readonly store: string;
  readonly leaseMs: number;
  /** Whether the worker kills itself. */
  readonly dies: boolean;
  /** If false, the writes of the application commit before the ack. */
  readonly together: boolean;
}

const { store, leaseMs, dies, together } = JSON.parse(process.argv[2] ?? '') as TransfersOptions;
process.on('disconnect', () => process.exit(1));

function die(): void {
  process.kill(process.pid, 'SIGKILL');
}

// In the closure, right after it (the commit is on its way), or at any time.
const place = Math.floor(Math.random() * 3);
let transfersLeft = Math.ceil(Math.random() * 6);
function onMoved(): void {
  if (!dies || --transfersLeft > 0) return;
  if (place === 0) die();
  if (place === 1) setTimeout(die, Math.random() * 6);
  if (place === 2) setTimeout(die, Math.random() * 100);
}

const ignore = (): void => undefined;
const opened = await openStore(store);
const perdure = await Perdure.open(together ? opened : withSeparateAck(opened, store));
const { transfer, transferTask, transfers, transferSteps } = createTransfers(onMoved);
await perdure.startWorker({
  orchestrations: [transfers, transferSteps],
  activities: [transfer],
  tasks: [transferTask],
  activityConcurrency: 8,
  activityLease: leaseMs,
  orchestrationLease: leaseMs,
  // Workers crash because of the loop, never because of an item.
  maxClaims: 1_000_000,
  logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
});
process.send?.('ready');
