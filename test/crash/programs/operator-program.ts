/** Pauses, terminates, cancels and retries instances of the loop, in a process without a worker. */
import { Perdure } from '../../../src/index.ts';
import { LoopOperator } from '../helpers/loop-operator.ts';
import { openStore } from '../helpers/open-store.ts';
import { Ledger } from '../oracles/ledger.ts';
import { disconnect, onCommand, readOptions, reportReady } from './program-io.ts';

const { store, ledger: path, inFlight: actions } = readOptions();
const perdure = await Perdure.open(await openStore(store));
const operator = new LoopOperator(perdure.client, new Ledger(path), actions);

async function end(): Promise<void> {
  await operator.finish();
  await perdure.close();
  disconnect();
}

onCommand((command) => {
  if (command === 'startNoMore') void end();
});
reportReady();
