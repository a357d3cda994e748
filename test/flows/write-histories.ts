/**
 * Records missing histories: `node test/flows/write-histories.ts`, after a build.
 * It never overwrites one, because existing histories represent runs in the stores of users.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTestEnvironment } from 'perdure/testing';
import { withoutStacks } from '../golden/golden-history.ts';
import { recordedFlows } from './helpers/recorded-flows.ts';

const folder = join(import.meta.dirname, 'histories');
mkdirSync(folder, { recursive: true });
for (const { name, definition, input, during } of recordedFlows) {
  const path = join(folder, `${name}.json`);
  if (existsSync(path)) continue;
  await using environment = await createTestEnvironment({ flows: [definition] });
  const { client } = environment;
  const run = await client.runFlow(definition, input as never, { id: name });
  await environment.settle();
  await during?.(client, run.id);
  await environment.result(run).catch(() => undefined);
  const { events } = await client.exportHistory(run.id);
  const lines = events.map((event) => `  ${JSON.stringify(withoutStacks(event))}`);
  writeFileSync(path, `[\n${lines.join(',\n')}\n]\n`);
  console.log(`${name}: ${events.length} events, ${(await client.get(run.id))?.status}`);
}
