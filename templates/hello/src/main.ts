/** Starts a worker and one instance in this process, and prints the result. */
import { Perdure } from 'perdure';
import { greet, hello } from './worker.ts';

const perdure = await Perdure.open('perdure.db');
await perdure.startWorker({ orchestrations: [hello], activities: [greet] });
const instance = await perdure.client.start(hello, process.argv[2] ?? 'World');
console.log(await instance.result());
await perdure.close();
