/** Runs the flow once, and prints its result and the state of each step. */
import { Perdure } from 'perdure';
import { readFlowRun } from 'perdure/flows';
import { report } from './worker.ts';

const perdure = await Perdure.open('perdure.db');
await perdure.startWorker({ flows: [report] });
const { client } = perdure;
const instance = await client.runFlow(report, { cities: ['Oslo', 'Reykjavik', 'Rome'] });
console.log(await instance.result());
const run = await readFlowRun(client, instance.id);
for (const step of run?.steps ?? []) console.log(`${step.name}: ${step.status}`);
await perdure.close();
