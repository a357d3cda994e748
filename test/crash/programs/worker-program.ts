/** Runs orchestrations and activities, and starts some instances itself, until it is killed or stopped. */
import { Perdure } from '../../../src/index.ts';
import { ProviderError } from '../../../src/model/failures/errors.ts';
import { ClaimRegistry } from '../oracles/claim-registry.ts';
import { InstanceStarter } from '../helpers/instance-starter.ts';
import { Ledger } from '../oracles/ledger.ts';
import { openStore } from '../helpers/open-store.ts';
import { disconnect, onCommand, readOptions, reportReady } from './program-io.ts';
import { createScenarios, kindOf } from '../helpers/scenarios.ts';
import { withoutFencing } from '../helpers/unfenced-provider.ts';
import { recordClaims } from '../helpers/recording-provider.ts';

const { store, ledger: path, name, leaseMs, fencing, inFlight, outages, operators } = readOptions();
const ledger = new Ledger(path);
const book = new ClaimRegistry();

// A gap between two ticks is time in which this process did not run. Measured from the start: a new process is slow.
let seenAt = Date.now();
const ticking = setInterval(() => {
  const now = Date.now();
  if (now - seenAt > leaseMs / 10) ledger.write({ line: 'stalled', from: seenAt, to: now });
  seenAt = now;
}, leaseMs / 50);

const fenced = await openStore(store);
const provider = fencing ? fenced : withoutFencing(fenced, book, store);
const perdure = await Perdure.open(recordClaims(provider, book, ledger));

const trouble = (fields: object, message: string): void => {
  const { error } = fields as { readonly error?: unknown };
  if (outages && error instanceof ProviderError && error.retryable) return;
  ledger.write({ line: 'trouble', message: `${message}: ${String(error)}` });
};
const worker = await perdure.startWorker({
  ...createScenarios(ledger, leaseMs),
  activityLease: leaseMs,
  orchestrationLease: leaseMs,
  // Workers crash because of the loop, never because of an item.
  maxClaims: 1_000_000,
  // A rejected turn is expected after a lost lease. Only unexpected errors are reported.
  logger: {
    debug: () => {},
    info: (fields) => {
      const { claims } = fields as { readonly claims?: number };
      if (claims !== undefined) ledger.write({ line: 'tookOver', claims });
    },
    warn: () => {},
    error: trouble,
  },
});
// The events of an instance whose starter was killed would never be raised.
const starter = new InstanceStarter({
  perdure,
  ledger,
  name,
  inFlight,
  outages,
  operators,
  kindOf: (n) => kindOf(n, { events: false }),
});

async function stop(): Promise<void> {
  clearInterval(ticking);
  await worker.stop();
  await perdure.close();
  disconnect();
}

onCommand((command) => {
  if (command === 'startNoMore') void starter.finish();
  else void stop();
});
reportReady();
