/** Runs the agent once, approves its mail, and prints the answer. */
import { Perdure } from 'perdure';
import { agent, approval, askModel, runTool } from './worker.ts';

const perdure = await Perdure.open('perdure.db');
await perdure.startWorker({ orchestrations: [agent], activities: [askModel, runTool] });
const instance = await perdure.client.start(agent, 'Mail me the weather.');
// The event waits in the store until the agent asks for it.
await instance.raiseEvent(approval, { allowed: true });
console.log(await instance.result());
await perdure.close();
