/**
 * Records the golden histories that do not exist yet: `node test/golden/write.ts && npm run format`. It never changes
 * an existing one, because that stands for histories in users' stores. Delete a file to record it again.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { installDeterministicGlobals } from '../../src/orchestration/deterministic-globals.ts';
import { writeHistory } from './golden-history.ts';
import { playGolden } from './golden-program.ts';
import { goldenPrograms } from './golden-programs.ts';

installDeterministicGlobals();
for (const program of goldenPrograms) {
  if (existsSync(join(import.meta.dirname, 'histories', `${program.name}.json`))) continue;
  const { history } = await playGolden(program);
  writeHistory(program.name, history);
  console.log(`${program.name}: ${history.length} events`);
}
