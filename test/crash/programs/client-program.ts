/** Starts instances and reads their results, in a process without a worker. */
import { Perdure } from '../../../src/index.ts';
import { InstanceStarter } from '../helpers/instance-starter.ts';
import { Ledger } from '../oracles/ledger.ts';
import { openStore } from '../helpers/open-store.ts';
import { disconnect, onCommand, readOptions, reportReady } from './program-io.ts';
import { kindOf } from '../helpers/scenarios.ts';

const { store, ledger: path, name, inFlight, outages, operators } = readOptions();
const ledger = new Ledger(path);
const perdure = await Perdure.open(await openStore(store));
const starter = new InstanceStarter({
  perdure,
  ledger,
  name,
  inFlight,
  outages,
  operators,
  // If the response is lost, it is unknown whether the event was raised.
  kindOf: (n) => kindOf(n, { events: !outages }),
});

async function end(): Promise<void> {
  await starter.finish();
  await perdure.close();
  disconnect();
}

onCommand((command) => {
  if (command === 'startNoMore') void end();
});
reportReady();
