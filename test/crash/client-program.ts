/** Starts instances and takes their results from a process that runs none of them. */
import { Perdure } from '../../src/index.ts';
import { InstanceStarter } from './instance-starter.ts';
import { Ledger } from './ledger.ts';
import { leave, onCommand, readOptions, reportReady } from './program-io.ts';
import { kindOf } from './scenarios.ts';

const { store, ledger: path, name, inFlight } = readOptions();
const ledger = new Ledger(path);
const perdure = await Perdure.open(store);
const starter = new InstanceStarter({ perdure, ledger, name, inFlight, kindOf });

async function end(): Promise<void> {
  await starter.finish();
  await perdure.close();
  leave();
}

onCommand((command) => {
  if (command === 'startNoMore') void end();
});
reportReady();
