/** Polls an export until it is ready. Clients read its progress from the store, and continue-as-new keeps it. */
import { activity, orchestration, Perdure } from 'perdure';

interface Progress {
  readonly percent: number;
  readonly polls: number;
}

let percent = 0;
const checkExport = activity('checkExport', async () => {
  percent += 25;
  return percent;
});

const exportReport = orchestration('exportReport', async (ctx): Promise<string> => {
  for (let round = 0; round < 2; round += 1) {
    const { polls = 0 } = ctx.state.get<Progress>('progress') ?? {};
    const done = await ctx.call(checkExport);
    ctx.state.set('progress', { percent: done, polls: polls + 1 });
    if (done === 100) return `exported after ${polls + 1} polls`;
    await ctx.sleep('200ms');
  }
  // The next execution begins with an empty history and this state.
  return await ctx.continueAsNew();
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [exportReport], activities: [checkExport] });
const { client } = perdure;

const handle = await client.start(exportReport, undefined, { id: 'report-1' });
let version = 0;
for (let seen = 0; seen < 100;) {
  const progress = await handle.waitForState<Progress>('progress', { after: version });
  version = progress.version;
  seen = progress.value.percent;
  console.log(`progress: ${seen} %`);
}
console.log(await handle.result());
console.log(`executions: ${(await client.listExecutions('report-1')).items.length}`);
await perdure.close();

// Output:
// progress: 25 %
// progress: 50 %
// progress: 75 %
// progress: 100 %
// exported after 4 polls
// executions: 2
